// Products of small matrices by tiles, included once for each kind of processor: everything here has internal linkage,
// so that no code for the newer ones is linked where older ones would run it. RELIVE_KERNEL names what
// comes out, RELIVE_LANES says how many numbers a vector of that processor holds.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "nets/dense.hpp"

#if defined(__AVX__) && RELIVE_LANES == 8
#include <immintrin.h>
#endif

#if defined(__GNUC__)
#define RELIVE_INLINE inline __attribute__((always_inline))
#else
#define RELIVE_INLINE inline
#endif

namespace relive::dense {
namespace {

constexpr int kRows = 6, kLanes = RELIVE_LANES, kCols = 2 * kLanes;  // a tile: 12 vectors of sums
constexpr float kLeak = 0.01f;

#if defined(__GNUC__)
typedef float Vec __attribute__((vector_size(4 * kLanes)));
RELIVE_INLINE Vec splat(float x) { return x - Vec{}; }
RELIVE_INLINE Vec where_negative(Vec x, Vec yes, Vec no) { return x < Vec{} ? yes : no; }
RELIVE_INLINE Vec where_positive(Vec x, Vec yes, Vec no) { return x > Vec{} ? yes : no; }
typedef std::uint32_t Bits __attribute__((vector_size(4 * kLanes)));
// Two to the power that stands in the last bits.
RELIVE_INLINE Vec power_of_two(Vec x) {
  Bits bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits = (bits << 23) + 0x3f800000u;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}
// b if either is not a number
#if defined(__AVX__) && RELIVE_LANES == 8
RELIVE_INLINE Vec lower(Vec a, Vec b) { return _mm256_min_ps(a, b); }
RELIVE_INLINE Vec higher(Vec a, Vec b) { return _mm256_max_ps(a, b); }
#else
RELIVE_INLINE Vec lower(Vec a, Vec b) { return a < b ? a : b; }
RELIVE_INLINE Vec higher(Vec a, Vec b) { return a > b ? a : b; }
#endif
#else
struct Vec {
  float x[kLanes];
};
inline Vec splat(float x) {
  Vec value;
  for (float& each : value.x) each = x;
  return value;
}
inline Vec operator*(Vec a, Vec b) {
  for (int i = 0; i < kLanes; ++i) a.x[i] *= b.x[i];
  return a;
}
inline Vec operator/(Vec a, Vec b) {
  for (int i = 0; i < kLanes; ++i) a.x[i] /= b.x[i];
  return a;
}
inline Vec operator+(Vec a, Vec b) {
  for (int i = 0; i < kLanes; ++i) a.x[i] += b.x[i];
  return a;
}
inline Vec operator-(Vec a, Vec b) {
  for (int i = 0; i < kLanes; ++i) a.x[i] -= b.x[i];
  return a;
}
inline Vec& operator+=(Vec& a, Vec b) {
  for (int i = 0; i < kLanes; ++i) a.x[i] += b.x[i];
  return a;
}
inline Vec where_negative(Vec x, Vec yes, Vec no) {
  for (int i = 0; i < kLanes; ++i) x.x[i] = x.x[i] < 0 ? yes.x[i] : no.x[i];
  return x;
}
inline Vec where_positive(Vec x, Vec yes, Vec no) {
  for (int i = 0; i < kLanes; ++i) x.x[i] = x.x[i] > 0 ? yes.x[i] : no.x[i];
  return x;
}
inline Vec power_of_two(Vec x) {
  std::uint32_t bits[kLanes];
  std::memcpy(bits, &x, sizeof bits);
  for (std::uint32_t& each : bits) each = (each << 23) + 0x3f800000u;
  std::memcpy(&x, bits, sizeof bits);
  return x;
}
inline Vec lower(Vec a, Vec b) {
  for (int i = 0; i < kLanes; ++i) a.x[i] = a.x[i] < b.x[i] ? a.x[i] : b.x[i];
  return a;
}
inline Vec higher(Vec a, Vec b) {
  for (int i = 0; i < kLanes; ++i) a.x[i] = a.x[i] > b.x[i] ? a.x[i] : b.x[i];
  return a;
}
#endif

// `Whole`: a vector lies there; else only some of its numbers do, and the rest are zeros.
template <bool Whole>
RELIVE_INLINE Vec load(const float* from, Index some = kLanes) {
  Vec value = splat(0);
  if constexpr (Whole)
    std::memcpy(&value, from, sizeof value);
  else if (some > 0)
    std::memcpy(&value, from, static_cast<std::size_t>(some < kLanes ? some : kLanes) * sizeof(float));
  return value;
}
template <bool Whole>
RELIVE_INLINE void store(float* to, Vec value, Index some = kLanes) {
  if constexpr (Whole)
    std::memcpy(to, &value, sizeof value);
  else if (some > 0)
    std::memcpy(to, &value, static_cast<std::size_t>(some < kLanes ? some : kLanes) * sizeof(float));
}

// exp as a power of two and a polynomial, of what lies from -20 to 20 or is put there. Added to a number whose last bit
// counts one, the exponent is rounded, and stands in the bits.
RELIVE_INLINE Vec exp_of(Vec x) {
  constexpr float kOnes = 12582912.0f;
  const Vec y = higher(splat(-20), lower(splat(20), x));
  const Vec shifted = y * splat(1.44269504f) + splat(kOnes), n = shifted - splat(kOnes);
  const Vec r = (y - n * splat(0.693359375f)) + n * splat(2.12194440e-4f);
  const Vec rr = r * r;  // by pairs, so that fewer sums wait for one another
  const Vec high = (splat(4.1666667e-2f) + r * splat(8.3333333e-3f)) + rr * splat(1.3888889e-3f);
  const Vec low = splat(0.5f) + r * splat(1.6666667e-1f);
  return ((splat(1) + r) + rr * (low + rr * high)) * power_of_two(shifted);
}
RELIVE_INLINE Vec tanh_of(Vec x) { return splat(1) - splat(2) / (exp_of(x + x) + splat(1)); }

// What is not a number stays so.
template <Rule R>
RELIVE_INLINE Vec act(Vec x) {
  if constexpr (R == Rule::kRelu) {
    return where_negative(x, splat(0), x);
  } else if constexpr (R == Rule::kLeaky) {
    return where_negative(x, x * splat(kLeak), x);
  } else {
    return tanh_of(x);
  }
}

// A gradient times the activation's derivative, computed from its output.
template <Rule R>
RELIVE_INLINE Vec back(Vec grad, Vec given) {
  if constexpr (R == Rule::kRelu)
    return where_positive(given, grad, splat(0));
  else if constexpr (R == Rule::kLeaky)
    return where_positive(given, grad, grad * splat(kLeak));
  else
    return grad * (splat(1) - given * given);
}

// One tile: M rows and V vectors of columns, of which `width` count if they are not whole.
template <Kind K, Rule R, int M, int V, bool Whole>
RELIVE_INLINE void tile(const Product& p, Index r, Index c, Index width, const float* panel, Index step) {
  Vec sum[M][V];
  for (int m = 0; m < M; ++m)
    for (int v = 0; v < V; ++v) {
      const Index at = v * kLanes;
      if constexpr (K == Kind::kForward || K == Kind::kOutput)
        sum[m][v] = load<Whole>(p.bias + c + at, width - at);
      else if constexpr (K == Kind::kAdd)
        sum[m][v] = load<Whole>(p.out + (r + m) * p.out_step + c + at, width - at);
      else
        sum[m][v] = splat(0);
    }
  const float* a = p.a + r * p.a_row;
  for (Index k = 0; k < p.depth; ++k) {
    Vec b[V];
    for (int v = 0; v < V; ++v) b[v] = load<true>(panel + v * kLanes);
    for (int m = 0; m < M; ++m) {
      const Vec x = splat(a[m * p.a_row]);
      for (int v = 0; v < V; ++v) sum[m][v] += x * b[v];
    }
    a += p.a_step;
    panel += step;
  }
  for (int m = 0; m < M; ++m)
    for (int v = 0; v < V; ++v) {
      const Index at = v * kLanes;
      Vec value = sum[m][v];
      if constexpr (K == Kind::kForward) value = act<R>(value);
      if constexpr (K == Kind::kSlope) value = back<R>(value, load<Whole>(p.given + (r + m) * p.given_step + c + at, width - at));
      store<Whole>(p.out + (r + m) * p.out_step + c + at, value, width - at);
    }
}

template <Kind K, Rule R, int V, bool Whole>
RELIVE_INLINE void strip(const Product& p, Index r, Index rows, Index c, Index width, const float* panel,
                            Index step) {
  switch (rows) {
    case 1: return tile<K, R, 1, V, Whole>(p, r, c, width, panel, step);
    case 2: return tile<K, R, 2, V, Whole>(p, r, c, width, panel, step);
    case 3: return tile<K, R, 3, V, Whole>(p, r, c, width, panel, step);
    case 4: return tile<K, R, 4, V, Whole>(p, r, c, width, panel, step);
    case 5: return tile<K, R, 5, V, Whole>(p, r, c, width, panel, step);
    default: return tile<K, R, 6, V, Whole>(p, r, c, width, panel, step);
  }
}

template <Kind K, Rule R>
void multiply_panels(const Product& p) {
  const float* panel = p.b;
  for (Index c = 0; c < p.cols; c += kCols, panel += p.depth * kCols)
    for (Index r = 0; r < p.rows; r += kRows) {
      const Index rows = p.rows - r < kRows ? p.rows - r : kRows, left = p.cols - c;
      if (left >= kCols)
        strip<K, R, 2, true>(p, r, rows, c, kCols, panel, kCols);
      else if (left > kLanes)
        strip<K, R, 2, false>(p, r, rows, c, left, panel, kCols);
      else
        strip<K, R, 1, false>(p, r, rows, c, left, panel, kCols);
    }
}

// `scratch` has room for depth times 16.
template <Kind K, Rule R>
void multiply(const Product& p, float* scratch) {
  if (p.b_step == 0) return multiply_panels<K, R>(p);
  const Index edge = p.cols / kCols * kCols, left = p.cols - edge;
  const Index padded = left > kLanes ? kCols : kLanes;
  for (Index k = 0; left && k < p.depth; ++k)
    for (Index i = 0; i < padded; ++i) scratch[k * padded + i] = i < left ? p.b[k * p.b_step + edge + i] : 0;
  for (Index r = 0; r < p.rows; r += kRows) {
    const Index rows = p.rows - r < kRows ? p.rows - r : kRows;
    for (Index c = 0; c < edge; c += kCols) strip<K, R, 2, true>(p, r, rows, c, kCols, p.b + c, p.b_step);
    if (left > kLanes)
      strip<K, R, 2, false>(p, r, rows, edge, left, scratch, padded);
    else if (left)
      strip<K, R, 1, false>(p, r, rows, edge, left, scratch, padded);
  }
}

template <Kind K>
void multiply_by_rule(const Product& p, Rule rule, float* scratch) {
  switch (rule) {
    case Rule::kRelu: return multiply<K, Rule::kRelu>(p, scratch);
    case Rule::kLeaky: return multiply<K, Rule::kLeaky>(p, scratch);
    case Rule::kTanh: return multiply<K, Rule::kTanh>(p, scratch);
  }
}

void multiply_any(const Product& product, Kind kind, Rule rule, float* scratch) {
  switch (kind) {
    case Kind::kForward: return multiply_by_rule<Kind::kForward>(product, rule, scratch);
    case Kind::kSlope: return multiply_by_rule<Kind::kSlope>(product, rule, scratch);
    case Kind::kOutput: return multiply<Kind::kOutput, Rule::kRelu>(product, scratch);
    case Kind::kPlain: return multiply<Kind::kPlain, Rule::kRelu>(product, scratch);
    case Kind::kAdd: return multiply<Kind::kAdd, Rule::kRelu>(product, scratch);
  }
}

// Calls with where each vector of a line begins, and whether all of it lies there.
template <class Do>
RELIVE_INLINE void by_vectors(Index size, const Do& work) {
  Index at = 0;
  for (; at + kLanes <= size; at += kLanes) work(std::true_type{}, at);
  if (at < size) work(std::false_type{}, at);
}

void sum_rows(Index rows, Index cols, const float* from, Index step, float* to) {
  by_vectors(cols, [&](auto whole, Index at) {
    constexpr bool W = decltype(whole)::value;
    Vec sum = load<W>(to + at, cols - at);
    for (Index r = 0; r < rows; ++r) sum += load<W>(from + r * step + at, cols - at);
    store<W>(to + at, sum, cols - at);
  });
}

void gate(Index rows, Index units, float* records, float* state) {
  for (Index r = 0; r < rows; ++r) {
    float *record = records + r * kParts * units, *h = state + r * units;
    by_vectors(units, [&](auto whole, Index at) {
      constexpr bool W = decltype(whole)::value;
      const Index some = units - at;
      const auto part = [&](Part which) { return record + which * units + at; };
      // Two sigmoids by one division.
      const Vec one = splat(1), zero = splat(0);
      const Vec opened = one + exp_of(zero - load<W>(part(kReset), some));
      const Vec kept = one + exp_of(zero - load<W>(part(kUpdate), some)), both = one / (opened * kept);
      const Vec open = kept * both, old = opened * both;
      const Vec fresh = tanh_of(load<W>(part(kContent), some) + open * load<W>(part(kHeld), some));
      const Vec after = fresh + old * (load<W>(h + at, some) - fresh);
      store<W>(part(kReset), open, some);
      store<W>(part(kUpdate), old, some);
      store<W>(part(kContent), fresh, some);
      store<W>(part(kAfter), after, some);
      store<W>(h + at, after, some);
    });
  }
}

void ungate(Index rows, Index units, float* records, float* grad) {
  const Vec one = splat(1);
  for (Index r = 0; r < rows; ++r) {
    float *record = records + r * kParts * units, *down = grad + r * units;
    by_vectors(units, [&](auto whole, Index at) {
      constexpr bool W = decltype(whole)::value;
      const Index some = units - at;
      const auto part = [&](Part which) { return record + which * units + at; };
      const Vec open = load<W>(part(kReset), some), old = load<W>(part(kUpdate), some);
      const Vec fresh = load<W>(part(kContent), some), d = load<W>(down + at, some);
      const Vec to_fresh = d * (one - old) * (one - fresh * fresh), through = to_fresh * open;
      store<W>(part(kReset), through * load<W>(part(kHeld), some) * (one - open), some);
      store<W>(part(kUpdate), d * (load<W>(part(kBefore), some) - fresh) * old * (one - old), some);
      store<W>(part(kContent), to_fresh, some);
      store<W>(part(kHeld), through, some);
      store<W>(down + at, d * old, some);
    });
  }
}

}  // namespace

const Kernel RELIVE_KERNEL{kCols, multiply_any, sum_rows, gate, ungate};

}  // namespace relive::dense
