#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hooked {

/// The number of letters to insert, delete or change to turn one into the other (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance (Levenshtein) to `wanted`; empty without candidates. Ties go
/// to the first. For the "did you mean" part of an error.
std::string nearest(std::string_view wanted, std::span<const std::string> candidates);

}  // namespace hooked
