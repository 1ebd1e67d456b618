#pragma once

#include "models/kernels/loops/vectors.h"

// How a packed matrix is read the other way round.
namespace hooked::kernels {
namespace {

// Which of two vectors' lanes goes to lane l: constants in memory, which GCC would otherwise build lane by
// lane.
struct Lanes {
  alignas(4 * kLanes) std::uint32_t from[kLanes] = {};

  template <class From>
  constexpr explicit Lanes(From of) {
    for (int l = 0; l < kLanes; ++l) from[l] = static_cast<std::uint32_t>(of(l));
  }
  [[gnu::always_inline]] Words words() const { return words_at(from); }
};

template <int kSide>
constexpr Lanes kLowSquares{[](int l) { return (l & kSide) == 0 ? l : kLanes + l - kSide; }};
template <int kSide>
constexpr Lanes kHighSquares{[](int l) { return (l & kSide) == 0 ? l + kSide : kLanes + l; }};
constexpr Lanes kNeighbours{[](int l) { return l ^ 1; }};
constexpr Lanes kInTurns{[](int l) { return (l & 1) == 0 ? l : kLanes + l; }};

// Transposes a square, whose elements are kDepth lanes wide: squares of `kStep` elements are swapped with
// their neighbours, from the smallest on.
template <int kDepth, int kStep>
[[gnu::always_inline]] inline void exchange(Words (&rows)[kLanes / kDepth]) {
  if constexpr (kStep < kLanes / kDepth) {
    const Words low = kLowSquares<kStep * kDepth>.words(), high = kHighSquares<kStep * kDepth>.words();
#pragma GCC unroll 16
    for (int r = 0; r < kLanes / kDepth; ++r) {
      if ((r & kStep) != 0) continue;
      const Words a = rows[r], b = rows[r + kStep];
      rows[r] = __builtin_shuffle(a, b, low);
      rows[r + kStep] = __builtin_shuffle(a, b, high);
    }
    exchange<kDepth, 2 * kStep>(rows);
  }
}

// Each lane holds two inputs of a column; afterwards two adjacent lanes hold one input of two columns each.
[[gnu::always_inline]] inline Words pairs_of_columns(const Words& pairs_of_inputs) {
  const Words neighbours = __builtin_shuffle(pairs_of_inputs, kNeighbours.words());
  const Words first = (pairs_of_inputs & 0xffffu) | (neighbours << 16);
  const Words second = (neighbours >> 16) | (pairs_of_inputs & 0xffff0000u);
  return __builtin_shuffle(first, second, kInTurns.words());
}

// Transposes kLanes columns and the same number of inputs; if not all exist, `left` inputs do.
template <int kDepth, bool kAll>
[[gnu::always_inline]] inline void fill_square(std::uint32_t* to, std::int64_t width,
                                               const std::uint32_t* from, std::int64_t columns,
                                               std::int64_t left) {
  constexpr int kRows = kLanes / kDepth;
  Words rows[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    rows[r] = kAll || r < left ? words_at(from + r * columns) : Words{};
    if constexpr (kDepth == 2) rows[r] = pairs_of_columns(rows[r]);
  }
  exchange<kDepth, 1>(rows);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) store(to + r * width, rows[r]);
}

// Words of a block are stored as [in / kDepth, column], and those of the panel as [column / kDepth, input].
// The next block is prefetched into the second-level cache meanwhile: it is on other pages, which the
// processor does not predict.
template <int kDepth>
void fill_panel(const PanelOfInputs& p) {
  constexpr std::int64_t kRows = kLanes / kDepth;
  const std::int64_t columns = p.sixteens * kPackedColumns, inputs = p.in / kDepth;
  const std::int64_t first = p.first / kDepth, end = first + p.width / kDepth;
  const auto* block = static_cast<const std::uint32_t*>(p.packed);
  auto* panel = static_cast<std::uint32_t*>(p.panel);
  for (std::int64_t b = 0; b < p.blocks; ++b) {
    for (std::int64_t input = first; input < end; input += kRows) {
      const std::uint32_t* from = block + input * columns;
      const std::uint32_t* next = from + inputs * columns;  // of the next block
      std::uint32_t* to = panel + (input - first) * kDepth;
      for (std::int64_t column = 0; column < columns; column += kLanes, to += kRows * p.width) {
        for (std::int64_t r = 0; r < kRows; ++r) __builtin_prefetch(next + kRows * column + r * kLanes, 0, 2);
        if (inputs - input >= kRows) {
          fill_square<kDepth, true>(to, p.width, from + column, columns, kRows);
        } else {
          fill_square<kDepth, false>(to, p.width, from + column, columns, inputs - input);
        }
      }
    }
    block += inputs * columns;
    panel += columns / kDepth * p.width;
  }
}

}  // namespace
}  // namespace hooked::kernels
