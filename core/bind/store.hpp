// The timeline as Python sees it: named columns, and steps checked on their way in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bind/numpy.hpp"
#include "memory/reader.hpp"

namespace relive {

struct Column {
  nanobind::object key;        // name in a step
  nanobind::object final_key;  // name of what was seen after the last step; None unless observed
  int typenum;
  Type type;
  std::vector<npy_intp> shape;
  std::int64_t bytes;
};

class Store {
 public:
  // columns: (key, final_key or None, dtype number, shape, panel, offset) each.
  Store(std::int64_t lanes, std::int64_t span, bool bare, bool loose, const std::vector<std::int64_t>& pitches,
        const nanobind::list& columns, Place place);

  // Appends one step, or a block of steps along a leading time axis, if every value fits as it is; otherwise changes
  // nothing and returns false, and the caller finds out why.
  bool append(const nanobind::dict& step, nanobind::handle lanes, bool block);

  // Puts rows of one lane as they are into the slots of their serials, an array a field. Those that are replayed from a
  // journal, or received from another timeline and logged in turn, are appended; false if they do not go on where the lane
  // ends.
  enum class How { kPut, kReplay, kReceive };
  bool put(std::int64_t lane, std::int64_t serial, nanobind::handle flags, const nanobind::list& arrays, How how);
  // Copies a field (-1: the flags) of runs of rows, [n, 3] lane, serial and count, side by side; returns their bytes.
  // Without a lock: the caller knows that nobody writes there, or finds out afterwards.
  std::int64_t take(std::int64_t index, nanobind::handle runs, nanobind::handle into) const;
  // Puts a mapped file on disk.
  void flush();

  const std::shared_ptr<Shelf>& shelf() const { return shelf_; }
  Timeline& timeline() const { return shelf_->timeline; }
  const std::vector<Column>& columns() const { return columns_; }
  bool bare() const { return bare_; }

 private:
  std::shared_ptr<Shelf> shelf_;
  std::vector<Column> columns_;
  Column terminated_, truncated_;
  bool bare_;
};

// Adds what concerns rows as they are.
void bind_rows(nanobind::class_<Store>& type);

}  // namespace relive
