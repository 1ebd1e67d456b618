#pragma once

#include "models/kernels/loops/vectors.h"

// Numbers of matrices that are stored in codes, and products with them (Note [Coded strips],
// models/storage/coded_strips.cc).
namespace hooked::kernels {
namespace {

constexpr int kUnit = 32;                                        // inputs whose codes are adjacent
constexpr int kCodeLine = 4 * static_cast<int>(kPackedColumns);  // bytes: a word of each column
// Bytes ahead of the codes in use that are fetched from memory: with blocks of 256 the processor itself does
// not see how several strips are read (Q4_K from memory 1.2 times as fast, the others as fast as before).
constexpr int kAhead = 2048;

// Those of the columns from `lane` on, in the part of a block that begins at `part`.
[[gnu::always_inline]] inline Floats factors_at(CodeFactors factors, const char* part, int lane) {
  if (factors == CodeFactors::single) return floats_at(part + 4 * lane);
  const Halves stored = halves_at(part + 2 * lane);
  if (factors == CodeFactors::half) return floats_of(stored);
  return reinterpret_cast<Floats>(__builtin_convertvector(stored, Words) << 16);
}

// A number of the group is `scale` times the code's value plus `offset`.
struct GroupScale {
  Floats scale, offset;
};

// `block` is that of the first of kLanes columns that begin at `lane` of their strip.
[[gnu::always_inline]] inline GroupScale group_scale(const CodedForm& form, const CodedLayout& layout,
                                                     const char* block, int lane, int group) {
  const Floats factor = factors_at(form.factors, block, lane);
  Floats scale = factor, minimum{};
  const char* const byte = block + kPackedColumns * group + lane;
  if (form.scales != CodeScales::none) {
    const bool pairs = form.scales == CodeScales::pairs;
    const Integers own = integers_of(bytes_at(byte + layout.scales));
    scale = factor * __builtin_convertvector(pairs ? own & 15 : own, Floats);
    if (pairs) minimum = __builtin_convertvector(own >> 4 & 15, Floats);
  }
  if (form.offsets == CodeOffsets::none) return {scale, scale * -static_cast<float>(form.middle)};
  if (form.has_minimums())
    minimum = __builtin_convertvector(integers_of(bytes_at(byte + layout.minimums)) & 255, Floats);
  if (form.offsets == CodeOffsets::zeros) return {scale, -(factor * minimum)};
  const Floats offset = factors_at(form.factors, block + layout.offsets, lane);
  return {scale, form.offsets == CodeOffsets::added ? offset : -(offset * minimum)};
}

// The code of an input of a unit in the lowest kBits of each lane; bits of other codes may be above them. A
// word has as many whole codes as it has room for. Of three, five and six bits there are 30 in a unit, and
// the last two are made of the two bits that each word has left.
template <int kBits>
[[gnu::always_inline]] inline Words code_of(const char* words, int input) {
  constexpr int kInAWord = 32 / kBits;
  if (input < kInAWord * kBits)
    return words_at(words + input / kInAWord * kCodeLine) >> (input % kInAWord * kBits);
  const int first = (input - kInAWord * kBits) * kBits;  // bit of all that are left
  Words code{};
#pragma GCC unroll 8
  for (int word = first / 2; 2 * word < first + kBits; ++word) {
    const Words rest = words_at(words + word * kCodeLine) >> 30;
    code |= 2 * word >= first ? rest << (2 * word - first) : rest >> (first - 2 * word);
  }
  return code;
}

// Tables of 16 values in one or two vectors.
struct CodeTable {
  Floats first, second;
};

[[gnu::always_inline]] inline CodeTable table_at(const float* values) {
  if constexpr (kLanes == 16) return {floats_at(values), Floats{}};
  return {floats_at(values), floats_at(values + 8)};
}

[[gnu::always_inline]] inline Floats looked_up(const CodeTable& table, Words code) {
  if constexpr (kLanes == 16) {
    return __builtin_shuffle(table.first, code);  // the lowest four bits choose
  } else {
    return __builtin_shuffle(table.first, table.second, code);
  }
}

// How the lowest bits of a code become a number.
template <int kOfCode>
struct IntegerCodes {
  static constexpr CodeValues kValues = CodeValues::integers;
  static constexpr int kBits = kOfCode;
  // Looking up a number of four bits takes one instruction, converting it takes two.
  static constexpr bool kLookedUp = kBits == 4 && kLanes == 16;

