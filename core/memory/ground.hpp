// The bytes that rows lie in: where each field of a row is, and how rows are copied in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "memory/copy.hpp"
#include "memory/journal.hpp"
#include "memory/layout.hpp"
#include "memory/rows.hpp"
#include "memory/slab.hpp"

namespace relive {

class Ground {
 public:
  // Consecutive rows of a source and the consecutive slots they go to.
  struct Write {
    std::int64_t slot, row, count;
  };

  Ground(std::int64_t lane_count, std::int64_t lane_rows, bool carries_next, const std::vector<std::int64_t>& pitches,
         std::vector<Field> columns, Place place)
      : lanes(lane_count), span(lane_rows), loose(carries_next), fields(std::move(columns)) {
    const Layout layout = layout_of(lanes, span, pitches);
    for (const Field& field : fields) {
      if (field.panel < 0 || field.panel >= static_cast<std::int64_t>(pitches.size()) || field.offset < 0 ||
          field.bytes < 1 || field.offset > pitches[static_cast<std::size_t>(field.panel)] - field.bytes)
        throw std::invalid_argument("field outside its panel");
    }
    if (place.file < 0)
      slab = Slab(static_cast<std::size_t>(layout.records));
    else
      slab = Slab(place.file, place.offset, static_cast<std::size_t>(layout.total));
    for (std::size_t i = 0; i < pitches.size(); ++i) panels.push_back({pitches[i], slab.data() + layout.panels[i]});
    flags = reinterpret_cast<std::uint8_t*>(slab.data() + layout.flags);
    states = reinterpret_cast<LaneState*>(slab.data() + layout.states);
    records_ = layout.records;
  }

  std::int64_t slot(std::int64_t lane, std::int64_t serial) const { return lane * span + serial % span; }
  const std::uint8_t* lane_flags(std::int64_t lane) const { return flags + lane * span; }
  // Where a file keeps its records.
  char* records() const { return slab.data() + records_; }

  char* at(const Field& field, std::int64_t slot) const {
    const Panel& panel = panels[static_cast<std::size_t>(field.panel)];
    return panel.base + slot * panel.pitch + field.offset;
  }

  // Whether an address lies in this memory.
  bool owns(const char* address) const { return address >= slab.data() && address < slab.data() + slab.bytes(); }

  // Rows below this serial are gone, or may be half overwritten by now. A claim that is taken back raises the floor first,
  // so the two together never go down.
  std::int64_t overwritten(std::int64_t lane) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // after the reading that this call is to judge
    const std::int64_t claim = states[lane].claim.load(std::memory_order_acquire);
    return std::max(claim - span, states[lane].floor.load(std::memory_order_acquire));
  }

