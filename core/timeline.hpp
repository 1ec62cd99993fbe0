// Lanes of rows: where they lie, how they are written, and which episodes they form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "copy.hpp"
#include "slab.hpp"

namespace recollect {

enum Flag : std::uint8_t { kTerminated = 1, kTruncated = 2, kClosing = 4, kFirst = 8 };
constexpr std::uint8_t kEnded = kTerminated | kTruncated;
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();

struct Field {
  std::int64_t panel;
  std::int64_t offset;
  std::int64_t bytes;
  bool observed;
};

struct Panel {
  std::int64_t pitch;
  char* base;
};

// Rows of one field handed in by the caller: row i starts at data + i * bytes of the field.
using Source = const char*;

// A block of steps [time, width] to append; fields, finals, terminated and truncated are row-major over it.
struct Steps {
  std::int64_t time, width;
  const std::int64_t* lanes;       // width distinct lanes, or null: lane i is column i
  std::vector<Source> fields;      // one a field
  std::vector<Source> finals;      // one a field; null: none given, or not observed
  bool finals_compact;             // finals hold one row an ended step instead of one row a step
  const std::uint8_t* terminated;
  const std::uint8_t* truncated;
};

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
  void push(const T& item) { items_.push_back(item); }
  void pop() {
    ++front_;
    ++popped_;
    if (front_ > 1024 && front_ * 2 > items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(front_));
      front_ = 0;
    }
  }
  void clear() {
    popped_ += size();
    items_.clear();
    front_ = 0;
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
  std::int64_t seen = 0;      // rows below this serial are indexed
  std::int64_t open = kNone;  // start of the episode still going on
  Ledger<Episode> closed;
};

class Timeline {
 public:
  Timeline(std::int64_t lanes, std::int64_t span, bool loose, const std::vector<std::int64_t>& pitches,
           std::vector<Field> fields)
      : lanes_(lanes), span_(span), loose_(loose), ends_(loose ? kEnded : std::uint8_t{kClosing}), fields_(std::move(fields)) {
    constexpr std::int64_t kMost = std::int64_t{1} << 46;
    if (lanes < 1 || span < 2 || lanes > kMost / span) throw std::invalid_argument("lanes and rows out of range");
    const std::int64_t rows = lanes * span;
    std::int64_t total = 0;
    std::vector<std::int64_t> offsets;
    auto place = [&](std::int64_t bytes) {
      offsets.push_back(total);
      total += (bytes + 4095) / 4096 * 4096;
    };
    for (std::int64_t pitch : pitches) {
      if (pitch < 1 || pitch > kMost / rows || total > kMost) throw std::invalid_argument("memory out of range");
      place(rows * pitch);
    }
    place(rows);
    place(2 * lanes * static_cast<std::int64_t>(sizeof(std::int64_t)));
    for (const Field& field : fields_) {
      if (field.panel < 0 || field.panel >= static_cast<std::int64_t>(pitches.size()) || field.offset < 0 ||
          field.bytes < 1 || field.offset > pitches[static_cast<std::size_t>(field.panel)] - field.bytes)
        throw std::invalid_argument("field outside its panel");
    }
    slab_ = Slab(static_cast<std::size_t>(total));
    for (std::size_t i = 0; i < pitches.size(); ++i) panels_.push_back({pitches[i], slab_.data() + offsets[i]});
    flags_ = reinterpret_cast<std::uint8_t*>(slab_.data() + offsets[pitches.size()]);
    heads_ = reinterpret_cast<std::int64_t*>(slab_.data() + offsets[pitches.size() + 1]);
    floors_ = heads_ + lanes;
    index_.resize(static_cast<std::size_t>(lanes));
  }

  std::int64_t lanes() const { return lanes_; }
  std::int64_t span() const { return span_; }
  bool loose() const { return loose_; }
  const std::vector<Field>& fields() const { return fields_; }
  std::int64_t panels() const { return static_cast<std::int64_t>(panels_.size()); }
  const Panel& panel(std::int64_t i) const { return panels_[static_cast<std::size_t>(i)]; }
  const LaneIndex& lane(std::int64_t lane) const { return index_[static_cast<std::size_t>(lane)]; }
  std::int64_t head(std::int64_t lane) const { return heads_[lane]; }
  std::int64_t tail(std::int64_t lane) const { return std::max(floors_[lane], heads_[lane] - span_); }
  std::int64_t slot(std::int64_t lane, std::int64_t serial) const { return lane * span_ + serial % span_; }
  std::uint8_t flags(std::int64_t slot) const { return flags_[slot]; }
  const std::uint8_t* flags() const { return flags_; }
  // Counts appends, so that readers know when to look again.
  std::uint64_t version() const { return version_; }

