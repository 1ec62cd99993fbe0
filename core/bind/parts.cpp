// Parts of the core by themselves: the sum tree, the hash, the power function and the generator.
#include <cmath>
#include <vector>

#include "memory/hash.hpp"
#include "bind/numpy.hpp"
#include "memory/philox.hpp"
#include "memory/power.hpp"
#include "memory/sum_tree.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace relive {

void bind_parts(nb::module_& module) {
  nb::class_<SumTree>(module, "SumTree")
      .def("__init__",
           [](SumTree* tree, std::int64_t leaves) {
             if (leaves < 1 || leaves > (std::int64_t{1} << 40)) throw std::invalid_argument("leaves out of range");
             new (tree) SumTree(leaves);
           },
           "leaves"_a)
      .def("set",
           [](SumTree& tree, nb::handle leaves, nb::handle values) {
             nb::object a = as_array(leaves, NPY_INT64), b = as_array(values, NPY_DOUBLE);
             if (size_of(a) != size_of(b)) throw std::invalid_argument("sizes differ");
             for (std::int64_t i = 0; i < size_of(a); ++i) {
               const std::int64_t leaf = data_of<std::int64_t>(a)[i];
               const double value = data_of<double>(b)[i];
               if (leaf < 0 || leaf >= tree.leaves()) throw nb::index_error("leaf out of range");
               if (!(value >= 0 && value <= 1e150)) throw std::invalid_argument("priority out of range");
             }
             tree.set(data_of<std::int64_t>(a), data_of<double>(b), size_of(a));
           },
           "leaves"_a, "values"_a)
      .def("find",
           [](const SumTree& tree, nb::handle positions, bool ascending) {
             nb::object a = as_array(positions, NPY_DOUBLE);
             if (!(tree.total() > 0)) throw std::invalid_argument("the tree is empty");
             std::vector<double> at(data_of<double>(a), data_of<double>(a) + size_of(a));
             for (double position : at)
               if (!(position >= 0)) throw std::invalid_argument("position out of range");
             if (ascending) std::sort(at.begin(), at.end());
             const npy_intp shape = size_of(a);
             nb::object leaves = new_array(NPY_INT64, 1, &shape);
             tree.find(at.data(), data_of<std::int64_t>(leaves), size_of(a), ascending);
             return leaves;
           },
           "positions"_a, "ascending"_a = false,
           nb::sig("def find(self, positions: object, ascending: bool = False) -> numpy.typing.NDArray[typing.Any]"))
      .def("total", &SumTree::total)
      .def("least", &SumTree::least)
      .def("count", &SumTree::count);

  nb::class_<Hash>(module, "Hash")
      .def(nb::init<>())
      .def("update",
           [](Hash& hash, nb::handle buffer) {
             Py_buffer view;
             if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
             {
               nb::gil_scoped_release release;
               hash.update(view.buf, static_cast<std::size_t>(view.len));
             }
             PyBuffer_Release(&view);
           },
           "buffer"_a)
      .def("digest", &Hash::digest);

  module.def("powers", [](nb::handle x, double y) {
    nb::object given = as_array(x, NPY_DOUBLE);
    const npy_intp shape = size_of(given);
    nb::object result = new_array(NPY_DOUBLE, 1, &shape);
    for (std::int64_t i = 0; i < shape; ++i) {
      const double value = data_of<double>(given)[i];
      if (!std::isnormal(value) || value < 0 || !std::isfinite(y)) throw std::invalid_argument("power out of range");
      data_of<double>(result)[i] = value;
    }
    powers(data_of<double>(result), y, shape);
    return result;
  }, "x"_a, "y"_a, nb::sig("def powers(x: object, y: float) -> numpy.typing.NDArray[typing.Any]"));
  module.def("philox", [](std::uint64_t key0, std::uint64_t key1, std::uint64_t position, std::int64_t n) {
    if (n < 0 || n > (std::int64_t{1} << 31)) throw std::invalid_argument("n out of range");
    Philox random(key0, key1, position);
    const npy_intp shape = n;
    nb::object array = new_array(NPY_UINT64, 1, &shape);
    for (std::int64_t i = 0; i < n; ++i) data_of<std::uint64_t>(array)[i] = random.next();
    return array;
  }, "key0"_a, "key1"_a, "position"_a, "n"_a,
     nb::sig("def philox(key0: int, key1: int, position: int, n: int) -> numpy.typing.NDArray[typing.Any]"));
}

}  // namespace relive
