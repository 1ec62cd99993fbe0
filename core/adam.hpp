// Adam (Kingma and Ba 2015) over networks side by side, after each one's gradient was shortened.
#pragma once

#include <cmath>
#include <cstddef>

#include "clip.hpp"
#include "clones.hpp"

namespace recollect {

struct Adam {
  float rate;  // over the first moment's correction
  float root;  // of the second moment's correction
  float first_left, second, second_left;  // one less the first moment's decay; the second's, and one less it
  float eps;
  float longest;  // no gradient of a network is longer; 0: as they are
};

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
    adam_step(how, size, shortening(grad + at, size, how.longest), grad + at, mean + at, square + at, flat + at);
  }
}

}  // namespace recollect
