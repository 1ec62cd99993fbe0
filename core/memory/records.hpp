// What is certain to be on disk of a timeline that lies in a file, should the machine lose power.
//
// The system writes a mapped file's pages back in any order, so after a power cut some pages are newer than others. A
// record says up to which row every lane had been written back when `flush` last ended, and up to which serial rows may
// have been written since: what those overwrite is not to be believed. It is put on disk before rows pass that limit.
// Two copies take turns, so that one of them is always whole.
#pragma once

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

#include "memory/hash.hpp"
#include "memory/slab.hpp"

namespace relive {

class Records {
 public:
  struct Lane {
    std::int64_t head, floor, limit;
  };

  static std::int64_t bytes_for(std::int64_t lanes) {
    const std::int64_t one = static_cast<std::int64_t>(sizeof(Header)) + lanes * static_cast<std::int64_t>(sizeof(Lane));
    return (one + kUnit - 1) / kUnit * kUnit;
  }

  Records(char* base, std::int64_t lanes, std::int64_t span)
      : base_(base), bytes_(bytes_for(lanes)), lanes_(static_cast<std::size_t>(lanes), Lane{0, 0, span}) {
    for (int which = 0; which < 2; ++which) {
      const Header* header = copy(which);
      if (header->sequence <= sequence_ || header->hash != hash(header)) continue;
      sequence_ = header->sequence;
      std::memcpy(lanes_.data(), header + 1, lanes_.size() * sizeof(Lane));
    }
  }

  std::vector<Lane>& lanes() { return lanes_; }

  // Raises a lane's limit if rows up to a serial would pass it, with some to spare; true if it had to be raised.
  bool raise(std::int64_t lane, std::int64_t serial, std::int64_t spare) {
    std::int64_t& limit = lanes_[static_cast<std::size_t>(lane)].limit;
    if (serial <= limit) return false;
    limit = serial + spare;
    return true;
  }

  // Puts the lanes on disk as they stand here.
  void write() {
    ++sequence_;
    Header* header = copy(static_cast<int>(sequence_ % 2));
    header->sequence = sequence_;
    std::memcpy(header + 1, lanes_.data(), lanes_.size() * sizeof(Lane));
    header->hash = hash(header);
    sync_pages(reinterpret_cast<char*>(header), static_cast<std::size_t>(bytes_));
  }

 private:
  struct Header {
    std::uint64_t hash, sequence;
  };
  static constexpr std::int64_t kUnit = 1 << 16;  // at least a page, wherever

  Header* copy(int which) const { return reinterpret_cast<Header*>(base_ + which * bytes_); }
  std::uint64_t hash(const Header* header) const {
    return hash_of(&header->sequence, sizeof(header->sequence) + lanes_.size() * sizeof(Lane));
  }

  char* base_;
  std::int64_t bytes_;
  std::uint64_t sequence_ = 0;
  std::vector<Lane> lanes_;
};

}  // namespace relive
