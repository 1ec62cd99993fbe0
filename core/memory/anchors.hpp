// The rows from which a window can be read now.
//
// In one lane they are the rows of an interval [low, high): a row near the tail may lack rows before it, a row near
// the head rows after it, and both defects are monotone in the serial. Closing rows inside are skipped. Windows that
// start only at certain steps of an episode (sparse) list their anchors instead.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/timeline.hpp"

namespace relive {

struct Row {
  std::int64_t lane, serial, slot;
};

// What a window needs around its anchor.
struct Reach {
  std::int64_t behind;  // rows before it, unless the episode starts there
  std::int64_t ahead;   // rows after it, unless the episode ends there
  std::int64_t stride;  // 0: any row; k: every k-th step of an episode; kWhole: first steps of ended episodes
  std::int64_t across;  // above 0: this many steps after it, whether or not episodes end among them
};
constexpr std::int64_t kWhole = -1;

struct LaneAnchors {
  std::int64_t low = 0, high = 0;
  std::int64_t low_slot = 0;
  std::int64_t head = -1, tail = -1, open = kNone;  // of the lane when this was worked out
  std::int64_t listed = 0;            // rows below this serial have been listed
  std::int64_t spare = 0;             // oldest rows left alone because a writer was about to overwrite them
  Ledger<std::int64_t> list;
};

class Anchors {
 public:
  Anchors(const Timeline& timeline, Reach reach)
      : timeline_(timeline), reach_(reach), lanes_(static_cast<std::size_t>(timeline.lanes())) {}

  bool sparse() const { return reach_.stride != 0; }
  const Timeline& timeline() const { return timeline_; }
  const LaneAnchors& lane(std::int64_t lane) const { return lanes_[static_cast<std::size_t>(lane)]; }

  void update() {
    if (version_ == timeline_.version()) return;
    version_ = timeline_.version();
    ++changes_;
    width_ = count_ = 0;
    starts_.resize(lanes_.size());
    for (std::int64_t i = 0; i < timeline_.lanes(); ++i) {
      LaneAnchors& lane = lanes_[static_cast<std::size_t>(i)];
      if (lane.head != timeline_.head(i) || lane.tail != timeline_.tail(i) || lane.open != timeline_.lane(i).open)
        refresh(i, lane);
      starts_[static_cast<std::size_t>(i)] = width_;
      width_ += sparse() ? lane.list.size() : lane.high - lane.low;
      count_ += count(i, lane);
    }
  }

  // Whether a window that was read from an anchor just now may have met rows that another process was overwriting. Then
  // its lane's oldest rows are left alone for a while.
  bool torn(const Row& row) {
    const std::int64_t overwritten = timeline_.overwritten(row.lane);
    if (overwritten <= timeline_.tail(row.lane) || row.serial - reach_.behind >= overwritten) return false;
    // Rows that were forgotten need none left alone: nobody writes there.
    LaneAnchors& lane = lanes_[static_cast<std::size_t>(row.lane)];
    const std::int64_t tail = timeline_.tail(row.lane), written = timeline_.claimed(row.lane) - tail;
    const std::int64_t most = (timeline_.head(row.lane) - tail) / 2;
    if (written > 0) lane.spare = std::max(lane.spare, std::min(4 * written + 64 + reach_.behind, most));
    return true;
  }
  // Whether rows are left alone at the moment.
  bool sparing() const {
    for (const LaneAnchors& lane : lanes_)
      if (lane.spare > 0) return true;
    return false;
  }
  // Nothing was torn: fewer rows need to be left alone, and none where nobody writes.
  void relax() {
    for (std::int64_t i = 0; i < timeline_.lanes(); ++i) {
      LaneAnchors& lane = lanes_[static_cast<std::size_t>(i)];
      if (lane.spare == 0) continue;
      lane.spare -= (lane.spare + 63) / 64;
      if (lane.spare == 0) spare_none(lane);
    }
    rest();
  }
  // Where nobody writes at the moment no row has to be left alone.
  void rest() {
    for (std::int64_t i = 0; i < timeline_.lanes(); ++i) {
      LaneAnchors& lane = lanes_[static_cast<std::size_t>(i)];
      if (lane.spare > 0 && timeline_.overwritten(i) <= timeline_.tail(i)) spare_none(lane);
    }
  }
  // Leaves no row alone any longer.
  void spare_none() {
    for (LaneAnchors& lane : lanes_)
      if (lane.spare > 0) spare_none(lane);
  }
  // Changes whenever the anchors may have.
  std::uint64_t version() const { return changes_; }

