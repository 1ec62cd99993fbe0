// A log of rows as they are appended, for those who may lose nothing (docs/format.md, "Journals").
//
// A record is the length of its payload, the payload's XXH64, and the payload. It is written before its rows count.
#pragma once

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

#include "memory/copy.hpp"
#include "memory/hash.hpp"
#include "memory/rows.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#define RELIVE_JOURNAL 1
#endif

namespace relive {

class Journal {
 public:
  enum Kind : std::int64_t { kRows = 1, kCut = 2, kClear = 3, kForget = 4 };

  // Takes over a file that is open for writing at its end.
  Journal(int file, bool synced) : file_(file), synced_(synced) {}
  ~Journal() {
#ifdef RELIVE_JOURNAL
    ::close(file_);
#endif
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void begin(Kind kind) {
    buffer_.resize(2 * sizeof(std::uint64_t));
    number(kind);
  }
  void number(std::int64_t value) { add(&value, sizeof value); }
  void add(const void* data, std::size_t bytes) { std::memcpy(room(bytes), data, bytes); }
  // So many bytes more, to be filled by the caller at once.
  char* room(std::size_t bytes) {
    const std::size_t at = buffer_.size();
    buffer_.resize(at + bytes);
    return buffer_.data() + at;
  }
  std::size_t size() const { return buffer_.size(); }
  // Whether nothing but its kind has been put into what was begun.
  bool empty() const { return buffer_.size() == 3 * sizeof(std::uint64_t); }

  // Writes what was begun.
  void write() {
    const std::uint64_t bytes = buffer_.size() - 2 * sizeof(std::uint64_t);
    const std::uint64_t hash = hash_of(buffer_.data() + 2 * sizeof(std::uint64_t), bytes);
    std::memcpy(buffer_.data(), &bytes, sizeof bytes);
    std::memcpy(buffer_.data() + sizeof bytes, &hash, sizeof hash);
#ifdef RELIVE_JOURNAL
    if (broken_) fail(EIO);
    for (std::size_t done = 0; done < buffer_.size();) {
      const ssize_t some = ::write(file_, buffer_.data() + done, buffer_.size() - done);
      if (some < 0 && errno == EINTR) continue;
      if (some < 0) fail(errno);
      done += static_cast<std::size_t>(some);
    }
#endif
  }
  // Remembers where the next step begins.
  void mark() {
#ifdef RELIVE_JOURNAL
    mark_ = ::lseek(file_, 0, SEEK_CUR);
#endif
  }
  // Takes back what was written since then; where that fails too, nothing can be written any more.
  void take_back() {
#ifdef RELIVE_JOURNAL
    if (::ftruncate(file_, mark_) != 0 || ::lseek(file_, mark_, SEEK_SET) < 0) broken_ = true;
#endif
  }
  // Puts it on disk, if that was asked for.
  void settle() {
#ifdef RELIVE_JOURNAL
#if defined(__APPLE__)
    if (synced_ && ::fsync(file_) != 0) fail(errno);
#else
    if (synced_ && ::fdatasync(file_) != 0) fail(errno);
#endif
#endif
  }

 private:
  [[noreturn]] static void fail(int error) {
    throw std::system_error(error, std::generic_category(), "writing the journal");
  }

  int file_;
  bool synced_, broken_ = false;
  std::int64_t mark_ = 0;
  std::vector<char> buffer_;
};

}  // namespace relive
