// Priorities of rows, drawn from in proportion. Eight children a node: seven levels for a million rows, one cache line
// a level. Every node is the sum of its children, never patched, so rounding cannot accumulate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "memory/copy.hpp"
#include "memory/slab.hpp"

namespace relive {

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
    sizes_ = sizes;
    for (std::int64_t count : sizes) {
      sums_.push_back(next);
      next += count;
    }
    // The leaves are their own minima, a zero among them meaning "no row here"; above them that is infinity.
    least_.push_back(sums_[0]);
    least_count_ = least;
    for (std::size_t level = 1; level < sizes.size(); ++level) {
      least_.push_back(next);
      next += sizes[level];
    }
    clear();
  }

  std::int64_t leaves() const { return leaves_; }
  double total() const { return total_; }
  // The smallest priority above zero; zero if there is none.
  double least() const { return minimum_ == kInfinite ? 0 : minimum_; }
  std::int64_t count() const { return count_; }
  const double* data() const { return sums_[0]; }
  double get(std::int64_t leaf) const { return sums_[0][leaf]; }
  void warm(std::int64_t leaf) const { prefetch(sums_[0] + leaf, 1); }
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
      if (sums_.size() > 1) warm_node(1, parent);
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
        least[node] = level == 0 ? least_above_zero(children + node * kArity) : least_of(minima + node * kArity);
        const std::int64_t parent = node / kArity;
        if (kept == 0 || touched_[kept - 1] != parent) touched_[kept++] = parent;
        if (level + 2 < sums_.size()) warm_node(level + 2, parent);
      }
      touched_.resize(kept);
    }
    total_ = sum_of(sums_[top]);
    minimum_ = top == 0 ? least_above_zero(sums_[0]) : least_of(least_[top]);
  }

  // Finds the leaf that each position in [0, total) falls on; that leaf's priority is above zero. The positions are used
  // up. Where they ascend, saying so saves the levels that one walk along them can replace.
  void find(double* position, std::int64_t* leaf, std::int64_t n, bool ascending = false) const {
    std::size_t level = sums_.size();
    if (ascending) {
      while (level > 1 && sizes_[level - 1] <= n) --level;
      if (level < sums_.size()) walk(position, leaf, n, sums_[level], sizes_[level]);
    }
    if (level == sums_.size()) std::fill(leaf, leaf + n, 0);
    while (level-- > 0) {
      const double* sums = sums_[level];
      for (std::int64_t i = 0; i < n; ++i) {
        const double* child = sums + leaf[i] * kArity;
        double at = position[i];
        std::int64_t k = 0;
        // Which half, which quarter, which one: three choices without a branch.
        const double half = (child[0] + child[1]) + (child[2] + child[3]);
        k += 4 * step(at, half);
        const double quarter = child[k] + child[k + 1];
        k += 2 * step(at, quarter);
        k += step(at, child[k]);
        if (!(child[k] > 0)) k = nearest(child, k, at);  // rounding carried the position over the edge
        position[i] = at;
        leaf[i] = leaf[i] * kArity + k;
        if (level > 0) prefetch(sums_[level - 1] + leaf[i] * kArity, 1);
      }
    }
  }

  void clear() {
    auto* all = reinterpret_cast<double*>(slab_.data());
    double* const end = all + slab_.bytes() / sizeof(double);
    if (count_ > 0) std::fill(all, end - least_count_, 0.0);
    std::fill(end - least_count_, end, kInfinite);
    total_ = 0;
    minimum_ = kInfinite;
    count_ = 0;
  }

 private:
  static constexpr std::int64_t kArity = 8;
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  // The node that each of ascending positions falls on, and the position within it.
  static void walk(double* position, std::int64_t* leaf, std::int64_t n, const double* sums, std::int64_t nodes) {
    double before = 0;
    std::int64_t node = 0;
    while (node + 1 < nodes && !(sums[node] > 0)) ++node;
    for (std::int64_t i = 0; i < n; ++i) {
      while (position[i] >= before + sums[node]) {
        std::int64_t next = node + 1;
        while (next < nodes && !(sums[next] > 0)) ++next;
        if (next == nodes) break;  // past the end by rounding: the last node with anything in it
        before += sums[node];
        node = next;
      }
      position[i] = std::max(0.0, position[i] - before);
      leaf[i] = node;
    }
  }

  void warm_node(std::size_t level, std::int64_t node) const {
    prefetch(sums_[level] + node, 1);
    prefetch(least_[level] + node, 1);
  }
  // 1 and the position moved on if it lies past the part, else 0. By masks: a branch here would be a coin toss.
  static std::int64_t step(double& at, double part) {
    const std::int64_t past = at >= part;
    std::uint64_t bits;
    std::memcpy(&bits, &part, sizeof bits);
    bits &= static_cast<std::uint64_t>(-past);
    std::memcpy(&part, &bits, sizeof bits);
    at -= part;
    return past;
  }
  // The order of additions that find() relies on.
  static double sum_of(const double* child) {
    return ((child[0] + child[1]) + (child[2] + child[3])) + ((child[4] + child[5]) + (child[6] + child[7]));
  }
  static double least_of(const double* child) {
    double least[4];
    for (int j = 0; j < 4; ++j) least[j] = child[j] < child[j + 4] ? child[j] : child[j + 4];
    const double a = least[0] < least[2] ? least[0] : least[2], b = least[1] < least[3] ? least[1] : least[3];
    return a < b ? a : b;
  }
  static double least_above_zero(const double* child) {
    double filled[kArity];
    for (int j = 0; j < kArity; ++j) filled[j] = child[j] > 0 ? child[j] : kInfinite;
    return least_of(filled);
  }
  // The last child with anything in it up to k, else the first after it; some child has something.
  static std::int64_t nearest(const double* child, std::int64_t k, double& at) {
    const std::int64_t from = k;
    while (k > 0 && !(child[k] > 0)) --k;
    if (!(child[k] > 0)) {
      at = 0;
      for (k = from; k + 1 < kArity && !(child[k] > 0);) ++k;
    } else {
      at = child[k];  // its last row; the next level makes sure that it is one
    }
    return k;
  }

  std::int64_t leaves_;
  Slab slab_;
  std::vector<double*> sums_, least_;  // a level each, the leaves first
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> touched_;
  std::int64_t least_count_ = 0;
  double total_ = 0, minimum_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace relive
