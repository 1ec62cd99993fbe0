// XXH64, the 64-bit hash of xxHash (specification: xxhash.com), over bytes that arrive in pieces.
#pragma once

#include <cstdint>
#include <cstring>

namespace relive {

class Hash {
 public:
  void update(const void* data, std::size_t bytes) {
    auto* at = static_cast<const unsigned char*>(data);
    total_ += bytes;
    if (held_ > 0) {
      const std::size_t some = bytes < kStripe - held_ ? bytes : kStripe - held_;
      std::memcpy(buffer_ + held_, at, some);
      held_ += some;
      at += some;
      bytes -= some;
      if (held_ < kStripe) return;
      stripe(buffer_);
      held_ = 0;
    }
    for (; bytes >= kStripe; at += kStripe, bytes -= kStripe) stripe(at);
    if (bytes > 0) std::memcpy(buffer_, at, bytes);
    held_ = bytes;
  }

  std::uint64_t digest() const {
    std::uint64_t hash;
    if (total_ >= kStripe) {
      hash = rotate(lanes_[0], 1) + rotate(lanes_[1], 7) + rotate(lanes_[2], 12) + rotate(lanes_[3], 18);
      for (std::uint64_t lane : lanes_) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
    } else {
      hash = kPrime5;
    }
    hash += total_;
    const unsigned char* at = buffer_;
    std::size_t left = held_;
    for (; left >= 8; at += 8, left -= 8) hash = rotate(hash ^ round(0, read<8>(at)), 27) * kPrime1 + kPrime4;
    for (; left >= 4; at += 4, left -= 4) hash = rotate(hash ^ (read<4>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    for (; left > 0; ++at, --left) hash = rotate(hash ^ (*at * kPrime5), 11) * kPrime1;
    hash = (hash ^ (hash >> 33)) * kPrime2;
    hash = (hash ^ (hash >> 29)) * kPrime3;
    return hash ^ (hash >> 32);
  }

 private:
  static constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u, kPrime2 = 0xC2B2AE3D27D4EB4Fu,
                                 kPrime3 = 0x165667B19E3779F9u, kPrime4 = 0x85EBCA77C2B2AE63u,
                                 kPrime5 = 0x27D4EB2F165667C5u;
  static constexpr std::size_t kStripe = 32;

  static std::uint64_t rotate(std::uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }
  static std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
    return rotate(lane + input * kPrime2, 31) * kPrime1;
  }
  // Little-endian, whatever the machine.
  template <int N>
  static std::uint64_t read(const unsigned char* at) {
    std::uint64_t value = 0;
    for (int i = 0; i < N; ++i) value |= static_cast<std::uint64_t>(at[i]) << (8 * i);
    return value;
  }
  void stripe(const unsigned char* at) {
    for (int i = 0; i < 4; ++i) lanes_[i] = round(lanes_[i], read<8>(at + 8 * i));
  }

  std::uint64_t lanes_[4] = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  unsigned char buffer_[kStripe] = {};
  std::size_t held_ = 0;
  std::uint64_t total_ = 0;
};

inline std::uint64_t hash_of(const void* data, std::size_t bytes) {
  Hash hash;
  hash.update(data, bytes);
  return hash.digest();
}

}  // namespace relive
