// Lanes of rows: where they lie, how they are written, and which episodes they form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "memory/episodes.hpp"
#include "memory/journal.hpp"
#include "memory/ground.hpp"
#include "memory/records.hpp"
#include "memory/trouble.hpp"

namespace relive {

class Timeline {
 public:
  Timeline(std::int64_t lanes, std::int64_t span, bool loose, const std::vector<std::int64_t>& pitches,
           std::vector<Field> fields, Place place = {})
      : others_(place.others), ground_(lanes, span, loose, pitches, std::move(fields), place),
        index_(static_cast<std::size_t>(lanes)) {
    if (place.file >= 0 && !others_) records_ = std::make_unique<Records>(ground_.records(), lanes, span);
  }

  // Bytes that a file must have for a timeline to lie in it.
  static std::int64_t bytes_for(std::int64_t lanes, std::int64_t span, const std::vector<std::int64_t>& pitches) {
    return layout_of(lanes, span, pitches).total;
  }

  std::int64_t lanes() const { return ground_.lanes; }
  std::int64_t span() const { return ground_.span; }
  bool loose() const { return ground_.loose; }
  bool others() const { return others_; }
  Ground& ground() { return ground_; }
  const Ground& ground() const { return ground_; }
  const std::vector<Field>& fields() const { return ground_.fields; }
  std::int64_t panels() const { return static_cast<std::int64_t>(ground_.panels.size()); }
  const Panel& panel(std::int64_t i) const { return ground_.panels[static_cast<std::size_t>(i)]; }
  std::int64_t slot(std::int64_t lane, std::int64_t serial) const { return ground_.slot(lane, serial); }
  std::uint8_t flags(std::int64_t slot) const { return ground_.flags[slot]; }
  const std::uint8_t* flags() const { return ground_.flags; }
  char* at(const Field& field, std::int64_t slot) const { return ground_.at(field, slot); }
  std::int64_t overwritten(std::int64_t lane) const { return ground_.overwritten(lane); }
  // Rows below this serial are overwritten, or about to be.
  std::int64_t claimed(std::int64_t lane) const {
    return ground_.states[lane].claim.load(std::memory_order_acquire) - ground_.span;
  }
  std::int64_t revision(std::int64_t lane) const { return ground_.states[lane].revision.load(std::memory_order_acquire); }
  const LaneIndex& lane(std::int64_t lane) const { return index_[static_cast<std::size_t>(lane)]; }
  std::int64_t head(std::int64_t lane) const { return index_[static_cast<std::size_t>(lane)].head; }
  std::int64_t tail(std::int64_t lane) const { return index_[static_cast<std::size_t>(lane)].tail; }
  // Counts changes, so that readers know when to look again.
  std::uint64_t version() const { return version_; }

  // Steps stored now; closing rows do not count.
  std::int64_t steps() const {
    std::int64_t count = 0;
    for (const LaneIndex& lane : index_) count += lane.head - lane.tail - (ground_.loose ? 0 : lane.closed.size());
    return count;
  }

  bool full() const {
    for (std::int64_t lane = 0; lane < ground_.lanes; ++lane)
      if (head(lane) - ground_.states[lane].floor.load(std::memory_order_relaxed) < ground_.span) return false;
    return true;
  }

  std::size_t bytes() const {
    std::size_t total = ground_.slab.bytes();
    for (const LaneIndex& lane : index_) total += sizeof(LaneIndex) + lane.closed.bytes();
    return total;
  }

