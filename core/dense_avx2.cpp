// Compiled for processors with AVX2 and FMA; called only there.
#define RECOLLECT_KERNEL kAvx2Kernel
#define RECOLLECT_LANES 8
#include "dense_kernel.inl"
