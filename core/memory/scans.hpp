// Quantities computed backwards along time, over arrays [T, N] in row order.
//
// Everywhere: a step continues into the next row unless it terminated, was truncated, is the last row, or the next row
// is masked out. Where it does not continue, what follows is next_value, the value of what was seen after that very
// step; after a termination nothing follows. Masked rows come out as zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "memory/clones.hpp"

namespace relive {

struct Episodes {
  std::int64_t time, width;
  const std::uint8_t* terminated;
  const std::uint8_t* truncated;  // null: never
  const std::uint8_t* mask;       // null: every row counts

  bool counts(std::int64_t t, std::int64_t n) const { return mask == nullptr || mask[t * width + n] != 0; }
  bool continues(std::int64_t t, std::int64_t n) const {
    const std::int64_t at = t * width + n;
    return t + 1 < time && !terminated[at] && (truncated == nullptr || !truncated[at]) && counts(t + 1, n);
  }
};

// The value, or zero if the flag is set; whatever the value is, infinite and NaN included. By masks, of which the compiler
// makes vectors; of a choice it does not. Flags are 0 or 1.
template <class Real>
inline Real unless(int flag, Real value) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  Bits bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits &= static_cast<Bits>(flag) - 1;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// One row of generalised advantage estimation (Schulman et al., 2016, eq. 16); `carry` holds the row after it.
template <class Real>
RELIVE_CLONES inline void gae_row(std::int64_t n, const Real* __restrict reward, const Real* __restrict value,
                                     const Real* __restrict next_value, const std::uint8_t* __restrict terminated,
                                     const std::uint8_t* __restrict truncated, Real gamma, Real lambda,
                                     Real* __restrict carry, Real* __restrict advantage, Real* __restrict returns) {
  const Real decay = gamma * lambda;
  for (std::int64_t i = 0; i < n; ++i) {
    const Real delta = reward[i] + gamma * unless(terminated[i], next_value[i]) - value[i];
    const Real now = delta + decay * unless(terminated[i] | truncated[i], carry[i]);
    carry[i] = now;
    advantage[i] = now;
    returns[i] = now + value[i];
  }
}

template <class Real>
void gae(const Episodes& e, const Real* reward, const Real* value, const Real* next_value, Real gamma, Real lambda,
         Real* advantage, Real* returns) {
  std::vector<Real> carry(static_cast<std::size_t>(e.width), Real(0));
  const std::vector<std::uint8_t> never(static_cast<std::size_t>(e.width), 0);
  for (std::int64_t t = e.time; t-- > 0;) {
    const std::int64_t row = t * e.width;
    gae_row(e.width, reward + row, value + row, next_value + row, e.terminated + row,
            e.truncated ? e.truncated + row : never.data(), gamma, lambda, carry.data(), advantage + row,
            returns + row);
    if (e.mask == nullptr) continue;
    for (std::int64_t i = 0; i < e.width; ++i)
      if (!e.mask[row + i]) carry[static_cast<std::size_t>(i)] = advantage[row + i] = returns[row + i] = Real(0);
  }
}

// G_t = r + gamma ((1 - lambda) V' + lambda G_{t+1}) (Sutton and Barto, 2018, eq. 12.20). lambda 1: discounted returns.
template <class Real>
void td_lambda(const Episodes& e, const Real* reward, const Real* next_value, Real gamma, Real lambda, Real* returns) {
  for (std::int64_t t = e.time; t-- > 0;) {
    for (std::int64_t i = 0; i < e.width; ++i) {
      const std::int64_t at = t * e.width + i;
      if (!e.counts(t, i)) {
        returns[at] = Real(0);
        continue;
      }
      Real follows = next_value ? next_value[at] : Real(0);
      if (e.continues(t, i)) {
        const Real later = returns[at + e.width];
        follows = next_value ? follows + lambda * (later - follows) : later;
      }
      returns[at] = reward[at] + (e.terminated[at] ? Real(0) : gamma * follows);
    }
  }
}

// r_t + gamma r_{t+1} + ... over at most n steps, then the discounted next_value of the last of them.
template <class Real>
void n_step(const Episodes& e, const Real* reward, const Real* next_value, std::int64_t n, Real gamma, Real* returns) {
  for (std::int64_t t = 0; t < e.time; ++t) {
    for (std::int64_t i = 0; i < e.width; ++i) {
      std::int64_t at = t * e.width + i;
      Real& sum = returns[at];
      sum = Real(0);
      if (!e.counts(t, i)) continue;
      Real discount = Real(1);
      for (std::int64_t k = 0; k < n; ++k, at += e.width) {
        sum += discount * reward[at];
        discount *= gamma;
        if (e.terminated[at]) break;
        if (k + 1 == n || !e.continues(t + k, i)) {
          sum += discount * next_value[at];
          break;
        }
      }
    }
  }
}

// V-trace (Espeholt et al., 2018, eq. 1 and the gradient below eq. 4). ratio: pi / mu of the action taken.
template <class Real>
void vtrace(const Episodes& e, const Real* reward, const Real* value, const Real* next_value, const Real* ratio,
            Real gamma, Real lambda, Real rho_bar, Real c_bar, Real* target, Real* advantage) {
  for (std::int64_t t = e.time; t-- > 0;) {
    for (std::int64_t i = 0; i < e.width; ++i) {
      const std::int64_t at = t * e.width + i;
      if (!e.counts(t, i)) {
        target[at] = advantage[at] = Real(0);
        continue;
      }
      const bool onward = e.continues(t, i);
      const Real rho = std::min(rho_bar, ratio[at]), c = lambda * std::min(c_bar, ratio[at]);
      const Real discount = e.terminated[at] ? Real(0) : gamma;
      const Real excess = onward ? target[at + e.width] - value[at + e.width] : Real(0);
      const Real delta = rho * (reward[at] + discount * next_value[at] - value[at]);
      target[at] = value[at] + delta + discount * c * excess;
      const Real follows = onward ? target[at + e.width] : next_value[at];
      advantage[at] = rho * (reward[at] + discount * follows - value[at]);
    }
  }
}

// Retrace (Munos et al., 2016, eq. 4) as a recursion. q: Q of the action taken; next_value: E_pi Q of what follows.
template <class Real>
void retrace(const Episodes& e, const Real* reward, const Real* q, const Real* next_value, const Real* ratio,
             Real gamma, Real lambda, Real* target) {
  for (std::int64_t t = e.time; t-- > 0;) {
    for (std::int64_t i = 0; i < e.width; ++i) {
      const std::int64_t at = t * e.width + i, later = at + e.width;
      if (!e.counts(t, i)) {
        target[at] = Real(0);
        continue;
      }
      Real follows = next_value[at];
      if (e.continues(t, i)) follows += lambda * std::min(Real(1), ratio[later]) * (target[later] - q[later]);
      target[at] = reward[at] + (e.terminated[at] ? Real(0) : gamma * follows);
    }
  }
}

}  // namespace relive
