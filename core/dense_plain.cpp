#define RECOLLECT_KERNEL multiply_plain
#define RECOLLECT_LANES 4
#include "dense_kernel.inl"
