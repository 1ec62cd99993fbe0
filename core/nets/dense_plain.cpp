#define RECOLLECT_KERNEL kPlainKernel
#define RECOLLECT_LANES 4
#include "nets/dense_kernel.inl"
