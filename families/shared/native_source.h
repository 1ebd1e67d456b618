#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "core/config_reader.h"

namespace hooked {

/// A config file of the native dialect: TransformerLens's fields, and the group for what they cannot express.
struct NativeSource {
  ConfigReader top;
  ConfigReader hooked;

  /// Whether the file names one of these architectures. Their names change parts of a block in
  /// TransformerLens without any config field.
  bool names(std::initializer_list<std::string_view> architectures) const {
    return std::ranges::find(architectures, top.text_or("original_architecture", "")) != architectures.end();
  }
  bool gpt_oss() const { return names({"GptOssForCausalLM"}); }
};

}  // namespace hooked