  [[gnu::always_inline]] static CodeTable table(const CodedForm&) {
    if constexpr (!kLookedUp) return CodeTable{};
    static constexpr float kValues[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return table_at(kValues);
  }
  [[gnu::always_inline]] static Floats value(const CodeTable& table, Words code) {
    if constexpr (kLookedUp) return looked_up(table, code);
    constexpr std::uint32_t kMask = (1u << kBits) - 1u;
    return __builtin_convertvector(reinterpret_cast<Integers>(code & kMask), Floats);
  }
};

struct TabledCodes {
  static constexpr CodeValues kValues = CodeValues::table;
  static constexpr int kBits = 4;

  [[gnu::always_inline]] static CodeTable table(const CodedForm& form) { return table_at(form.table); }
  [[gnu::always_inline]] static Floats value(const CodeTable& table, Words code) {
    return looked_up(table, code);
  }
};

struct SmallFloatCodes {
  static constexpr CodeValues kValues = CodeValues::e4m3;
  static constexpr int kBits = 8;

  [[gnu::always_inline]] static CodeTable table(const CodedForm&) { return CodeTable{}; }
  // In half precision the same bits mean 2^-8 of it.
  [[gnu::always_inline]] static Floats value(const CodeTable&, Words code) {
    const Words bits = (code & 0x80u) << 8 | (code & 0x7fu) << 7;
    return 256.0f * floats_of(__builtin_convertvector(bits, Halves));
  }
};

// To the nearest, ties to even, as float32 again.
template <CodeRounding kTo>
[[gnu::always_inline]] inline Floats rounded(Floats numbers) {
  if constexpr (kTo == CodeRounding::half) return floats_of(halves_of(numbers));
  if constexpr (kTo == CodeRounding::bfloat16) {
    const Words bits = reinterpret_cast<Words>(numbers);
    return reinterpret_cast<Floats>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
  }
  return numbers;
}

// Where some neighbouring vectors of columns are.
template <int kVectors>
struct ColumnPlaces {
  const char* strip[kVectors];  // its current block
  int lane[kVectors];
};

template <int kVectors>
[[gnu::always_inline]] inline ColumnPlaces<kVectors> columns_from(const CodedColumns& strips,
                                                                  std::int64_t strip) {
  constexpr int kOfStrip = static_cast<int>(kPackedColumns) / kLanes;
  ColumnPlaces<kVectors> columns;
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    columns.strip[v] = static_cast<const char*>(strips.first) + (strip + v / kOfStrip) * strips.strip_bytes;
    columns.lane[v] = v % kOfStrip * kLanes;
  }
  return columns;
}

// Calls `use(input, v, numbers)` for the inputs in order, and each vector of columns. A unit has one or two
// groups.
template <class Codes, CodeRounding kTo, int kVectors, class Use>
[[gnu::always_inline]] inline void each_coded_number(const CodedColumns& strips, std::int64_t strip,
                                                     const Use& use) {
  const CodedForm& form = *strips.form;
  const CodedLayout layout = *strips.layout;
  const CodeTable table = Codes::table(form);
  const bool halved = form.group < kUnit;
  ColumnPlaces<kVectors> columns = columns_from<kVectors>(strips, strip);
  for (std::int64_t first = 0; first < strips.in; first += form.block) {
    for (int unit = 0; unit < form.block / kUnit; ++unit) {
      GroupScale scales[2][kVectors];
      const char* words[kVectors];
      const int group = halved ? 2 * unit : unit * kUnit / form.group;
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const char* const block = columns.strip[v];
        scales[0][v] = group_scale(form, layout, block, columns.lane[v], group);
        scales[1][v] = halved ? group_scale(form, layout, block, columns.lane[v], group + 1) : scales[0][v];
        words[v] = block + layout.codes + unit * Codes::kBits * kCodeLine + 4 * columns.lane[v];
#pragma GCC unroll 8
        for (int line = 0; line < Codes::kBits; ++line)
          __builtin_prefetch(words[v] + line * kCodeLine + kAhead);
      }
#pragma GCC unroll 32
      for (int i = 0; i < kUnit; ++i) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          const GroupScale& of_group = scales[i * 2 / kUnit][v];
          const Floats value = Codes::value(table, code_of<Codes::kBits>(words[v], i));
          use(first + unit * kUnit + i, v, rounded<kTo>(of_group.scale * value + of_group.offset));
        }
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) columns.strip[v] += layout.end;
  }
}

