#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>

#include "bind/store.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace relive {

namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 31;

// One output array as Python sees it.
struct Named {
  nb::object key;
  int typenum;
  std::vector<npy_intp> tail;  // shape after the leading axes
};

// A reader and the names of what it gives out.
class NamedReader {
 public:
  // outputs: (key, what, field, stack, dtype number, tail shape) each. window: (kind, length, burn_in, stride, gamma,
  // across, packed, fixed). sampler: (kind, alpha, eps, stratified).
  NamedReader(const Store& store, const nb::list& outputs, const nb::tuple& window, const nb::tuple& sampler,
              std::uint64_t key0, std::uint64_t key1)
      : shelf_(store.shelf()) {
    std::vector<Output> plan;
    for (nb::handle item : outputs) {
      const auto entry = nb::cast<nb::tuple>(item);
      if (entry.size() != 6) throw std::invalid_argument("an output has six parts");
      Named named{entry[0], nb::cast<int>(entry[4]), {}};
      Output output{};
      const auto what = nb::cast<std::int64_t>(entry[1]);
      if (what < 0 || what > static_cast<std::int64_t>(What::kLanes)) throw std::invalid_argument("unknown output");
      output.what = static_cast<What>(what);
      output.field = nb::cast<std::int64_t>(entry[2]);
      output.stack = nb::cast<std::int64_t>(entry[3]);
      output.wide = named.typenum == NPY_DOUBLE;
      PyArray_Descr* descr = PyArray_DescrFromType(named.typenum);
      if (descr == nullptr) throw nb::python_error();
      output.item = PyDataType_ELSIZE(descr);
      Py_DECREF(descr);
      for (std::int64_t dim : nb::cast<std::vector<std::int64_t>>(entry[5])) {
        if (dim < 1 || output.item > (std::int64_t{1} << 40) / dim) throw std::invalid_argument("shape out of range");
        named.tail.push_back(dim);
        output.item *= dim;
      }
      if (named.tail.size() > 28) throw std::invalid_argument("shape out of range");
      if (output.field >= 0 && output.field < static_cast<std::int64_t>(store.columns().size()) &&
          store.columns()[static_cast<std::size_t>(output.field)].typenum != named.typenum)
        throw std::invalid_argument("output of another type than its field");
      if (output.field < 0 && !PyTypeNum_ISBOOL(named.typenum) && !PyTypeNum_ISNUMBER(named.typenum))
        throw std::invalid_argument("output of no number type");
      if (output.item != natural_size(output)) throw std::invalid_argument("output of the wrong size");
      if (output.what == What::kReward && named.typenum != NPY_FLOAT && named.typenum != NPY_DOUBLE)
        throw std::invalid_argument("rewards are floats");
      plan.push_back(output);
      named_.push_back(std::move(named));
    }
    if (window.size() != 8 || sampler.size() != 4) throw std::invalid_argument("window has eight parts, sampler four");
    const WindowSpec spec{static_cast<Kind>(nb::cast<std::int64_t>(window[0])),
                          nb::cast<std::int64_t>(window[1]),
                          nb::cast<std::int64_t>(window[2]),
                          nb::cast<std::int64_t>(window[3]),
                          nb::cast<double>(window[4]),
                          nb::cast<bool>(window[5]),
                          nb::cast<bool>(window[6]),
                          nb::cast<bool>(window[7])};
    const auto kind = nb::cast<std::string>(sampler[0]);
    std::unique_ptr<Sampler> made;
    if (kind == "uniform") {
      made = std::make_unique<UniformSampler>();
    } else if (kind == "distinct") {
      made = std::make_unique<DistinctSampler>();
    } else if (kind == "recent") {
      made = std::make_unique<RecentSampler>();
    } else if (kind == "shuffled") {
      made = std::make_unique<ShuffledSampler>();
    } else if (kind == "prioritized") {
      const double alpha = nb::cast<double>(sampler[1]), eps = nb::cast<double>(sampler[2]);
      if (!(alpha >= 0 && alpha <= 1 && eps > 0 && eps <= 1e100)) throw std::invalid_argument("sampler out of range");
      made = std::make_unique<PrioritizedSampler>(shelf_->timeline, alpha, eps, nb::cast<bool>(sampler[3]));
    } else {
      throw std::invalid_argument("unknown sampler");
    }
    reader_ = std::make_unique<Reader>(shelf_, spec, std::move(plan), std::move(made),
                                       Draws{kind == "distinct" || kind == "recent", kind == "shuffled"},
                                       Philox(key0, key1));
  }

