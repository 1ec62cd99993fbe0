// Lanes of rows: where they lie, how they are written, and which episodes they form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "copy.hpp"
#include "episodes.hpp"
#include "layout.hpp"
#include "records.hpp"
#include "rows.hpp"
#include "slab.hpp"

namespace recollect {

class Timeline {
 public:
  Timeline(std::int64_t lanes, std::int64_t span, bool loose, const std::vector<std::int64_t>& pitches,
           std::vector<Field> fields, Place place = {})
      : lanes_(lanes), span_(span), loose_(loose), others_(place.others), fields_(std::move(fields)) {
    const Layout layout = layout_of(lanes, span, pitches);
    for (const Field& field : fields_) {
      if (field.panel < 0 || field.panel >= static_cast<std::int64_t>(pitches.size()) || field.offset < 0 ||
          field.bytes < 1 || field.offset > pitches[static_cast<std::size_t>(field.panel)] - field.bytes)
        throw std::invalid_argument("field outside its panel");
    }
    if (place.file < 0)
      slab_ = Slab(static_cast<std::size_t>(layout.records));
    else
      slab_ = Slab(place.file, place.offset, static_cast<std::size_t>(layout.total));
    for (std::size_t i = 0; i < pitches.size(); ++i) panels_.push_back({pitches[i], slab_.data() + layout.panels[i]});
    flags_ = reinterpret_cast<std::uint8_t*>(slab_.data() + layout.flags);
    states_ = reinterpret_cast<LaneState*>(slab_.data() + layout.states);
    index_.resize(static_cast<std::size_t>(lanes));
    if (place.file >= 0 && !others_) records_ = std::make_unique<Records>(slab_.data() + layout.records, lanes, span);
  }

  // Bytes that a file must have for a timeline to lie in it.
  static std::int64_t bytes_for(std::int64_t lanes, std::int64_t span, const std::vector<std::int64_t>& pitches) {
    return layout_of(lanes, span, pitches).total;
  }

  std::int64_t lanes() const { return lanes_; }
  std::int64_t span() const { return span_; }
  bool loose() const { return loose_; }
  bool others() const { return others_; }
  const std::vector<Field>& fields() const { return fields_; }
  std::int64_t panels() const { return static_cast<std::int64_t>(panels_.size()); }
  const Panel& panel(std::int64_t i) const { return panels_[static_cast<std::size_t>(i)]; }
  const LaneIndex& lane(std::int64_t lane) const { return index_[static_cast<std::size_t>(lane)]; }
  std::int64_t head(std::int64_t lane) const { return index_[static_cast<std::size_t>(lane)].head; }
  std::int64_t tail(std::int64_t lane) const { return index_[static_cast<std::size_t>(lane)].tail; }
  std::int64_t slot(std::int64_t lane, std::int64_t serial) const { return lane * span_ + serial % span_; }
  std::uint8_t flags(std::int64_t slot) const { return flags_[slot]; }
  const std::uint8_t* flags() const { return flags_; }
  // Counts changes, so that readers know when to look again.
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
    for (const LaneIndex& lane : index_) count += lane.head - lane.tail - (loose_ ? 0 : lane.closed.size());
    return count;
  }

  bool full() const {
    for (std::int64_t lane = 0; lane < lanes_; ++lane)
      if (head(lane) - states_[lane].floor.load(std::memory_order_relaxed) < span_) return false;
    return true;
  }

  std::size_t bytes() const {
    std::size_t total = slab_.bytes();
    for (const LaneIndex& lane : index_) total += sizeof(LaneIndex) + lane.closed.bytes();
    return total;
  }

  // Appends steps. Where that would overwrite rows that are held (see `hold`), calls wait() until they are not.
  template <class Wait>
  void append(const Steps& steps, const Wait& wait) {
    // Half a lane at a time: with its closing rows a chunk then never meets its own tail.
    const std::int64_t chunk = std::max<std::int64_t>(1, span_ / 2);
    std::int64_t ended = 0;
    for (std::int64_t from = 0; from < steps.time; from += chunk) {
      const std::int64_t to = std::min(steps.time, from + chunk);
      plan(steps, from, to);
      while (meets_held(steps)) {
        wait();
        plan(steps, from, to);
      }
      append_chunk(steps, from, to, ended);
    }
    ++version_;
  }

