// What a drawn row expands into: rows resolved into spans, spans gathered into the arrays of a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/anchors.hpp"
#include "memory/copy.hpp"
#include "memory/outputs.hpp"

namespace relive {

// Consecutive rows of one lane that go to consecutive places of one sample.
struct Run {
  std::int64_t lane, serial, at, steps;
};

class Window {
 public:
  Window(const Timeline& timeline, const WindowSpec& spec, std::vector<Output> outputs)
      : timeline_(timeline), spec_(spec), outputs_(std::move(outputs)) {
    if (!possible(spec)) throw std::invalid_argument("window out of range");
    const auto fields = static_cast<std::int64_t>(timeline.fields().size());
    for (const Output& output : outputs_) {
      if (!has_output(spec, output.what)) throw std::invalid_argument("output that the window does not have");
      if (!reads_field(output.what)) continue;
      if (output.field < 0 || output.field >= fields || output.stack < 1 || output.stack > (1 << 20) ||
          output.item != field(output).bytes * output.stack ||
          (output.stack > 1 && (!field(output).observed || output.what == What::kReward)))
        throw std::invalid_argument("output outside the fields");
      if (follows(output.what) && (!field(output).observed || timeline.loose()))
        throw std::invalid_argument("output outside the fields");
      stack_ = std::max(stack_, output.stack);
    }
    for (std::int64_t p = 0; p < timeline.panels(); ++p) small_ = small_ && timeline.panel(p).pitch <= kSmallRow;
  }

  Reach reach() const {
    const std::int64_t closing = timeline_.loose() ? 0 : 1;
    Reach reach{spec_.burn_in + stack_ - 1, spec_.length - 1 + closing, spec_.stride, 0};
    if (spec_.kind == Kind::kEpisode) return {0, timeline_.span(), kWhole, 0};
    if (spec_.across) reach.across = spec_.length;
    return reach;
  }

  const std::vector<Output>& outputs() const { return outputs_; }

  // Works out which rows the drawn rows expand into. After it, `size` and `steps` are known.
  void resolve(const Row* rows, std::int64_t n, std::int64_t threads) {
    size_ = n;
    threads_ = threads;
    if (spec_.kind == Kind::kStep)
      resolve_steps(rows);
    else
      resolve_runs(rows);
  }

  const WindowSpec& spec() const { return spec_; }
  std::int64_t size() const { return size_; }
  // T; where packed, the total number of steps.
  std::int64_t steps() const { return steps_; }

  // Values along the leading axes of an output.
  std::int64_t values(const Output& output) const { return values(output, size_, steps_); }

  // Where the outputs of what was resolved begin, one after the other, and how many bytes they take.
  std::size_t lay_out(std::vector<std::size_t>& begins) const {
    std::size_t total = 0;
    for (const Output& output : outputs_) {
      begins.push_back(total);
      total += padded(values(output) * output.item);
    }
    return total;
  }
  // The same bytes for n rows that have not been drawn; 0 if that depends on which they are.
  std::size_t room(std::int64_t n) const {
    const bool episode = spec_.kind == Kind::kEpisode;
    if (spec_.packed || (episode && !spec_.fixed)) return 0;
    const std::int64_t steps = spec_.kind == Kind::kStep ? 1 : spec_.burn_in + spec_.length;
    std::size_t total = 0;
    for (const Output& output : outputs_) {
      if (static_cast<double>(n) * static_cast<double>(steps + 1) * static_cast<double>(output.item) > 1e12)
        throw std::invalid_argument("size out of range");
      total += padded(values(output, n, steps) * output.item);
    }
    return total;
  }
  static std::size_t padded(std::int64_t bytes) { return (static_cast<std::size_t>(bytes) + 63) / 64 * 64; }

  // Fills the arrays; to[i] belongs to output i. Weights, serials and lanes are the caller's.
  void gather(char* const* to) const {
    if (spec_.kind == Kind::kStep)
      gather_steps(to);
    else
      gather_runs(to);
  }

