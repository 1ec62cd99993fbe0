// Rows as they are, in and out of the store: for snapshots, files and journals.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bind/store.hpp"

#if defined(__linux__)
#include <fcntl.h>
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace relive {

bool Store::put(std::int64_t lane, std::int64_t serial, nb::handle flags, const nb::list& arrays, How how) {
  if (lane < 0 || lane >= timeline().lanes() || serial < 0 || serial > kMostSerials)
    throw std::invalid_argument("rows out of range");
  if (arrays.size() != columns_.size()) throw std::invalid_argument("an array a field");
  std::vector<nb::object> kept{as_array(flags, NPY_UINT8)};
  const std::int64_t count = size_of(kept[0]);
  if (count > timeline().span()) throw std::invalid_argument("more rows than a lane has");
  std::vector<Source> sources;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    kept.push_back(as_array(arrays[i], columns_[i].typenum));
    const auto* array = reinterpret_cast<PyArrayObject*>(kept.back().ptr());
    if (PyArray_NBYTES(array) != count * columns_[i].bytes) throw std::invalid_argument("rows of another size");
    sources.push_back(data_of<char>(kept.back()));
  }
  nb::gil_scoped_release release;
  bool right = true;
  const auto* given = data_of<std::uint8_t>(kept[0]);
  if (how == How::kReceive) return shelf_->receive(lane, serial, count, given, sources);
  shelf_->write([&] {
    if (how == How::kReplay)
      right = timeline().replay(lane, serial, count, given, sources);
    else
      timeline().ground().put(lane, serial, count, given, sources);
  });
  return right;
}

std::int64_t Store::take(std::int64_t index, nb::handle runs, nb::handle into) const {
  if (index < -1 || index >= static_cast<std::int64_t>(columns_.size())) throw nb::index_error("field out of range");
  nb::object array = as_array(runs, NPY_INT64);
  const std::vector<std::int64_t> given(data_of<std::int64_t>(array), data_of<std::int64_t>(array) + size_of(array));
  auto* out = reinterpret_cast<PyArrayObject*>(into.ptr());
  if (!PyArray_Check(into.ptr()) || PyArray_TYPE(out) != NPY_UINT8 || !PyArray_ISCARRAY(out) || given.size() % 3 != 0)
    throw std::invalid_argument("runs of three numbers, and bytes to fill");
  const Timeline& line = timeline();
  const std::int64_t bytes = index < 0 ? 1 : line.fields()[static_cast<std::size_t>(index)].bytes;
  const std::int64_t count = static_cast<std::int64_t>(given.size()) / 3, span = line.span();
  const std::int64_t* run = given.data();
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (run[3 * i] < 0 || run[3 * i] >= line.lanes() || run[3 * i + 1] < 0 || run[3 * i + 1] > kMostSerials ||
        run[3 * i + 2] < 0 || run[3 * i + 2] > span)
      throw std::invalid_argument("run out of range");
    rows += run[3 * i + 2];
    if (rows * bytes > PyArray_NBYTES(out)) throw std::invalid_argument("too few bytes to fill");
  }
  auto* to = static_cast<char*>(PyArray_DATA(out));
  nb::gil_scoped_release release;
  for (std::int64_t i = 0; i < count; ++i, run += 3) {
    line.ground().each_stretch(run[0], run[1], run[2], [&](std::int64_t slot, std::int64_t some) {
      if (index < 0) {
        std::memcpy(to, line.flags() + slot, static_cast<std::size_t>(some));
      } else {
        const Field& field = line.fields()[static_cast<std::size_t>(index)];
        copy_rows(to, line.at(field, slot), line.panel(field.panel).pitch, bytes, some);
      }
      to += some * bytes;
    });
  }
  if (line.ground().slab.lost()) throw LostFile();
  return rows * bytes;
}

