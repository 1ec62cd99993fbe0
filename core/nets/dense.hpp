// Products of small matrices, with what a layer of a network does before and after them.
//
// Layers are a few dozen units wide: a tile of 6 rows and two vectors of columns is worked out in registers, from a
// matrix that fits the first cache and needs no packing.
#pragma once

#include <cstddef>

namespace relive::dense {

using Index = std::ptrdiff_t;

enum class Rule { kRelu, kLeaky, kTanh };

// What becomes of a tile's sums: where they begin, and what is done to them before they are stored.
enum class Kind {
  kForward,  // begin at the bias, end in the activation
  kOutput,   // begin at the bias
  kSlope,    // end times the activation's derivative, computed from its output
  kPlain,    // as they are
  kAdd,      // begin at what is there
};

struct Product {
  Index rows, cols, depth;
  const float* a;  // a[r * a_row + k * a_step]
  Index a_row, a_step;
  const float* b;  // b[k * b_step + c]; if b_step is 0, as `pack` lays it out
  Index b_step;
  float* out;  // out[r * out_step + c]
  Index out_step;
  const float* bias = nullptr;   // [c]
  const float* given = nullptr;  // given[r * given_step + c]
  Index given_step = 0;
};

// What one step of a gated recurrent unit keeps of a sequence, one after the other in a record, `units` numbers each:
// what it got, its state before, the state's part in the new content, the two gates, the new content, its state after.
// Backwards, the four in the middle become gradients of what went into them.
enum Part { kInput, kBefore, kHeld, kReset, kUpdate, kContent, kAfter, kParts };

// What is compiled for one kind of processor.
struct Kernel {
  Index cols;  // of a panel, as `pack` lays them out

  // Works a product out; `scratch` has room for depth times 16, and is not needed if b is packed.
  void (*multiply)(const Product& product, Kind kind, Rule rule, float* scratch);

  // Adds rows from[r * step + c] up, to what is there.
  void (*sum_rows)(Index rows, Index cols, const float* from, Index step, float* to);

  // Gates and new states of some sequences, from the sums in their records; `state` [rows, units] follows.
  void (*gate)(Index rows, Index units, float* records, float* state);

  // Gradients of those sums, in their place; `grad` [rows, units] goes from states after to what gates let through.
  void (*ungate)(Index rows, Index units, float* records, float* grad);
};
extern const Kernel kPlainKernel;
#if defined(RELIVE_AVX2)
extern const Kernel kAvx2Kernel;
#endif

// The one for this processor.
inline const Kernel& kernel() {
#if defined(RELIVE_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2Kernel;
#endif
  return kPlainKernel;
}

// Room that a packed matrix takes.
inline Index packed_size(const Kernel& kernel, Index depth, Index cols) {
  return (cols + kernel.cols - 1) / kernel.cols * kernel.cols * depth;
}

// Columns in panels that a tile takes, one after the other, filled up with zeros: from[k * row + c * col].
// Several matrices below each other are packed with the depth of all; `to` is then where this one's first row goes.
inline void pack(const Kernel& kernel, const float* from, Index depth, Index cols, Index row, Index col, float* to,
                 Index all) {
  for (Index c = 0; c < cols; c += kernel.cols, to += all * kernel.cols)
    for (Index k = 0; k < depth; ++k)
      for (Index i = 0; i < kernel.cols; ++i)
        to[k * kernel.cols + i] = c + i < cols ? from[k * row + (c + i) * col] : 0;
}

}  // namespace relive::dense