 private:
  static constexpr std::int64_t kSmallRow = 4096;
  static constexpr std::int64_t kPastCaches = std::int64_t{8} << 20;

  const Field& field(const Output& output) const {
    return timeline_.fields()[static_cast<std::size_t>(output.field)];
  }
  std::int64_t wrapped(std::int64_t lane, std::int64_t slot) const {
    return slot >= (lane + 1) * timeline_.span() ? slot - timeline_.span() : slot;
  }
  // How many rows of the same episode stand before a row, counted up to `most`.
  std::int64_t behind(std::int64_t lane, std::int64_t serial, std::int64_t most) const {
    std::int64_t count = 0;
    most = std::min(most, serial);  // rows that another process overwrites meanwhile may show no beginning
    while (count < most && !(timeline_.flags(timeline_.slot(lane, serial - count)) & kFirst)) ++count;
    return count;
  }

  struct Jump {
    std::int64_t lane, serial, first, last, next;  // slots, but for lane and serial
    std::int32_t steps;
    std::uint8_t flags;
  };

  std::int64_t values(const Output& output, std::int64_t n, std::int64_t most) const {
    if (!along_time(spec_, output.what)) return n;
    const std::int64_t steps = spec_.packed ? most : n * most;
    return output.what == What::kThrough ? steps + n : steps;
  }

  void resolve_steps(const Row* rows) {
    jumps_.resize(static_cast<std::size_t>(size_));
    const std::uint8_t* flags = timeline_.flags();
    for (std::int64_t i = 0; i < size_; ++i) {
      Jump& jump = jumps_[static_cast<std::size_t>(i)];
      const std::int64_t lane = rows[i].lane;
      std::int64_t at = rows[i].slot;
      jump.lane = lane;
      jump.serial = rows[i].serial;
      jump.first = at;
      std::int32_t steps = 1;
      std::uint8_t flag = flags[at];
      while (steps < spec_.length && !(flag & kEnded)) {
        at = wrapped(lane, at + 1);
        flag = flags[at];
        ++steps;
      }
      jump.last = at;
      jump.next = wrapped(lane, at + 1);
      jump.steps = steps;
      jump.flags = flag;
    }
  }

  // A field copied from one of a jump's rows.
  struct Pull {
    const Field* source;
    const char* base;
    std::int64_t pitch, item, stack;
    std::int64_t Jump::*slot;
    bool after;
    char* to;
  };

  void gather_steps(char* const* to) const {
    std::vector<Pull> pulls;
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const Output& output = outputs_[k];
      bytes += output.item * size_;
      auto slot = &Jump::first;
      if (output.what == What::kNext)
        slot = &Jump::next;
      else if (output.what == What::kLast)
        slot = &Jump::last;
      else if (output.what != What::kFirst && !(output.what == What::kReward && spec_.length == 1))
        continue;
      const Field& source = field(output);
      const Panel& panel = timeline_.panel(source.panel);
      pulls.push_back({&source, panel.base + source.offset, panel.pitch, output.item, output.stack, slot,
                       output.what == What::kNext, to[k]});
    }
    const bool streams = bytes >= kPastCaches;
    share(size_, bytes, threads_, [&](std::int64_t begin, std::int64_t end) {
      const Jump* jumps = jumps_.data();
      if (small_)
        for (std::int64_t i = begin; i < std::min(end, begin + kAhead); ++i) warm(jumps[i]);
      for (std::int64_t i = begin; i < end; ++i) {
        if (small_ && i + kAhead < end) warm(jumps[i + kAhead]);
        for (const Pull& pull : pulls) {
          const Jump& jump = jumps[i];
          if (pull.stack > 1)
            stacked(*pull.source, pull.stack, jump.lane, jump.serial + (pull.after ? jump.steps : 0),
                    pull.to + i * pull.item, streams);
          else if (streams && pull.item > 256)
            copy_past_caches(pull.to + i * pull.item, pull.base + jump.*pull.slot * pull.pitch, pull.item);
          else
            copy_bytes(pull.to + i * pull.item, pull.base + jump.*pull.slot * pull.pitch, pull.item);
        }
      }
      for (std::size_t k = 0; k < outputs_.size(); ++k) compute(outputs_[k], to[k], begin, end);
      if (streams) finish_past_caches();
    });
  }

