#pragma once

#include <string_view>

#include "core/config_reader.h"
#include "core/json.h"
#include "hooked/core/error.h"

namespace hooked::text {

/// A reader of a part of a tokenizer.json, whose errors name `part.json`.
inline ConfigReader json_of(std::string_view text) {
  return {parse_json(text, {.repeating = {{"vocab"}}}), "part.json", make_error<TokenizerError>};
}

}  // namespace hooked::text
