// What a memory holds, in numbers: how old rows are, how often they were drawn, what their priorities are.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "memory/samplers.hpp"

namespace relive {

// How often each row was drawn since somebody began to count.
class DrawCounts {
 public:
  explicit DrawCounts(std::int64_t slots)
      : serials_(static_cast<std::size_t>(slots)), counts_(static_cast<std::size_t>(slots)) {}

  void add(std::int64_t slot, std::int64_t serial) {
    const auto at = static_cast<std::size_t>(slot);
    if (serials_[at] != static_cast<std::uint32_t>(serial)) {  // the row that lay there was overwritten
      serials_[at] = static_cast<std::uint32_t>(serial);
      counts_[at] = 0;
    }
    if (counts_[at] < UINT32_MAX) ++counts_[at];
  }
  std::uint32_t of(std::int64_t slot, std::int64_t serial) const {
    const auto at = static_cast<std::size_t>(slot);
    return serials_[at] == static_cast<std::uint32_t>(serial) ? counts_[at] : 0;
  }

 private:
  std::vector<std::uint32_t> serials_, counts_;
};

struct Census {
  static constexpr std::int64_t kBins = 64;
  using Bins = std::array<std::int64_t, kBins>;

  bool counted = false;  // whether draws were
  std::int64_t rows = 0, draws = 0, prioritized = 0;
  double total = 0, squares = 0, least = 0, most = 0;  // of priorities
  Bins ages{};        // rows, from the newest to as old as a row can be
  Bins drawn_ages{};  // draws of these
  Bins draws_each{};  // rows by their draws: none, 1, 2 to 3, 4 to 7 and so on
  Bins priorities{};  // rows by the power of two below their priority, from 2^-32 on

  void add_row(std::int64_t age, std::int64_t span) {
    ++rows;
    ++ages[bin_of_age(age, span)];
  }
  void add_draws(std::int64_t age, std::int64_t span, std::uint32_t count) {
    draws += count;
    drawn_ages[bin_of_age(age, span)] += count;
    ++draws_each[count == 0 ? 0 : clipped(1 + std::ilogb(static_cast<double>(count)))];
  }
  void add_priority(double priority) {
    if (!(priority > 0)) return;  // a row that cannot be drawn
    least = prioritized == 0 ? priority : std::min(least, priority);
    most = std::max(most, priority);
    ++prioritized;
    total += priority;
    squares += priority * priority;
    ++priorities[clipped(std::ilogb(priority) + kBins / 2)];
  }

 private:
  static std::size_t clipped(std::int64_t bin) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(bin, 0, kBins - 1));
  }
  static std::size_t bin_of_age(std::int64_t age, std::int64_t span) { return clipped(age * kBins / span); }
};

// Takes every stride-th row from a serial on to before another into the census. The anchors are up to date.
inline void take_census(const Anchors& anchors, Sampler& sampler, const DrawCounts* counts, std::int64_t lane,
                        std::int64_t first, std::int64_t last, std::int64_t stride, Census& census) {
  const Timeline& line = anchors.timeline();
  auto* priorities = dynamic_cast<PrioritizedSampler*>(&sampler);
  if (priorities != nullptr) priorities->follow(anchors);
  const std::int64_t head = line.head(lane), span = line.span();
  for (std::int64_t serial = first; serial < last; serial += stride) {
    const std::int64_t slot = line.slot(lane, serial), age = head - 1 - serial;
    if (line.flags(slot) & kClosing) continue;
    census.add_row(age, span);
    if (counts != nullptr) census.add_draws(age, span, counts->of(slot, serial));
    if (priorities != nullptr) census.add_priority(priorities->priority(slot));
  }
}

}  // namespace relive
