// Where values of several networks lie.
#pragma once

#include <cstddef>

namespace relive {

// Values [groups, rows, columns]; columns are next to each other.
struct Values {
  float* data;
  std::ptrdiff_t group, row;  // steps, in numbers
  float* at(std::ptrdiff_t g, std::ptrdiff_t r) const { return data + g * group + r * row; }
};

}  // namespace relive
