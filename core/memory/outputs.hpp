// What a window is and what it gives out, as plain values.
#pragma once

#include <cstdint>

namespace relive {

// What an output array holds. [B] stands for drawn rows, T for steps of a sequence.
enum class What : std::int64_t {
  kFirst,       // [B] a field at the window's first row
  kNext,        // [B] an observed field after the window's last step
  kLast,        // [B] a field at the window's last step
  kReward,      // [B] discounted sum of a reward field over the window
  kDiscount,    // [B] float32: gamma^steps, 0 if terminated; [B, T]: gamma, 0 if terminated
  kTerminated,  // [B] or [B, T] bool
  kTruncated,   // [B] or [B, T] bool
  kSteps,       // [B, T] a field at every step
  kThrough,     // [B, T + 1] an observed field at every step and after the last
  kNexts,       // [B, T] an observed field after every step
  kStarts,      // [B, T] bool: first step of an episode
  kMask,        // [B, T] bool: a real step that is not burn-in
  kLengths,     // [B] int64: real steps that are not burn-in
  kWeights,     // [B] float32
  kSerials,     // [B] int64
  kLanes,       // [B] int64
};

struct Output {
  What what;
  std::int64_t field;  // -1: none
  std::int64_t stack;  // frames a value, at least 1
  std::int64_t item;   // bytes of one value, stacked frames included
  bool wide;           // reward fields: float64 instead of float32
};

enum class Kind : std::int64_t { kStep, kSequence, kEpisode };

struct WindowSpec {
  Kind kind;
  std::int64_t length;   // steps: n of n-step, trained steps of a sequence, most steps of an episode (0: any)
  std::int64_t burn_in;
  std::int64_t stride;   // sequences: 0 any row, else every stride-th step
  double gamma;
  bool across;           // sequences may run over an episode's end
  bool packed;           // episodes one after the other instead of padded
  bool fixed;            // episodes padded to `length` even if all are shorter
};

inline bool possible(const WindowSpec& spec) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  const bool episode = spec.kind == Kind::kEpisode, sequence = spec.kind == Kind::kSequence;
  if (spec.kind != Kind::kStep && !sequence && !episode) return false;
  if (spec.length < (episode && !spec.fixed ? 0 : 1) || spec.length > kMost) return false;
  if (spec.burn_in < 0 || spec.burn_in > kMost || spec.stride < 0) return false;
  if (!(spec.gamma >= 0 && spec.gamma <= 1)) return false;
  return (episode || (!spec.packed && !spec.fixed)) && (sequence || !spec.across);
}

// Whether the output is read from a field.
inline bool reads_field(What what) {
  return what <= What::kReward || (what >= What::kSteps && what <= What::kNexts);
}

// Whether the output is read from the row after a step.
inline bool follows(What what) { return what == What::kNext || what == What::kThrough || what == What::kNexts; }

// Whether the output has a value a step: [B, T], or where packed one axis for both.
inline bool along_time(const WindowSpec& spec, What what) {
  if (spec.kind == Kind::kStep) return false;
  return what >= What::kDiscount && what <= What::kMask;
}

inline bool has_output(const WindowSpec& spec, What what) {
  const bool over_time = spec.kind != Kind::kStep;
  switch (what) {
    case What::kNext:
    case What::kLast:
    case What::kReward: return !over_time;
    case What::kSteps:
    case What::kStarts:
    case What::kMask:
    case What::kLengths: return over_time;
    case What::kThrough: return over_time && !spec.across;
    case What::kNexts: return over_time && spec.across;
    default: return true;
  }
}

}  // namespace relive