  // Appends steps. Where that would overwrite rows that are held (see `hold`), calls wait() until they are not; what has been
  // appended by then can be read meanwhile.
  template <class Wait>
  void append(const Steps& steps, const Wait& wait) {
    // Half a lane at a time: with its closing rows a chunk then never meets its own tail.
    const std::int64_t chunk = std::max<std::int64_t>(1, ground_.span / 2);
    std::int64_t ended = 0;
    for (std::int64_t from = 0; from < steps.time; from += chunk) {
      const std::int64_t to = std::min(steps.time, from + chunk);
      plan(steps, from, to);
      while (meets_held(steps)) {
        wait();
        plan(steps, from, to);
      }
      const std::int64_t before = ended;
      append_chunk(steps, from, to, ended);
      ++version_;
      if (most_episodes_ != kNone && ended > before) trim(steps);
    }
  }

  // Keeps the newest so many ended episodes from now on; kNone: all.
  void keep_episodes(std::int64_t most) { most_episodes_ = most; }

  // Ends the open episode of a lane whose environment was reset without a word: the newest row's outcome will never be
  // known, so what was seen there becomes the final observation of the step before it.
  void cut(std::int64_t lane) {
    if (others_) catch_up(lane);  // another process may have cleared it
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    if (index.open == kNone) return;
    log_event(Journal::kCut, lane);
    const std::int64_t newest = index.head - 1;
    ++version_;
    ground_.states[lane].revision.fetch_add(1, std::memory_order_acq_rel);
    if (ground_.loose) {
      ground_.flags[slot(lane, newest)] |= kTruncated;
      index.closed.push({index.open, newest + 1});
    } else if (index.open == newest) {
      ground_.raise_floor(lane, index.tail);  // the row that this one overwrote does not come back
      // In this order: whoever dies in between leaves a claim above the head, as a half-written row does.
      ground_.states[lane].head.store(newest, std::memory_order_release);
      ground_.states[lane].claim.store(newest, std::memory_order_release);
      index.head = newest;
    } else {
      ground_.flags[slot(lane, newest - 1)] |= kTruncated;
      ground_.close(lane, newest);
      index.closed.push({index.open, newest});
    }
    index.open = kNone;
    index.revision = ground_.states[lane].revision.fetch_add(1, std::memory_order_release) + 1;
  }

  // Forgets every row. Serials go on counting, so a batch drawn before is still known to be stale.
  void clear() {
    if (others_) catch_up();  // refuses damaged lanes; their writers may be at work, so `check` would be too strict
    log_event(Journal::kClear, 0);
    for (std::int64_t lane = 0; lane < ground_.lanes; ++lane) {
      LaneIndex& index = index_[static_cast<std::size_t>(lane)];
      const std::int64_t head = index.head;
      ground_.raise_floor(lane, head);
      index.closed.clear();
      index.open = kNone;
      index.head = index.tail = head;
    }
    ++version_;
  }

  // Forgets a lane's rows below a serial; their memory goes back to the system.
  void forget(std::int64_t lane, std::int64_t before) {
    if (others_) catch_up(lane);
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    before = std::min(before, index.head);
    if (before <= index.tail) return;
    log_event(Journal::kForget, lane, &before);
    ground_.raise_floor(lane, before);
    index.drop(ground_.loose, before);
    if (index.tail == index.head) index.open = kNone;
    ++version_;
    if (!others_) ground_.discard(lane, std::max<std::int64_t>(0, index.head - ground_.span), before);
  }

  // Takes in what other processes have written since.
  void catch_up() {
    for (std::int64_t lane = 0; lane < ground_.lanes; ++lane) catch_up(lane);
  }

  // Makes a lane whole again whose writer died at any moment.
  void recover(std::int64_t lane) {
    check(lane);
    LaneState& state = ground_.states[lane];
    const std::int64_t head = state.head.load(std::memory_order_acquire), claim = state.claim.load();
    if (claim > head) {
      ground_.raise_floor(lane, claim - ground_.span);
      state.claim.store(head, std::memory_order_release);
    }
    const std::int64_t tail = std::max(state.floor.load(), head - ground_.span), newest = head - 1;
    if (!ground_.loose && newest - 1 >= tail) {  // a cut may have been half done
      std::uint8_t& before = ground_.flags[slot(lane, newest - 1)];
      const bool closing = (ground_.flags[slot(lane, newest)] & kClosing) != 0;
      if (!closing && (before & kEnded)) ground_.close(lane, newest);
      if (closing && !(before & kEnded)) before |= kTruncated;
    }
    state.revision.store((state.revision.load() | 1) + 1, std::memory_order_release);
    catch_up(lane);
    ++version_;
  }

