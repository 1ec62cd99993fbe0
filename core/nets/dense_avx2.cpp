// Compiled for processors with AVX2 and FMA; called only there.
#define RECOLLECT_KERNEL kAvx2Kernel
#define RECOLLECT_LANES 8
#include "nets/dense_kernel.inl"