  // How many anchors there are.
  std::int64_t count() const { return count_; }
  // How many places there are to draw from: the anchors and, in dense lanes, closing rows among them.
  std::int64_t width() const { return width_; }

  // The row at a place in [0, width). In dense lanes it may be a closing row.
  Row at(std::int64_t place) const {
    std::int64_t lane = 0;
    const auto lanes = static_cast<std::int64_t>(lanes_.size());
    if (lanes <= kFewLanes) {  // without branches: which lane it is cannot be predicted
      for (std::int64_t i = 1; i < lanes; ++i) lane += place >= starts_[static_cast<std::size_t>(i)];
    } else {
      lane = std::upper_bound(starts_.begin(), starts_.end(), place) - starts_.begin() - 1;
    }
    const LaneAnchors& anchors = lanes_[static_cast<std::size_t>(lane)];
    place -= starts_[static_cast<std::size_t>(lane)];
    if (sparse()) {
      const std::int64_t serial = anchors.list[place];
      return {lane, serial, timeline_.slot(lane, serial)};
    }
    return {lane, anchors.low + place, wrapped(lane, anchors.low_slot + place)};
  }
  // The anchor of a lane that lies in a slot.
  Row in_slot(std::int64_t slot) const {
    const std::int64_t lane = lanes_.size() == 1 ? 0 : slot / timeline_.span();
    const LaneAnchors& anchors = lanes_[static_cast<std::size_t>(lane)];
    const std::int64_t ahead = slot - anchors.low_slot;
    return {lane, anchors.low + (ahead >= 0 ? ahead : ahead + timeline_.span()), slot};
  }
  bool usable(const Row& row) const { return sparse() || !(timeline_.flags(row.slot) & kClosing); }

  // Finds the slot of a row; false if the row lies outside its lane's interval.
  bool locate(Row& row) const {
    if (row.lane < 0 || row.lane >= timeline_.lanes()) return false;
    const LaneAnchors& lane = lanes_[static_cast<std::size_t>(row.lane)];
    if (row.serial < lane.low || row.serial >= lane.high) return false;
    row.slot = wrapped(row.lane, lane.low_slot + (row.serial - lane.low));
    return true;
  }
  // Finds the slot of a row; false if it is no anchor.
  bool contains(Row& row) const {
    if (!locate(row)) return false;
    if (!sparse()) return usable(row);
    const auto& list = lanes_[static_cast<std::size_t>(row.lane)].list;
    const std::int64_t at = list.search([&](std::int64_t serial) { return serial < row.serial; });
    return at < list.size() && list[at] == row.serial;
  }

  // Calls visit(row) for the anchors of a lane from a serial on, in order.
  template <class Visit>
  void each(std::int64_t i, std::int64_t from, const Visit& visit) const {
    const LaneAnchors& lane = lanes_[static_cast<std::size_t>(i)];
    if (sparse()) {
      for (std::int64_t k = lane.list.search([&](std::int64_t serial) { return serial < from; });
           k < lane.list.size(); ++k)
        visit(Row{i, lane.list[k], timeline_.slot(i, lane.list[k])});
      return;
    }
    from = std::max(from, lane.low);
    std::int64_t slot = timeline_.slot(i, from);
    for (std::int64_t serial = from; serial < lane.high; ++serial, slot = wrapped(i, slot + 1))
      if (!(timeline_.flags(slot) & kClosing)) visit(Row{i, serial, slot});
  }

 private:
  static constexpr std::int64_t kFewLanes = 32;