  // Whether a lane's numbers can be what a writer left there that writes no longer.
  bool plausible(std::int64_t lane) const {
    const LaneState& state = ground_.states[lane];
    const std::int64_t head = state.head.load(), claim = state.claim.load(), floor = state.floor.load();
    return floor >= 0 && head >= floor && head <= kMostSerials && claim >= head && claim <= head + ground_.span;
  }

  // Believes only what the record says, after a power cut; false if there is no record or it cannot be right.
  bool recall() {
    if (!records_) return false;
    for (const Records::Lane& lane : records_->lanes())
      if (lane.head < 0 || lane.head > kMostSerials || lane.floor < 0 || lane.floor > lane.head ||
          lane.limit < 0 || lane.limit > kMostSerials)
        return false;
    for (std::int64_t i = 0; i < ground_.lanes; ++i) {
      const Records::Lane& lane = records_->lanes()[static_cast<std::size_t>(i)];
      ground_.states[i].head.store(lane.head);
      ground_.states[i].claim.store(lane.head);
      ground_.states[i].floor.store(std::min(lane.head, std::max(lane.floor, lane.limit - ground_.span)));
    }
    return true;
  }

  // What is on disk once `sync_slab` has returned, to be given to `record` then.
  std::vector<Records::Lane> flushing() const {
    std::vector<Records::Lane> lanes;
    for (std::int64_t lane = 0; lane < ground_.lanes; ++lane)
      lanes.push_back({head(lane), ground_.states[lane].floor.load(), 0});
    return lanes;
  }
  void sync_slab() const { sync_pages(ground_.slab.data(), ground_.slab.bytes()); }
  // A cut since then may have changed the newest of these rows, or taken it back; but after a power cut files are cut again
  // when they are opened, and then that row is a closing row or gone.
  void record(const std::vector<Records::Lane>& flushed) {
    if (!records_) return;
    for (std::size_t lane = 0; lane < flushed.size(); ++lane) {
      records_->lanes()[lane].head = flushed[lane].head;
      records_->lanes()[lane].floor = flushed[lane].floor;
    }
    records_->write();
  }

  // Keeps rows from a serial on, by lane, from being overwritten; `hold({})` lets go of all.
  void hold(std::vector<std::int64_t> from) { held_ = std::move(from); }
  bool holding() const { return !held_.empty(); }
  // Whether rows of a lane below a serial are held.
  bool holds(std::int64_t lane, std::int64_t before) const {
    return !held_.empty() && held_[static_cast<std::size_t>(lane)] < before;
  }
  std::vector<std::int64_t>& held() { return held_; }

  // Appends rows as they were logged; false if they do not go on where the lane ends. Rows of the lane may then be
  // damaged.
  bool replay(std::int64_t lane, std::int64_t serial, std::int64_t count, const std::uint8_t* flags,
              const std::vector<Source>& sources) {
    const std::int64_t head = this->head(lane);
    if (serial != head || count < 1 || count > ground_.span || head + count > kMostSerials || flags[0] == kClosing)
      return false;
    const bool first = begins(lane, head);
    ground_.states[lane].claim.store(head + count, std::memory_order_relaxed);
    ground_.put(lane, serial, count, flags, sources);
    if (!are_episodes(ground_.lane_flags(lane), ground_.span, ground_.loose, head, head + count, first ? head : head - 1))
      return false;
    publish(lane, head + count);
    ++version_;
    return true;
  }

