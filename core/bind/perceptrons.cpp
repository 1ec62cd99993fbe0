#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/network_arrays.hpp"
#include "nets/perceptrons.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace relive {

namespace {

using Index = std::ptrdiff_t;

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
             new (self) Perceptrons(count, sizes, rule_of(activation), plain ? dense::kPlainKernel : dense::kernel());
           },
           "count"_a, "sizes"_a, "activation"_a, "plain"_a = false, "plain: code that runs on any processor.")
      .def("forward",
           [](const Perceptrons& self, nb::handle flat, nb::handle inputs, nb::handle hidden, nb::handle outputs) {
             const float* parameters = whole(flat, self.count() * self.width(), 2, false);
             const Values in = values_of(inputs, self.inputs(), false);
             const Index groups = dim(inputs, 0), rows = dim(inputs, 1);
             check_groups(self.count(), groups);
             const Values out = values_of(outputs, self.outputs(), true, groups, rows);
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
             const Values in = values_of(inputs, self.inputs(), false);
             const Index groups = dim(inputs, 0), rows = dim(inputs, 1);
             check_groups(self.count(), groups);
             const Values out = values_of(outputs, self.outputs(), false, groups, rows);
             float* kept = hidden_of(self, hidden, groups, rows, false);
             nb::gil_scoped_release release;
             self.backward(parameters, to, in, groups, rows, kept, out);
           },
           "flat"_a, "grad"_a, "inputs"_a, "hidden"_a, "outputs"_a)
      .def("input_grad",
           [](const Perceptrons& self, nb::handle flat, const std::vector<Index>& first, nb::handle hidden,
              nb::handle outputs, nb::handle found) {
             const float* parameters = whole(flat, self.count() * self.width(), 2, false);
             const Values out = values_of(outputs, self.outputs(), false);
             const Index groups = dim(outputs, 0), rows = dim(outputs, 1), some = PyArray_DIM(floats(found, 3, true), 2);
             check_groups(self.count(), groups);
             const Values to = values_of(found, some, true, groups, rows);
             bool fine = some > 0 && static_cast<Index>(first.size()) == groups;
             for (const Index start : first) fine = fine && start >= 0 && start <= self.inputs() - some;
             if (!fine) throw std::invalid_argument("first must lie among the inputs, one a group");
             float* kept = hidden_of(self, hidden, groups, rows, false);
             nb::gil_scoped_release release;
             self.input_grad(parameters, first.data(), some, groups, rows, kept, out, to);
           },
           "flat"_a, "first"_a, "hidden"_a, "outputs"_a, "found"_a);
}

}  // namespace relive