  // Small rows wait for memory, not for the copying, so a few are asked for ahead of the one being read. More than
  // about eight and the processor drops the requests (docs/decisions.md, "Prefetching").
  static constexpr std::int64_t kAhead = 8;
  void warm(const Jump& jump) const {
    for (std::int64_t p = 0; p < timeline_.panels(); ++p) {
      const Panel& panel = timeline_.panel(p);
      if (!timeline_.loose() && jump.next == jump.first + 1) {
        prefetch(panel.base + jump.first * panel.pitch, 2 * panel.pitch);
        continue;
      }
      prefetch(panel.base + jump.first * panel.pitch, panel.pitch);
      if (!timeline_.loose()) prefetch(panel.base + jump.next * panel.pitch, panel.pitch);
    }
  }

  // Outputs that are worked out rather than copied.
  void compute(const Output& output, char* to, std::int64_t from, std::int64_t until) const {
    const Jump* jumps = jumps_.data();
    switch (output.what) {
      case What::kReward:
        if (spec_.length == 1) return;
        for (std::int64_t i = from; i < until; ++i) {
          if (output.wide)
            sum_rewards<double>(output, jumps[i], reinterpret_cast<double*>(to + i * output.item));
          else
            sum_rewards<float>(output, jumps[i], reinterpret_cast<float*>(to + i * output.item));
        }
        return;
      case What::kDiscount:
        for (std::int64_t i = from; i < until; ++i) {
          double discount = jumps[i].flags & kTerminated ? 0.0 : 1.0;
          for (std::int32_t k = 0; k < jumps[i].steps; ++k) discount *= spec_.gamma;
          reinterpret_cast<float*>(to)[i] = static_cast<float>(discount);
        }
        return;
      case What::kTerminated:
        for (std::int64_t i = from; i < until; ++i) to[i] = (jumps[i].flags & kTerminated) != 0;
        return;
      case What::kTruncated:
        for (std::int64_t i = from; i < until; ++i) to[i] = (jumps[i].flags & kTruncated) != 0;
        return;
      default: return;
    }
  }

  // The frames up to a row, the episode's first one repeated where it has no earlier.
  void stacked(const Field& source, std::int64_t frames, std::int64_t lane, std::int64_t serial, char* to,
               bool streams = false) const {
    const std::int64_t earlier = behind(lane, serial, frames - 1);
    for (std::int64_t k = 0; k < frames; ++k) {
      const std::int64_t back = std::min(frames - 1 - k, earlier);
      const char* from = timeline_.at(source, timeline_.slot(lane, serial - back));
      if (streams && source.bytes > 256)
        copy_past_caches(to + k * source.bytes, from, source.bytes);
      else
        copy_bytes(to + k * source.bytes, from, source.bytes);
    }
  }

  template <class Real>
  void sum_rewards(const Output& output, const Jump& jump, Real* to) const {
    const Field& source = field(output);
    const std::int64_t n = output.item / static_cast<std::int64_t>(sizeof(Real));
    for (std::int64_t k = 0; k < n; ++k) {
      double sum = 0, discount = 1;
      std::int64_t at = jump.first;
      for (std::int32_t step = 0; step < jump.steps; ++step) {
        Real reward;
        std::memcpy(&reward, timeline_.at(source, at) + k * static_cast<std::int64_t>(sizeof(Real)), sizeof(Real));
        sum += discount * static_cast<double>(reward);
        discount *= spec_.gamma;
        at = wrapped(jump.lane, at + 1);
      }
      to[k] = static_cast<Real>(sum);
    }
  }