  // Appends rows that another timeline of the same fields wrote; false, and nothing changed, if they do not go on where the
  // lane ends or form no episodes. Where none is open here they begin one, whatever they were there. Like `append`, it
  // waits for rows that are held.
  template <class Wait>
  bool receive(std::int64_t lane, std::int64_t serial, std::int64_t count, const std::uint8_t* flags,
               const std::vector<Source>& sources, const Wait& wait) {
    if (count < 1 || count > ground_.span) return false;
    while (holds(lane, head(lane) + count - ground_.span)) wait();
    const std::int64_t head = this->head(lane), claim = head + count;
    if (serial != head || claim > kMostSerials || flags[0] == kClosing) return false;
    std::vector<std::uint8_t> marked(flags, flags + count);
    const bool first = begins(lane, head);
    if (first) marked[0] |= kFirst;
    if (!are_episodes(marked.data(), count, ground_.loose, 0, count, first ? 0 : -1)) return false;
    if (records_ && records_->raise(lane, claim, ground_.span / 16)) records_->write();
    ground_.states[lane].claim.store(claim, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // before the rows
    ground_.put(lane, serial, count, marked.data(), sources);
    const Steps lone{1, 1, &lane, {}, {}, false, nullptr};
    if (journal_) log(lone, {claim}, 0);
    const std::int64_t ended = this->lane(lane).closed.size();
    publish(lane, claim);
    ++version_;
    if (most_episodes_ != kNone && this->lane(lane).closed.size() > ended) trim(lone);
    return true;
  }

  // Logs what is written from now on; null ends that.
  void log_to(std::unique_ptr<Journal> journal) { journal_ = std::move(journal); }
  bool logging() const { return journal_ != nullptr; }

  // In a child process: what the parent logs and holds is the parent's, and it goes on writing to a file they share.
  void forked() {
    journal_.reset();
    held_.clear();
    others_ = ground_.slab.in_file();
  }

  // Makes a lane hold the rows [tail, head) that were put. `start`: first step of the episode that the row at tail
  // belongs to; `gone`: episodes before it. False, and nothing changed, if the flags form no episodes.
  bool adopt(std::int64_t lane, std::int64_t tail, std::int64_t head, std::int64_t start, std::int64_t gone) {
    if (tail < 0 || head < tail || head > kMostSerials || head - tail > ground_.span || gone < 0 || gone > head) return false;
    if (tail < head && (start < 0 || start > tail || !are_episodes(ground_.lane_flags(lane), ground_.span, ground_.loose, tail, head, start))) return false;
    LaneState& state = ground_.states[lane];
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    state.floor.store(tail);
    state.claim.store(head);
    state.head.store(head, std::memory_order_release);
    index.closed.restart(gone);
    index.tail = index.head = tail;
    index.open = tail < head && start < tail ? start : kNone;
    index.follow(ground_.lane_flags(lane), ground_.span, ground_.loose, head);
    index.revision = state.revision.fetch_add(2, std::memory_order_release) + 2;
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
      if (!ground_.loose)
        for (std::int64_t t = from; t < to; ++t) claim += steps.ends[t * steps.width + i] != 0;
      cursors_.push_back({slot(lane, head), (lane + 1) * ground_.span, claim, begins(lane, head)});
    }
  }

  bool meets_held(const Steps& steps) const {
    if (held_.empty()) return false;
    for (std::int64_t i = 0; i < steps.width; ++i)
      if (cursors_[static_cast<std::size_t>(i)].claim - ground_.span > held_[static_cast<std::size_t>(steps.lane(i))]) return true;
    return false;
  }

