// Zeroed memory straight from the system, on huge pages where it offers them; or the bytes of a file.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "memory/faults.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#define RELIVE_MMAP 1
#endif

namespace relive {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

class Slab {
 public:
  Slab() = default;
  explicit Slab(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
#ifdef RELIVE_MMAP
    // Over-reserve so that the start can be aligned; untouched pages cost nothing.
    mapped_ = bytes >= kHugePage ? bytes + kHugePage : bytes;
    void* raw = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) throw std::bad_alloc();
    raw_ = static_cast<char*>(raw);
    data_ = raw_;
    if (bytes >= kHugePage) {
      auto start = reinterpret_cast<std::uintptr_t>(raw_);
      data_ = raw_ + ((kHugePage - start % kHugePage) % kHugePage);
#ifdef MADV_HUGEPAGE
      madvise(data_, bytes, MADV_HUGEPAGE);
#endif
    }
#else
    raw_ = static_cast<char*>(std::calloc(1, bytes));
    if (raw_ == nullptr) throw std::bad_alloc();
    data_ = raw_;
#endif
  }
  // The bytes of an open file from an offset on, which must be a multiple of a page. What is written here is seen by
  // everyone who maps them; the file may be closed.
  Slab(int file, std::size_t offset, std::size_t bytes) : bytes_(bytes), mapped_(bytes) {
#ifdef RELIVE_MMAP
    void* raw = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
    if (raw == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mapping the file");
    raw_ = data_ = static_cast<char*>(raw);
    guard_ = Guards::watch(raw_, bytes);
    // Rows are drawn at random: reading ahead on disk would fetch what nobody asked for.
    madvise(raw_, bytes, MADV_RANDOM);
#ifdef MADV_HUGEPAGE
    madvise(raw_, bytes, MADV_HUGEPAGE);
#endif
#else
    (void)file;
    (void)offset;
    throw std::invalid_argument("files cannot be mapped on this system");
#endif
  }
  ~Slab() { release(); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  Slab(Slab&& other) noexcept { swap(other); }
  Slab& operator=(Slab&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // Whether these are a file's bytes, which others who map it see too.
  bool in_file() const { return guard_ != nullptr; }
  // Whether the file was cut short or could not be read, and what is here are zeros instead.
  bool lost() const { return guard_ != nullptr && guard_->lost.load(std::memory_order_relaxed); }

  // Gives memory whose contents do not matter back to the system, as far as whole pages allow. A file keeps its bytes.
  void discard(char* from, std::size_t bytes) {
#if defined(RELIVE_MMAP) && defined(__linux__)  // elsewhere the contents may stay, and come back
    if (guard_ != nullptr) return;
    const std::uintptr_t page = bytes_ >= kHugePage ? kHugePage : 4096;
    const auto at = reinterpret_cast<std::uintptr_t>(from);
    const std::uintptr_t first = (at + page - 1) / page * page, last = (at + bytes) / page * page;
    if (first < last) madvise(from + (first - at), last - first, MADV_DONTNEED);
#else
    (void)from;
    (void)bytes;
#endif
  }

 private:
  void swap(Slab& other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    std::swap(guard_, other.guard_);
  }
  void release() {
    if (raw_ == nullptr) return;
#ifdef RELIVE_MMAP
    if (guard_ != nullptr) Guards::forget(guard_);
    munmap(raw_, mapped_);
#else
    std::free(raw_);
#endif
  }

  char* raw_ = nullptr;
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t mapped_ = 0;
  Guard* guard_ = nullptr;  // of a file's bytes
};

// Puts the bytes of a mapped file on disk; returns once they are there.
inline void sync_pages(char* from, std::size_t bytes) {
#ifdef RELIVE_MMAP
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(from) % page;
  if (msync(from - before, bytes + before, MS_SYNC) != 0)
    throw std::system_error(errno, std::generic_category(), "writing the mapped file");
#else
  (void)from;
  (void)bytes;
#endif
}

}  // namespace relive
