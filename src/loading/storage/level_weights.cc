#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/config_reader.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "loading/storage/stored_parts.h"

// Note [Levels]
// bitsandbytes' fp4 and nf4: each byte has two indices into a table of 16 numbers (`quant_map`), the first in
// the upper half. Each stretch of `blocksize` numbers, counted over all rows, has a factor (`absmax`).
// Factors may be stored likewise (double quantisation): a byte each, an index into a table of 256 numbers,
// times a factor for each stretch of them, plus one number for all. The sizes, and the weight's shape and
// dtype, are in a tensor of JSON (`quant_state`). The product is rounded once, to that dtype.

namespace hooked {
namespace {

constexpr std::int64_t kMostStateBytes = 1 << 16;
constexpr Named<at::ScalarType> kDtypes[] = {
    {"bfloat16", at::kBFloat16}, {"float16", at::kHalf}, {"float32", at::kFloat}};
constexpr std::int64_t kMostAxis = std::int64_t{1} << 40;

/// The content of `quant_state`.
struct LevelState {
  std::string table;
  at::ScalarType dtype = at::kFloat;
  std::int64_t stretch = 0;
  std::vector<std::int64_t> shape;
  std::int64_t nested_stretch = 0;  ///< 0: factors are floating point numbers
  float nested_offset = 0.0F;
};

LevelState state_of(const NamedTensor& stored) {
  const std::vector<std::int64_t>& shape = stored.tensor.shape;
  if (stored.tensor.dtype_name != "U8" || shape.size() != 1 || shape[0] > kMostStateBytes) {
    refuse_part(stored, fmt::format("is not text; expected U8 [bytes], at most {} of them, got {} {}",
                                    kMostStateBytes, stored.tensor.dtype_name, shape_text(shape)));
  }
  const std::vector<std::byte> bytes = part_bytes(stored.tensor, 0, shape[0]);
  std::string text(bytes.size(), '\0');
  std::ranges::transform(bytes, text.begin(), [](std::byte byte) { return static_cast<char>(byte); });
  try {
    const ConfigReader json(text, stored.name);
    LevelState state{.table = json.text("quant_type"),
                     .dtype = json.one_of("dtype", kDtypes),
                     .stretch = json.count("blocksize", kMostAxis),
                     .shape = json.integers("shape")};
    if (json.has("nested_blocksize")) {
      state.nested_stretch = json.count("nested_blocksize", kMostAxis);
      state.nested_offset = static_cast<float>(json.number("nested_offset"));
      if (state.nested_stretch == 0)
        json.refuse("nested_blocksize", "is not a size; expected a number above 0");
      if (json.text("nested_dtype") != "float32")
        json.refuse("nested_dtype", "is not supported; expected float32");
    }
    if (state.stretch == 0) json.refuse("blocksize", "is not a size; expected a number above 0");
    std::int64_t all = 1;
    const bool fits = !state.shape.empty() && std::ranges::all_of(state.shape, [&](std::int64_t size) {
      if (size < 0 || size > kMostAxis) return false;
      return !__builtin_mul_overflow(all, size, &all);
    });
    if (!fits) json.refuse("shape", "is not a shape; expected sizes of a matrix");
    return state;
  } catch (const ConfigError& error) {
    throw CheckpointError(stored.tensor.where, fmt::format("tensor {}: {}", error.where(), error.message()));
  }
}

/// A weight stored as levels; `state` describes the other parts.
struct LevelWeight {
  NamedTensor numbers, factors;
  LevelState state;
  std::vector<float> table = {};         ///< 16 numbers
  std::vector<float> nested_table = {};  ///< 256 numbers; empty if factors are numbers
  std::optional<NamedTensor> nested_factors = std::nullopt;
};

std::vector<float> factors_of_stretches(const LevelWeight& weight, std::int64_t first, std::int64_t count) {
  if (weight.nested_table.empty()) return part_factors(weight.factors.tensor, first, count);
  const std::vector<std::byte> places = part_bytes(weight.factors.tensor, first, count);
  const std::int64_t size = weight.state.nested_stretch, begin = first / size;
  const std::vector<float> outer =
      part_factors(weight.nested_factors->tensor, begin, (first + count - 1) / size + 1 - begin);
  std::vector<float> factors(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t stretch = (first + static_cast<std::int64_t>(i)) / size - begin;
    const float product = weight.nested_table[std::to_integer<std::size_t>(places[i])] *
                          outer[static_cast<std::size_t>(stretch)];
    factors[i] = product + weight.state.nested_offset;
  }
  return factors;
}

void read_levels(const LevelWeight& weight, std::int64_t first, const at::Tensor& into) {
  const std::int64_t count = into.numel(), size = weight.state.stretch;
  if (count == 0) return;
  const std::int64_t first_byte = first / 2, first_stretch = first / size;
  const std::vector<std::byte> bytes =
      part_bytes(weight.numbers.tensor, first_byte, (first + count - 1) / 2 + 1 - first_byte);
  const std::vector<float> factors =
      factors_of_stretches(weight, first_stretch, (first + count - 1) / size + 1 - first_stretch);
  auto* const out = static_cast<float*>(into.data_ptr());
  for (std::int64_t i = first; i < first + count; ++i) {
    const auto both = std::to_integer<unsigned>(bytes[static_cast<std::size_t>(i / 2 - first_byte)]);
    const unsigned place = i % 2 == 0 ? both >> 4U : both & 15U;
    out[i - first] = weight.table[place] * factors[static_cast<std::size_t>(i / size - first_stretch)];
  }
  round_to_dtype(weight.state.dtype, into);
}

// How products decode the numbers; nothing if rows or stretches have no whole blocks, or the table has a
// number that is not finite.
std::optional<CodedForm> form_of(const LevelWeight& weight) {
  const int block = block_size(std::gcd(weight.state.shape.back(), weight.state.stretch));
  const bool finite = std::ranges::all_of(weight.table, [](float number) { return std::isfinite(number); });
  if (block == 0 || !finite) return std::nullopt;
  CodedForm form{.values = CodeValues::table,
                 .group = block,
                 .block = block,
                 .factors = CodeFactors::single,
                 .rounding = code_rounding(weight.state.dtype)};
  std::ranges::copy(weight.table, form.table);
  return form;
}

void read_level_codes(const LevelWeight& weight, int block, std::int64_t first, std::span<CodedBlock> into) {
  const auto count = static_cast<std::int64_t>(into.size());
  const std::int64_t size = weight.state.stretch, begin = first * block, first_stretch = begin / size;
  const std::vector<std::byte> bytes = part_bytes(weight.numbers.tensor, begin / 2, count * block / 2);
  const std::vector<float> factors =
      factors_of_stretches(weight, first_stretch, (begin + count * block - 1) / size + 1 - first_stretch);
  for (std::int64_t b = 0; b < count; ++b) {
    CodedBlock& each = into[static_cast<std::size_t>(b)];
    each.factor = factors[static_cast<std::size_t>((begin + b * block) / size - first_stretch)];
    for (std::int64_t i = 0; i < block / 2; ++i) {
      const auto both = std::to_integer<std::uint8_t>(bytes[static_cast<std::size_t>(b * block / 2 + i)]);
      each.codes[static_cast<std::size_t>(2 * i)] = both >> 4U;
      each.codes[static_cast<std::size_t>(2 * i + 1)] = both & 15U;
    }
  }
}

}  // namespace

SourceTensor level_weight(StoredParts parts, const QuantisedStorage& storage) {
  const NamedTensor& stored_state =
      parts.at(fmt::format(".weight.quant_state.bitsandbytes__{}", storage.levels));
  LevelWeight weight{.numbers = parts.numbers, .factors = parts.factors, .state = state_of(stored_state)};
  const LevelState& state = weight.state;
  if (state.table != storage.levels) {
    refuse_part(stored_state, fmt::format("says quant_type '{}'; expected '{}' as its name and {} say",
                                          state.table, storage.levels, storage.where));
  }
  const std::int64_t all = number_count(state.shape),
                     stretches = all / state.stretch + (all % state.stretch != 0);
  const std::vector<std::int64_t>& bytes = parts.numbers.tensor.shape;
  if (number_count(bytes) != all / 2 + all % 2) {
    refuse_part(parts.numbers, fmt::format("does not hold the numbers of {}; expected {} bytes, got {}",
                                           shape_text(state.shape), all / 2 + all % 2, shape_text(bytes)));
  }
  const bool nested = state.nested_stretch > 0;
  require_part(parts.factors, parts.numbers, fmt::format("a factor for every {} numbers", state.stretch),
               nested ? "U8" : "F32", {stretches});
  require_part(parts.at(".weight.quant_map"), parts.numbers, "a table of numbers", "F32", {16});
  weight.table = part_factors(parts.at(".weight.quant_map").tensor, 0, 16);
  // Kernels have the tables built in: they would decode a file with the other format's table differently.
  if ((weight.table[0] == -1.0F) != (storage.levels == "nf4")) {
    refuse_part(parts.at(".weight.quant_map"),
                fmt::format("is not the table of {0}, which {1} and the weight's state name; expected one "
                            "that begins with {2}",
                            storage.levels, storage.where, storage.levels == "nf4" ? "-1" : "0"));
  }
  // fp4's table has 0 twice, and bitsandbytes' kernels use the second one as -0.
  if (storage.levels == "fp4" && weight.table[8] == 0.0F) weight.table[8] = -0.0F;
  if (nested) {
    const NamedTensor& table = parts.at(".weight.nested_quant_map");
    require_part(table, parts.numbers, "a table of numbers for factors", "F32", {256});
    weight.nested_table = part_factors(table.tensor, 0, 256);
    weight.nested_factors = parts.at(".weight.nested_absmax");
    require_part(*weight.nested_factors, parts.factors,
                 fmt::format("a factor for every {} factors", state.nested_stretch), "F32",
                 {stretches / state.nested_stretch + (stretches % state.nested_stretch != 0)});
  }
  const auto form = form_of(weight);
  std::vector<std::int64_t> shape = state.shape, strides;
  if (parts.turned && shape.size() == 2) {
    strides = {1, shape[1]};
    std::swap(shape[0], shape[1]);
  }
  SourceTensor made =
      made_weight(parts.numbers, storage.levels, std::move(shape), std::move(strides),
                  [weight](std::int64_t first, const at::Tensor& into) { read_levels(weight, first, into); });
  if (form) {
    made.codes = SourceCodes{*form, [weight = std::move(weight), block = form->block](
                                        std::int64_t first, std::span<CodedBlock> into) {
                               read_level_codes(weight, block, first, into);
                             }};
  }
  return made;
}

}  // namespace hooked