  // Ends the open episode of a lane whose environment was reset without a word: the newest row's outcome will never be
  // known, so what was seen there becomes the final observation of the step before it.
  void cut(std::int64_t lane) {
    if (others_) catch_up(lane);  // another process may have cleared it
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    if (index.open == kNone) return;
    const std::int64_t newest = index.head - 1;
    if (records_ && records_->lanes()[static_cast<std::size_t>(lane)].head > newest - 1) {
      records_->lanes()[static_cast<std::size_t>(lane)].head = std::max(newest - 1, index.tail);
      records_->write();
    }
    ++version_;
    if (loose_) {
      flags_[slot(lane, newest)] |= kTruncated;
      index.closed.push({index.open, newest + 1});
    } else if (index.open == newest) {
      raise_floor(lane, index.tail);  // the row that this one overwrote does not come back
      states_[lane].claim.store(newest, std::memory_order_relaxed);
      states_[lane].head.store(newest, std::memory_order_release);
      index.head = newest;
    } else {
      flags_[slot(lane, newest - 1)] |= kTruncated;
      close(lane, newest);
      index.closed.push({index.open, newest});
    }
    index.open = kNone;
    index.revision = states_[lane].revision.fetch_add(1, std::memory_order_release) + 1;
  }

  // Forgets every row. Serials go on counting, so a batch drawn before is still known to be stale.
  void clear() {
    for (std::int64_t lane = 0; lane < lanes_; ++lane) {
      LaneIndex& index = index_[static_cast<std::size_t>(lane)];
      const std::int64_t head = states_[lane].head.load(std::memory_order_acquire);
      raise_floor(lane, head);
      index.closed.clear();
      index.open = kNone;
      index.head = index.tail = head;
    }
    ++version_;
  }

  // Takes in what other processes have written since.
  void catch_up() {
    bool changed = false;
    for (std::int64_t lane = 0; lane < lanes_; ++lane) changed = catch_up(lane) || changed;
    if (changed) ++version_;
  }

