// Products of small matrices by tiles, included once for each kind of processor: everything here has internal linkage,
// so that no code for the newer ones is linked where older ones would run it. RECOLLECT_KERNEL names the entry,
// RECOLLECT_LANES says how many numbers a vector of that processor holds.

#include <cstdint>
#include <cstring>

#include "dense.hpp"

#if defined(__GNUC__)
#define RECOLLECT_INLINE inline __attribute__((always_inline))
#else
#define RECOLLECT_INLINE inline
#endif

namespace recollect::dense {
namespace {

constexpr int kRows = 6, kLanes = RECOLLECT_LANES, kCols = 2 * kLanes;  // a tile: 12 vectors of sums
constexpr float kLeak = 0.01f;

#if defined(__GNUC__)
typedef float Vec __attribute__((vector_size(4 * kLanes)));
RECOLLECT_INLINE Vec splat(float x) { return x - Vec{}; }
RECOLLECT_INLINE Vec where_negative(Vec x, Vec yes, Vec no) { return x < Vec{} ? yes : no; }
RECOLLECT_INLINE Vec where_positive(Vec x, Vec yes, Vec no) { return x > Vec{} ? yes : no; }
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
#endif

// `Whole`: a vector lies there; else only some of its numbers do, and the rest are zeros.
template <bool Whole>
RECOLLECT_INLINE Vec load(const float* from, Index some = kLanes) {
  Vec value = splat(0);
  if constexpr (Whole)
    std::memcpy(&value, from, sizeof value);
  else if (some > 0)
    std::memcpy(&value, from, static_cast<std::size_t>(some < kLanes ? some : kLanes) * sizeof(float));
  return value;
}
template <bool Whole>
RECOLLECT_INLINE void store(float* to, Vec value, Index some = kLanes) {
  if constexpr (Whole)
    std::memcpy(to, &value, sizeof value);
  else if (some > 0)
    std::memcpy(to, &value, static_cast<std::size_t>(some < kLanes ? some : kLanes) * sizeof(float));
}

// 1 - 2 / (exp(2x) + 1), with exp as a power of two and a polynomial: a loop over it becomes vectors.
RECOLLECT_INLINE float tanh_of(float x) {
  const float y = 2 * x < -20.0f ? -20.0f : 2 * x > 20.0f ? 20.0f : 2 * x;
  const float z = y == y ? y : 0.0f;  // what is not a number has no whole part
  const float n = static_cast<float>(static_cast<std::int32_t>(z * 1.44269504f + (z > 0 ? 0.5f : -0.5f)));
  const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  const float e =
      1 + r * (1 + r * (0.5f + r * (1.6666667e-1f + r * (4.1666667e-2f + r * (8.3333333e-3f + r * 1.3888889e-3f)))));
  const std::uint32_t bits = (static_cast<std::uint32_t>(static_cast<std::int32_t>(n)) + 127u) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return 1 - 2 / (e * power + 1);
}

// What is not a number stays so.
template <Rule R>
RECOLLECT_INLINE Vec act(Vec x) {
  if constexpr (R == Rule::kRelu) {
    return where_negative(x, splat(0), x);
  } else if constexpr (R == Rule::kLeaky) {
    return where_negative(x, x * splat(kLeak), x);
  } else {
    float line[kLanes];
    std::memcpy(line, &x, sizeof x);
    for (float& each : line) each = tanh_of(each);
    std::memcpy(&x, line, sizeof x);
    return x;
  }
}

// A gradient times the activation's slope, told from what it gave.
template <Rule R>
RECOLLECT_INLINE Vec back(Vec grad, Vec given) {
  if constexpr (R == Rule::kRelu)
    return where_positive(given, grad, splat(0));
  else if constexpr (R == Rule::kLeaky)
    return where_positive(given, grad, grad * splat(kLeak));
  else
    return grad * (splat(1) - given * given);
}

// One tile: M rows and V vectors of columns, of which `width` count if they are not whole.
template <Kind K, Rule R, int M, int V, bool Whole>
RECOLLECT_INLINE void tile(const Product& p, Index r, Index c, Index width, const float* panel, Index step) {
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
RECOLLECT_INLINE void strip(const Product& p, Index r, Index rows, Index c, Index width, const float* panel,
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

// `scratch` has room for depth times 16.
template <Kind K, Rule R>
void multiply(const Product& p, float* scratch) {
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

}  // namespace

void RECOLLECT_KERNEL(const Product& product, Kind kind, Rule rule, float* scratch) {
  switch (kind) {
    case Kind::kForward: return multiply_by_rule<Kind::kForward>(product, rule, scratch);
    case Kind::kSlope: return multiply_by_rule<Kind::kSlope>(product, rule, scratch);
    case Kind::kOutput: return multiply<Kind::kOutput, Rule::kRelu>(product, scratch);
    case Kind::kPlain: return multiply<Kind::kPlain, Rule::kRelu>(product, scratch);
    case Kind::kAdd: return multiply<Kind::kAdd, Rule::kRelu>(product, scratch);
  }
}

}  // namespace recollect::dense
