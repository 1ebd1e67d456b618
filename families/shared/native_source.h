#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "core/config_reader.h"

namespace hooked {

/// A config file of the native dialect: TransformerLens's fields, and the group that says what they cannot.
struct NativeSource {
  ConfigReader top;
  ConfigReader hooked;

  /// Whether the file is of one of these architectures, whose names change parts of a block in
  /// TransformerLens where no config field says so.
  bool names(std::initializer_list<std::string_view> architectures) const {
    return std::ranges::find(architectures, top.text_or("original_architecture", "")) != architectures.end();
  }
  bool gpt_oss() const { return names({"GptOssForCausalLM"}); }
};

}  // namespace hooked
