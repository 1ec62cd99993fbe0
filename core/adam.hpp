// Adam (Kingma and Ba 2015) over networks side by side, after each one's gradient was shortened.
#pragma once

#include <cmath>
#include <cstddef>

#include "clones.hpp"

namespace recollect {

struct Adam {
  float rate;  // over the first moment's correction
  float root;  // of the second moment's correction
  float first_left, second, second_left;  // one less the first moment's decay; the second's, and one less it
  float eps;
  float longest;  // no gradient of a network is longer; 0: as they are
};

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

RECOLLECT_CLONES inline void adam_step(const Adam& how, std::ptrdiff_t size, float scale, const float* __restrict grad,
                                       float* __restrict mean, float* __restrict square, float* __restrict flat) {
  for (std::ptrdiff_t i = 0; i < size; ++i) {
    const float g = grad[i] * scale;
    mean[i] += how.first_left * (g - mean[i]);
    square[i] = how.second * square[i] + how.second_left * g * g;
    flat[i] -= how.rate * mean[i] / (std::sqrt(square[i]) / how.root + how.eps);
  }
}

inline void adam(const Adam& how, std::ptrdiff_t count, std::ptrdiff_t size, const float* grad, float* mean,
                 float* square, float* flat) {
  for (std::ptrdiff_t n = 0; n < count; ++n) {
    const std::ptrdiff_t at = n * size;
    float scale = 1;
    if (how.longest > 0) {
      const double length = std::sqrt(squared_length(grad + at, size));
      if (length > static_cast<double>(how.longest)) scale = static_cast<float>(how.longest / length);
    }
    adam_step(how, size, scale, grad + at, mean + at, square + at, flat + at);
  }
}

}  // namespace recollect
