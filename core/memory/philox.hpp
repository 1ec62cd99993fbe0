// Philox4x64-10 (Salmon et al., 2011): a counter-based generator, so its whole state is a key and a position.
#pragma once

#include <array>
#include <cstdint>

namespace relive {

inline void wide_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& high, std::uint64_t& low) {
#if defined(__SIZEOF_INT128__)
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  high = static_cast<std::uint64_t>(product >> 64);
  low = static_cast<std::uint64_t>(product);
#else
  const std::uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const std::uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
  const std::uint64_t middle = (p00 >> 32) + (p01 & 0xffffffffu) + (p10 & 0xffffffffu);
  high = p11 + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
  low = a * b;
#endif
}

class Philox {
 public:
  Philox(std::uint64_t key0, std::uint64_t key1, std::uint64_t position = 0) : key_{key0, key1} { seek(position); }

  std::uint64_t next() {
    const auto at = static_cast<std::size_t>(position_ % kBuffered);
    if (at == 0) refill();
    ++position_;
    return buffer_[at];
  }

  // A whole number in [0, bound), exactly uniform (Lemire, 2019). bound must be above zero.
  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t high, low;
    wide_multiply(next(), bound, high, low);
    if (low < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (low < threshold) wide_multiply(next(), bound, high, low);
    }
    return high;
  }

  // A double in [0, 1) with 53 random bits.
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  std::uint64_t position() const { return position_; }
  std::array<std::uint64_t, 2> key() const { return key_; }
  void seek(std::uint64_t position) {
    position_ = position;
    if (position % kBuffered != 0) refill();
  }

 private:
  // Four blocks of four numbers at once: their rounds do not depend on each other, so the processor overlaps them.
  static constexpr std::uint64_t kBlocks = 2, kBuffered = 4 * kBlocks;

  void refill() {
    std::uint64_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
    for (std::uint64_t b = 0; b < kBlocks; ++b) {
      // Blocks count from 1, as NumPy's Philox does: its raw stream is the test's oracle.
      c0[b] = position_ / kBuffered * kBlocks + b + 1;
      c1[b] = c2[b] = c3[b] = 0;
    }
    std::uint64_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; ++round) {
      for (std::uint64_t b = 0; b < kBlocks; ++b) {
        std::uint64_t high0, low0, high1, low1;
        wide_multiply(0xD2E7470EE14C6C93u, c0[b], high0, low0);
        wide_multiply(0xCA5A826395121157u, c2[b], high1, low1);
        c0[b] = high1 ^ c1[b] ^ k0;
        c1[b] = low1;
        c2[b] = high0 ^ c3[b] ^ k1;
        c3[b] = low0;
      }
      k0 += 0x9E3779B97F4A7C15u;
      k1 += 0xBB67AE8584CAA73Bu;
    }
    for (std::uint64_t b = 0; b < kBlocks; ++b) {
      buffer_[4 * b] = c0[b];
      buffer_[4 * b + 1] = c1[b];
      buffer_[4 * b + 2] = c2[b];
      buffer_[4 * b + 3] = c3[b];
    }
  }

  std::array<std::uint64_t, 2> key_;
  std::array<std::uint64_t, kBuffered> buffer_{};
  std::uint64_t position_ = 0;
};

}  // namespace relive
