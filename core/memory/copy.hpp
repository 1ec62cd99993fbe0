// Copies of a few bytes without a call, and a loop over rows that two threads may share.
#pragma once

#include <cstdint>
#include <cstring>
#include <thread>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace relive {

template <int N>
inline void copy_fixed(char* to, const char* from) {
  std::memcpy(to, from, N);
}

// Small fields dominate; a library call each would cost more than their bytes do.
inline void copy_bytes(char* to, const char* from, std::int64_t n) {
  if (n > 256) {
    std::memcpy(to, from, static_cast<std::size_t>(n));
  } else if (n >= 16) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) copy_fixed<16>(to + i, from + i);
    if (i < n) copy_fixed<16>(to + n - 16, from + n - 16);
  } else if (n >= 8) {
    copy_fixed<8>(to, from);
    copy_fixed<8>(to + n - 8, from + n - 8);
  } else if (n >= 4) {
    copy_fixed<4>(to, from);
    copy_fixed<4>(to + n - 4, from + n - 4);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

// Past the caches, for batches that would not stay in them anyway: it saves reading what is only written over.
inline void copy_past_caches(char* to, const char* from, std::int64_t n) {
#if defined(__SSE2__)
  if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0 && n % 16 == 0) {
    for (std::int64_t i = 0; i < n; i += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    return;
  }
#endif
  std::memcpy(to, from, static_cast<std::size_t>(n));
}

inline void finish_past_caches() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

template <int N>
inline void copy_fixed_rows(char* to, const char* from, std::int64_t pitch, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) copy_fixed<N>(to + i * N, from + i * pitch);
}

// n values of some bytes each, `pitch` bytes apart, laid side by side.
inline void copy_rows(char* to, const char* from, std::int64_t pitch, std::int64_t bytes, std::int64_t n) {
  if (pitch == bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(n * bytes));
    return;
  }
  switch (bytes) {
    case 1: return copy_fixed_rows<1>(to, from, pitch, n);
    case 4: return copy_fixed_rows<4>(to, from, pitch, n);
    case 8: return copy_fixed_rows<8>(to, from, pitch, n);
    case 16: return copy_fixed_rows<16>(to, from, pitch, n);
    case 32: return copy_fixed_rows<32>(to, from, pitch, n);
    default:
      for (std::int64_t i = 0; i < n; ++i) copy_bytes(to + i * bytes, from + i * pitch, bytes);
  }
}

// The other way round: n values that lie side by side, put `pitch` bytes apart.
inline void spread_rows(char* to, std::int64_t pitch, const char* from, std::int64_t bytes, std::int64_t n) {
  if (bytes == 4) {
    for (std::int64_t i = 0; i < n; ++i) copy_fixed<4>(to + i * pitch, from + i * 4);
  } else {
    for (std::int64_t i = 0; i < n; ++i) copy_bytes(to + i * pitch, from + i * bytes, bytes);
  }
}

// Asks for the cache lines of a row; of a long one the first few, the processor finds the rest.
inline void prefetch(const void* at, std::int64_t bytes) {
#if defined(__GNUC__)
  const auto start = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t end = start + static_cast<std::uintptr_t>(bytes < 256 ? bytes : 256);
  for (std::uintptr_t line = start / 64 * 64; line < end; line += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(line));
    __asm__ volatile("");  // without it GCC finds that a function which only prefetches does nothing, and drops its calls
  }
#else
  (void)at;
  (void)bytes;
#endif
}

// Calls work(begin, end) over [0, n), on two threads where the bytes moved repay starting one.
template <class Work>
void share(std::int64_t n, std::int64_t bytes, std::int64_t threads, const Work& work) {
  constexpr std::int64_t kWorthAThread = std::int64_t{8} << 20;
  if (threads < 2 || n < 2 || bytes < kWorthAThread) {
    work(std::int64_t{0}, n);
    return;
  }
  const std::int64_t half = n / 2;
  std::thread other([&] { work(half, n); });
  work(std::int64_t{0}, half);
  other.join();
}

}  // namespace relive
