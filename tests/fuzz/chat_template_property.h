#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/utf8.h"
#include "tests/fuzz/property.h"
#include "text/jinja/template.h"

namespace hooked {

/// What must hold for any bytes taken as a chat template: they are refused with a TokenizerError, or render
/// to UTF-8 within the limits, twice the same. Returns whether they rendered; throws std::logic_error where
/// this does not hold.
inline bool chat_template_property(std::string_view text) {
  const Json messages = {{{"role", "system"}, {"content", " Be \u00e9 brief. "}},
                         {{"role", "user"}, {"content", "Hi <think>x</think>\n"}},
                         {{"role", "assistant"},
                          {"content", {{{"type", "text"}, {"text", "Yes"}}}},
                          {"n", {1, 2.5, nullptr, true}}}};
  const std::vector<std::pair<std::string, Json>> variables = {{"messages", messages},
                                                               {"bos_token", "<s>"},
                                                               {"eos_token", "</s>"},
                                                               {"add_generation_prompt", true},
                                                               {"tools", nullptr}};
  const text::jinja::Limits limits{.steps = 20'000, .bytes = 1 << 20, .output = 1 << 16};
  return accepts<TokenizerError>([&] {
    const text::jinja::Template parsed(text, "t", limits);
    const auto rendered = parsed.render(variables, 0);
    hold(!first_invalid_byte(rendered), "rendered text that is not UTF-8");
    hold(rendered.size() <= limits.output, "rendered more than the limit");
    hold(parsed.render(variables, 0) == rendered, "rendered another text the second time");
  });
}

}  // namespace hooked
