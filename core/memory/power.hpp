// x^y for positive x from plain arithmetic only: the C library's pow rounds differently from platform to platform,
// and a priority that differs in its last bit would change which rows are drawn.
#pragma once

#include <cstdint>
#include <cstring>

#include "memory/clones.hpp"

namespace relive {

namespace power_detail {

inline double from_bits(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::uint64_t to_bits(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Without a branch, so that the compiler makes several at a time. The result is kept to [2^-1022, 2^1022].
inline double one(double x, double y) {
  constexpr double kLog2E = 1.4426950408889634074, kLn2 = 0.69314718055994530942;
  constexpr double kTwo52 = 0x1.0p+52, kRound = 0x1.8p+52;
  // Mantissa in [sqrt(1/2), sqrt(2)), so that its logarithm is small and the series short.
  const std::uint64_t biased = (to_bits(x) + 0x00095f619980c433u) >> 52;
  const double mantissa = from_bits(to_bits(x) - ((biased - 1023) << 52));
  const double exponent = from_bits(biased | to_bits(kTwo52)) - (kTwo52 + 1023.0);
  const double s = (mantissa - 1.0) / (mantissa + 1.0), z = s * s, zz = z * z, z4 = zz * zz;
  // log m = 2 atanh s, its series in pairs.
  const double low = (1.0 + z * (1.0 / 3)) + zz * (1.0 / 5 + z * (1.0 / 7));
  const double middle = (1.0 / 9 + z * (1.0 / 11)) + zz * (1.0 / 13 + z * (1.0 / 15));
  const double high = (1.0 / 17 + z * (1.0 / 19)) + zz * (1.0 / 21 + z * (1.0 / 23));
  const double log2 = exponent + 2.0 * kLog2E * s * (low + z4 * (middle + z4 * high));

  double t = y * log2;
  t = t > 1022.0 ? 1022.0 : t;
  t = t < -1022.0 ? -1022.0 : t;
  const double rounded = t + kRound;  // the whole part lands in the last bits
  const double f = (t - (rounded - kRound)) * kLn2, f2 = f * f, f4 = f2 * f2;
  const double a = (1.0 + f) + f2 * (1.0 / 2 + f * (1.0 / 6));
  const double b = (1.0 / 24 + f * (1.0 / 120)) + f2 * (1.0 / 720 + f * (1.0 / 5040));
  const double c = (1.0 / 40320 + f * (1.0 / 362880)) + f2 * (1.0 / 3628800 + f * (1.0 / 39916800));
  const double d = 1.0 / 479001600 + f * (1.0 / 6227020800.0);
  const double scale = from_bits((to_bits(rounded) + 1023) << 52);
  return (a + f4 * (b + f4 * (c + f4 * d))) * scale;
}

}  // namespace power_detail

// x[i] = x[i]^y. Relative error below 1e-13; x must be a normal positive number.
RELIVE_CLONES inline void powers(double* x, double y, std::int64_t n) {
  if (y == 1.0) return;
  for (std::int64_t i = 0; i < n; ++i) x[i] = power_detail::one(x[i], y);
}

}  // namespace relive
