// Functions compiled twice, for processors with and without AVX2, where the compiler and loader can choose at run time.
// Results are the same: nothing is fused or reordered.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && !defined(RELIVE_SANITIZE)
#define RELIVE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define RELIVE_CLONES
#endif