template <class Codes, CodeRounding kTo, int kRows, int kVectors>
void coded_tile(const CodedProduct& p, std::int64_t strip) {
  Floats sums[kRows][kVectors] = {};
  each_coded_number<Codes, kTo, kVectors>(
      p.strips, strip, [&](std::int64_t input, int v, Floats numbers) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sums[r][v] += numbers * p.x[r * p.x_stride + input];
      });
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t column = strip * kPackedColumns + v * kLanes;
    const Floats added = p.bias == nullptr ? Floats{} : floats_at(p.bias + column);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) store(p.out + r * p.out_stride + column, sums[r][v] + added);
  }
}

// As many strips at a time as keep the adders busy and the sums in registers.
template <class Codes, CodeRounding kTo, int kRows>
void coded_rows(const CodedProduct& p) {
  constexpr int kOfStrip = static_cast<int>(kPackedColumns) / kLanes;
  constexpr int kStrips = kLanes < 16 ? 1 : kRows == 1 ? 4 : 2;
  std::int64_t strip = 0;
  for (; strip + kStrips <= p.strips.count; strip += kStrips)
    coded_tile<Codes, kTo, kRows, kStrips * kOfStrip>(p, strip);
  for (; strip < p.strips.count; ++strip) coded_tile<Codes, kTo, kRows, kOfStrip>(p, strip);
}

// Several rows share the decoding, except that of rounded numbers: their loops would double the time to
// compile.
template <class Codes, CodeRounding kTo>
void coded_product(const CodedProduct& p) {
  CodedProduct rest = p;
  for (; rest.rows > 0;) {
    std::int64_t rows = 1;
    if constexpr (kTo == CodeRounding::none) {
      rows = rest.rows >= 4 ? 4 : rest.rows >= 2 ? 2 : 1;
      if (rows == 4) coded_rows<Codes, kTo, 4>(rest);
      if (rows == 2) coded_rows<Codes, kTo, 2>(rest);
    }
    if (rows == 1) coded_rows<Codes, kTo, 1>(rest);
    rest.rows -= rows;
    rest.x += rows * p.x_stride;
    rest.out += rows * p.out_stride;
  }
}

template <class Codes, CodeRounding kTo>
void coded_panel(const CodedColumns& strips, float* panel) {
  constexpr int kOfStrip = static_cast<int>(kPackedColumns) / kLanes;
  for (std::int64_t strip = 0; strip < strips.count; ++strip) {
    float* const columns = panel + strip * kPackedColumns;
    each_coded_number<Codes, kTo, kOfStrip>(
        strips, strip, [&](std::int64_t input, int v, Floats numbers) __attribute__((always_inline)) {
          store(columns + input * strips.count * kPackedColumns + v * kLanes, numbers);
        });
  }
}

template <CodeRounding kTo, class... Codes>
void put_coded(Kernels& kernels) {
  ((kernels.coded[code_kind(Codes::kValues, Codes::kBits, kTo)] = coded_product<Codes, kTo>), ...);
  ((kernels.coded_panel[code_kind(Codes::kValues, Codes::kBits, kTo)] = coded_panel<Codes, kTo>), ...);
}

// Products with codes of each kind that a file may have.
void put_all_coded(Kernels& kernels) {
  put_coded<CodeRounding::none, TabledCodes, SmallFloatCodes, IntegerCodes<2>, IntegerCodes<3>,
            IntegerCodes<4>, IntegerCodes<5>, IntegerCodes<6>, IntegerCodes<8>>(kernels);
  put_coded<CodeRounding::half, TabledCodes, SmallFloatCodes, IntegerCodes<4>, IntegerCodes<8>>(kernels);
  put_coded<CodeRounding::bfloat16, TabledCodes, SmallFloatCodes, IntegerCodes<4>, IntegerCodes<8>>(kernels);
}

}  // namespace
}  // namespace hooked::kernels
