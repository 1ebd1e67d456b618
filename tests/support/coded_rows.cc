#include "tests/support/coded_rows.h"

#include <ATen/ops/empty.h>
#include <c10/util/Half.h>

#include "io/gguf/ggml_types.h"

namespace hooked {

std::vector<NamedForm> coded_forms() {
  std::vector<NamedForm> forms;
  for (const GgmlType& type : ggml_types()) {
    if (type.form != nullptr) forms.push_back({std::string(type.name), *type.form});
  }
  return forms;
}

std::vector<CodedBlock> random_blocks(const CodedForm& form, std::int64_t out, std::int64_t in,
                                      std::mt19937& random) {
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  // Numbers that either way of storing factors has.
  const auto factor = [&] { return static_cast<float>(up_to(254) - 127) / 128.0F / 16.0F; };
  std::vector<CodedBlock> blocks(static_cast<std::size_t>(out * (in / form.block)));
  for (CodedBlock& block : blocks) {
    block = {};
    const float shrink = form.scales == CodeScales::none ? 1.0F : 1.0F / 32.0F;
    block.factor = factor() * shrink;
    block.offset = factor() * shrink;
    for (auto& scale : block.scales) {
      const bool is_signed = form.scales == CodeScales::bytes && form.offsets == CodeOffsets::none;
      scale = static_cast<std::int8_t>(form.scales == CodeScales::pairs ? up_to(15)
                                       : is_signed                      ? up_to(255) - 128
                                                                        : up_to(63));
    }
    for (auto& minimum : block.minimums)
      minimum = static_cast<std::uint8_t>(up_to(form.scales == CodeScales::pairs ? 15 : 63));
    for (int i = 0; i < form.block; ++i)
      block.codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(up_to((1 << form.bits) - 1));
  }
  return blocks;
}

at::Tensor numbers_of(const CodedForm& form, const std::vector<CodedBlock>& blocks, std::int64_t out) {
  const auto all = static_cast<std::int64_t>(blocks.size()) * form.block;
  at::Tensor numbers = at::empty({out, all / out}, at::kFloat);
  auto* into = numbers.data_ptr<float>();
  for (const CodedBlock& block : blocks) {
    decode(form, block, into);
    into += form.block;
  }
  return numbers;
}

}  // namespace hooked
