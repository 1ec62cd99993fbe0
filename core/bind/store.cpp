#include "bind/store.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstring>

namespace nb = nanobind;
using namespace nb::literals;

namespace relive {

namespace {

constexpr std::int64_t kWorthReleasing = 64 << 10;  // bytes from which a copy is worth letting other threads run

// What a call holds on to until its values have been copied.
struct Held {
  std::vector<nb::object> objects;
  std::vector<std::unique_ptr<char[]>> buffers;
  std::vector<std::int64_t> lanes;
  std::array<std::uint8_t, 64> few_ends;
  std::vector<std::uint8_t> many_ends;
};

// Leading axes of a step: none, [lanes], [time] or [time, lanes].
struct Lead {
  npy_intp dims[2];
  int count;
  std::int64_t rows;
};

// Drops the error of a value that is no array: the caller looks at the value again and says what is wrong with it. What
// has nothing to do with the value, such as no memory or Ctrl-C, goes on to Python.
void drop_value_error() {
  if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
  PyErr_Clear();
}

// Pointer to the rows of a value in the column's own type, or null if it does not fit.
Source open_value(PyObject* value, const Column& column, const Lead& lead, const Timeline& timeline, Held& held) {
  held.objects.push_back(nb::borrow(value));
  if (PyArray_Check(value)) {
    if (!PyArray_CheckExact(value)) return nullptr;  // it may mean more than its numbers say, as masked arrays do
  } else {
    PyObject* made = PyArray_FROMANY(value, NPY_NOTYPE, 0, 0, NPY_ARRAY_CARRAY_RO);
    if (made == nullptr) {
      drop_value_error();
      return nullptr;
    }
    held.objects.push_back(nb::steal(made));
    value = made;
  }
  auto* array = reinterpret_cast<PyArrayObject*>(value);
  const int wanted = lead.count + static_cast<int>(column.shape.size());
  if (PyArray_NDIM(array) != wanted || !PyArray_ISCARRAY_RO(array)) return nullptr;
  const npy_intp* dims = PyArray_DIMS(array);
  for (int i = 0; i < lead.count; ++i)
    if (dims[i] != lead.dims[i]) return nullptr;
  for (std::size_t i = 0; i < column.shape.size(); ++i)
    if (dims[static_cast<std::size_t>(lead.count) + i] != column.shape[i]) return nullptr;
  const Type type = type_of(array);
  const char* data = static_cast<const char*>(PyArray_DATA(array));
  const std::int64_t bytes = lead.rows * column.bytes;
  const bool exact = type == column.type && (type != Type::kOther || PyArray_TYPE(array) == column.typenum);
  if (exact && !timeline.ground().owns(data)) return data;
  if (!exact && (type == Type::kOther || column.type == Type::kOther)) return nullptr;
  held.buffers.push_back(std::make_unique<char[]>(static_cast<std::size_t>(bytes) + 1));
  char* buffer = held.buffers.back().get();
  if (exact) {  // a view of this memory, which the rows below may overwrite while they are read
    std::memcpy(buffer, data, static_cast<std::size_t>(bytes));
    return buffer;
  }
  return convert(type, data, column.type, buffer, PyArray_SIZE(array)) ? buffer : nullptr;
}

// Takes a copy of distinct lanes in range; false if they are not.
bool open_lanes(nb::handle lanes, std::int64_t count, Held& held) {
  PyObject* made = PyArray_FROMANY(lanes.ptr(), NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO);
  if (made == nullptr) {
    drop_value_error();
    return false;
  }
  const nb::object array = nb::steal(made);
  held.lanes.assign(data_of<std::int64_t>(array), data_of<std::int64_t>(array) + size_of(array));
  std::vector<bool> seen(static_cast<std::size_t>(count), false);
  for (std::int64_t lane : held.lanes) {
    if (lane < 0 || lane >= count || seen[static_cast<std::size_t>(lane)]) return false;
    seen[static_cast<std::size_t>(lane)] = true;
  }
  return true;
}

// How the steps end, from flags that are read once: what is counted here is what is written later.
const std::uint8_t* open_ends(const char* terminated, const char* truncated, std::int64_t rows, Held& held) {
  std::uint8_t* ends = held.few_ends.data();
  if (rows > static_cast<std::int64_t>(held.few_ends.size())) {
    held.many_ends.resize(static_cast<std::size_t>(rows));
    ends = held.many_ends.data();
  }
  for (std::int64_t i = 0; i < rows; ++i)
    ends[i] = static_cast<std::uint8_t>((terminated[i] ? kTerminated : 0) | (truncated[i] ? kTruncated : 0));
  return ends;
}

Column flag_column(const char* name) {
  return {nb::steal(PyUnicode_InternFromString(name)), nb::none(), NPY_BOOL, Type::kBool, {}, 1};
}

nb::object numbers(const std::vector<std::int64_t>& values) {
  const npy_intp shape = static_cast<npy_intp>(values.size());
  nb::object array = new_array(NPY_INT64, 1, &shape);
  std::copy(values.begin(), values.end(), data_of<std::int64_t>(array));
  return array;
}

}  // namespace

Store::Store(std::int64_t lanes, std::int64_t span, bool bare, bool loose, const std::vector<std::int64_t>& pitches,
             const nb::list& columns, Place place)
    : terminated_(flag_column("terminated")), truncated_(flag_column("truncated")), bare_(bare) {
  if (bare && lanes != 1) throw std::invalid_argument("a bare store has one lane");
  std::vector<Field> fields;
  for (nb::handle item : columns) {
    const auto entry = nb::cast<nb::tuple>(item);
    if (entry.size() != 6) throw std::invalid_argument("a column has six parts");
    Column column;
    column.key = entry[0];
    column.final_key = entry[1];
    column.typenum = nb::cast<int>(entry[2]);
    for (std::int64_t dim : nb::cast<std::vector<std::int64_t>>(entry[3])) {
      if (dim < 1 || dim > (std::int64_t{1} << 40)) throw std::invalid_argument("shape out of range");
      column.shape.push_back(dim);
    }
    PyArray_Descr* descr = PyArray_DescrFromType(column.typenum);
    if (descr == nullptr) throw nb::python_error();
    std::int64_t bytes = PyDataType_ELSIZE(descr);
    const bool plain = PyTypeNum_ISNUMBER(column.typenum) || PyTypeNum_ISBOOL(column.typenum);
    Py_DECREF(descr);
    if (!plain) throw std::invalid_argument("a field holds numbers or booleans");
    column.type = type_of(column.typenum, bytes);
    for (npy_intp dim : column.shape) {
      if (bytes > (std::int64_t{1} << 40) / dim) throw std::invalid_argument("shape out of range");
      bytes *= dim;
    }
    column.bytes = bytes;
    fields.push_back({nb::cast<std::int64_t>(entry[4]), nb::cast<std::int64_t>(entry[5]), bytes,
                      !column.final_key.is_none()});
    columns_.push_back(std::move(column));
  }
  shelf_ = std::make_shared<Shelf>(lanes, span, loose, pitches, std::move(fields), place);
}

bool Store::append(const nb::dict& step, nb::handle lanes, bool block) {
  Held held;
  held.objects.reserve(2 * columns_.size() + 8);
  const Timeline& line = timeline();
  Steps steps{};
  steps.time = 1;
  steps.width = line.lanes();
  steps.fields.reserve(columns_.size());
  Lead lead{{0, 0}, 0, 1};
  bool axis = !bare_;
  std::int64_t one = 0;
  if (!lanes.is_none()) {
    if (PyLong_CheckExact(lanes.ptr())) {
      one = PyLong_AsLongLong(lanes.ptr());
      if (PyErr_Occurred() || one < 0 || one >= line.lanes()) {
        PyErr_Clear();
        return false;
      }
      axis = false;
      steps.lanes = &one;
      steps.width = 1;
    } else {
      axis = true;
      if (!open_lanes(lanes, line.lanes(), held)) return false;
      steps.lanes = held.lanes.data();
      steps.width = static_cast<std::int64_t>(held.lanes.size());
    }
  }
  PyObject* terminated = PyDict_GetItem(step.ptr(), terminated_.key.ptr());
  PyObject* truncated = PyDict_GetItem(step.ptr(), truncated_.key.ptr());
  if (terminated == nullptr || truncated == nullptr) return false;
  if (block) {
    // A list of flags is as good as an array; the slow path makes it one.
    if (!PyArray_Check(terminated) || PyArray_NDIM(reinterpret_cast<PyArrayObject*>(terminated)) < 1) return false;
    steps.time = PyArray_DIM(reinterpret_cast<PyArrayObject*>(terminated), 0);
    lead.dims[lead.count++] = steps.time;
  }
  if (axis) lead.dims[lead.count++] = steps.width;
  lead.rows = steps.time * steps.width;

  std::size_t known = 2;
  std::int64_t bytes = 0;
  const char* terminations = open_value(terminated, terminated_, lead, line, held);
  const char* truncations = open_value(truncated, truncated_, lead, line, held);
  if (terminations == nullptr || truncations == nullptr) return false;
  steps.ends = open_ends(terminations, truncations, lead.rows, held);
  for (const Column& column : columns_) {
    PyObject* value = PyDict_GetItem(step.ptr(), column.key.ptr());
    if (value == nullptr) return false;
    Source source = open_value(value, column, lead, line, held);
    if (source == nullptr) return false;
    steps.fields.push_back(source);
    bytes += lead.rows * column.bytes;
    ++known;
  }

  std::int64_t ended = 0, cut_off = 0;
  for (std::int64_t i = 0; i < lead.rows; ++i) {
    ended += steps.ends[i] != 0;
    cut_off += steps.ends[i] == kTruncated;
  }
  steps.finals.assign(columns_.size(), nullptr);
  std::size_t observed = 0, given = 0, compact = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (column.final_key.is_none()) continue;
    ++observed;
    PyObject* value = PyDict_GetItem(step.ptr(), column.final_key.ptr());
    if (value == nullptr) continue;
    ++known;
    if (value == Py_None || ended == 0) continue;
    Lead shape = lead;
    if (block && PyArray_Check(value) && lead.count == 2 &&
        PyArray_NDIM(reinterpret_cast<PyArrayObject*>(value)) == 1 + static_cast<int>(column.shape.size())) {
      shape = {{ended, 0}, 1, ended};
      ++compact;
    } else if (block && lead.count == 1 && PyArray_Check(value) && steps.time != ended &&
               PyArray_NDIM(reinterpret_cast<PyArrayObject*>(value)) == 1 + static_cast<int>(column.shape.size()) &&
               PyArray_DIM(reinterpret_cast<PyArrayObject*>(value), 0) == ended) {
      shape = {{ended, 0}, 1, ended};
      ++compact;
    }
    steps.finals[i] = open_value(value, column, shape, line, held);
    if (steps.finals[i] == nullptr) return false;
    ++given;
  }
  if (static_cast<std::size_t>(PyDict_Size(step.ptr())) != known) return false;
  if (!line.loose() && ((given != 0 && given != observed) || (given == 0 && cut_off > 0 && observed > 0))) return false;
  if (compact != 0 && compact != given) return false;
  steps.finals_compact = compact != 0;

