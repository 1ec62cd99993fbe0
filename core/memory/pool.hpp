// Batch memory that is handed out again once a batch has been released: fresh pages cost more than the copying.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "memory/forks.hpp"
#include "memory/slab.hpp"

namespace relive {

class Pool final : public Forkable {
 public:
  Slab take(std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto found = idle_.find(size);
      if (found != idle_.end() && !found->second.empty()) {
        Slab slab = std::move(found->second.back());
        found->second.pop_back();
        kept_ -= size;
        return slab;
      }
    }
    return Slab(size);
  }

  void give(Slab slab) {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t size = slab.bytes();
    if (kept_ + size > kMostKept) {
      idle_.clear();
      kept_ = 0;
      if (size > kMostKept) return;
    }
    idle_[size].push_back(std::move(slab));
    kept_ += size;
  }

 private:
  void before_fork() override { mutex_.lock(); }
  void after_fork() override { mutex_.unlock(); }
  void after_fork_child() override { renew(mutex_); }

  // Sizes an eighth of a power of two apart, so that batches of nearly equal length share blocks; from a quarter of a
  // huge page on, whole huge pages.
  static std::size_t rounded(std::size_t bytes) {
    std::size_t unit = bytes < kHugePage / 4 ? 4096 : kHugePage;
    while (unit * 16 < bytes) unit *= 2;
    return (bytes + unit - 1) / unit * unit;
  }

  static constexpr std::size_t kMostKept = std::size_t{256} << 20;
  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<Slab>> idle_;
  std::size_t kept_ = 0;
};

// One batch's memory; it goes back to its pool when the last array over it is gone.
class Lease {
 public:
  Lease(std::shared_ptr<Pool> pool, std::size_t bytes) : pool_(std::move(pool)), slab_(pool_->take(bytes)) {}
  ~Lease() { pool_->give(std::move(slab_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  char* data() const { return slab_.data(); }

 private:
  std::shared_ptr<Pool> pool_;
  Slab slab_;
};

}  // namespace relive
