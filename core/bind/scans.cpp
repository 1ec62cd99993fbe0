#include <string>

#include "bind/numpy.hpp"
#include "memory/pool.hpp"
#include "memory/scans.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace relive {

namespace {

constexpr std::size_t kWorthPooling = 64 << 10;

// Arrays of one shape [T, N] and one real type, opened together.
class Block {
 public:
  Block(nb::handle first) : first_(reinterpret_cast<PyArrayObject*>(first.ptr())) {
    if (!PyArray_Check(first.ptr()) || PyArray_NDIM(first_) != 2 || !PyArray_ISCARRAY_RO(first_) ||
        (PyArray_TYPE(first_) != NPY_FLOAT && PyArray_TYPE(first_) != NPY_DOUBLE))
      throw std::invalid_argument("arrays must be C-ordered [T, N] of float32 or float64");
  }
  bool single() const { return PyArray_TYPE(first_) == NPY_FLOAT; }
  std::int64_t time() const { return PyArray_DIM(first_, 0); }
  std::int64_t width() const { return PyArray_DIM(first_, 1); }

  template <class Real>
  const Real* real(nb::handle object) const {
    return object.is_none() ? nullptr : static_cast<const Real*>(open(object, PyArray_TYPE(first_)));
  }
  const std::uint8_t* flags(nb::handle object) const {
    return object.is_none() ? nullptr : static_cast<const std::uint8_t*>(open(object, NPY_BOOL));
  }
  // An array for results, on memory that earlier results have given back.
  nb::object fresh() const {
    static const std::shared_ptr<Pool> pool = std::make_shared<Pool>();
    const std::size_t bytes = static_cast<std::size_t>(time() * width()) * (single() ? sizeof(float) : sizeof(double));
    if (bytes < kWorthPooling) return new_array(PyArray_TYPE(first_), 2, PyArray_DIMS(first_));
    auto lease = std::make_unique<Lease>(pool, bytes);
    char* data = lease->data();
    nb::object owner = nb::capsule(lease.release(), [](void* held) noexcept { delete static_cast<Lease*>(held); });
    return new_array(PyArray_TYPE(first_), 2, PyArray_DIMS(first_), nullptr, data, owner.ptr());
  }
  Episodes episodes(nb::handle terminated, nb::handle truncated, nb::handle mask) const {
    const std::uint8_t* ends = flags(terminated);
    if (ends == nullptr) throw std::invalid_argument("terminated is needed");
    return {time(), width(), ends, flags(truncated), flags(mask)};
  }

 private:
  const void* open(nb::handle object, int typenum) const {
    auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
    if (!PyArray_Check(object.ptr()) || PyArray_NDIM(array) != 2 || !PyArray_ISCARRAY_RO(array) ||
        PyArray_TYPE(array) != typenum || PyArray_DIM(array, 0) != time() || PyArray_DIM(array, 1) != width())
      throw std::invalid_argument("arrays must be C-ordered and of one shape and type");
    return PyArray_DATA(array);
  }

  PyArrayObject* first_;
};

// Calls work(Real{}) with the block's real type, other threads running meanwhile.
template <class Work>
void run(const Block& block, const Work& work) {
  if (block.single())
    work(float{});
  else
    work(double{});
}

}  // namespace