void Store::flush() {
  std::vector<Records::Lane> flushed;
  shelf_->read([&] { flushed = timeline().flushing(); });
  timeline().sync_slab();  // rows that are appended meanwhile lie above what is recorded
  shelf_->write([&] { timeline().record(flushed); });
}

// Has the system begin to write a file back; it is not on disk before an fsync.
static void hurry(int file) {
#if defined(__linux__)
  sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
  (void)file;
#endif
}

// Has files that are cut short noticed, though another program took the signal over that says so.
static void watch_files() {
#ifdef RELIVE_FAULTS
  Guards::look_again();
#endif
}

void bind_files(nb::module_& module) {
  module.def("hurry", &hurry, "file"_a);
  module.def("watch_files", &watch_files);
}

void bind_rows(nb::class_<Store>& type) {
  type.def_static("bytes_for", &Timeline::bytes_for, "lanes"_a, "span"_a, "pitches"_a)
      .def("take", &Store::take, "index"_a, "runs"_a, "into"_a)
      .def(
          "put",
          [](Store& store, std::int64_t lane, std::int64_t serial, nb::handle flags, const nb::list& arrays, bool replay) {
            return store.put(lane, serial, flags, arrays, replay ? Store::How::kReplay : Store::How::kPut);
          },
          "lane"_a, "serial"_a, "flags"_a, "arrays"_a, "replay"_a)
      .def(
          "receive",
          [](Store& store, std::int64_t lane, std::int64_t serial, nb::handle flags, const nb::list& arrays) {
            return store.put(lane, serial, flags, arrays, Store::How::kReceive);
          },
          "lane"_a, "serial"_a, "flags"_a, "arrays"_a)
      .def(
          "adopt",
          [](Store& store, std::int64_t lane, std::int64_t tail, std::int64_t head, std::int64_t start,
             std::int64_t gone) {
            if (lane < 0 || lane >= store.timeline().lanes()) throw nb::index_error("lane out of range");
            nb::gil_scoped_release release;
            bool adopted = false;
            store.shelf()->write([&] { adopted = store.timeline().adopt(lane, tail, head, start, gone); });
            return adopted;
          },
          "lane"_a, "tail"_a, "head"_a, "start"_a, "gone"_a)
      .def(
          "recover",
          [](Store& store, std::int64_t lane) {
            if (lane < 0 || lane >= store.timeline().lanes()) throw nb::index_error("lane out of range");
            nb::gil_scoped_release release;
            store.shelf()->write([&] { store.timeline().recover(lane); });
          },
          "lane"_a)
      .def("recall",
           [](Store& store) {
             nb::gil_scoped_release release;
             bool recalled = false;
             store.shelf()->write([&] { recalled = store.timeline().recall(); });
             return recalled;
           })
      .def("plausible",
           [](const Store& store, std::int64_t lane) {
             if (lane < 0 || lane >= store.timeline().lanes()) throw nb::index_error("lane out of range");
             return store.timeline().plausible(lane);
           },
           "lane"_a)
      .def("flush", &Store::flush, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "release",
          [](Store& store, nb::handle held) {
            std::vector<std::int64_t> from;
            if (!held.is_none()) {
              nb::object array = as_array(held, NPY_INT64);
              from.assign(data_of<std::int64_t>(array), data_of<std::int64_t>(array) + size_of(array));
              if (static_cast<std::int64_t>(from.size()) != store.timeline().lanes())
                throw std::invalid_argument("a serial a lane");
            }
            nb::gil_scoped_release release;
            store.shelf()->release([&] { store.timeline().hold(std::move(from)); });
          },
          "held"_a.none())
      .def(
          "lost",
          [](const Store& store, std::int64_t lane) {
            if (lane < 0 || lane >= store.timeline().lanes()) throw nb::index_error("lane out of range");
            return std::make_pair(store.timeline().overwritten(lane), store.timeline().revision(lane));
          },
          "lane"_a);
}

}  // namespace relive
