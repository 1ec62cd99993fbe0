#include <nanobind/stl/vector.h>

#include "network_arrays.hpp"
#include "recurrent.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace recollect {

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

// All but the hidden units.
dense::Mixed mixed_of(nb::handle values, nb::handle first, nb::handle biases, nb::handle last, nb::handle more,
                      bool writable) {
  PyArrayObject* shape = floats(values, 2, writable);
  const Index rows = PyArray_DIM(shape, 0), agents = PyArray_DIM(shape, 1);
  const Index units = PyArray_DIM(floats(biases, 2, writable), 1);
  return {rows,
          agents,
          units,
          whole(values, rows * agents, 2, writable),
          whole(first, rows * agents * units, 2, writable),
          whole(biases, rows * units, 2, writable),
          whole(last, rows * units, 2, writable),
          whole(more, rows, 1, writable),
          nullptr};
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
              nb::handle kept, nb::handle outputs) {
             const float* parameters = whole(flat, self.count() * self.width(), 2, false);
             float* to = whole(grad, self.count() * self.width(), 2, true);
             const Values in = values_of(inputs, self.inputs(), false);
             const Index groups = dim(inputs, 0), rows = dim(inputs, 1);
             check_groups(self.count(), groups);
             check_counts(counts, rows);
             const Values out = values_of(outputs, self.outputs(), false, groups, rows);
             float* records = whole(kept, groups * rows * self.record(), 1, true);
             nb::gil_scoped_release release;
             self.backward(parameters, to, in, groups, counts, records, out);
           },
           "flat"_a, "grad"_a, "inputs"_a, "counts"_a, "kept"_a, "outputs"_a);

  module.def(
      "mix",
      [](nb::handle values, nb::handle first, nb::handle biases, nb::handle last, nb::handle more, nb::handle hidden,
         nb::handle total, bool plain) {
        dense::Mixed mixed = mixed_of(values, first, biases, last, more, false);
        mixed.hidden = whole(hidden, mixed.rows * mixed.units, 2, true);
        float* to = whole(total, mixed.rows, 1, true);
        nb::gil_scoped_release release;
        kernel_for(plain).mix(mixed, to);
      },
      "values"_a, "first"_a, "biases"_a, "last"_a, "more"_a, "hidden"_a, "total"_a, "plain"_a = false);

  module.def(
      "unmix",
      [](nb::handle values, nb::handle first, nb::handle biases, nb::handle last, nb::handle more, nb::handle hidden,
         nb::handle grad, nb::handle to_values, nb::handle to_first, nb::handle to_biases, nb::handle to_last,
         nb::handle to_more, bool plain) {
        dense::Mixed mixed = mixed_of(values, first, biases, last, more, false);
        mixed.hidden = whole(hidden, mixed.rows * mixed.units, 2, false);
        const dense::Mixed to = mixed_of(to_values, to_first, to_biases, to_last, to_more, true);
        if (to.rows != mixed.rows || to.agents != mixed.agents || to.units != mixed.units)
          throw std::invalid_argument("gradients must be of the shapes of what they are of");
        const float* down = whole(grad, mixed.rows, 1, false);
        nb::gil_scoped_release release;
        kernel_for(plain).unmix(mixed, down, to);
      },
      "values"_a, "first"_a, "biases"_a, "last"_a, "more"_a, "hidden"_a, "grad"_a, "to_values"_a, "to_first"_a,
      "to_biases"_a, "to_last"_a, "to_more"_a, "plain"_a = false);
}

}  // namespace recollect
