#include "loading/storage/code_matrix.h"

#include <algorithm>
#include <utility>

namespace hooked {
namespace {

constexpr std::int64_t kWordBits = 32;

std::int64_t words_for(std::int64_t numbers, int bits) {
  return (numbers * bits + kWordBits - 1) / kWordBits;
}

// The number that begins at `bit` in words with stride `step`.
std::uint32_t number_at(const std::uint32_t* words, std::int64_t bit, int bits, std::int64_t step) {
  const std::int64_t word = bit / kWordBits, shift = bit % kWordBits;
  std::uint32_t number = words[word * step] >> shift;
  if (shift + bits > kWordBits) number |= words[(word + 1) * step] << (kWordBits - shift);
  return number & ((1U << bits) - 1U);
}

// The place of a column's number among each eight numbers.
std::int64_t awq_place(std::int64_t column) { return column / 8 * 8 + column % 8 / 2 + column % 2 * 4; }

}  // namespace

std::vector<std::int64_t> CodeMatrix::stored_shape() const {
  switch (layout) {
    case CodeLayout::down:
      return {words_for(rows, bits), columns};
    case CodeLayout::along:
    case CodeLayout::along_awq:
      return {rows, words_for(columns, bits)};
    case CodeLayout::bytes:
      break;
  }
  return {rows, columns};
}

std::string_view CodeMatrix::stored_dtype() const { return layout == CodeLayout::bytes ? "I8" : "I32"; }

std::vector<std::int32_t> CodeMatrix::rows_of(std::int64_t first, std::int64_t count) const {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count * columns));
  if (numbers.empty()) return numbers;
  if (layout == CodeLayout::bytes) {
    std::ranges::transform(part_bytes(stored.tensor, first * columns, count * columns), numbers.begin(),
                           [](std::byte byte) { return static_cast<std::int8_t>(byte); });
    return numbers;
  }
  const auto wrapped = [mask = (1U << bits) - 1U,
                        added = static_cast<unsigned>(added)](std::uint32_t number) {
    return static_cast<std::int32_t>((number + added) & mask);
  };
  auto into = numbers.begin();
  if (layout == CodeLayout::down) {
    const std::int64_t begin = first * bits / kWordBits, end = words_for(first + count, bits);
    const std::vector<std::uint32_t> words =
        part_words(stored.tensor, begin * columns, (end - begin) * columns);
    for (std::int64_t row = first; row < first + count; ++row) {
      const std::int64_t bit = row * bits - begin * kWordBits;
      for (std::int64_t column = 0; column < columns; ++column)
        *into++ = wrapped(number_at(words.data() + column, bit, bits, columns));
    }
    return numbers;
  }
  const std::int64_t width = words_for(columns, bits);
  const std::vector<std::uint32_t> words = part_words(stored.tensor, first * width, count * width);
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t place = layout == CodeLayout::along_awq ? awq_place(column) : column;
      *into++ = wrapped(number_at(words.data() + row * width, place * bits, bits, 1));
    }
  }
  return numbers;
}

}  // namespace hooked
