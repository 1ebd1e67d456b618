#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace hooked {

/// A kind of checkpoint that is known but not read, because its models have parts that the graph lacks.
struct UnsupportedKind {
  std::string_view model_type;  ///< of the whole, or of its text part
  std::string_view lacking;     ///< what the graph lacks, with the keys or tensors that show it
};

/// All such kinds, in alphabetical order. None of them is a family or a composite.
std::span<const UnsupportedKind> unsupported_kinds();

/// What the graph lacks for models of that type; nothing for a supported or unknown type.
std::optional<std::string_view> lacking_for(std::string_view model_type);

}  // namespace hooked
