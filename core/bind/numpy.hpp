// NumPy's C interface, opened once for all binding files.
#pragma once

#include <nanobind/nanobind.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL relive_numpy
#ifndef RELIVE_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "bind/convert.hpp"

namespace relive {

inline Type type_of(int typenum, std::int64_t bytes) {
  if (PyTypeNum_ISBOOL(typenum)) return Type::kBool;
  if (PyTypeNum_ISSIGNED(typenum) && PyTypeNum_ISINTEGER(typenum))
    return bytes == 1 ? Type::kInt8 : bytes == 2 ? Type::kInt16 : bytes == 4 ? Type::kInt32 : Type::kInt64;
  if (PyTypeNum_ISUNSIGNED(typenum))
    return bytes == 1 ? Type::kUint8 : bytes == 2 ? Type::kUint16 : bytes == 4 ? Type::kUint32 : Type::kUint64;
  if (typenum == NPY_FLOAT) return Type::kFloat32;
  if (typenum == NPY_DOUBLE) return Type::kFloat64;
  return Type::kOther;
}

inline Type type_of(PyArrayObject* array) { return type_of(PyArray_TYPE(array), PyArray_ITEMSIZE(array)); }

// A new array of the given type; its memory is fresh, or belongs to `owner` if there is one.
inline nanobind::object new_array(int typenum, int ndim, const npy_intp* shape, const npy_intp* strides = nullptr,
                                  void* data = nullptr, PyObject* owner = nullptr, bool writable = true) {
  const int flags = !strides ? NPY_ARRAY_CARRAY : writable ? NPY_ARRAY_WRITEABLE : 0;
  PyObject* array = PyArray_New(&PyArray_Type, ndim, shape, typenum, strides, data, 0, data ? flags : 0, nullptr);
  if (array == nullptr) throw nanobind::python_error();
  nanobind::object result = nanobind::steal(array);
  auto* typed = reinterpret_cast<PyArrayObject*>(array);
  if (owner != nullptr) {
    Py_INCREF(owner);
    if (PyArray_SetBaseObject(typed, owner) < 0) throw nanobind::python_error();
  }
  if (!writable) PyArray_CLEARFLAGS(typed, NPY_ARRAY_WRITEABLE);
  return result;
}

template <class T>
T* data_of(const nanobind::object& array) {
  return static_cast<T*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
}

// The object as a C-ordered, aligned array of exactly this type (no copy if it is one already).
inline nanobind::object as_array(nanobind::handle object, int typenum) {
  PyObject* array = PyArray_FROMANY(object.ptr(), typenum, 0, 0, NPY_ARRAY_CARRAY_RO);
  if (array == nullptr) throw nanobind::python_error();
  return nanobind::steal(array);
}

inline std::int64_t size_of(const nanobind::object& array) {
  return PyArray_SIZE(reinterpret_cast<PyArrayObject*>(array.ptr()));
}

void bind_store(nanobind::module_& module);
void bind_reader(nanobind::module_& module);
void bind_files(nanobind::module_& module);
void bind_parts(nanobind::module_& module);
void bind_scans(nanobind::module_& module);
void bind_perceptrons(nanobind::module_& module);
void bind_recurrent(nanobind::module_& module);
void bind_optimisers(nanobind::module_& module);

}  // namespace relive
