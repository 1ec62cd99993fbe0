// What can go wrong with rows through no fault of the caller's.
#pragma once

#include <cstdint>
#include <exception>

namespace relive {

// A lane of shared memory whose numbers cannot be what a writer left there.
struct DamagedLane : std::exception {
  explicit DamagedLane(std::int64_t which) : lane(which) {}
  const char* what() const noexcept override { return "damaged lane"; }
  std::int64_t lane;
};

// The file under the rows was cut short, or could not be read.
struct LostFile : std::exception {
  const char* what() const noexcept override { return "the file under the rows is gone"; }
};

// Steps that could not be logged: the first `stored` of them are in memory and in the journal, the others in neither.
struct NotLogged : std::exception {
  NotLogged(std::int64_t first, std::int64_t all, int code) : stored(first), steps(all), error(code) {}
  const char* what() const noexcept override { return "the journal could not be written"; }
  std::int64_t stored, steps;
  int error;
};

}  // namespace relive
