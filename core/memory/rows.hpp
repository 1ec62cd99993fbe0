// What a row is made of, and how rows are handed in.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace relive {

enum Flag : std::uint8_t { kTerminated = 1, kTruncated = 2, kClosing = 4, kFirst = 8 };
constexpr std::uint8_t kEnded = kTerminated | kTruncated;
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMostSerials = std::int64_t{1} << 60;

struct Field {
  std::int64_t panel;
  std::int64_t offset;
  std::int64_t bytes;
  bool observed;
};

struct Panel {
  std::int64_t pitch;
  char* base;
};

// Rows of one field handed in by the caller: row i starts at data + i * bytes of the field.
using Source = const char*;

// A block of steps [time, width] to append; fields, finals and ends are row-major over it.
struct Steps {
  std::int64_t time, width;
  const std::int64_t* lanes;       // width distinct lanes, or null: lane i is column i
  std::vector<Source> fields;      // one a field
  std::vector<Source> finals;      // one a field; null: none given, or not observed
  bool finals_compact;             // finals hold one row an ended step instead of one row a step
  const std::uint8_t* ends;        // kTerminated and kTruncated; not the caller's, who may change theirs meanwhile

  std::int64_t lane(std::int64_t column) const { return lanes ? lanes[column] : column; }
};

}  // namespace relive
