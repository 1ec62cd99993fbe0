// RMSProp (Tieleman and Hinton 2012) over networks side by side, after each one's gradient was shortened.
#pragma once

#include <cmath>
#include <cstddef>

#include "clip.hpp"
#include "clones.hpp"

namespace recollect {

struct RmsProp {
  float rate, decay, left;  // `left`: one less the decay
  float eps;
  float longest;  // no gradient of a network is longer; 0: as they are
};

RECOLLECT_CLONES inline void rmsprop_step(const RmsProp& how, std::ptrdiff_t size, float scale,
                                          const float* __restrict grad, float* __restrict square,
                                          float* __restrict flat) {
  for (std::ptrdiff_t i = 0; i < size; ++i) {
    const float g = grad[i] * scale;
    square[i] = how.decay * square[i] + how.left * g * g;
    flat[i] -= how.rate * g / (std::sqrt(square[i]) + how.eps);
  }
}

inline void rmsprop(const RmsProp& how, std::ptrdiff_t count, std::ptrdiff_t size, const float* grad, float* square,
                    float* flat) {
  for (std::ptrdiff_t n = 0; n < count; ++n) {
    const std::ptrdiff_t at = n * size;
    rmsprop_step(how, size, shortening(grad + at, size, how.longest), grad + at, square + at, flat + at);
  }
}

}  // namespace recollect
