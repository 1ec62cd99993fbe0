#define RECOLLECT_KERNEL kPlainKernel
#define RECOLLECT_LANES 4
#include "dense_kernel.inl"
