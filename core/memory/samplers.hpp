// Which anchors make a batch, and with what probability.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "memory/anchors.hpp"
#include "memory/philox.hpp"
#include "memory/power.hpp"
#include "memory/sum_tree.hpp"

namespace relive {

// What a sampler keeps for rows, as bytes.
struct SamplerState {
  const void* data = nullptr;
  std::size_t bytes = 0;
  double largest = 0;  // priority that new rows get
};

// What draws are in proportion to: the sum over all rows, and the least of a row; 0 where there is none.
struct Standing {
  double total, least;
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  // Draws up to n rows and their importance weights (1 unless the sampler has reason to differ); returns how many.
  // The anchors are up to date and, unless the sampler says otherwise, there is at least one. Where another process
  // overwrites rows meanwhile, flags may not be what the anchors were counted by: then rows may be fewer, or closing
  // rows, but never none of this memory's.
  virtual std::int64_t draw(const Anchors& anchors, Philox& random, std::int64_t n, double beta, Row* rows,
                            float* weights) = 0;
  // Up to date with the anchors; rows that are drawn alike count 1 each.
  virtual Standing standing(const Anchors& anchors) {
    return {static_cast<double>(anchors.count()), anchors.count() > 0 ? 1.0 : 0.0};
  }
  virtual std::size_t bytes() const { return 0; }
  // Called when the memory has been emptied.
  virtual void forget() {}
  // What it keeps, up to date with the anchors; the pointer holds until the sampler is used again.
  virtual SamplerState state(const Anchors&) { return {}; }
  // Takes over what another sampler of the same kind kept for the same rows; false, and nothing changed, if it cannot be
  // that.
  virtual bool restore(const Anchors&, const SamplerState& state) { return state.bytes == 0; }
};

constexpr int kTries = 10000;

inline Row draw_one(const Anchors& anchors, Philox& random) {
  const auto width = static_cast<std::uint64_t>(anchors.width());
  // Closing rows are at most every other row, so this ends soon unless flags change while they are read.
  Row row = anchors.at(static_cast<std::int64_t>(random.below(width)));
  for (int i = 0; i < kTries && !anchors.usable(row); ++i)
    row = anchors.at(static_cast<std::int64_t>(random.below(width)));
  return row;
}

inline std::vector<Row> all_anchors(const Anchors& anchors) {
  std::vector<Row> rows;
  rows.reserve(static_cast<std::size_t>(anchors.count()));
  for (std::int64_t lane = 0; lane < anchors.timeline().lanes(); ++lane)
    anchors.each(lane, 0, [&](const Row& row) { rows.push_back(row); });
  return rows;
}

inline void shuffle(std::vector<Row>& rows, std::size_t first, Philox& random) {
  for (std::size_t i = 0; i < first && i + 1 < rows.size(); ++i)
    std::swap(rows[i], rows[i + random.below(rows.size() - i)]);
}

class UniformSampler final : public Sampler {
 public:
  std::int64_t draw(const Anchors& anchors, Philox& random, std::int64_t n, double, Row* rows,
                    float* weights) override {
    // In two passes, so that the flags are on their way to the cache before the first is looked at.
    const auto width = static_cast<std::uint64_t>(anchors.width());
    const std::uint8_t* flags = anchors.timeline().flags();
    for (std::int64_t i = 0; i < n; ++i) {
      rows[i] = anchors.at(static_cast<std::int64_t>(random.below(width)));
      prefetch(flags + rows[i].slot, 1);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (anchors.usable(rows[i])) continue;
      rows[i] = draw_one(anchors, random);
      if (!anchors.usable(rows[i])) return 0;
    }
    std::fill(weights, weights + n, 1.0f);
    return n;
  }
};

// Uniform without replacement: no row twice in a batch. Needs n anchors.
class DistinctSampler final : public Sampler {
 public:
  std::int64_t draw(const Anchors& anchors, Philox& random, std::int64_t n, double, Row* rows,
                    float* weights) override {
    if (n > anchors.count() / 2) {
      std::vector<Row> all = all_anchors(anchors);
      n = std::min(n, static_cast<std::int64_t>(all.size()));
      shuffle(all, static_cast<std::size_t>(n), random);
      std::copy(all.begin(), all.begin() + n, rows);
    } else {
      std::size_t size = 4;
      while (size < 4 * static_cast<std::size_t>(n)) size *= 2;
      taken_.assign(size, -1);
      std::int64_t i = 0;
      for (std::int64_t tries = 0; i < n && tries < kTries * n; ++tries) {
        const Row row = draw_one(anchors, random);
        if (!anchors.usable(row)) return 0;
        const std::int64_t key = row.slot;
        std::size_t place = (static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15u >> 20) & (size - 1);
        while (taken_[place] != -1 && taken_[place] != key) place = (place + 1) & (size - 1);
        if (taken_[place] == key) continue;
        taken_[place] = key;
        rows[i++] = row;
      }
      n = i;
    }
    std::fill(weights, weights + n, 1.0f);
    return n;
  }