  // A dict of arrays; or the number of rows there are, if that is too few.
  nb::object sample(std::int64_t n, double beta, std::int64_t threads) {
    if (n < 1 || n > kMostRows) throw std::invalid_argument("size out of range");
    Drawn drawn;
    {
      nb::gil_scoped_release release;
      drawn = reader_->sample(n, beta, threads);
    }
    return hand_out(std::move(drawn));
  }

  // Bytes of a batch of n rows, each array padded with zeros to 64 bytes; 0 if that is not known before it is drawn.
  std::size_t room(std::int64_t n) const {
    if (n < 1 || n > kMostRows) throw std::invalid_argument("size out of range");
    return reader_->room(n);
  }

  // Batches behind a head, each drawn by itself, in so many bytes each. Or the number of rows there are, if that is too
  // few.
  nb::object sample_bytes(const nb::bytes& head, std::int64_t count, std::int64_t n, double beta, std::int64_t threads,
                          std::int64_t first_lane) {
    const std::size_t one = room(n), many = static_cast<std::size_t>(count);
    if (one == 0 || count < 1 || many > (std::size_t{1} << 40) / one || head.size() % 16 != 0)
      throw std::invalid_argument("size out of range");
    const std::size_t most = head.size() + one * many;
    auto message = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(most)));
    if (!message.is_valid()) throw nb::python_error();
    char* to = PyBytes_AsString(message.ptr());  // nobody else has it yet
    std::memcpy(to, head.c_str(), head.size());
    Drawn drawn;
    {
      nb::gil_scoped_release release;
      to += head.size();
      for (std::int64_t i = 0; i < count && drawn.status == Drawn::Status::kOk; ++i, to += one)
        drawn = reader_->sample(n, beta, threads, {to, one, first_lane});
    }
    if (drawn.status == Drawn::Status::kOvertaken) return nb::int_(-1);
    if (drawn.status != Drawn::Status::kOk) return nb::int_(drawn.available);
    return message;
  }

  // What `sample` gives for given rows; or the place of the first one that cannot be read.
  nb::object read(nb::handle lanes, nb::handle serials, std::int64_t threads) {
    std::vector<Row> rows = open_rows(lanes, serials);
    if (rows.empty()) throw std::invalid_argument("no rows given");
    Drawn drawn;
    {
      nb::gil_scoped_release release;
      drawn = reader_->read(rows.data(), static_cast<std::int64_t>(rows.size()), threads);
    }
    return hand_out(std::move(drawn));
  }

  // How many of the rows were passed over because they can no longer be drawn; -1 if the arrays are not as they should
  // be or an error is not finite, and nothing was changed.
  std::int64_t update_priorities(nb::handle lanes, nb::handle serials, nb::handle errors) {
    std::vector<Row> rows = open_rows(lanes, serials);
    auto* given = reinterpret_cast<PyArrayObject*>(errors.ptr());
    if (!PyArray_Check(errors.ptr()) || PyArray_NDIM(given) != 1 || type_of(given) == Type::kOther) return -1;
    nb::object values = as_array(errors, NPY_DOUBLE);
    if (size_of(values) != static_cast<std::int64_t>(rows.size())) return -1;
    // A copy, so that what is found to be finite is what is used.
    const std::vector<double> data(data_of<double>(values), data_of<double>(values) + rows.size());
    for (double error : data)
      if (!std::isfinite(error)) return -1;
    nb::gil_scoped_release release;
    return reader_->locked([&](const Anchors& anchors, Sampler& sampler, Philox&) -> std::int64_t {
      const auto n = static_cast<std::int64_t>(rows.size());
      const std::int64_t passed_over = prioritized(sampler).update_priorities(anchors, rows.data(), data.data(), n);
      reader_->dropped += passed_over;
      return passed_over;
    });
  }

  // Priorities as they stand, raised to alpha, by lane and slot; zero where nothing can be drawn.
  nb::object priorities() {
    const Timeline& line = shelf_->timeline;
    const npy_intp shape[2] = {line.lanes(), line.span()};
    nb::object array = new_array(NPY_DOUBLE, 2, shape);
    auto* to = data_of<double>(array);
    nb::gil_scoped_release release;
    reader_->locked([&](const Anchors& anchors, Sampler& sampler, Philox&) {
      PrioritizedSampler& chosen = prioritized(sampler);
      chosen.follow(anchors);
      for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) to[i] = chosen.priority(i);
    });
    return array;
  }

  std::int64_t ready() {
    nb::gil_scoped_release release;
    return reader_->locked([](const Anchors& anchors, Sampler&, Philox&) { return anchors.count(); });
  }

  // What draws are in proportion to: the sum over all rows that can be drawn, and the least of a row.
  std::pair<double, double> standing() {
    nb::gil_scoped_release release;
    return reader_->locked([](const Anchors& anchors, Sampler& sampler, Philox&) {
      const Standing found = sampler.standing(anchors);
      return std::make_pair(found.total, found.least);
    });
  }

  bool count_draws(bool on) {
    nb::gil_scoped_release release;
    return reader_->count_draws(on);
  }

  // How often each of some rows was drawn; None if draws are not counted.
  nb::object draw_counts(nb::handle lanes, nb::handle serials) {
    const std::vector<Row> rows = open_rows(lanes, serials);
    const npy_intp shape[1] = {static_cast<npy_intp>(rows.size())};
    nb::object array = new_array(NPY_INT64, 1, shape);
    auto* to = data_of<std::int64_t>(array);
    bool counted = false;
    {
      nb::gil_scoped_release release;
      counted = reader_->draw_counts(rows, to);
    }
    return counted ? array : nb::none();
  }

  // Every stride-th row in numbers: rows, draws (-1: not counted), priorities, their sum, sum of squares, least and most;
  // bins of ages, of draws by age, of draws a row, of priorities.
  nb::object census(std::int64_t stride) {
    if (stride < 1) throw std::invalid_argument("stride out of range");
    Census found;
    {
      nb::gil_scoped_release release;
      found = reader_->census(stride);
    }
    return nb::make_tuple(found.rows, found.counted ? found.draws : -1, found.prioritized, found.total, found.squares,
                          found.least, found.most, array_of(found.ages), array_of(found.drawn_ages),
                          array_of(found.draws_each), array_of(found.priorities));
  }

  // All rows that can be drawn, in random order: lanes and serials.
  nb::object order() {
    std::vector<Row> rows;
    {
      nb::gil_scoped_release release;
      reader_->locked([&](const Anchors& anchors, Sampler&, Philox& random) {
        rows = all_anchors(anchors);
        shuffle(rows, rows.size(), random);
      });
    }
    const npy_intp shape = static_cast<npy_intp>(rows.size());
    nb::object lanes = new_array(NPY_INT64, 1, &shape), serials = new_array(NPY_INT64, 1, &shape);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      data_of<std::int64_t>(lanes)[i] = rows[i].lane;
      data_of<std::int64_t>(serials)[i] = rows[i].serial;
    }
    return nb::make_tuple(lanes, serials);
  }

  // Writes what the sampler keeps for rows to a file descriptor, at one instant with what is returned: a row of numbers a
  // lane (tail, head, start of the oldest episode, episodes gone, revision, whether the row before the two newest is an
  // episode's last step), the generator's key and position, batches
  // drawn, priorities dropped, the priority of new rows and the bytes written. Rows from `from` on are held until the store
  // releases them. A journal's file (-1: none) is taken over, and rows are logged there from then on.
  nb::object freeze(nb::handle from, int file, int journal, bool synced) {
    nb::object array = as_array(from, NPY_INT64);
    std::vector<std::int64_t> held(data_of<std::int64_t>(array), data_of<std::int64_t>(array) + size_of(array));
    if (static_cast<std::int64_t>(held.size()) != shelf_->timeline.lanes())
      throw std::invalid_argument("a serial a lane");
    Moment moment;
    std::size_t written = 0;
    {
      nb::gil_scoped_release release;
      std::unique_ptr<Journal> log = journal < 0 ? nullptr : std::make_unique<Journal>(journal, synced);
      moment = reader_->freeze(std::move(held), std::move(log), [&](const SamplerState& state) {
        write_all(file, static_cast<const char*>(state.data), state.bytes);
        written = state.bytes;
      });
    }
    const npy_intp shape[2] = {static_cast<npy_intp>(moment.lanes.size()), 6};
    nb::object lanes = new_array(NPY_INT64, 2, shape);
    auto* to = data_of<std::int64_t>(lanes);
    for (const Moment::Lane& lane : moment.lanes)
      for (std::int64_t number :
           {lane.tail, lane.head, lane.start, lane.gone, lane.revision, std::int64_t{lane.ended}})
        *to++ = number;
    return nb::make_tuple(lanes, moment.key[0], moment.key[1], moment.position, moment.batches, moment.dropped, moment.largest, written);
  }

  // Takes over what a sampler kept; false if it cannot be of these rows.
  bool restore(nb::handle state, double largest) {
    nb::object bytes = as_array(state, NPY_UINT8);
    const SamplerState given{data_of<char>(bytes), static_cast<std::size_t>(size_of(bytes)), largest};
    nb::gil_scoped_release release;
    return reader_->locked([&](const Anchors& anchors, Sampler& sampler, Philox&) { return sampler.restore(anchors, given); });
  }

  void forget() {
    nb::gil_scoped_release release;
    reader_->locked([](const Anchors&, Sampler& sampler, Philox&) { sampler.forget(); });
  }

  // The generator's key and position, batches drawn and priorities dropped.
  std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::int64_t, std::int64_t> counts() {
    nb::gil_scoped_release release;
    return reader_->locked([&](const Anchors&, Sampler&, Philox& random) {
      return std::make_tuple(random.key()[0], random.key()[1], random.position(), reader_->batches, reader_->dropped);
    });
  }
  // dropped: None leaves it as it is.
  void seek(std::uint64_t key0, std::uint64_t key1, std::uint64_t position, std::int64_t batches,
            std::optional<std::int64_t> dropped) {
    nb::gil_scoped_release release;
    reader_->locked([&](const Anchors&, Sampler&, Philox& random) {
      random = Philox(key0, key1, position);
      reader_->batches = batches;
      if (dropped) reader_->dropped = *dropped;
    });
  }

  std::size_t nbytes() {
    nb::gil_scoped_release release;
    return reader_->locked([](const Anchors&, Sampler& sampler, Philox&) { return sampler.bytes(); });
  }

 private:
  static void write_all(int file, const char* from, std::size_t bytes) {
#ifdef RELIVE_MMAP
    while (bytes > 0) {
      const ssize_t done = ::write(file, from, std::min(bytes, std::size_t{1} << 30));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) throw std::system_error(errno, std::generic_category(), "writing the sampler's state");
      from += done;
      bytes -= static_cast<std::size_t>(done);
    }
