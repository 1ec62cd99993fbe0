// Which episodes the rows of a lane form, found by looking at each row's flags once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memory/rows.hpp"

namespace relive {

// An ended episode: steps [start, end). Its closing row, if the timeline writes any, has serial `end`.
struct Episode {
  std::int64_t start, end;
};

// A queue with random access whose front falls off as rows are overwritten.
template <class T>
class Ledger {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(items_.size() - front_); }
  bool empty() const { return size() == 0; }
  const T& operator[](std::int64_t i) const { return items_[front_ + static_cast<std::size_t>(i)]; }
  const T& front() const { return items_[front_]; }
  const T& back() const { return items_.back(); }
  void push(const T& item) { items_.push_back(item); }
  void pop() {
    ++front_;
    ++popped_;
    if (front_ > 1024 && front_ * 2 > items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(front_));
      front_ = 0;
    }
  }
  // Takes the newest back, as if it had never been pushed.
  void unpush() { items_.pop_back(); }
  void clear() {
    popped_ += size();
    items_.clear();
    front_ = 0;
  }
  // Starts over, empty, after so many have fallen off.
  void restart(std::int64_t popped) {
    clear();
    popped_ = popped;
  }
  // How many have fallen off: item i is the (popped + i)th there ever was.
  std::int64_t popped() const { return popped_; }
  std::size_t bytes() const { return items_.capacity() * sizeof(T); }
  // Index of the first item for which `before` is false.
  template <class Before>
  std::int64_t search(const Before& before) const {
    auto begin = items_.begin() + static_cast<std::ptrdiff_t>(front_);
    return std::partition_point(begin, items_.end(), before) - begin;
  }

 private:
  std::vector<T> items_;
  std::size_t front_ = 0;
  std::int64_t popped_ = 0;
};

struct LaneIndex {
  std::int64_t head = 0;      // rows below this serial have been looked at
  std::int64_t tail = 0;      // rows below this serial are gone
  std::int64_t open = kNone;  // start of the episode still going on
  std::int64_t revision = 0;  // changes to older rows that have been taken in
  Ledger<Episode> closed;

  // Looks at the rows from head up to a serial. `flags` are the lane's, by slot.
  void follow(const std::uint8_t* flags, std::int64_t span, bool loose, std::int64_t until) {
    const std::uint8_t ends = loose ? kEnded : std::uint8_t{kClosing};
    std::int64_t slot = head % span;
    for (std::int64_t serial = head; serial < until; ++serial) {
      const std::uint8_t flag = flags[slot];
      slot = slot + 1 == span ? 0 : slot + 1;
      if (flag & kFirst)
        open = serial;
      else if (open == kNone)
        open = serial - 1;  // its beginning was overwritten unseen: somewhere below the tail
      if (flag & ends) {
        closed.push({open, serial + (loose ? 1 : 0)});
        open = kNone;
      }
    }
    head = until;
  }

  // Forgets the episodes of which no row is left.
  void drop(bool loose, std::int64_t new_tail) {
    tail = new_tail;
    while (!closed.empty() && closed.front().end + (loose ? 0 : 1) <= tail) closed.pop();
  }

  // Takes back what was learnt from the rows from a serial on: they have changed.
  void rewind(bool loose, std::int64_t serial) {
    serial = std::max(serial, tail);
    if (serial >= head) return;
    if (open >= serial) open = kNone;
    while (!closed.empty() && closed.back().end + (loose ? 0 : 1) > serial) {
      open = closed.back().start < serial ? closed.back().start : kNone;
      closed.unpush();
    }
    head = serial;
  }
};

// Whether the flags of a lane's rows [tail, head) are those of episodes, the first of which began at `start`.
inline bool are_episodes(const std::uint8_t* flags, std::int64_t span, bool loose, std::int64_t tail, std::int64_t head,
                         std::int64_t start) {
  for (std::int64_t serial = tail; serial < head; ++serial) {
    const std::uint8_t flag = flags[serial % span];
    const std::uint8_t before = serial > tail ? flags[(serial - 1) % span] : std::uint8_t{0};
    const bool first = (flag & kFirst) != 0, closing = (flag & kClosing) != 0, ended = (before & kEnded) != 0;
    if (flag > (kFirst | kClosing | kEnded) || (closing && (flag != kClosing || loose))) return false;
    if (serial == tail) {
      if (first != (start == tail)) return false;
    } else if (loose ? first != ended : (first != ((before & kClosing) != 0) || closing != ended)) {
      return false;
    }
  }
  return loose || !(flags[(head - 1) % span] & kEnded);
}

}  // namespace relive
