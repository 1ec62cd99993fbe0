#define RELIVE_MODULE
#include <nanobind/stl/string.h>

#include <string>
#include <system_error>

#include "bind/numpy.hpp"
#include "memory/trouble.hpp"

namespace {
int open_numpy() {
  import_array1(-1);
  return 0;
}

// Raises an error of the package's own, made from these arguments.
template <class... Args>
void raise(const char* name, const Args&... args) {
  nanobind::object kind = nanobind::module_::import_("relive.errors").attr(name);
  nanobind::object error = kind(args...);
  PyErr_SetObject(kind.ptr(), error.ptr());
}
}  // namespace

NB_MODULE(_core, module) {
  if (open_numpy() < 0) throw nanobind::python_error();
  // A memory that a program holds to its end is no leak worth a page of warnings.
  nanobind::set_leak_warnings(false);
  module.doc() = "Rows, samples, scans and networks. Private: use relive.memory and relive.learn.";
  nanobind::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const std::system_error& error) {
      errno = error.code().value();
      PyErr_SetFromErrno(PyExc_OSError);
    } catch (const relive::DamagedLane& error) {
      raise("StorageError", "shared memory", "hold whole lanes", "a damaged lane " + std::to_string(error.lane),
            "Another program wrote over it: end its users, and make it anew.");
    } catch (const relive::LostFile&) {
      raise("StorageError", "memory", "lie in a file that stays whole", "one that was cut short, or cannot be read",
            "Restore the file from a copy, or make the memory anew.");
    } catch (const relive::NotLogged& error) {
      raise("JournalError", error.stored, error.steps, error.error);
    }
  });
  relive::bind_store(module);
  relive::bind_reader(module);
  relive::bind_files(module);
  relive::bind_parts(module);
  relive::bind_scans(module);
  relive::bind_perceptrons(module);
  relive::bind_recurrent(module);
}
