#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hooked {

/// The number of letters to insert, delete or change to turn one into the other (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance (Levenshtein) to `wanted`; empty without candidates. Ties go
/// to the first.
std::string nearest(std::string_view wanted, std::span<const std::string> candidates);

/// `form` with the nearest candidate in place of its `{}`, for the "did you mean" part of an error; empty if
/// none is near enough to be a slip of `wanted`: a suggestion that has little to do with it misleads.
std::string nearest_text(std::string_view form, std::string_view wanted,
                         std::span<const std::string> candidates);

/// The usual form.
inline constexpr std::string_view kDidYouMean = "; did you mean '{}'?";

}  // namespace hooked