  if (lead.rows == 0) return true;
  if (bytes < kWorthReleasing && shelf_->append_at_once(steps)) return true;
  nb::gil_scoped_release release;
  shelf_->append(steps);
  return true;
}

void bind_store(nb::module_& module) {
  nb::class_<Store> type(module, "Store");
  type
      .def(
          "__init__",
          [](Store* store, std::int64_t lanes, std::int64_t span, bool bare, bool loose,
             const std::vector<std::int64_t>& pitches, const nb::list& columns, int file, std::int64_t offset,
             bool others) {
            if (offset < 0) throw std::invalid_argument("offset out of range");
            new (store) Store(lanes, span, bare, loose, pitches, columns,
                              Place{file, static_cast<std::size_t>(offset), others});
          },
          "lanes"_a, "span"_a, "bare"_a, "loose"_a, "pitches"_a, "columns"_a, "file"_a = -1, "offset"_a = 0,
          "others"_a = false)
      .def("append", &Store::append, "step"_a, "lanes"_a.none(), "block"_a)
      .def(
          "cut",
          [](Store& store, std::int64_t lane) {
            if (lane < 0 || lane >= store.timeline().lanes()) throw nb::index_error("lane out of range");
            nb::gil_scoped_release release;
            store.shelf()->cut(lane);
          },
          "lane"_a)
      .def(
          "forget",
          [](Store& store, std::int64_t lane, std::int64_t before) {
            if (lane < 0 || lane >= store.timeline().lanes()) throw nb::index_error("lane out of range");
            nb::gil_scoped_release release;
            store.shelf()->forget(lane, before);
          },
          "lane"_a, "before"_a)
      .def(
          "keep_episodes",
          [](Store& store, std::int64_t most) {
            if (most < 1) throw std::invalid_argument("most out of range");
            nb::gil_scoped_release release;
            store.shelf()->write([&] { store.timeline().keep_episodes(most); });
          },
          "most"_a)
      .def("clear",
           [](Store& store) {
             nb::gil_scoped_release release;
             store.shelf()->clear();
           })
      .def("steps",
           [](const Store& store) {
             nb::gil_scoped_release release;
             return store.shelf()->read([&] { return store.timeline().steps(); });
           })
      .def("full",
           [](const Store& store) {
             nb::gil_scoped_release release;
             return store.shelf()->read([&] { return store.timeline().full(); });
           })
      .def("nbytes",
           [](const Store& store) {
             nb::gil_scoped_release release;
             return store.shelf()->read([&] { return store.timeline().bytes(); });
           })
      .def("heads",
           [](const Store& store) {
             std::vector<std::int64_t> heads, tails;
             {
               nb::gil_scoped_release release;
               store.shelf()->read([&] {
                 for (std::int64_t lane = 0; lane < store.timeline().lanes(); ++lane) {
                   heads.push_back(store.timeline().head(lane));
                   tails.push_back(store.timeline().tail(lane));
                 }
               });
             }
             return nb::make_tuple(numbers(tails), numbers(heads));
           },
           nb::sig("def heads(self) -> tuple[numpy.typing.NDArray[typing.Any], ...]"))
      .def("episodes",
           [](const Store& store) {
             std::vector<std::int64_t> lanes, ids, starts, ends, flags;
             auto list = [&](std::int64_t lane, std::int64_t id, std::int64_t start, std::int64_t end, int how) {
               lanes.push_back(lane);
               ids.push_back(id);
               starts.push_back(start);
               ends.push_back(end);
               flags.push_back(how);
             };
             auto look = [&] {
               const Timeline& line = store.timeline();
               for (std::int64_t lane = 0; lane < line.lanes(); ++lane) {
                 const LaneIndex& index = line.lane(lane);
                 for (std::int64_t k = 0; k < index.closed.size(); ++k) {
                   const Episode& episode = index.closed[k];
                   if (episode.end - 1 < line.tail(lane)) continue;  // only its closing row is left
                   list(lane, index.closed.popped() + k, episode.start, episode.end,
                        line.flags(line.slot(lane, episode.end - 1)) & kEnded);
                 }
                 if (index.open != kNone)
                   list(lane, index.closed.popped() + index.closed.size(), index.open, line.head(lane), 0);
               }
             };
             {
               nb::gil_scoped_release release;
               store.shelf()->read(look);
             }
             return nb::make_tuple(numbers(lanes), numbers(ids), numbers(starts), numbers(ends), numbers(flags));
           },
           nb::sig("def episodes(self) -> tuple[numpy.typing.NDArray[typing.Any], ...]"))
      .def(
          "view",
          [](nb::handle_t<Store> self, std::int64_t index, bool writable) {
            auto& store = nb::cast<Store&>(self);
            if (index < 0 || index >= static_cast<std::int64_t>(store.columns().size()))
              throw nb::index_error("field out of range");
            const Column& column = store.columns()[static_cast<std::size_t>(index)];
            const Timeline& line = store.timeline();
            const Field& field = line.fields()[static_cast<std::size_t>(index)];
            const npy_intp pitch = line.panel(field.panel).pitch;
            std::vector<npy_intp> shape{line.lanes(), line.span()}, strides{line.span() * pitch, pitch};
            npy_intp inner = field.bytes;
            for (npy_intp dim : column.shape) {
              inner /= dim;
              shape.push_back(dim);
              strides.push_back(inner);
            }
            return new_array(column.typenum, static_cast<int>(shape.size()), shape.data(), strides.data(),
                             line.at(field, 0), self.ptr(), writable);
          },
          "index"_a, "writable"_a,
          nb::sig("def view(self, index: int, writable: bool) -> numpy.typing.NDArray[typing.Any]"))
      .def(
          "flags",
          [](nb::handle_t<Store> self) {
            const Timeline& line = nb::cast<Store&>(self).timeline();
            const npy_intp shape[2] = {line.lanes(), line.span()}, strides[2] = {line.span(), 1};
            return new_array(NPY_UINT8, 2, shape, strides, const_cast<std::uint8_t*>(line.flags()), self.ptr(), false);
          },
          nb::sig("def flags(self) -> numpy.typing.NDArray[typing.Any]"));
  bind_rows(type);
}

}  // namespace relive
