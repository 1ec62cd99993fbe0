#define RECOLLECT_MODULE
#include <system_error>

#include "numpy.hpp"

namespace {
int open_numpy() {
  import_array1(-1);
  return 0;
}
}  // namespace

NB_MODULE(_core, module) {
  if (open_numpy() < 0) throw nanobind::python_error();
  // A memory that a program holds to its end is no leak worth a page of warnings.
  nanobind::set_leak_warnings(false);
  module.doc() = "Rows, samples, scans and networks. Private: use recollect.memory and recollect.learn.";
  nanobind::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const std::system_error& error) {
      errno = error.code().value();
      PyErr_SetFromErrno(PyExc_OSError);
    }
  });
  recollect::bind_store(module);
  recollect::bind_reader(module);
  recollect::bind_files(module);
  recollect::bind_parts(module);
  recollect::bind_scans(module);
  recollect::bind_perceptrons(module);
  recollect::bind_recurrent(module);
  recollect::bind_optimisers(module);
}
