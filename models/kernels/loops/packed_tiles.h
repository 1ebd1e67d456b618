#pragma once

#include "models/kernels/loops/vectors.h"

// Products of rows and packed blocks (models/kernels/kernels.h).
namespace hooked::kernels {
namespace {

struct FloatElements {
  using Element = float;
  using Result = Element;
  static constexpr int kDepth = 1;  // inputs that are added in one step
  using Weights = Floats;
  using Input = float;

  [[gnu::always_inline]] static Input input(const Element* x) { return *x; }
  [[gnu::always_inline]] static Weights weights(const Element* w) { return floats_at(w); }
  template <class X>  // an input, or one per weight
  [[gnu::always_inline]] static void add(Floats& sum, const Weights& w, const X& x) {
    sum += w * x;
  }
  [[gnu::always_inline]] static Floats bias(const Element* b) { return floats_at(b); }
  [[gnu::always_inline]] static float number(Element element) { return element; }
  [[gnu::always_inline]] static void store_one(Element* out, float sum) { *out = sum; }
  [[gnu::always_inline]] static void store_all(Element* out, const Floats& sum) { store(out, sum); }
};

// bfloat16 is the upper half of float32.
struct Bfloat16Elements {
  using Element = std::uint16_t;
  using Result = Element;
  static constexpr int kDepth = 2;

  [[gnu::always_inline]] static Floats bias(const Element* b) {
    return reinterpret_cast<Floats>(__builtin_convertvector(halves_at(b), Words) << 16);
  }
  [[gnu::always_inline]] static float number(Element element) {
    return __builtin_bit_cast(float, std::uint32_t{element} << 16);
  }
  [[gnu::always_inline]] static void store_one(Element* out, float sum) {
    const auto bits = __builtin_bit_cast(std::uint32_t, sum);
    *out = sum == sum ? static_cast<Element>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16) : 0x7fc0u;
  }
  // To the nearest, ties to even; NaN stays NaN.
  [[gnu::always_inline]] static void store_all(Element* out, const Floats& sum) {
    const Words bits = reinterpret_cast<Words>(sum);
    const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const auto is_number = reinterpret_cast<Words>(sum == sum);
    store(out, __builtin_convertvector((rounded & is_number) | (~is_number & 0x7fc0u), Halves));
  }

  struct Weights {
    Floats even, odd;
  };
  using Input = Weights;
  [[gnu::always_inline]] static Weights both(const Words& pairs) {
    return {reinterpret_cast<Floats>(pairs << 16), reinterpret_cast<Floats>(pairs & 0xffff0000u)};
  }
  [[gnu::always_inline]] static Input input(const Element* x) { return both(word_at(x)); }
  [[gnu::always_inline]] static Weights weights(const Element* w) { return both(words_at(w)); }
  [[gnu::always_inline]] static void add(Floats& sum, const Weights& w, const Input& x) {
    sum += w.even * x.even;
    sum += w.odd * x.odd;
  }
};

// Stores sums unrounded.
template <class Elements>
struct Unrounded : Elements {
  using Result = float;
  [[gnu::always_inline]] static void store_one(Result* out, float sum) { *out = sum; }
  [[gnu::always_inline]] static void store_all(Result* out, const Floats& sum) { store(out, sum); }
};

constexpr std::int64_t kLine = 64;  // bytes of a cache line

// The number of parts of size `of` that hold `all`; none if either is 0.
constexpr std::int64_t parts_of(std::int64_t all, std::int64_t of) {
  return of > 0 ? (all + of - 1) / of : 0;
}

// Prefetches what the next product reads into the second-level cache, in `parts` equal parts of some cache
// lines, one per step: a block is larger than what the processor prefetches on its own.
class Fetching {
 public:
  Fetching(const BlockProduct& p, std::int64_t parts, std::int64_t steps)
      : next_(static_cast<const char*>(p.next)),
        of_part_(parts_of(p.next_bytes / kLine, parts)),
        of_step_(parts_of(of_part_, steps)) {}

