#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>

#include "adam.hpp"
#include "numpy.hpp"
#include "perceptrons.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace recollect {

namespace {

using Index = std::ptrdiff_t;

PyArrayObject* floats(nb::handle object, int ndim, bool writable) {
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  if (!PyArray_Check(object.ptr()) || PyArray_TYPE(array) != NPY_FLOAT || PyArray_NDIM(array) != ndim ||
      !PyArray_ISALIGNED(array) || !PyArray_ISNOTSWAPPED(array) || (writable && !PyArray_ISWRITEABLE(array)))
    throw std::invalid_argument("arrays must be float32, with the axes that are asked for");
  return array;
}

// A whole array in C order, with so many numbers.
float* whole(nb::handle object, Index size, int ndim, bool writable) {
  PyArrayObject* array = floats(object, ndim, writable);
  if (!PyArray_IS_C_CONTIGUOUS(array) || PyArray_SIZE(array) != size)
    throw std::invalid_argument("arrays must be whole and of the size that is asked for");
  return static_cast<float*>(PyArray_DATA(array));
}

// Values [groups, rows, columns], columns next to each other. What is read and what is written must not overlap: that is
// for callers to know.
Rows rows_of(nb::handle object, Index columns, bool writable, Index groups = -1, Index rows = -1) {
  PyArrayObject* array = floats(object, 3, writable);
  const npy_intp* strides = PyArray_STRIDES(array);
  constexpr Index kBytes = sizeof(float);
  const bool fits = (groups < 0 || PyArray_DIM(array, 0) == groups) && (rows < 0 || PyArray_DIM(array, 1) == rows) &&
                    PyArray_DIM(array, 2) == columns;
  const bool odd = (columns > 1 && strides[2] != kBytes) || strides[0] % kBytes || strides[1] % kBytes;
  if (!fits || (odd && PyArray_SIZE(array) > 0))
    throw std::invalid_argument("values must be [groups, rows, " + std::to_string(columns) + "], row by row");
  return {static_cast<float*>(PyArray_DATA(array)), strides[0] / kBytes, strides[1] / kBytes};
}

Index dim(nb::handle object, int axis) { return PyArray_DIM(reinterpret_cast<PyArrayObject*>(object.ptr()), axis); }

void check_groups(const Perceptrons& nets, Index groups) {
  if (groups < 1 || (nets.count() > 1 && groups != nets.count()))
    throw std::invalid_argument("groups must be as many as networks, unless there is one network");
}

float* hidden_of(const Perceptrons& nets, nb::handle hidden, Index groups, Index rows, bool writable) {
  return whole(hidden, groups * rows * nets.between(), 1, writable);
}

dense::Rule rule_of(const std::string& name) {
  if (name == "relu") return dense::Rule::kRelu;
  if (name == "leaky_relu") return dense::Rule::kLeaky;
  if (name == "tanh") return dense::Rule::kTanh;
  throw std::invalid_argument("activation must be relu, leaky_relu or tanh");
}

}  // namespace

void bind_perceptrons(nb::module_& module) {
  nb::class_<Perceptrons>(module, "Perceptrons")
      .def("__init__",
           [](Perceptrons* self, Index count, const std::vector<Index>& sizes, const std::string& activation,
              bool plain) {
             constexpr Index kMost = Index{1} << 20;
             bool fine = count > 0 && count < kMost && sizes.size() > 1;
             for (const Index size : sizes) fine = fine && size > 0 && size < kMost;
             if (!fine) throw std::invalid_argument("count and sizes must be at least 1, with inputs and outputs");
             new (self) Perceptrons(count, sizes, rule_of(activation), plain ? dense::multiply_plain : dense::kernel());
           },
           "count"_a, "sizes"_a, "activation"_a, "plain"_a = false, "plain: code that runs on any processor.")
      .def("forward",
           [](const Perceptrons& self, nb::handle flat, nb::handle inputs, nb::handle hidden, nb::handle outputs) {
             const float* parameters = whole(flat, self.count() * self.width(), 2, false);
             const Rows in = rows_of(inputs, self.inputs(), false);
             const Index groups = dim(inputs, 0), rows = dim(inputs, 1);
             check_groups(self, groups);
             const Rows out = rows_of(outputs, self.outputs(), true, groups, rows);
             float* kept = hidden.is_none() ? nullptr : hidden_of(self, hidden, groups, rows, true);
             nb::gil_scoped_release release;
             self.forward(parameters, in, groups, rows, kept, out);
           },
           "flat"_a, "inputs"_a, "hidden"_a.none(), "outputs"_a)
      .def("backward",
           [](const Perceptrons& self, nb::handle flat, nb::handle grad, nb::handle inputs, nb::handle hidden,
              nb::handle outputs) {
             const float* parameters = whole(flat, self.count() * self.width(), 2, false);
             float* to = whole(grad, self.count() * self.width(), 2, true);
             const Rows in = rows_of(inputs, self.inputs(), false);
             const Index groups = dim(inputs, 0), rows = dim(inputs, 1);
             check_groups(self, groups);
             const Rows out = rows_of(outputs, self.outputs(), false, groups, rows);
             float* kept = hidden_of(self, hidden, groups, rows, false);
             nb::gil_scoped_release release;
             self.backward(parameters, to, in, groups, rows, kept, out);
           },
           "flat"_a, "grad"_a, "inputs"_a, "hidden"_a, "outputs"_a)
      .def("slope",
           [](const Perceptrons& self, nb::handle flat, const std::vector<Index>& first, nb::handle hidden,
              nb::handle outputs, nb::handle found) {
             const float* parameters = whole(flat, self.count() * self.width(), 2, false);
             const Rows out = rows_of(outputs, self.outputs(), false);
             const Index groups = dim(outputs, 0), rows = dim(outputs, 1), some = PyArray_DIM(floats(found, 3, true), 2);
             check_groups(self, groups);
             const Rows to = rows_of(found, some, true, groups, rows);
             bool fine = some > 0 && static_cast<Index>(first.size()) == groups;
             for (const Index start : first) fine = fine && start >= 0 && start <= self.inputs() - some;
             if (!fine) throw std::invalid_argument("first must lie among the inputs, one a group");
             float* kept = hidden_of(self, hidden, groups, rows, false);
             nb::gil_scoped_release release;
             self.slope(parameters, first.data(), some, groups, rows, kept, out, to);
           },
           "flat"_a, "first"_a, "hidden"_a, "outputs"_a, "found"_a);

  module.def(
      "adam",
      [](nb::handle flat, nb::handle grad, nb::handle mean, nb::handle square, double rate, double root, double first,
         double second, double eps, double longest) {
        PyArrayObject* array = floats(flat, 2, true);
        const Index count = PyArray_DIM(array, 0), size = PyArray_DIM(array, 1), all = count * size;
        float* to = whole(flat, all, 2, true);
        const float* down = whole(grad, all, 2, false);
        float *means = whole(mean, all, 2, true), *squares = whole(square, all, 2, true);
        nb::gil_scoped_release release;
        const auto single = [](double value) { return static_cast<float>(value); };
        adam({single(rate), single(root), single(1 - first), single(second), single(1 - second), single(eps),
              single(longest)},
             count, size, down, means, squares, to);
      },
      "flat"_a, "grad"_a, "mean"_a, "square"_a, "rate"_a, "root"_a, "first"_a, "second"_a, "eps"_a, "longest"_a);
}

}  // namespace recollect
