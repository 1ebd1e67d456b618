#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hooked {

/// The candidate with the smallest edit distance (Levenshtein) to `wanted`; empty when there are no
/// candidates. Ties go to the first. For the "did you mean" part of an error.
std::string nearest(std::string_view wanted, std::span<const std::string> candidates);

}  // namespace hooked