  void begin_part() { left_ = of_part_; }
  [[gnu::always_inline]] void step() {
    if (left_ <= 0) return;
    left_ -= of_step_;
    for (std::int64_t line = 0; line < of_step_; ++line, next_ += kLine) __builtin_prefetch(next_, 0, 2);
  }

 private:
  const char* next_;
  std::int64_t of_part_, of_step_, left_ = 0;
};

// kRows rows times the kVectors vectors of columns that begin at column `first`, all sums in registers.
template <class Elements, int kSixteens, int kRows, int kVectors>
void tile(const BlockProduct& p, std::int64_t row, std::int64_t first, Fetching& fetching) {
  using Element = typename Elements::Element;
  constexpr std::int64_t kColumns = kPackedColumns * kSixteens;
  const std::int64_t in = p.in, x_stride = p.x_stride;
  const Element* x = static_cast<const Element*>(p.x) + row * x_stride;
  const Element* w = static_cast<const Element*>(p.block) + first * Elements::kDepth;
  auto* out = static_cast<typename Elements::Result*>(p.out) + row * p.out_stride + first;
  // Results may not be in any cache; they are fetched while sums are added up.
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 12
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(out + r * p.out_stride + v * kLanes, 1, 3);
  }
  Floats sums[kRows][kVectors] = {};
  if constexpr (sizeof(Element) == sizeof(float)) {
    if (p.more) {
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 12
        for (int v = 0; v < kVectors; ++v) sums[r][v] = floats_at(out + r * p.out_stride + v * kLanes);
      }
    }
  }
  fetching.begin_part();
  for (std::int64_t i = 0; i < in; i += Elements::kDepth) {
    if constexpr (kRows > 1 && kLanes == 16) fetching.step();  // where sums hide it
    typename Elements::Weights weights[kVectors];
#pragma GCC unroll 12
    for (int v = 0; v < kVectors; ++v)
      weights[v] = Elements::weights(w + i * kColumns + v * kLanes * Elements::kDepth);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const typename Elements::Input input = Elements::input(x + r * x_stride + i);
#pragma GCC unroll 12
      for (int v = 0; v < kVectors; ++v) Elements::add(sums[r][v], weights[v], input);
    }
  }
  const Element* bias = static_cast<const Element*>(p.bias);
#pragma GCC unroll 12
  for (int v = 0; v < kVectors; ++v) {
    const Floats added = bias == nullptr ? Floats{} : Elements::bias(bias + first + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
      Elements::store_all(out + r * p.out_stride + v * kLanes, sums[r][v] + added);
  }
}

// The rows from `row` on in tiles of kRows, the rest in the largest smaller tile.
template <class Elements, int kSixteens, int kRows, int kVectors>
void rows_of_tiles(const BlockProduct& p, std::int64_t row, std::int64_t first, Fetching& fetching) {
  for (; row + kRows <= p.rows; row += kRows)
    tile<Elements, kSixteens, kRows, kVectors>(p, row, first, fetching);
  if constexpr (kRows > 1) {
    if (row < p.rows) rows_of_tiles<Elements, kSixteens, kRows - 1, kVectors>(p, row, first, fetching);
  }
}

// The sum of a vector's lanes, always in the same order.
[[gnu::always_inline]] inline float sum_of(Floats sums) {
#pragma GCC unroll 4
  for (int step = kLanes / 2; step > 0; step /= 2) {
    Words lanes;
#pragma GCC unroll 16
    for (int lane = 0; lane < kLanes; ++lane)
      lanes[lane] = static_cast<std::uint32_t>((lane + step) % kLanes);
    sums += __builtin_shuffle(sums, lanes);
  }
  return sums[0];
}