  // Tells everyone, and the record if there is one, which rows are about to be overwritten.
  void claim(const Steps& steps) {
    if (records_) {
      bool passes = false;
      for (std::int64_t i = 0; i < steps.width; ++i)
        passes = records_->raise(steps.lane(i), cursors_[static_cast<std::size_t>(i)].claim, ground_.span / 16) || passes;
      if (passes) records_->write();
    }
    for (std::int64_t i = 0; i < steps.width; ++i)
      ground_.states[steps.lane(i)].claim.store(cursors_[static_cast<std::size_t>(i)].claim, std::memory_order_relaxed);
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
      cursor.slot = at + 1 == cursor.end ? at + 1 - ground_.span : at + 1;
      return at;
    };
    for (std::int64_t t = from; t < to; ++t) {
      for (std::int64_t i = 0; i < steps.width; ++i) {
        const std::int64_t row = t * steps.width + i;
        Cursor& cursor = cursors_[static_cast<std::size_t>(i)];
        const std::uint8_t ends = steps.ends[row];
        const std::int64_t at = advance(cursor);
        ground_.flags[at] = static_cast<std::uint8_t>(ends | (cursor.first ? kFirst : 0));
        cursor.first = ends != 0;
        if (steps.width == 1 && !rows_.empty() && rows_.back().slot + rows_.back().count == at)
          ++rows_.back().count;
        else
          rows_.push_back({at, row, 1});
        if (ends == 0) continue;
        if (!ground_.loose) {
          const std::int64_t closing = advance(cursor);
          ground_.flags[closing] = kClosing;
          if (given)
            closings_.push_back({closing, steps.finals_compact ? ended : row, 1});
          else
            repeats_.push_back({closing, row, 1});
        }
        ++ended;
      }
    }
    ground_.write(rows_, steps.fields, false);
    ground_.write(repeats_, steps.fields, true);
    ground_.write(closings_, steps.finals, true);
    if (journal_) {
      std::vector<std::int64_t> claims;
      for (const Cursor& cursor : cursors_) claims.push_back(cursor.claim);
      log(steps, claims, from);
    }
    for (std::int64_t i = 0; i < steps.width; ++i)
      publish(steps.lane(i), cursors_[static_cast<std::size_t>(i)].claim);
  }

  // Logs the rows up to `claims`, by lane, that were written from a step on; if that fails they do not count, but what they
  // overwrote is gone.
  void log(const Steps& steps, const std::vector<std::int64_t>& claims, std::int64_t from) {
    try {
      journal_->mark();
      journal_->begin(Journal::kRows);
      for (std::int64_t i = 0; i < steps.width; ++i)
        ground_.log(*journal_, steps.lane(i), head(steps.lane(i)), claims[static_cast<std::size_t>(i)]);
      if (!journal_->empty()) journal_->write();
      journal_->settle();
    } catch (const std::system_error& error) {
      journal_->take_back();
      for (std::int64_t i = 0; i < steps.width; ++i) recover(steps.lane(i));
      throw NotLogged(from, steps.time, error.code().value());
    }
  }

  // Forgets the oldest ended episodes where there are more than are kept. Where other processes write too, every lane
  // keeps its share, since only its own writer can forget its rows. Rows that are held go later.
  void trim(const Steps& steps) {
    if (others_) {
      const std::int64_t share = (most_episodes_ + lanes() - 1) / lanes();
      for (std::int64_t i = 0; i < steps.width; ++i)
        while (lane(steps.lane(i)).closed.size() > share && drop_oldest(steps.lane(i))) continue;
      return;
    }
    std::int64_t count = 0;
    for (const LaneIndex& index : index_) count += index.closed.size();
    for (; count > most_episodes_; --count) {
      std::int64_t oldest = kNone, when = 0;
      for (std::int64_t i = 0; i < lanes(); ++i) {
        const auto& closed = lane(i).closed;
        if (closed.empty()) continue;
        const std::int64_t steps_before = closed.front().end - (ground_.loose ? 0 : closed.popped());
        if (oldest == kNone || steps_before < when) oldest = i, when = steps_before;
      }
      if (!drop_oldest(oldest)) return;
    }
  }

