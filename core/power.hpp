// x^y for positive x from plain arithmetic only: the C library's pow rounds differently from platform to platform,
// and a priority that differs in its last bit would change which rows are drawn.
#pragma once

#include <cstdint>
#include <cstring>

namespace recollect {

// Relative error below 1e-13 while the result is a normal number; x must be positive and finite.
inline double power(double x, double y) {
  if (y == 0.0) return 1.0;
  if (y == 1.0) return x;
  constexpr double kLog2E = 1.4426950408889634074, kLn2 = 0.69314718055994530942;
  std::int64_t shift = 0;
  if (x < 0x1.0p-1000) {  // subnormal numbers have no implicit bit: scale them up first
    x *= 0x1.0p+100;
    shift = -100;
  }
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  // Mantissa in [sqrt(1/2), sqrt(2)), so that its logarithm is small and the series short.
  const std::uint64_t offset = bits - 0x3fe6a09e667f3bcdu;
  const auto exponent = static_cast<std::int64_t>(offset) >> 52;
  bits -= static_cast<std::uint64_t>(exponent) << 52;
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof mantissa);
  const double s = (mantissa - 1.0) / (mantissa + 1.0), z = s * s;
  double series = 1.0 / 21;
  for (int k = 19; k >= 1; k -= 2) series = series * z + 1.0 / k;  // log m = 2 atanh s
  const double log2 = static_cast<double>(exponent + shift) + 2.0 * s * series * kLog2E;

  const double t = y * log2;
  if (t >= 1023.0) return 0x1.0p+1023;
  if (t <= -1022.0) return 0x1.0p-1022;
  const double whole = static_cast<double>(static_cast<std::int64_t>(t < 0 ? t - 0.5 : t + 0.5));
  const double f = (t - whole) * kLn2;
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = sum * f * (1.0 / k) + 1.0;
  const std::uint64_t scale_bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(whole) + 1023) << 52;
  double scale;
  std::memcpy(&scale, &scale_bits, sizeof scale);
  return sum * scale;
}

}  // namespace recollect
