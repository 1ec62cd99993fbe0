// Optimisers, each over all networks of a stack.
#include "adam.hpp"
#include "network_arrays.hpp"
#include "rmsprop.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace recollect {

void bind_optimisers(nb::module_& module) {
  using Index = std::ptrdiff_t;
  const auto single = [](double value) { return static_cast<float>(value); };

  module.def(
      "adam",
      [single](nb::handle flat, nb::handle grad, nb::handle mean, nb::handle square, double rate, double root, double first,
         double second, double eps, double longest) {
        PyArrayObject* array = floats(flat, 2, true);
        const Index count = PyArray_DIM(array, 0), size = PyArray_DIM(array, 1), all = count * size;
        float* to = whole(flat, all, 2, true);
        const float* down = whole(grad, all, 2, false);
        float *means = whole(mean, all, 2, true), *squares = whole(square, all, 2, true);
        nb::gil_scoped_release release;
        adam({single(rate), single(root), single(1 - first), single(second), single(1 - second), single(eps),
              single(longest)},
             count, size, down, means, squares, to);
      },
      "flat"_a, "grad"_a, "mean"_a, "square"_a, "rate"_a, "root"_a, "first"_a, "second"_a, "eps"_a, "longest"_a);

  module.def(
      "rmsprop",
      [single](nb::handle flat, nb::handle grad, nb::handle square, double rate, double decay, double eps, double longest) {
        PyArrayObject* array = floats(flat, 2, true);
        const Index count = PyArray_DIM(array, 0), size = PyArray_DIM(array, 1), all = count * size;
        float* to = whole(flat, all, 2, true);
        const float* down = whole(grad, all, 2, false);
        float* squares = whole(square, all, 2, true);
        nb::gil_scoped_release release;
        rmsprop({single(rate), single(decay), single(1 - decay), single(eps), single(longest)}, count, size, down,
                squares, to);
      },
      "flat"_a, "grad"_a, "square"_a, "rate"_a, "decay"_a, "eps"_a, "longest"_a);
}

}  // namespace recollect
