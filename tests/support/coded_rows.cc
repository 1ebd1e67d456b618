#include "tests/support/coded_rows.h"

#include <ATen/ops/empty.h>
#include <c10/util/Half.h>

#include <tuple>

#include "io/gguf/ggml_types.h"

namespace hooked {

std::vector<NamedForm> forms_of_gguf() {
  std::vector<NamedForm> forms;
  for (const GgmlType& type : ggml_types()) {
    if (type.form != nullptr) forms.push_back({std::string(type.name), *type.form});
  }
  return forms;
}

std::vector<NamedForm> coded_forms() {
  std::vector<NamedForm> forms = forms_of_gguf();
  const auto rounded = [&](const std::string& name, CodedForm form) {
    for (const auto& [precision, factors, rounding] :
         {std::tuple("half", CodeFactors::half, CodeRounding::half),
          {"bfloat16", CodeFactors::bfloat16, CodeRounding::bfloat16}}) {
      if (form.values == CodeValues::integers) form.factors = factors;
      form.rounding = rounding;
      forms.push_back({name + " to " + precision, form});
    }
  };
  rounded("int4 with zeros", {.bits = 4, .group = 128, .block = 128, .offsets = CodeOffsets::zeros});
  rounded("int4", {.bits = 4, .middle = 8, .group = 64, .block = 64});
  rounded("int8 with zeros", {.bits = 8, .offsets = CodeOffsets::zeros});
  rounded("int8", {.bits = 8, .middle = 128, .group = 256, .block = 256});
  CodedForm levels{.values = CodeValues::table, .group = 64, .block = 64, .factors = CodeFactors::single};
  for (int code = 0; code < 16; ++code) levels.table[code] = static_cast<float>(code * code) / 225.0F - 0.37F;
  forms.push_back({"levels", levels});
  rounded("levels", levels);
  const CodedForm floats{
      .bits = 8, .values = CodeValues::e4m3, .group = 128, .block = 128, .factors = CodeFactors::single};
  forms.push_back({"fp8", floats});
  rounded("fp8", floats);
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
    const float shrink = form.values == CodeValues::e4m3   ? 1.0F / 256.0F
                         : form.scales != CodeScales::none ? 1.0F / 32.0F
                                                           : 1.0F;
    block.factor = factor() * shrink;
    block.offset = factor() * shrink;
    for (auto& scale : block.scales) {
      const bool is_signed = form.scales == CodeScales::bytes && form.offsets == CodeOffsets::none;
      scale = static_cast<std::int8_t>(form.scales == CodeScales::pairs ? up_to(15)
                                       : is_signed                      ? up_to(255) - 128
                                                                        : up_to(63));
    }
    for (auto& minimum : block.minimums)
      minimum = static_cast<std::uint8_t>(up_to(form.scales == CodeScales::pairs     ? 15
                                                : form.offsets == CodeOffsets::zeros ? (1 << form.bits) - 1
                                                                                     : 63));
    for (int i = 0; i < form.block; ++i)
      block.codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(up_to((1 << form.bits) - 1));
    if (form.values == CodeValues::e4m3) {
      for (auto& code : block.codes) code ^= (code & 0x7FU) == 0x7FU ? 1U : 0U;  // not NaN
    }
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

at::Tensor numbers_of(const CodedRows& rows) {
  const at::Tensor numbers = at::empty({rows.out, rows.in}, at::kFloat);
  std::vector<CodedBlock> blocks(static_cast<std::size_t>(rows.in / rows.form.block));
  for (std::int64_t out = 0; out < rows.out; ++out) {
    rows.read(out, blocks);
    numbers[out].copy_(numbers_of(rows.form, blocks, 1)[0]);
  }
  return numbers;
}

}  // namespace hooked
