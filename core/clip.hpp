// Gradients that are no longer than they may be.
#pragma once

#include <cmath>
#include <cstddef>

#include "clones.hpp"

namespace recollect {

RECOLLECT_CLONES inline double squared_length(const float* grad, std::ptrdiff_t size) {
  // Sixteen sums side by side: the compiler may not reorder one.
  double sums[16] = {};
  std::ptrdiff_t i = 0;
  for (; i + 16 <= size; i += 16)
    for (int k = 0; k < 16; ++k) sums[k] += static_cast<double>(grad[i + k]) * grad[i + k];
  for (; i < size; ++i) sums[0] += static_cast<double>(grad[i]) * grad[i];
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// What to multiply a gradient with, so that it is no longer than `longest`; 0: as it is.
inline float shortening(const float* grad, std::ptrdiff_t size, float longest) {
  if (!(longest > 0)) return 1;
  const double length = std::sqrt(squared_length(grad, size));
  return length > static_cast<double>(longest) ? static_cast<float>(longest / length) : 1;
}

}  // namespace recollect