 private:
  std::vector<std::int64_t> taken_;
};

// The newest anchors, counted back in every lane alike; oldest first. Needs no luck.
class RecentSampler final : public Sampler {
 public:
  std::int64_t draw(const Anchors& anchors, Philox&, std::int64_t n, double, Row* rows, float* weights) override {
    const std::int64_t lanes = anchors.timeline().lanes();
    std::vector<std::int64_t> cursor(static_cast<std::size_t>(lanes));
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const LaneAnchors& a = anchors.lane(lane);
      cursor[static_cast<std::size_t>(lane)] = anchors.sparse() ? a.list.size() : a.high;
    }
    std::int64_t found = 0;
    const std::int64_t wanted = std::min(n, anchors.count());
    for (std::int64_t before = -1; found < wanted && found > before;) {
      before = found;
      for (std::int64_t lane = lanes; lane-- > 0 && found < wanted;) {
        std::int64_t serial;
        if (back(anchors, lane, cursor[static_cast<std::size_t>(lane)], serial))
          rows[found++] = {lane, serial, anchors.timeline().slot(lane, serial)};
      }
    }
    std::reverse(rows, rows + found);
    std::fill(weights, weights + found, 1.0f);
    return found;
  }

 private:
  static bool back(const Anchors& anchors, std::int64_t lane, std::int64_t& cursor, std::int64_t& serial) {
    const LaneAnchors& a = anchors.lane(lane);
    const Timeline& timeline = anchors.timeline();
    if (anchors.sparse()) {
      if (cursor == 0) return false;
      serial = a.list[--cursor];
      return true;
    }
    while (cursor > a.low) {
      serial = --cursor;
      if (!(timeline.flags(timeline.slot(lane, serial)) & kClosing)) return true;
    }
    return false;
  }
};

// Every anchor once, in random order, then again in another order. Starts over when rows have been written since.
class ShuffledSampler final : public Sampler {
 public:
  std::int64_t draw(const Anchors& anchors, Philox& random, std::int64_t n, double, Row* rows,
                    float* weights) override {
    if (next_ >= order_.size() || version_ != anchors.version()) {
      order_ = all_anchors(anchors);
      shuffle(order_, order_.size(), random);
      next_ = 0;
      version_ = anchors.version();
    }
    const std::int64_t taken = std::min(n, static_cast<std::int64_t>(order_.size() - next_));
    std::copy_n(order_.begin() + static_cast<std::ptrdiff_t>(next_), taken, rows);
    std::fill(weights, weights + taken, 1.0f);
    next_ += static_cast<std::size_t>(taken);
    return taken;
  }
  std::size_t bytes() const override { return order_.capacity() * sizeof(Row); }
  void forget() override {
    order_.clear();
    next_ = 0;
  }
  SamplerState state(const Anchors& anchors) override {
    if (version_ != anchors.version()) return {};
    return {order_.data() + next_, (order_.size() - next_) * sizeof(Row), 0};
  }
  bool restore(const Anchors& anchors, const SamplerState& state) override {
    std::vector<Row> order(state.bytes / sizeof(Row));
    if (order.size() * sizeof(Row) != state.bytes) return false;
    if (!order.empty()) std::memcpy(order.data(), state.data, state.bytes);
    // Rows that were lost while saving are passed over.
    order.erase(std::remove_if(order.begin(), order.end(), [&](Row& row) { return !anchors.contains(row); }), order.end());
    order_ = std::move(order);
    next_ = 0;
    version_ = anchors.version();
    return true;
  }

 private:
  std::vector<Row> order_;
  std::size_t next_ = 0;
  std::uint64_t version_ = 0;
};

// In proportion to (|error| + eps)^alpha (Schaul et al., 2016).
class PrioritizedSampler final : public Sampler {
 public:
  PrioritizedSampler(const Timeline& timeline, double alpha, double eps, bool stratified)
      : alpha_(alpha), eps_(eps), stratified_(stratified), tree_(timeline.lanes() * timeline.span()),
        ranges_(static_cast<std::size_t>(timeline.lanes()), {0, 0}) {}

