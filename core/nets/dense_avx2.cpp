// Compiled for processors with AVX2 and FMA; called only there.
#define RELIVE_KERNEL kAvx2Kernel
#define RELIVE_LANES 8
#include "nets/dense_kernel.inl"
