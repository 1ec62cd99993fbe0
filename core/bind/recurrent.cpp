#include <nanobind/stl/vector.h>

#include "bind/network_arrays.hpp"
#include "nets/recurrent.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace relive {

namespace {

using Index = std::ptrdiff_t;

void check_counts(const std::vector<Index>& counts, Index rows) {
  Index sum = 0, before = rows;
  bool fine = true;
  for (const Index count : counts) {
    fine = fine && count >= 0 && count <= before && count <= rows - sum;
    if (!fine) break;
    sum += before = count;
  }
  if (!fine || sum != rows) throw std::invalid_argument("counts must not grow, and add up to the rows");
}

const dense::Kernel& kernel_for(bool plain) { return plain ? dense::kPlainKernel : dense::kernel(); }

}  // namespace

void bind_recurrent(nb::module_& module) {
  nb::class_<Recurrent>(module, "Recurrent")
      .def("__init__",
           [](Recurrent* self, Index count, Index inputs, Index units, Index outputs, bool plain) {
             for (const Index size : {count, inputs, units, outputs})
               if (size < 1 || size >= Index{1} << 16)
                 throw std::invalid_argument("count, inputs, units and outputs must be at least 1 and below 65,536");
             new (self) Recurrent(count, inputs, units, outputs, kernel_for(plain));
           },
           "count"_a, "inputs"_a, "units"_a, "outputs"_a, "plain"_a = false, "plain: code that runs on any processor.")
      .def_prop_ro("width", &Recurrent::width)
      .def_prop_ro("record", &Recurrent::record)
      .def("forward",
           [](const Recurrent& self, nb::handle flat, nb::handle inputs, const std::vector<Index>& counts,
              nb::handle states, nb::handle kept, nb::handle outputs) {
             const float* parameters = whole(flat, self.count() * self.width(), 2, false);
             const Values in = values_of(inputs, self.inputs(), false);
             const Index groups = dim(inputs, 0), rows = dim(inputs, 1);
             check_groups(self.count(), groups);
             check_counts(counts, rows);
             const Index sequences = counts.empty() ? 0 : counts[0];
             const Values out = values_of(outputs, self.outputs(), true, groups, rows);
             float* follow = states.is_none() ? nullptr : whole(states, groups * sequences * self.units(), 3, true);
             float* records = kept.is_none() ? nullptr : whole(kept, groups * rows * self.record(), 1, true);
             nb::gil_scoped_release release;
             self.forward(parameters, in, groups, counts, follow, records, out);
           },
           "flat"_a, "inputs"_a, "counts"_a, "states"_a.none(), "kept"_a.none(), "outputs"_a)
      .def("backward",
           [](const Recurrent& self, nb::handle flat, nb::handle grad, nb::handle inputs, const std::vector<Index>& counts,
              nb::handle kept, nb::handle outputs, nb::handle in_grad, nb::handle states) {
             const float* parameters = whole(flat, self.count() * self.width(), 2, false);
             float* to = whole(grad, self.count() * self.width(), 2, true);
             const Values in = values_of(inputs, self.inputs(), false);
             const Index groups = dim(inputs, 0), rows = dim(inputs, 1);
             check_groups(self.count(), groups);
             check_counts(counts, rows);
             const Values out = values_of(outputs, self.outputs(), false, groups, rows);
             float* records = whole(kept, groups * rows * self.record(), 1, true);
             const Index sequences = counts.empty() ? 0 : counts[0];
             float* down = whole(states, groups * sequences * self.units(), 3, true);
             Values below{};
             if (!in_grad.is_none()) below = values_of(in_grad, self.inputs(), true, groups, rows);
             nb::gil_scoped_release release;
             self.backward(parameters, to, in, groups, counts, records, out, in_grad.is_none() ? nullptr : &below, down);
           },
           "flat"_a, "grad"_a, "inputs"_a, "counts"_a, "kept"_a, "outputs"_a, "in_grad"_a.none(), "states"_a);
}

}  // namespace relive