  std::int64_t draw(const Anchors& anchors, Philox& random, std::int64_t n, double beta, Row* rows,
                    float* weights) override {
    follow(anchors);
    const double total = tree_.total();
    if (!(total > 0)) return 0;
    positions_.resize(static_cast<std::size_t>(n));
    leaves_.resize(static_cast<std::size_t>(n));
    const double part = total / static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      const double unit = random.unit();
      positions_[static_cast<std::size_t>(i)] =
          stratified_ ? (static_cast<double>(i) + unit) * part : unit * total;
    }
    tree_.find(positions_.data(), leaves_.data(), n, stratified_);
    const double least = tree_.least();
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t leaf = leaves_[static_cast<std::size_t>(i)];
      rows[i] = anchors.in_slot(leaf);
      prefetch(anchors.timeline().flags() + leaf, 1);
      // (N P)^-beta over its largest value: N and the total cancel.
      positions_[static_cast<std::size_t>(i)] = std::max(least / tree_.get(leaf), kSmallest);
    }
    powers(positions_.data(), beta, n);
    for (std::int64_t i = 0; i < n; ++i) weights[i] = static_cast<float>(positions_[static_cast<std::size_t>(i)]);
    return n;
  }

  // Takes new priorities; rows that can no longer be drawn are passed over. Returns how many those were.
  std::int64_t update_priorities(const Anchors& anchors, Row* rows, const double* errors, std::int64_t n) {
    follow(anchors);
    leaves_.clear();
    values_.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      if (!anchors.locate(rows[i])) rows[i].slot = -1;
      else tree_.warm(rows[i].slot);
    }
    // The tree holds the anchors and nothing else: what has no priority there is none.
    for (std::int64_t i = 0; i < n; ++i)
      if (rows[i].slot >= 0 && tree_.get(rows[i].slot) > 0)
        put(rows[i].slot, within_bounds(std::fabs(errors[i]) + eps_));
    const auto kept = static_cast<std::int64_t>(leaves_.size());
    powers(values_.data(), alpha_, kept);
    for (double& value : values_) {
      value = within_bounds(value);
      largest_ = std::max(largest_, value);
    }
    tree_.set(leaves_.data(), values_.data(), kept);
    return n - kept;
  }

  // Gives new anchors the largest priority so far and takes overwritten ones out.
  void follow(const Anchors& anchors) {
    if (version_ == anchors.version()) return;
    version_ = anchors.version();
    const Timeline& timeline = anchors.timeline();
    leaves_.clear();
    values_.clear();
    for (std::int64_t i = 0; i < timeline.lanes(); ++i) {
      const LaneAnchors& lane = anchors.lane(i);
      Range& range = ranges_[static_cast<std::size_t>(i)];
      const std::int64_t gone = std::min({lane.low, range.high, range.low + timeline.span()});
      for (std::int64_t serial = range.low; serial < gone; ++serial) put(timeline.slot(i, serial), 0.0);
      if (lane.low < range.low)  // rows that were left alone for a while
        anchors.each(i, lane.low, [&](const Row& row) {
          if (row.serial < range.low && tree_.get(row.slot) == 0) put(row.slot, largest_);
        });
      anchors.each(i, std::max(range.high, lane.low),
                   [&](const Row& row) { put(row.slot, largest_); });
      range = {lane.low, std::max(range.high, lane.high)};
    }
    tree_.set(leaves_.data(), values_.data(), static_cast<std::int64_t>(leaves_.size()));
  }

  Standing standing(const Anchors& anchors) override {
    follow(anchors);
    return {tree_.total(), tree_.least()};
  }
  double priority(std::int64_t leaf) const { return tree_.get(leaf); }
  std::size_t bytes() const override { return tree_.bytes(); }
  void forget() override { largest_ = 1.0; }
  SamplerState state(const Anchors& anchors) override {
    follow(anchors);
    return {tree_.data(), static_cast<std::size_t>(tree_.leaves()) * sizeof(double), largest_};
  }
  bool restore(const Anchors& anchors, const SamplerState& state) override {
    if (state.bytes != static_cast<std::size_t>(tree_.leaves()) * sizeof(double) ||
        !(state.largest >= kSmallest && state.largest <= kLargest))
      return false;
    const auto* given = static_cast<const double*>(state.data);
    const Timeline& timeline = anchors.timeline();
    std::vector<std::int64_t> leaves;
    std::vector<double> values;
    bool right = true;
    for (std::int64_t lane = 0; lane < timeline.lanes(); ++lane)
      anchors.each(lane, 0, [&](const Row& row) {
        leaves.push_back(row.slot);
        // Zero: it could not be drawn when it was saved, but can be now.
        values.push_back(given[row.slot] == 0 ? state.largest : given[row.slot]);
        right = right && values.back() >= kSmallest && values.back() <= kLargest;
      });
    if (!right) return false;
    tree_.clear();
    tree_.set(leaves.data(), values.data(), static_cast<std::int64_t>(leaves.size()));
    for (std::int64_t lane = 0; lane < timeline.lanes(); ++lane)
      ranges_[static_cast<std::size_t>(lane)] = {anchors.lane(lane).low, anchors.lane(lane).high};
    largest_ = state.largest;
    version_ = anchors.version();
    return true;
  }

 private:
  struct Range {
    std::int64_t low, high;
  };

  void put(std::int64_t leaf, double value) {
    leaves_.push_back(leaf);
    values_.push_back(value);
  }

  // Bounded so that a sum over any memory stays finite and no row's chance rounds to nothing.
  static double within_bounds(double priority) { return std::min(std::max(priority, kSmallest), kLargest); }

  static constexpr double kSmallest = 1e-150, kLargest = 1e150;
  double alpha_, eps_;
  bool stratified_;
  SumTree tree_;
  std::vector<Range> ranges_;
  double largest_ = 1.0;
  std::uint64_t version_ = ~std::uint64_t{0};
  std::vector<double> positions_, values_;
  std::vector<std::int64_t> leaves_;
};

}  // namespace relive