  void spare_none(LaneAnchors& lane) {
    const std::int64_t dropped = lane.list.popped() + lane.list.size();
    lane = LaneAnchors();
    lane.list.restart(dropped);
    version_ = ~std::uint64_t{0};
  }

  std::int64_t wrapped(std::int64_t lane, std::int64_t slot) const {
    return slot >= (lane + 1) * timeline_.span() ? slot - timeline_.span() : slot;
  }

  std::int64_t count(std::int64_t i, const LaneAnchors& lane) const {
    if (sparse()) return lane.list.size();
    if (timeline_.loose()) return lane.high - lane.low;
    const auto& closed = timeline_.lane(i).closed;
    auto below = [&](std::int64_t limit) {
      return closed.search([&](const Episode& episode) { return episode.end < limit; });
    };
    return lane.high - lane.low - (below(lane.high) - below(lane.low));
  }

  void refresh(std::int64_t i, LaneAnchors& lane) {
    const LaneIndex& index = timeline_.lane(i);
    const std::int64_t head = timeline_.head(i);
    lane.head = head;
    lane.tail = timeline_.tail(i);
    lane.open = index.open;
    const std::int64_t tail = std::min(head, lane.tail + lane.spare);
    std::int64_t whole = head;  // first step of the oldest episode that is still there from its start
    const std::int64_t k = index.closed.search([&](const Episode& episode) { return episode.start < tail; });
    if (k < index.closed.size())
      whole = index.closed[k].start;
    else if (index.open != kNone && index.open >= tail)
      whole = index.open;
    const std::int64_t low = std::min(tail + reach_.behind, whole);
    lane.low = lane.spare > 0 ? std::max(lane.low, low) : low;
    lane.high = reach_.across > 0 ? across(i, index, head, tail) : within(index, head);
    lane.high = std::max(lane.high, lane.low);
    lane.low_slot = timeline_.slot(i, lane.low);
    if (sparse()) {
      list(index, lane);
      lane.high = std::max(lane.low, lane.listed);
    }
  }

  // Rows of ended episodes are complete; those of the open one once enough rows follow.
  std::int64_t within(const LaneIndex& index, std::int64_t head) const {
    if (index.open == kNone) return head;
    return std::max(index.open, head - reach_.ahead);
  }

  std::int64_t across(std::int64_t i, const LaneIndex& index, std::int64_t head, std::int64_t tail) const {
    std::int64_t serial = index.open != kNone && !timeline_.loose() ? head - 1 : head;
    std::int64_t steps = 0;
    while (steps < reach_.across && serial > tail) {
      --serial;
      steps += !(timeline_.flags(timeline_.slot(i, serial)) & kClosing);
    }
    return steps == reach_.across ? serial + 1 : tail;
  }

  void list(const LaneIndex& index, LaneAnchors& lane) {
    const bool whole = reach_.stride == kWhole;
    const std::int64_t high = whole && index.open != kNone ? index.open : lane.high;
    auto grid = [&](std::int64_t start, std::int64_t end) {
      if (whole) {
        if (start >= lane.listed) lane.list.push(start);
        return;
      }
      const std::int64_t stride = reach_.stride;
      const std::int64_t skipped = start >= lane.listed ? 0 : (lane.listed - start + stride - 1) / stride;
      for (std::int64_t serial = start + skipped * stride; serial < std::min(end, high); serial += stride)
        lane.list.push(serial);
    };
    std::int64_t k = index.closed.search([&](const Episode& episode) { return episode.end <= lane.listed; });
    for (; k < index.closed.size(); ++k) grid(index.closed[k].start, index.closed[k].end);
    if (index.open != kNone && !whole) grid(index.open, high);
    lane.listed = std::max(lane.listed, high);
    while (!lane.list.empty() && lane.list.front() < lane.low) lane.list.pop();
  }

  const Timeline& timeline_;
  Reach reach_;
  std::vector<LaneAnchors> lanes_;
  std::vector<std::int64_t> starts_;
  std::int64_t width_ = 0, count_ = 0;
  std::uint64_t version_ = ~std::uint64_t{0}, changes_ = 0;
};

}  // namespace relive