  // Forgets a lane's oldest ended episode; false, and nothing is done, if it is held or that cannot be logged.
  bool drop_oldest(std::int64_t lane) {
    const std::int64_t before = this->lane(lane).closed.front().end + (ground_.loose ? 0 : 1);
    if (holds(lane, before)) return false;
    try {
      forget(lane, before);
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void publish(std::int64_t lane, std::int64_t head) {
    ground_.states[lane].head.store(head, std::memory_order_release);
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    index.follow(ground_.lane_flags(lane), ground_.span, ground_.loose, head);
    index.drop(ground_.loose, std::max(ground_.states[lane].floor.load(std::memory_order_relaxed), head - ground_.span));
  }

  void log_event(Journal::Kind kind, std::int64_t lane, const std::int64_t* more = nullptr) {
    if (!journal_) return;
    try {
      journal_->mark();
      journal_->begin(kind);
      journal_->number(lane);
      if (more != nullptr) journal_->number(*more);
      journal_->write();
      journal_->settle();
    } catch (...) {
      journal_->take_back();
      throw;
    }
  }

  bool begins(std::int64_t lane, std::int64_t head) const {
    if (head == ground_.states[lane].floor.load(std::memory_order_relaxed)) return true;
    const std::uint8_t before = ground_.flags[slot(lane, head - 1)];
    return (before & (ground_.loose ? kEnded : std::uint8_t{kClosing})) != 0;
  }

  // Refuses a lane that another process has damaged.
  void check(std::int64_t lane) const {
    if (others_ && !plausible(lane)) throw DamagedLane(lane);
  }

  void catch_up(std::int64_t lane) {
    look_again(lane);
    // A writer that went on and then forgot rows, all while this one looked, leaves rows that have not been seen yet.
    for (int i = 0; i < kLooks && overwritten(lane) > head(lane); ++i) look_again(lane);
  }

  void look_again(std::int64_t lane) {
    LaneState& state = ground_.states[lane];
    LaneIndex& index = index_[static_cast<std::size_t>(lane)];
    const std::int64_t revision = state.revision.load(std::memory_order_acquire);
    const std::int64_t found = state.head.load(std::memory_order_acquire);
    // Heads go down by one at most, when a cut takes a lone row back. The other numbers are used within these bounds.
    if (found < index.head - 1 || found > kMostSerials) throw DamagedLane(lane);
    const std::int64_t head = std::max(found, index.tail);  // it may have been cleared while a row was taken back
    auto tail = [&] {
      const std::int64_t floor = state.floor.load(std::memory_order_acquire);
      return std::min(head, std::max({floor, overwritten(lane), head - ground_.span}));
    };
    std::int64_t oldest = tail();
    if (revision == index.revision && head == index.head && oldest == index.tail) return;
    // A cut changes the two newest rows there are at the time, so nothing older than these.
    if (revision != index.revision || head < index.head) index.rewind(ground_.loose, std::min(head, index.head) - 2);
    if (oldest > index.head) {  // overtaken: rows were overwritten unseen
      index.closed.clear();
      index.open = kNone;
      index.head = oldest;
    }
    index.follow(ground_.lane_flags(lane), ground_.span, ground_.loose, head);
    // Rows that were overwritten while their flags were read have misled nobody: they are below the tail by now.
    index.drop(ground_.loose, std::max(index.tail, tail()));
    if (index.tail == index.head) index.open = kNone;  // cleared
    index.revision = revision;
    ++version_;
  }

  static constexpr int kLooks = 1000;

  bool others_;  // other processes write as well
  Ground ground_;
  std::unique_ptr<Records> records_;
  std::unique_ptr<Journal> journal_;
  std::vector<LaneIndex> index_;
  std::uint64_t version_ = 0;
  std::int64_t most_episodes_ = kNone;
  std::vector<std::int64_t> held_;
  std::vector<Ground::Write> rows_, closings_, repeats_;
  std::vector<Cursor> cursors_;
};

}  // namespace relive
