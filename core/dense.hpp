// Products of small matrices, with what a layer of a network does before and after them.
//
// Layers are a few dozen units wide: a tile of 6 rows and two vectors of columns is worked out in registers, from a
// matrix that fits the first cache and needs no packing.
#pragma once

#include <cstddef>

namespace recollect::dense {

using Index = std::ptrdiff_t;

enum class Rule { kRelu, kLeaky, kTanh };

// What becomes of a tile's sums: where they begin, and what is done to them before they are stored.
enum class Kind {
  kForward,  // begin at the bias, end in the activation
  kOutput,   // begin at the bias
  kSlope,    // end times the activation's slope, told from what it gave
  kPlain,    // as they are
  kAdd,      // begin at what is there
};

struct Product {
  Index rows, cols, depth;
  const float* a;  // a[r * a_row + k * a_step]
  Index a_row, a_step;
  const float* b;  // b[k * b_step + c]
  Index b_step;
  float* out;  // out[r * out_step + c]
  Index out_step;
  const float* bias = nullptr;   // [c]
  const float* given = nullptr;  // given[r * given_step + c]
  Index given_step = 0;
};

// Works a product out; `scratch` has room for depth times 16.
using Multiply = void (*)(const Product& product, Kind kind, Rule rule, float* scratch);
void multiply_plain(const Product& product, Kind kind, Rule rule, float* scratch);
#if defined(RECOLLECT_AVX2)
void multiply_avx2(const Product& product, Kind kind, Rule rule, float* scratch);
#endif

// The one for this processor.
inline Multiply kernel() {
#if defined(RECOLLECT_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2;
#endif
  return multiply_plain;
}

}  // namespace recollect::dense
