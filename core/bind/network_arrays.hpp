// Arrays of numbers as networks take them, checked.
#pragma once

#include <stdexcept>
#include <string>

#include "bind/numpy.hpp"
#include "nets/values.hpp"

namespace relive {

inline PyArrayObject* floats(nanobind::handle object, int ndim, bool writable) {
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  if (!PyArray_Check(object.ptr()) || PyArray_TYPE(array) != NPY_FLOAT || PyArray_NDIM(array) != ndim ||
      !PyArray_ISALIGNED(array) || !PyArray_ISNOTSWAPPED(array) || (writable && !PyArray_ISWRITEABLE(array)))
    throw std::invalid_argument("arrays must be float32, with the axes that are asked for");
  return array;
}

// A whole array in C order, with so many numbers.
inline float* whole(nanobind::handle object, std::ptrdiff_t size, int ndim, bool writable) {
  PyArrayObject* array = floats(object, ndim, writable);
  if (!PyArray_IS_C_CONTIGUOUS(array) || PyArray_SIZE(array) != size)
    throw std::invalid_argument("arrays must be whole and of the size that is asked for");
  return static_cast<float*>(PyArray_DATA(array));
}

// Values [groups, rows, columns], columns next to each other. What is read and what is written must not overlap: that is
// for callers to know.
inline Values values_of(nanobind::handle object, std::ptrdiff_t columns, bool writable, std::ptrdiff_t groups = -1,
                        std::ptrdiff_t rows = -1) {
  PyArrayObject* array = floats(object, 3, writable);
  const npy_intp* strides = PyArray_STRIDES(array);
  constexpr std::ptrdiff_t kBytes = sizeof(float);
  const bool fits = (groups < 0 || PyArray_DIM(array, 0) == groups) && (rows < 0 || PyArray_DIM(array, 1) == rows) &&
                    PyArray_DIM(array, 2) == columns;
  const bool one = PyArray_DIM(array, 1) <= 1;  // row, whose step NumPy may leave at anything
  const bool odd = (columns > 1 && strides[2] != kBytes) || strides[0] % kBytes ||
                   (!one && (strides[1] == 0 || strides[1] % kBytes));
  if (!fits || (odd && PyArray_SIZE(array) > 0))
    throw std::invalid_argument("values must be [groups, rows, " + std::to_string(columns) + "], row by row");
  return {static_cast<float*>(PyArray_DATA(array)), strides[0] / kBytes, one ? columns : strides[1] / kBytes};
}

inline std::ptrdiff_t dim(nanobind::handle object, int axis) {
  return PyArray_DIM(reinterpret_cast<PyArrayObject*>(object.ptr()), axis);
}

inline void check_groups(std::ptrdiff_t networks, std::ptrdiff_t groups) {
  if (groups < 1 || (networks > 1 && groups != networks))
    throw std::invalid_argument("groups must be as many as networks, unless there is one network");
}

}  // namespace relive
