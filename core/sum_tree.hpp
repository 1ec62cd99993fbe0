// Priorities of rows, drawn from in proportion. Eight children a node: seven levels for a million rows, one cache line
// a level. Every node is the sum of its children added in order, never patched, so rounding cannot accumulate.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "slab.hpp"

namespace recollect {

class SumTree {
 public:
  explicit SumTree(std::int64_t leaves) : leaves_(leaves) {
    std::int64_t size = leaves;
    std::vector<std::int64_t> sizes;
    do {
      size = (size + kArity - 1) / kArity * kArity;
      sizes.push_back(size);
      size /= kArity;
    } while (size > 1);
    std::int64_t sums = 0, least = 0;
    for (std::size_t level = 0; level < sizes.size(); ++level) {
      sums += sizes[level];
      if (level > 0) least += sizes[level];
    }
    slab_ = Slab(static_cast<std::size_t>(sums + least) * sizeof(double));
    auto* next = reinterpret_cast<double*>(slab_.data());
    for (std::int64_t count : sizes) {
      sums_.push_back(next);
      next += count;
    }
    // The leaves are their own minima; a zero means "no row here", above the leaves as well.
    least_.push_back(sums_[0]);
    for (std::size_t level = 1; level < sizes.size(); ++level) {
      least_.push_back(next);
      next += sizes[level];
    }
  }

  std::int64_t leaves() const { return leaves_; }
  double total() const { return total_; }
  // The smallest priority above zero; zero if there is none.
  double least() const { return minimum_; }
  std::int64_t count() const { return count_; }
  double get(std::int64_t leaf) const { return sums_[0][leaf]; }
  std::size_t bytes() const { return slab_.bytes(); }

  // Sets leaves in the order given (the last of a pair of equal leaves wins).
  void set(const std::int64_t* leaf, const double* value, std::int64_t n) {
    if (n == 0) return;
    touched_.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      double& old = sums_[0][leaf[i]];
      count_ += (value[i] > 0) - (old > 0);
      old = value[i];
      const std::int64_t parent = leaf[i] / kArity;
      if (touched_.empty() || touched_.back() != parent) touched_.push_back(parent);
    }
    const std::size_t top = sums_.size() - 1;
    for (std::size_t level = 0; level < top; ++level) {
      const double* children = sums_[level];
      const double* minima = least_[level];
      double* sums = sums_[level + 1];
      double* least = least_[level + 1];
      std::size_t kept = 0;
      for (std::size_t i = 0; i < touched_.size(); ++i) {
        const std::int64_t node = touched_[i];
        sums[node] = sum_of(children + node * kArity);
        least[node] = least_of(minima + node * kArity);
        const std::int64_t parent = node / kArity;
        if (kept == 0 || touched_[kept - 1] != parent) touched_[kept++] = parent;
      }
      touched_.resize(kept);
    }
    total_ = sum_of(sums_[top]);
    minimum_ = least_of(least_[top]);
  }

  // Replaces each position in [0, total) by the leaf it falls on; that leaf's priority is above zero.
  void find(double* position, std::int64_t* leaf, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) leaf[i] = 0;
    for (std::size_t level = sums_.size(); level-- > 0;) {
      const double* sums = sums_[level];
      for (std::int64_t i = 0; i < n; ++i) {
        const double* child = sums + leaf[i] * kArity;
        const double at = position[i];
        double running = 0, before = 0;
        int k = 0;
        for (int j = 0; j < kArity; ++j) {
          running += child[j];
          const bool past = at >= running;
          k += past;
          before = past ? running : before;
        }
        if (k < kArity) {
          position[i] = at - before;
        } else {  // rounding carried the position past the end: the last child with anything in it
          k = kArity - 1;
          while (k > 0 && !(child[k] > 0)) --k;
          position[i] = child[k];
        }
        leaf[i] = leaf[i] * kArity + k;
#if defined(__GNUC__)
        if (level > 0) __builtin_prefetch(sums_[level - 1] + leaf[i] * kArity);
#endif
      }
    }
  }

  void clear() {
    std::memset(slab_.data(), 0, slab_.bytes());
    total_ = minimum_ = 0;
    count_ = 0;
  }

 private:
  static constexpr std::int64_t kArity = 8;

  static double sum_of(const double* child) {
    double sum = 0;
    for (int j = 0; j < kArity; ++j) sum += child[j];
    return sum;
  }
  static double least_of(const double* child) {
    double least = std::numeric_limits<double>::infinity();
    for (int j = 0; j < kArity; ++j) {
      const double value = child[j] > 0 ? child[j] : std::numeric_limits<double>::infinity();
      least = value < least ? value : least;
    }
    return least == std::numeric_limits<double>::infinity() ? 0 : least;
  }

  std::int64_t leaves_;
  Slab slab_;
  std::vector<double*> sums_, least_;
  std::vector<std::int64_t> touched_;
  double total_ = 0, minimum_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace recollect
