#define RELIVE_KERNEL kPlainKernel
#define RELIVE_LANES 4
#include "nets/dense_kernel.inl"