void bind_scans(nb::module_& module) {
  module.def(
      "gae",
      [](nb::handle reward, nb::handle value, nb::handle next_value, nb::handle terminated, nb::handle truncated,
         nb::handle mask, double gamma, double lam) {
        const Block block(reward);
        nb::object advantage = block.fresh(), returns = block.fresh();
        run(block, [&](auto zero) {
          using Real = decltype(zero);
          const Episodes e = block.episodes(terminated, truncated, mask);
          const Real *r = block.real<Real>(reward), *v = block.real<Real>(value), *w = block.real<Real>(next_value);
          if (v == nullptr || w == nullptr) throw std::invalid_argument("values are needed");
          Real *a = data_of<Real>(advantage), *g = data_of<Real>(returns);
          nb::gil_scoped_release release;
          gae<Real>(e, r, v, w, static_cast<Real>(gamma), static_cast<Real>(lam), a, g);
        });
        return nb::make_tuple(advantage, returns);
      },
      "reward"_a, "value"_a, "next_value"_a, "terminated"_a, "truncated"_a.none(), "mask"_a.none(), "gamma"_a,
      "lam"_a,
      nb::sig("def gae(reward: object, value: object, next_value: object, terminated: object, truncated: object, mask: object, gamma: float, lam: float) "
              "-> tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"));
  module.def(
      "td_lambda",
      [](nb::handle reward, nb::handle next_value, nb::handle terminated, nb::handle truncated, nb::handle mask,
         double gamma, double lam) {
        const Block block(reward);
        nb::object returns = block.fresh();
        run(block, [&](auto zero) {
          using Real = decltype(zero);
          const Episodes e = block.episodes(terminated, truncated, mask);
          const Real *r = block.real<Real>(reward), *w = block.real<Real>(next_value);
          Real* g = data_of<Real>(returns);
          nb::gil_scoped_release release;
          td_lambda<Real>(e, r, w, static_cast<Real>(gamma), static_cast<Real>(lam), g);
        });
        return returns;
      },
      "reward"_a, "next_value"_a.none(), "terminated"_a, "truncated"_a.none(), "mask"_a.none(), "gamma"_a, "lam"_a,
      nb::sig("def td_lambda(reward: object, next_value: object, terminated: object, truncated: object, mask: object, gamma: float, lam: float) "
              "-> numpy.typing.NDArray[typing.Any]"));
  module.def(
      "n_step",
      [](nb::handle reward, nb::handle next_value, nb::handle terminated, nb::handle truncated, nb::handle mask,
         std::int64_t n, double gamma) {
        const Block block(reward);
        nb::object returns = block.fresh();
        run(block, [&](auto zero) {
          using Real = decltype(zero);
          const Episodes e = block.episodes(terminated, truncated, mask);
          const Real *r = block.real<Real>(reward), *w = block.real<Real>(next_value);
          if (w == nullptr) throw std::invalid_argument("values are needed");
          Real* g = data_of<Real>(returns);
          nb::gil_scoped_release release;
          n_step<Real>(e, r, w, n, static_cast<Real>(gamma), g);
        });
        return returns;
      },
      "reward"_a, "next_value"_a, "terminated"_a, "truncated"_a.none(), "mask"_a.none(), "n"_a, "gamma"_a,
      nb::sig("def n_step(reward: object, next_value: object, terminated: object, truncated: object, mask: object, n: int, gamma: float) "
              "-> numpy.typing.NDArray[typing.Any]"));
  module.def(
      "vtrace",
      [](nb::handle reward, nb::handle value, nb::handle next_value, nb::handle ratio, nb::handle terminated,
         nb::handle truncated, nb::handle mask, double gamma, double lam, double rho_bar, double c_bar) {
        const Block block(reward);
        nb::object target = block.fresh(), advantage = block.fresh();
        run(block, [&](auto zero) {
          using Real = decltype(zero);
          const Episodes e = block.episodes(terminated, truncated, mask);
          const Real *r = block.real<Real>(reward), *v = block.real<Real>(value), *w = block.real<Real>(next_value),
                     *p = block.real<Real>(ratio);
          if (v == nullptr || w == nullptr || p == nullptr) throw std::invalid_argument("values are needed");
          Real *g = data_of<Real>(target), *a = data_of<Real>(advantage);
          nb::gil_scoped_release release;
          vtrace<Real>(e, r, v, w, p, static_cast<Real>(gamma), static_cast<Real>(lam), static_cast<Real>(rho_bar),
                       static_cast<Real>(c_bar), g, a);
        });
        return nb::make_tuple(target, advantage);
      },
      "reward"_a, "value"_a, "next_value"_a, "ratio"_a, "terminated"_a, "truncated"_a.none(), "mask"_a.none(),
      "gamma"_a, "lam"_a, "rho_bar"_a, "c_bar"_a,
      nb::sig("def vtrace(reward: object, value: object, next_value: object, ratio: object, terminated: object, truncated: object, mask: object, gamma: float, lam: float, rho_bar: float, c_bar: float) "
              "-> tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"));
  module.def(
      "retrace",
      [](nb::handle reward, nb::handle q, nb::handle next_value, nb::handle ratio, nb::handle terminated,
         nb::handle truncated, nb::handle mask, double gamma, double lam) {
        const Block block(reward);
        nb::object target = block.fresh();
        run(block, [&](auto zero) {
          using Real = decltype(zero);
          const Episodes e = block.episodes(terminated, truncated, mask);
          const Real *r = block.real<Real>(reward), *v = block.real<Real>(q), *w = block.real<Real>(next_value),
                     *p = block.real<Real>(ratio);
          if (v == nullptr || w == nullptr || p == nullptr) throw std::invalid_argument("values are needed");
          Real* g = data_of<Real>(target);
          nb::gil_scoped_release release;
          retrace<Real>(e, r, v, w, p, static_cast<Real>(gamma), static_cast<Real>(lam), g);
        });
        return target;
      },
      "reward"_a, "q"_a, "next_value"_a, "ratio"_a, "terminated"_a, "truncated"_a.none(), "mask"_a.none(), "gamma"_a,
      "lam"_a,
      nb::sig("def retrace(reward: object, q: object, next_value: object, ratio: object, terminated: object, truncated: object, mask: object, gamma: float, lam: float) "
              "-> numpy.typing.NDArray[typing.Any]"));
}

}  // namespace relive
