#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "option_table.h"

/// Helpers to write the rows of the option table.
namespace hooked::reference {

using Config = ModelConfig;

/// A value that is set by changing the config and recognised by looking at it.
inline OptionValue value(std::string name, std::function<void(Config&)> apply,
                         std::function<bool(const Config&)> holds, std::string no_oracle = {}) {
  return {.name = std::move(name),
          .apply = [apply = std::move(apply)](Case& c) { apply(c.config); },
          .holds = [holds = std::move(holds)](const Case& c) { return holds(c.config); },
          .no_oracle = std::move(no_oracle)};
}

/// One field with one value per name.
template <class T>
Option field(std::string name, T Config::*member, std::vector<std::pair<std::string, T>> values) {
  Option option{.name = std::move(name), .values = {}};
  for (auto& [label, wanted] : values) {
    option.values.push_back(value(
        label, [member, wanted](Config& c) { c.*member = wanted; },
        [member, wanted](const Config& c) { return c.*member == wanted; }));
  }
  return option;
}

Option heads();
Option positions();
Option windows();
Option full_heads();
Option shared_keys();
Option attention_scales();
Option qk_norms();
Option query_growths();
Option latents();
Option short_convolutions();
Option delta_nets();
Option stacks();
Option decoder_inputs();

}  // namespace hooked::reference