  char* at(const Field& field, std::int64_t slot) const {
    const Panel& panel = panels_[static_cast<std::size_t>(field.panel)];
    return panel.base + slot * panel.pitch + field.offset;
  }

  // Whether an address lies in this memory.
  bool owns(const char* address) const { return address >= slab_.data() && address < slab_.data() + slab_.bytes(); }

  // Steps stored now; closing rows do not count.
  std::int64_t steps() const {
    std::int64_t count = 0;
    for (std::int64_t lane = 0; lane < lanes_; ++lane) {
      count += head(lane) - tail(lane);
      if (!loose_) count -= index_[static_cast<std::size_t>(lane)].closed.size();
    }
    return count;
  }

  bool full() const {
    for (std::int64_t lane = 0; lane < lanes_; ++lane)
      if (heads_[lane] - floors_[lane] < span_) return false;
    return true;
  }

  std::size_t bytes() const {
    std::size_t total = slab_.bytes();
    for (const LaneIndex& lane : index_) total += sizeof(LaneIndex) + lane.closed.bytes();
    return total;
  }

  void append(const Steps& steps) {
    // Half a lane at a time: with its closing rows a chunk then never meets its own tail.
    const std::int64_t chunk = std::max<std::int64_t>(1, span_ / 2);
    std::int64_t ended = 0;
    for (std::int64_t from = 0; from < steps.time; from += chunk)
      append_chunk(steps, from, std::min(steps.time, from + chunk), ended);
    ++version_;
  }

  // Ends the open episode of a lane whose environment was reset without a word: the newest row's outcome will never be
  // known, so what was seen there becomes the final observation of the step before it.
  void cut(std::int64_t lane) {
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    if (index.open == kNone) return;
    const std::int64_t newest = heads_[lane] - 1;
    ++version_;
    if (loose_) {
      flags_[slot(lane, newest)] |= kTruncated;
      index.closed.push({index.open, newest + 1});
    } else if (index.open == newest) {
      floors_[lane] = tail(lane);  // the row that this one overwrote does not come back
      heads_[lane] = newest;
      index.seen = newest;
    } else {
      flags_[slot(lane, newest - 1)] |= kTruncated;
      flags_[slot(lane, newest)] = kClosing;
      for (const Field& field : fields_)
        if (!field.observed) blank(field, {{slot(lane, newest), 0, 1}});
      index.closed.push({index.open, newest});
    }
    index.open = kNone;
  }

  // Forgets every row. Serials go on counting, so a batch drawn before is still known to be stale.
  void clear() {
    for (std::int64_t lane = 0; lane < lanes_; ++lane) {
      LaneIndex& index = index_[static_cast<std::size_t>(lane)];
      index.closed.clear();
      index.open = kNone;
      index.seen = floors_[lane] = heads_[lane];
    }
    ++version_;
  }

 private:
  // Consecutive rows of a source and the consecutive slots they go to.
  struct Write {
    std::int64_t slot, row, count;
  };
  struct Copy {
    char* to;
    Source from;
    std::int64_t pitch, bytes;
  };
  // Where a lane is being written.
  struct Cursor {
    std::int64_t slot, end;
    bool first;
  };

