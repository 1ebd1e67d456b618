#pragma once

#include <string_view>

#include "text/jinja/machine.h"
#include "text/jinja/syntax.h"

namespace hooked::text::jinja {

/// Parses a template. Throws TokenizerError with the line and column of what is wrong or unsupported.
Block parse(const Source& source, const Limits& limits);

}  // namespace hooked::text::jinja