// kRows rows times kColumns neighbouring columns, which are contiguous each. Several columns share the loads
// of the rows.
template <class Elements, int kRows, int kColumns>
void dots(const BlockProduct& p, std::int64_t column) {
  using Element = typename Elements::Element;
  constexpr std::int64_t kStep = kLanes * Elements::kDepth;
  constexpr std::int64_t kAhead = 2048 / static_cast<std::int64_t>(sizeof(Element));  // half a page
  const std::int64_t in = p.in, whole = in / kStep * kStep, ahead = kColumns == 1 ? kAhead : kColumns * in;
  const Element* w = static_cast<const Element*>(p.block) + column * in;
  const Element* x = static_cast<const Element*>(p.x);
  Floats sums[kRows][kColumns] = {};
  for (std::int64_t i = 0; i < whole; i += kStep) {
    typename Elements::Weights weights[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      weights[c] = Elements::weights(w + c * in + i);
      __builtin_prefetch(w + c * in + i + ahead);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename Elements::Weights inputs = Elements::weights(x + r * p.x_stride + i);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) Elements::add(sums[r][c], weights[c], inputs);
    }
  }
  const Element* bias = static_cast<const Element*>(p.bias);
  auto* out = static_cast<typename Elements::Result*>(p.out) + column;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      float sum = sum_of(sums[r][c]);
      for (std::int64_t i = whole; i < in; ++i)
        sum += Elements::number(w[c * in + i]) * Elements::number(x[r * p.x_stride + i]);
      if (bias != nullptr) sum += Elements::number(bias[column + c]);
      Elements::store_one(out + r * p.out_stride + c, sum);
    }
  }
}

template <class Elements, int kRows>
void dots_of_rows(const BlockProduct& p, std::int64_t columns) {
  // 24 of 32 registers hold sums; with 16, one column at a time. Few rows only wait for memory.
  constexpr int kColumns = kLanes == 16 && kRows > 2 ? 3 : 1;
  std::int64_t column = 0;
  for (; column + kColumns <= columns; column += kColumns) dots<Elements, kRows, kColumns>(p, column);
  for (; column < columns; ++column) dots<Elements, kRows, 1>(p, column);
}

template <class Elements>
void row_dots(const BlockProduct& p, std::int64_t columns) {
  using Dots = void (*)(const BlockProduct&, std::int64_t);
  static constexpr Dots kDots[kMostDotRows] = {dots_of_rows<Elements, 1>, dots_of_rows<Elements, 2>,
                                               dots_of_rows<Elements, 3>, dots_of_rows<Elements, 4>,
                                               dots_of_rows<Elements, 5>, dots_of_rows<Elements, 6>,
                                               dots_of_rows<Elements, 7>, dots_of_rows<Elements, 8>};
  kDots[p.rows - 1](p, columns);
}

template <class Elements, int kSixteens>
void block_product(const BlockProduct& p) {
  constexpr int kVectors = kSixteens * static_cast<int>(kPackedColumns) / kLanes;
  const std::int64_t steps = parts_of(p.in, Elements::kDepth);
  if constexpr (kLanes == 16) {  // 24 of 32 registers hold sums
    constexpr int kRows = kSixteens < 2 ? 12 : 24 / kSixteens;
    Fetching fetching(p, parts_of(p.rows, kRows), steps);
    rows_of_tiles<Elements, kSixteens, kRows, kVectors>(p, 0, 0, fetching);
  } else {  // 12 of 16
    constexpr int kRows = 6;
    Fetching fetching(p, kVectors / 2 * parts_of(p.rows, kRows), steps);
    if (p.rows == 1) {
      tile<Elements, kSixteens, 1, kVectors>(p, 0, 0, fetching);
    } else {
      for (int first = 0; first < kVectors * kLanes; first += 2 * kLanes) {
        rows_of_tiles<Elements, kSixteens, kRows, 2>(p, 0, first, fetching);
      }
    }
  }
}

template <class Elements>
void put_blocks(BlockKernel (&kernels)[kMostSixteens]) {
  kernels[0] = block_product<Elements, 1>;
  kernels[1] = block_product<Elements, 2>;
  kernels[2] = block_product<Elements, 3>;
  kernels[3] = block_product<Elements, 4>;
  kernels[4] = block_product<Elements, 5>;
  kernels[5] = block_product<Elements, 6>;
}

}  // namespace
}  // namespace hooked::kernels