  void append_chunk(const Steps& steps, std::int64_t from, std::int64_t to, std::int64_t& ended) {
    rows_.clear();
    closings_.clear();
    repeats_.clear();
    cursors_.clear();
    bool given = false;
    for (Source source : steps.finals) given = given || source != nullptr;
    for (std::int64_t i = 0; i < steps.width; ++i) {
      const std::int64_t lane = steps.lanes ? steps.lanes[i] : i;
      cursors_.push_back({slot(lane, heads_[lane]), (lane + 1) * span_, begins(lane, heads_[lane])});
    }
    auto advance = [this](Cursor& cursor) {
      const std::int64_t at = cursor.slot;
      cursor.slot = at + 1 == cursor.end ? at + 1 - span_ : at + 1;
      return at;
    };
    for (std::int64_t t = from; t < to; ++t) {
      for (std::int64_t i = 0; i < steps.width; ++i) {
        const std::int64_t row = t * steps.width + i;
        Cursor& cursor = cursors_[static_cast<std::size_t>(i)];
        const auto ends = static_cast<std::uint8_t>((steps.terminated[row] ? kTerminated : 0) |
                                                    (steps.truncated[row] ? kTruncated : 0));
        const std::int64_t at = advance(cursor);
        flags_[at] = static_cast<std::uint8_t>(ends | (cursor.first ? kFirst : 0));
        cursor.first = ends != 0;
        if (steps.width == 1 && !rows_.empty() && rows_.back().slot + rows_.back().count == at)
          ++rows_.back().count;
        else
          rows_.push_back({at, row, 1});
        if (ends == 0) continue;
        if (!loose_) {
          const std::int64_t closing = advance(cursor);
          flags_[closing] = kClosing;
          if (given)
            closings_.push_back({closing, steps.finals_compact ? ended : row, 1});
          else
            repeats_.push_back({closing, row, 1});
        }
        ++ended;
      }
    }
    write(rows_, steps.fields, false);
    write(repeats_, steps.fields, true);
    write(closings_, steps.finals, true);
    for (std::int64_t i = 0; i < steps.width; ++i) {
      const std::int64_t lane = steps.lanes ? steps.lanes[i] : i;
      const std::int64_t written = cursors_[static_cast<std::size_t>(i)].slot - slot(lane, heads_[lane]);
      heads_[lane] += written > 0 ? written : written + span_;
      sync(lane);
    }
  }

  bool begins(std::int64_t lane, std::int64_t head) const {
    if (head == floors_[lane]) return true;
    const std::uint8_t before = flags_[slot(lane, head - 1)];
    return (before & ends_) != 0;
  }

  // Copies rows to their slots, all fields of a row together. Closing rows hold what is observed, and zeros.
  void write(const std::vector<Write>& writes, const std::vector<Source>& sources, bool closing) {
    if (writes.empty()) return;
    copies_.clear();
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const Field& field = fields_[f];
      const Panel& panel = panels_[static_cast<std::size_t>(field.panel)];
      if (closing && !field.observed)
        blank(field, writes);
      else
        copies_.push_back({panel.base + field.offset, sources[f], panel.pitch, field.bytes});
    }
    for (const Write& write : writes)
      for (const Copy& copy : copies_)
        spread_rows(copy.to + write.slot * copy.pitch, copy.pitch, copy.from + write.row * copy.bytes, copy.bytes,
                    write.count);
  }

  void blank(const Field& field, const std::vector<Write>& writes) {
    for (const Write& write : writes)
      std::memset(at(field, write.slot), 0, static_cast<std::size_t>(field.bytes));
  }

  // Brings a lane's episodes up to date with its rows; each row is looked at once.
  void sync(std::int64_t lane) {
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    const std::int64_t head = heads_[lane];
    std::int64_t at = slot(lane, index.seen);
    for (std::int64_t serial = index.seen; serial < head; ++serial) {
      const std::uint8_t flags = flags_[at];
      at = at + 1 == (lane + 1) * span_ ? at + 1 - span_ : at + 1;
      if (flags & kFirst) index.open = serial;
      if (flags & ends_) {
        index.closed.push({index.open, serial + (loose_ ? 1 : 0)});
        index.open = kNone;
      }
    }
    index.seen = head;
    while (!index.closed.empty() && index.closed.front().end + (loose_ ? 0 : 1) <= tail(lane)) index.closed.pop();
  }

  std::int64_t lanes_, span_;
  bool loose_;          // rows carry what follows them, so no closing rows are written
  std::uint8_t ends_;   // flags of an episode's last row
  std::vector<Field> fields_;
  std::vector<Panel> panels_;
  std::uint8_t* flags_ = nullptr;
  std::int64_t* heads_ = nullptr;   // a lane: the serial its next row will have
  std::int64_t* floors_ = nullptr;  // a lane: rows below this serial are gone whatever their slots hold
  Slab slab_;
  std::vector<LaneIndex> index_;
  std::uint64_t version_ = 0;
  std::vector<Write> rows_, closings_, repeats_;
  std::vector<Cursor> cursors_;
  std::vector<Copy> copies_;
};

}  // namespace recollect
