#include "core/coded_form.h"

namespace hooked {

void decode(const CodedForm& form, const CodedBlock& block, float* into) {
  for (int first = 0; first < form.block; first += form.group) {
    const auto group = static_cast<std::size_t>(first / form.group);
    const float scale = form.scales == CodeScales::none
                            ? block.factor
                            : block.factor * static_cast<float>(block.scales[group]);
    float offset = 0.0F;
    if (form.offsets == CodeOffsets::added) offset = block.offset;
    if (form.offsets == CodeOffsets::minimums)
      offset = -(block.offset * static_cast<float>(block.minimums[group]));
    for (int i = first; i < first + form.group; ++i) {
      const std::size_t code = block.codes[static_cast<std::size_t>(i)];
      const float value =
          form.tabled ? form.table[code] : static_cast<float>(static_cast<int>(code) - form.middle);
      const float product = scale * value;
      into[i] = form.offsets == CodeOffsets::none ? product : product + offset;
    }
  }
}

}  // namespace hooked
