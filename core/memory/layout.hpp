// Where everything lies that a timeline keeps, in memory and in files alike.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "memory/records.hpp"

namespace relive {

// What a lane's writer tells everyone about it, other processes too. One cache line a lane, so that writers of different
// lanes do not wait for each other.
struct alignas(64) LaneState {
  std::atomic<std::int64_t> head;      // serial that the next row will have: rows below it are whole
  std::atomic<std::int64_t> claim;     // rows up to this serial may be half written, and what their slots held is gone
  std::atomic<std::int64_t> floor;     // rows below this serial are gone whatever their slots hold
  std::atomic<std::int64_t> revision;  // counts changes to rows below head, by two; odd while one is being made
};
static_assert(sizeof(LaneState) == 64 && std::atomic<std::int64_t>::is_always_lock_free);

// Where a timeline's bytes lie: in fresh memory, or in a file from an offset on.
struct Place {
  int file = -1;
  std::size_t offset = 0;
  bool others = false;  // whether other processes write there too
};

// Offsets of the parts: a panel each, the flags, the lanes' states, and the records that only files have.
struct Layout {
  std::vector<std::int64_t> panels;
  std::int64_t flags, states, records, total;
};

inline Layout layout_of(std::int64_t lanes, std::int64_t span, const std::vector<std::int64_t>& pitches) {
  constexpr std::int64_t kMost = std::int64_t{1} << 46;
  if (lanes < 1 || span < 2 || lanes > kMost / span) throw std::invalid_argument("lanes and rows out of range");
  const std::int64_t rows = lanes * span;
  Layout layout{};
  auto place = [&](std::int64_t bytes) {
    const std::int64_t at = layout.total;
    layout.total += (bytes + 4095) / 4096 * 4096;
    return at;
  };
  for (std::int64_t pitch : pitches) {
    if (pitch < 1 || pitch > kMost / rows || layout.total > kMost) throw std::invalid_argument("memory out of range");
    layout.panels.push_back(place(rows * pitch));
  }
  layout.flags = place(rows);
  layout.states = place(lanes * static_cast<std::int64_t>(sizeof(LaneState)));
  layout.records = place(2 * Records::bytes_for(lanes));
  return layout;
}

}  // namespace relive