  // Calls visit(slot, rows) for the one or two stretches of slots that rows of a lane lie in.
  template <class Visit>
  void each_stretch(std::int64_t lane, std::int64_t serial, std::int64_t count, const Visit& visit) const {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t at = (serial + done) % span, some = std::min(count - done, span - at);
      visit(lane * span + at, some);
      done += some;
    }
  }

  // Puts rows as they were elsewhere into the slots of their serials; nobody is told.
  void put(std::int64_t lane, std::int64_t serial, std::int64_t count, const std::uint8_t* given,
           const std::vector<Source>& sources) {
    std::int64_t done = 0;
    each_stretch(lane, serial, count, [&](std::int64_t first, std::int64_t some) {
      std::memcpy(flags + first, given + done, static_cast<std::size_t>(some));
      for (std::size_t f = 0; f < fields.size(); ++f)
        spread_rows(at(fields[f], first), panels[static_cast<std::size_t>(fields[f].panel)].pitch,
                    sources[f] + done * fields[f].bytes, fields[f].bytes, some);
      done += some;
    });
  }

  // Copies rows to their slots, all fields of a row together. Closing rows hold what is observed, and zeros.
  void write(const std::vector<Write>& writes, const std::vector<Source>& sources, bool closing) {
    if (writes.empty()) return;
    copies_.clear();
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const Field& field = fields[f];
      const Panel& panel = panels[static_cast<std::size_t>(field.panel)];
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

  // Adds rows [from, until) of a lane to the journal's record; one that is large enough is written, and another begun.
  void log(Journal& journal, std::int64_t lane, std::int64_t from, std::int64_t until) {
    std::int64_t row = 1;
    for (const Field& field : fields) row += field.bytes;
    const std::int64_t most = std::max<std::int64_t>(1, std::min(kRecordBytes / row, span / 2 - 1));
    while (from < until) {
      std::int64_t count = std::min(most, until - from);
      // An ended step and its closing row belong together.
      if (from + count < until && !loose && (flags[slot(lane, from + count - 1)] & kEnded)) ++count;
      for (std::int64_t number : {lane, from, count}) journal.number(number);
      each_stretch(lane, from, count, [&](std::int64_t first, std::int64_t some) {
        journal.add(flags + first, static_cast<std::size_t>(some));
      });
      for (const Field& field : fields)
        each_stretch(lane, from, count, [&](std::int64_t first, std::int64_t some) {
          copy_rows(journal.room(static_cast<std::size_t>(some * field.bytes)), at(field, first),
                    panels[static_cast<std::size_t>(field.panel)].pitch, field.bytes, some);
        });
      from += count;
      if (journal.size() >= static_cast<std::size_t>(kRecordBytes)) {
        journal.write();
        journal.begin(Journal::kRows);
      }
    }
  }

  void blank(const Field& field, std::int64_t slot) {
    std::memset(at(field, slot), 0, static_cast<std::size_t>(field.bytes));
  }

  // Turns a row into a closing row.
  void close(std::int64_t lane, std::int64_t serial) {
    for (const Field& field : fields)
      if (!field.observed) blank(field, slot(lane, serial));
    flags[slot(lane, serial)] = kClosing;
  }

  // Gives back the memory of a lane's rows [from, until), which nobody will read again, wherever enough has gathered.
  void discard(std::int64_t lane, std::int64_t from, std::int64_t until) {
    const auto page = static_cast<std::int64_t>(kHugePage), count = static_cast<std::int64_t>(panels.size());
    discarded_.resize(static_cast<std::size_t>(lanes * count), 0);
    for (std::int64_t p = 0; p < count; ++p) {
      const Panel& panel = panels[static_cast<std::size_t>(p)];
      std::int64_t& done = discarded_[static_cast<std::size_t>(lane * count + p)];
      done = std::max(done, from);
      if ((until - done) * panel.pitch < 2 * page) continue;
      each_stretch(lane, done, until - done, [&](std::int64_t first, std::int64_t some) {
        slab.discard(panel.base + first * panel.pitch, static_cast<std::size_t>(some * panel.pitch));
      });
      done = until - page / panel.pitch - 1;  // what is left of the last page goes with the next one
    }
  }

  void raise_floor(std::int64_t lane, std::int64_t floor) {
    std::int64_t old = states[lane].floor.load();
    while (old < floor && !states[lane].floor.compare_exchange_weak(old, floor)) {
    }
  }

  const std::int64_t lanes, span;
  const bool loose;  // rows carry what follows them, so no closing rows are written
  const std::vector<Field> fields;
  std::vector<Panel> panels;
  std::uint8_t* flags = nullptr;
  LaneState* states = nullptr;
  Slab slab;

 private:
  struct Copy {
    char* to;
    Source from;
    std::int64_t pitch, bytes;
  };
  static constexpr std::int64_t kRecordBytes = std::int64_t{4} << 20;

  std::int64_t records_ = 0;
  std::vector<Copy> copies_;
  std::vector<std::int64_t> discarded_;  // by lane and panel: rows below this serial have given their memory back
};

}  // namespace relive
