#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/coded_form.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// A form of codes and its name in failures.
struct NamedForm {
  std::string name;
  CodedForm form;
};

/// Every form that a format of GGUF's files has.
std::vector<NamedForm> forms_of_gguf();

/// These, and forms that weights of safetensors files have.
std::vector<NamedForm> coded_forms();

/// Random blocks of rows [out, in], row by row. Numbers have about the size 1.
std::vector<CodedBlock> random_blocks(const CodedForm& form, std::int64_t out, std::int64_t in,
                                      std::mt19937& random);

/// Their numbers [out, in] in float32.
at::Tensor numbers_of(const CodedForm& form, const std::vector<CodedBlock>& blocks, std::int64_t out);

/// The same of rows that are read one by one.
at::Tensor numbers_of(const CodedRows& rows);

}  // namespace hooked