  // Rows below this serial are gone, or may be half overwritten by now.
  std::int64_t overwritten(std::int64_t lane) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // after the reading that this call is to judge
    return states_[lane].claim.load(std::memory_order_relaxed) - span_;
  }
  std::int64_t revision(std::int64_t lane) const { return states_[lane].revision.load(std::memory_order_acquire); }

  // Makes a lane whole again whose writer died at any moment.
  void recover(std::int64_t lane) {
    LaneState& state = states_[lane];
    const std::int64_t head = state.head.load(std::memory_order_acquire), claim = state.claim.load();
    if (claim > head) {
      raise_floor(lane, claim - span_);
      state.claim.store(head, std::memory_order_release);
    }
    const std::int64_t tail = std::max(state.floor.load(), head - span_), newest = head - 1;
    if (!loose_ && newest - 1 >= tail) {  // a cut may have been half done
      std::uint8_t& before = flags_[slot(lane, newest - 1)];
      const bool closing = (flags_[slot(lane, newest)] & kClosing) != 0;
      if (!closing && (before & kEnded)) close(lane, newest);
      if (closing && !(before & kEnded)) before |= kTruncated;
    }
    state.revision.fetch_add(1, std::memory_order_release);
    catch_up(lane);
    ++version_;
  }

  // Believes only what the record says, after a power cut; false if there is no record or it cannot be right.
  bool recall() {
    if (!records_) return false;
    for (const Records::Lane& lane : records_->lanes())
      if (lane.head < 0 || lane.head > kMostSerials || lane.floor < 0 || lane.floor > lane.head ||
          lane.limit < 0 || lane.limit > kMostSerials)
        return false;
    for (std::int64_t i = 0; i < lanes_; ++i) {
      const Records::Lane& lane = records_->lanes()[static_cast<std::size_t>(i)];
      states_[i].head.store(lane.head);
      states_[i].claim.store(lane.head);
      states_[i].floor.store(std::min(lane.head, std::max(lane.floor, lane.limit - span_)));
    }
    return true;
  }

  // What `flush` has to put down once the bytes are on disk.
  struct Flushed {
    std::vector<Records::Lane> lanes;
    std::vector<std::int64_t> revisions;
  };
  Flushed flushing() const {
    Flushed flushed;
    for (std::int64_t lane = 0; lane < lanes_; ++lane) {
      flushed.lanes.push_back({head(lane), states_[lane].floor.load(), 0});
      flushed.revisions.push_back(revision(lane));
    }
    return flushed;
  }
  void sync_slab() const { sync_pages(slab_.data(), slab_.bytes()); }
  void record(const Flushed& flushed) {
    if (!records_) return;
    for (std::int64_t i = 0; i < lanes_; ++i) {
      const auto k = static_cast<std::size_t>(i);
      if (revision(i) != flushed.revisions[k]) continue;  // cut meanwhile: its newest rows are not certain
      records_->lanes()[k].head = flushed.lanes[k].head;
      records_->lanes()[k].floor = flushed.lanes[k].floor;
    }
    records_->write();
  }

  // Keeps rows from a serial on, by lane, from being overwritten; `hold({})` lets go of all.
  void hold(std::vector<std::int64_t> from) { held_ = std::move(from); }
  bool holding() const { return !held_.empty(); }
  std::vector<std::int64_t>& held() { return held_; }

  // Puts rows as they were elsewhere into the slots of their serials; they count once `adopt` says so.
  void put(std::int64_t lane, std::int64_t serial, std::int64_t count, const std::uint8_t* flags,
           const std::vector<Source>& sources) {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t at = (serial + done) % span_, some = std::min(count - done, span_ - at);
      const std::int64_t first = lane * span_ + at;
      std::memcpy(flags_ + first, flags + done, static_cast<std::size_t>(some));
      for (std::size_t f = 0; f < fields_.size(); ++f)
        spread_rows(this->at(fields_[f], first), panels_[static_cast<std::size_t>(fields_[f].panel)].pitch,
                    sources[f] + done * fields_[f].bytes, fields_[f].bytes, some);
      done += some;
    }
  }

  // Makes a lane hold the rows [tail, head) that were put. `start`: first step of the episode that the row at tail
  // belongs to; `gone`: episodes before it. False, and nothing changed, if the flags form no episodes.
  bool adopt(std::int64_t lane, std::int64_t tail, std::int64_t head, std::int64_t start, std::int64_t gone) {
    if (tail < 0 || head < tail || head > kMostSerials || head - tail > span_ || gone < 0 || gone > head) return false;
    if (tail < head && (start < 0 || start > tail || !are_episodes(flags_ + lane * span_, span_, loose_, tail, head, start))) return false;
    LaneState& state = states_[lane];
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    state.floor.store(tail);
    state.claim.store(head);
    state.head.store(head, std::memory_order_release);
    index.closed.restart(gone);
    index.tail = index.head = tail;
    index.open = tail < head && start < tail ? start : kNone;
    index.follow(flags_ + lane * span_, span_, loose_, head);
    index.revision = state.revision.fetch_add(1, std::memory_order_release) + 1;
    ++version_;
    return true;
  }

  // First step of the episode that a lane's oldest row belongs to; the tail itself where there is no row.
  std::int64_t oldest_start(std::int64_t lane) const {
    const LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    if (!index.closed.empty()) return std::min(index.closed.front().start, index.tail);
    return index.open != kNone ? std::min(index.open, index.tail) : index.tail;
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
    std::int64_t slot, end, claim;
    bool first;
  };

  // Where the steps [from, to) will go, and up to which serial.
  void plan(const Steps& steps, std::int64_t from, std::int64_t to) {
    cursors_.clear();
    for (std::int64_t i = 0; i < steps.width; ++i) {
      const std::int64_t lane = steps.lane(i), head = this->head(lane);
      std::int64_t claim = head + (to - from);
      if (!loose_)
        for (std::int64_t t = from; t < to; ++t) claim += steps.ends(t * steps.width + i);
      cursors_.push_back({slot(lane, head), (lane + 1) * span_, claim, begins(lane, head)});
    }
  }

  bool meets_held(const Steps& steps) const {
    if (held_.empty()) return false;
    for (std::int64_t i = 0; i < steps.width; ++i)
      if (cursors_[static_cast<std::size_t>(i)].claim - span_ > held_[static_cast<std::size_t>(steps.lane(i))]) return true;
    return false;
  }

  // Tells everyone, and the record if there is one, which rows are about to be overwritten.
  void claim(const Steps& steps) {
    if (records_) {
      bool passes = false;
      for (std::int64_t i = 0; i < steps.width; ++i)
        passes = records_->raise(steps.lane(i), cursors_[static_cast<std::size_t>(i)].claim, span_ / 16) || passes;
      if (passes) records_->write();
    }
    for (std::int64_t i = 0; i < steps.width; ++i)
      states_[steps.lane(i)].claim.store(cursors_[static_cast<std::size_t>(i)].claim, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // before the rows
  }

  void append_chunk(const Steps& steps, std::int64_t from, std::int64_t to, std::int64_t& ended) {
    rows_.clear();
    closings_.clear();
    repeats_.clear();
    bool given = false;
    for (Source source : steps.finals) given = given || source != nullptr;
    claim(steps);
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
      const std::int64_t lane = steps.lane(i), head = cursors_[static_cast<std::size_t>(i)].claim;
      states_[lane].head.store(head, std::memory_order_release);
      LaneIndex& index = index_[static_cast<std::size_t>(lane)];
      index.follow(flags_ + lane * span_, span_, loose_, head);
      index.drop(loose_, std::max(states_[lane].floor.load(std::memory_order_relaxed), head - span_));
    }
  }

  bool begins(std::int64_t lane, std::int64_t head) const {
    if (head == states_[lane].floor.load(std::memory_order_relaxed)) return true;
    const std::uint8_t before = flags_[slot(lane, head - 1)];
    return (before & (loose_ ? kEnded : std::uint8_t{kClosing})) != 0;
  }

  // Copies rows to their slots, all fields of a row together. Closing rows hold what is observed, and zeros.
  void write(const std::vector<Write>& writes, const std::vector<Source>& sources, bool closing) {
    if (writes.empty()) return;
    copies_.clear();
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const Field& field = fields_[f];
      const Panel& panel = panels_[static_cast<std::size_t>(field.panel)];
      if (closing && !field.observed) {
        for (const Write& write : writes) blank(field, write.slot);
      } else {
        copies_.push_back({panel.base + field.offset, sources[f], panel.pitch, field.bytes});
      }
    }
    for (const Write& write : writes)
      for (const Copy& copy : copies_)
        spread_rows(copy.to + write.slot * copy.pitch, copy.pitch, copy.from + write.row * copy.bytes, copy.bytes,
                    write.count);
  }

  void blank(const Field& field, std::int64_t slot) {
    std::memset(at(field, slot), 0, static_cast<std::size_t>(field.bytes));
  }

  // Turns a row into a closing row.
  void close(std::int64_t lane, std::int64_t serial) {
    for (const Field& field : fields_)
      if (!field.observed) blank(field, slot(lane, serial));
    flags_[slot(lane, serial)] = kClosing;
  }

  void raise_floor(std::int64_t lane, std::int64_t floor) {
    std::int64_t old = states_[lane].floor.load();
    while (old < floor && !states_[lane].floor.compare_exchange_weak(old, floor)) {
    }
  }

  bool catch_up(std::int64_t lane) {
    LaneState& state = states_[lane];
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    const std::int64_t revision = state.revision.load(std::memory_order_acquire);
    const std::int64_t head = state.head.load(std::memory_order_acquire);
    auto tail = [&] { return std::min(head, std::max(state.floor.load(std::memory_order_acquire), overwritten(lane))); };
    std::int64_t oldest = tail();
    if (revision == index.revision && head == index.head && oldest == index.tail) return false;
    // A cut changes the two newest rows there are at the time, so nothing older than these.
    if (revision != index.revision || head < index.head) index.rewind(loose_, std::min(head, index.head) - 2);
    if (oldest > index.head) {  // overtaken: rows were overwritten unseen
      index.closed.clear();
      index.open = kNone;
      index.head = oldest;
    }
    index.follow(flags_ + lane * span_, span_, loose_, head);
    // Rows that were overwritten while their flags were read have misled nobody: they are below the tail by now.
    index.drop(loose_, std::max(index.tail, tail()));
    if (index.tail == index.head) index.open = kNone;  // cleared
    index.revision = revision;
    return true;
  }

  std::int64_t lanes_, span_;
  bool loose_;   // rows carry what follows them, so no closing rows are written
  bool others_;  // other processes write as well
  std::vector<Field> fields_;
  std::vector<Panel> panels_;
  std::uint8_t* flags_ = nullptr;
  LaneState* states_ = nullptr;
  Slab slab_;
  std::unique_ptr<Records> records_;
  std::vector<LaneIndex> index_;
  std::uint64_t version_ = 0;
  std::vector<std::int64_t> held_;
  std::vector<Write> rows_, closings_, repeats_;
  std::vector<Cursor> cursors_;
  std::vector<Copy> copies_;
};

}  // namespace recollect