#else
    (void)file;
    (void)from;
    if (bytes > 0) throw std::invalid_argument("priorities cannot be saved on this system");
#endif
  }

  std::int64_t natural_size(const Output& output) const {
    switch (output.what) {
      case What::kDiscount:
      case What::kWeights: return 4;
      case What::kTerminated:
      case What::kTruncated:
      case What::kStarts:
      case What::kMask: return 1;
      case What::kLengths:
      case What::kSerials:
      case What::kLanes: return 8;
      default: return output.item;  // checked against its field by the window
    }
  }

  static nb::object array_of(const Census::Bins& bins) {
    const npy_intp shape = Census::kBins;
    nb::object array = new_array(NPY_INT64, 1, &shape);
    std::copy(bins.begin(), bins.end(), data_of<std::int64_t>(array));
    return array;
  }

  static PrioritizedSampler& prioritized(Sampler& sampler) {
    auto* chosen = dynamic_cast<PrioritizedSampler*>(&sampler);
    if (chosen == nullptr) throw std::invalid_argument("this sampler has no priorities");
    return *chosen;
  }

  static std::vector<Row> open_rows(nb::handle lanes, nb::handle serials) {
    nb::object a = as_array(lanes, NPY_INT64), b = as_array(serials, NPY_INT64);
    if (size_of(a) != size_of(b) || size_of(a) > kMostRows) throw std::invalid_argument("sizes differ");
    std::vector<Row> rows(static_cast<std::size_t>(size_of(a)));
    const auto *lane = data_of<std::int64_t>(a), *serial = data_of<std::int64_t>(b);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = {lane[i], serial[i], 0};
    return rows;
  }

  nb::object hand_out(Drawn drawn) {
    if (drawn.status == Drawn::Status::kOvertaken) return nb::int_(-1);
    if (drawn.status != Drawn::Status::kOk) return nb::int_(drawn.available);
    nb::object owner = nb::capsule(drawn.lease.release(), [](void* lease) noexcept { delete static_cast<Lease*>(lease); });
    nb::dict batch;
    const Window& window = reader_->window();
    const auto& outputs = window.outputs();
    npy_intp shape[NPY_MAXDIMS];
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Named& named = named_[k];
      int ndim = 0;
      const bool timed = along_time(window.spec(), outputs[k].what);
      if (timed && window.spec().packed) {
        shape[ndim++] = drawn.steps + (outputs[k].what == What::kThrough ? drawn.size : 0);
      } else {
        shape[ndim++] = drawn.size;
        if (timed) shape[ndim++] = drawn.steps + (outputs[k].what == What::kThrough ? 1 : 0);
      }
      for (npy_intp dim : named.tail) shape[ndim++] = dim;
      nb::object array = new_array(named.typenum, ndim, shape, nullptr, drawn.arrays[k], owner.ptr());
      if (PyDict_SetItem(batch.ptr(), named.key.ptr(), array.ptr()) < 0) throw nb::python_error();
    }
    return batch;
  }

  std::shared_ptr<Shelf> shelf_;
  std::vector<Named> named_;
  std::unique_ptr<Reader> reader_;
};

