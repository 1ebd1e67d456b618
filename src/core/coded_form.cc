#include "core/coded_form.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>

namespace hooked {
namespace {

float value_of(const CodedForm& form, unsigned code) {
  switch (form.values) {
    case CodeValues::integers:
      break;
    case CodeValues::table:
      return form.table[code];
    case CodeValues::e4m3: {
      // In half precision the same bits mean 2^-8 of it.
      const auto bits = static_cast<std::uint16_t>((code & 0x80U) << 8U | (code & 0x7FU) << 7U);
      return 256.0F * static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
    }
  }
  return static_cast<float>(static_cast<int>(code) - form.middle);
}

float rounded(CodeRounding rounding, float number) {
  switch (rounding) {
    case CodeRounding::half:
      return static_cast<float>(c10::Half(number));
    case CodeRounding::bfloat16:
      return static_cast<float>(c10::BFloat16(number));
    case CodeRounding::none:
      break;
  }
  return number;
}

}  // namespace

void decode(const CodedForm& form, const CodedBlock& block, float* into) {
  for (int first = 0; first < form.block; first += form.group) {
    const auto group = static_cast<std::size_t>(first / form.group);
    const float scale = form.scales == CodeScales::none
                            ? block.factor
                            : block.factor * static_cast<float>(block.scales[group]);
    float offset = 0.0F;
    if (form.offsets == CodeOffsets::added) offset = block.offset;
    if (form.offsets == CodeOffsets::minimums || form.offsets == CodeOffsets::zeros) {
      const float step = form.offsets == CodeOffsets::zeros ? block.factor : block.offset;
      offset = -(step * static_cast<float>(block.minimums[group]));
    }
    for (int i = first; i < first + form.group; ++i) {
      const float product = scale * value_of(form, block.codes[static_cast<std::size_t>(i)]);
      into[i] = rounded(form.rounding, form.offsets == CodeOffsets::none ? product : product + offset);
    }
  }
}

}  // namespace hooked
