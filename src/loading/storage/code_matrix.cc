#include "loading/storage/code_matrix.h"

#include <fmt/format.h>

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

int stored_less(const CodeMatrix& zeros, const StoredParts& parts, const QuantisedStorage& storage) {
  const std::vector<std::int32_t> stored = zeros.rows_of(0, zeros.rows);
  const std::int32_t middle = 1 << (zeros.bits - 1);
  const auto all_are = [&](std::int32_t value) {
    return std::ranges::all_of(stored, [&](std::int32_t zero) { return zero == value; });
  };
  const int said = storage.zeros_less_one ? 1 : 0, other = 1 - said;
  if (all_are(middle - said)) return said;
  if (all_are(middle - other)) {
    parts.notes->insert(
        fmt::format("[{}] \"sym\" is true, so the zero points mean {}, and they are stored as {}: they are "
                    "read as those of checkpoint_format {}, though the config says {}",
                    storage.where, middle, middle - other, other == 1 ? "gptq" : "gptq_v2",
                    said == 1 ? "gptq" : "gptq_v2"));
    return other;
  }
  const auto odd = std::ranges::find_if(stored, [&](std::int32_t zero) { return zero != middle - said; });
  refuse_part(zeros.stored,
              fmt::format("contradicts the config, where \"sym\" is true; expected zero points of {} "
                          "everywhere, or {} in the other version of the format, got {}; correct \"sym\" "
                          "in {}",
                          middle - said, middle - other, *odd, storage.where));
}

void refuse_zero_points(const StoredParts& parts, const QuantisedStorage& storage) {
  const NamedTensor* zeros = parts.find("_zero_point");
  if (zeros == nullptr) return;
  const std::int64_t size = zeros->tensor.dtype_name == "I32" ? 4 : 1;
  const std::vector<std::byte> bytes = part_bytes(zeros->tensor, 0, number_count(zeros->tensor.shape) * size);
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) return;
  refuse_part(*zeros,
              fmt::format("contradicts the config, where \"symmetric\" is true; expected zeros, or no such "
                          "tensor; correct \"symmetric\" in {}",
                          storage.where));
}

}  // namespace hooked