  void resolve_runs(const Row* rows) {
    runs_.clear();
    first_run_.clear();
    burns_.clear();
    lengths_.clear();
    std::int64_t longest = 0, total = 0;
    for (std::int64_t i = 0; i < size_; ++i) {
      first_run_.push_back(runs_.size());
      const Row& row = rows[i];
      const std::int64_t burn = behind(row.lane, row.serial, spec_.burn_in);
      std::int64_t length;
      if (spec_.kind == Kind::kEpisode) {
        length = episode_length(row);
        if (spec_.length > 0) length = std::min(length, spec_.length);
        runs_.push_back({row.lane, row.serial, 0, length});
      } else {
        length = split(row.lane, row.serial - burn, burn + spec_.length);
      }
      burns_.push_back(burn);
      lengths_.push_back(length);
      longest = std::max(longest, length);
      total += length;
    }
    first_run_.push_back(runs_.size());
    if (spec_.packed)
      steps_ = total;
    else if (spec_.kind == Kind::kEpisode)
      steps_ = spec_.fixed ? spec_.length : longest;
    else
      steps_ = spec_.burn_in + spec_.length;
    offsets_.resize(static_cast<std::size_t>(size_) + 1);
    offsets_[0] = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i)
      offsets_[i + 1] = offsets_[i] + (spec_.packed ? lengths_[i] : steps_);
  }

  std::int64_t episode_length(const Row& row) const {
    const auto& closed = timeline_.lane(row.lane).closed;
    const std::int64_t k = closed.search([&](const Episode& episode) { return episode.start < row.serial; });
    if (k == closed.size()) throw DamagedLane(row.lane);  // flags of a listed episode were taken back
    return closed[k].end - row.serial;
  }

  // Adds the runs of `wanted` steps from a row on; returns how many there are before the window must stop.
  std::int64_t split(std::int64_t lane, std::int64_t serial, std::int64_t wanted) {
    std::int64_t done = 0;
    while (done < wanted) {
      std::int64_t steps = 0, slot = timeline_.slot(lane, serial);
      bool ended = false;
      for (; done + steps < wanted && !ended; ++steps, slot = wrapped(lane, slot + 1))
        ended = (timeline_.flags(slot) & kEnded) != 0;
      runs_.push_back({lane, serial, done, steps});
      done += steps;
      serial += steps + (timeline_.loose() ? 0 : 1);
      if (ended && !spec_.across) break;
    }
    return done;
  }

  void gather_runs(char* const* to) const {
    std::int64_t bytes = 0;
    for (const Output& output : outputs_) bytes += output.item * values(output);
    share(size_, bytes, threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        for (std::size_t k = 0; k < outputs_.size(); ++k) run_output(outputs_[k], to[k], static_cast<std::size_t>(i));
    });
  }

  void run_output(const Output& output, char* to, std::size_t i) const {
    const std::int64_t item = output.item, length = lengths_[i];
    const Run* runs = runs_.data() + first_run_[i];
    const std::size_t count = first_run_[i + 1] - first_run_[i];
    if (output.what == What::kLengths) {
      reinterpret_cast<std::int64_t*>(to)[i] = length - burns_[i];
      return;
    }
    if (output.what == What::kFirst) {
      if (output.stack > 1) return stacked(field(output), output.stack, runs->lane, runs->serial, to + i * item);
      copy_bytes(to + static_cast<std::int64_t>(i) * item,
                 timeline_.at(field(output), timeline_.slot(runs->lane, runs->serial)), item);
      return;
    }
    if (!along_time(spec_, output.what)) return;  // the caller's
    // A sample's part of the array: burn-in that there is not, the steps, and what they lack to the length of all.
    const bool through = output.what == What::kThrough;
    const std::int64_t missing = spec_.burn_in - burns_[i], more = through ? 1 : 0;
    const std::int64_t left = offsets_[i + 1] - offsets_[i] - missing - length;
    char* start = to + (offsets_[i] + (through ? static_cast<std::int64_t>(i) : 0)) * item;
    std::memset(start, 0, static_cast<std::size_t>(missing * item));
    start += missing * item;
    std::memset(start + (length + more) * item, 0, static_cast<std::size_t>(left * item));
    switch (output.what) {
      case What::kSteps:
        for (std::size_t k = 0; k < count; ++k)
          copy_run(output, runs[k].lane, runs[k].serial, runs[k].steps, start + runs[k].at * item);
        return;
      case What::kNexts:
        for (std::size_t k = 0; k < count; ++k)
          copy_run(output, runs[k].lane, runs[k].serial + 1, runs[k].steps, start + runs[k].at * item);
        return;
      case What::kThrough: return copy_run(output, runs->lane, runs->serial, length + 1, start);
      case What::kTerminated: return mark(runs, count, kTerminated, start);
      case What::kTruncated: return mark(runs, count, kTruncated, start);
      case What::kStarts: return mark(runs, count, kFirst, start);
      case What::kDiscount: {
        auto* discounts = reinterpret_cast<float*>(start);
        const auto gamma = static_cast<float>(spec_.gamma);
        each_flag(runs, count, [&](std::int64_t at, std::uint8_t flag) { discounts[at] = flag & kTerminated ? 0 : gamma; });
        return;
      }
      case What::kMask:
        for (std::int64_t t = 0; t < length; ++t) start[t] = t >= burns_[i];
        return;
      default: return;
    }
  }

  void mark(const Run* runs, std::size_t count, Flag flag, char* to) const {
    each_flag(runs, count, [&](std::int64_t at, std::uint8_t found) { to[at] = (found & flag) != 0; });
  }

  // Calls visit(place, flags) for every step of some runs.
  template <class Visit>
  void each_flag(const Run* runs, std::size_t count, const Visit& visit) const {
    for (std::size_t k = 0; k < count; ++k)
      stretches(runs[k].lane, runs[k].serial, runs[k].steps, [&](std::int64_t slot, std::int64_t n, std::int64_t done) {
        const std::uint8_t* from = timeline_.flags() + slot;
        for (std::int64_t t = 0; t < n; ++t) visit(runs[k].at + done + t, from[t]);
      });
  }

  // Calls visit(slot, rows, rows before it) for the stretches of slots that hold rows of a lane: one, or two at its end.
  template <class Visit>
  void stretches(std::int64_t lane, std::int64_t serial, std::int64_t rows, const Visit& visit) const {
    for (std::int64_t done = 0; done < rows;) {
      const std::int64_t at = (serial + done) % timeline_.span();
      const std::int64_t some = std::min(rows - done, timeline_.span() - at);
      visit(lane * timeline_.span() + at, some, done);
      done += some;
    }
  }

  void copy_run(const Output& output, std::int64_t lane, std::int64_t serial, std::int64_t rows, char* to) const {
    const Field& source = field(output);
    if (output.stack > 1) {
      for (std::int64_t t = 0; t < rows; ++t) stacked(source, output.stack, lane, serial + t, to + t * output.item);
      return;
    }
    const std::int64_t pitch = timeline_.panel(source.panel).pitch;
    stretches(lane, serial, rows, [&](std::int64_t slot, std::int64_t n, std::int64_t done) {
      copy_rows(to + done * source.bytes, timeline_.at(source, slot), pitch, source.bytes, n);
    });
  }

  const Timeline& timeline_;
  WindowSpec spec_;
  std::vector<Output> outputs_;
  bool small_ = true;
  std::int64_t stack_ = 1, size_ = 0, steps_ = 0, threads_ = 1;
  std::vector<Jump> jumps_;
  std::vector<Run> runs_;
  std::vector<std::size_t> first_run_;
  std::vector<std::int64_t> burns_, lengths_, offsets_;
};

}  // namespace relive
