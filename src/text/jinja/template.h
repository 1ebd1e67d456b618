#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "text/jinja/machine.h"
#include "text/jinja/syntax.h"

namespace hooked::text::jinja {

/// A Jinja template, as transformers renders chat templates: in the immutable sandbox, with trim_blocks,
/// lstrip_blocks, break and continue, `generation`, and its own tojson, raise_exception, strftime_now.
class Template {
 public:
  /// Throws TokenizerError with line and column.
  Template(std::string_view text, std::string_view name, const Limits& limits = {});

  /// Renders the text with these variables, by name. `now` is the time for strftime_now; if absent, the
  /// clock's. Throws TokenizerError.
  std::string render(const std::vector<std::pair<std::string, Json>>& variables,
                     std::optional<std::time_t> now = std::nullopt) const;

 private:
  Limits limits_;
  Source source_;
  Body body_;
};

}  // namespace hooked::text::jinja