// Bytes for batches that came from elsewhere, handed out again once no array over them is left.
nb::object pooled(std::int64_t bytes) {
  static auto* pool = new std::shared_ptr<Pool>(std::make_shared<Pool>());  // outlives whatever holds a batch at the end
  if (bytes < 1 || bytes > std::int64_t{1} << 40) throw std::invalid_argument("size out of range");
  auto lease = std::make_unique<Lease>(*pool, static_cast<std::size_t>(bytes));
  char* data = lease->data();
  nb::object owner = nb::capsule(lease.release(), [](void* mine) noexcept { delete static_cast<Lease*>(mine); });
  const npy_intp shape = bytes;
  return new_array(NPY_UINT8, 1, &shape, nullptr, data, owner.ptr());
}

}  // namespace

void bind_reader(nb::module_& module) {
  module.def("pooled", &pooled, "nbytes"_a, nb::sig("def pooled(nbytes: int) -> numpy.typing.NDArray[typing.Any]"));
  nb::class_<NamedReader>(module, "Reader")
      .def(nb::init<const Store&, const nb::list&, const nb::tuple&, const nb::tuple&, std::uint64_t, std::uint64_t>(),
           "store"_a, "outputs"_a, "window"_a, "sampler"_a, "key0"_a, "key1"_a)
      .def("sample", &NamedReader::sample, "size"_a, "beta"_a, "threads"_a,
           nb::sig("def sample(self, size: int, beta: float, threads: int) -> dict[str, typing.Any] | int"))
      .def("sample_bytes", &NamedReader::sample_bytes, "head"_a, "count"_a, "size"_a, "beta"_a, "threads"_a,
           "first_lane"_a,
           nb::sig("def sample_bytes(self, head: bytes, count: int, size: int, beta: float, threads: int, "
                   "first_lane: int) -> bytes | int"))
      .def("room", &NamedReader::room, "size"_a)
      .def("read", &NamedReader::read, "lanes"_a, "serials"_a, "threads"_a,
           nb::sig("def read(self, lanes: object, serials: object, threads: int) -> dict[str, typing.Any] | int"))
      .def("update_priorities", &NamedReader::update_priorities, "lanes"_a, "serials"_a, "errors"_a)
      .def("priorities", &NamedReader::priorities,
           nb::sig("def priorities(self) -> numpy.typing.NDArray[typing.Any]"))
      .def("ready", &NamedReader::ready)
      .def("standing", &NamedReader::standing)
      .def("count_draws", &NamedReader::count_draws, "on"_a)
      .def("draw_counts", &NamedReader::draw_counts, "lanes"_a, "serials"_a,
           nb::sig("def draw_counts(self, lanes: object, serials: object) -> numpy.typing.NDArray[typing.Any] | None"))
      .def("census", &NamedReader::census, "stride"_a,
           nb::sig("def census(self, stride: int) -> tuple[typing.Any, ...]"))
      .def("order", &NamedReader::order, nb::sig("def order(self) -> tuple[numpy.typing.NDArray[typing.Any], ...]"))
      .def("freeze", &NamedReader::freeze, "held"_a, "file"_a, "journal"_a, "synced"_a,
           nb::sig("def freeze(self, held: object, file: int, journal: int, synced: bool) -> "
                   "tuple[numpy.typing.NDArray[typing.Any], int, int, int, int, int, float, int]"))
      .def("restore", &NamedReader::restore, "state"_a, "largest"_a)
      .def("forget", &NamedReader::forget)
      .def("counts", &NamedReader::counts)
      .def("seek", &NamedReader::seek, "key0"_a, "key1"_a, "position"_a, "batches"_a, "dropped"_a.none())
      .def("nbytes", &NamedReader::nbytes);

}

}  // namespace relive
