#pragma once

// What the public headers declare, as python/generate.py reads it from them: the members of structs, the
// enumerators of enums, and the documentation of everything.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/hooked.h"

namespace hooked::python {

/// A member of a struct.
template <typename T>
struct Field {
  const char* name;
  T member;
};
template <typename T>
Field(const char*, T) -> Field<T>;  // Clang 14 cannot do without

/// `Fields<T>::visit(f)` calls `f` with a Field for each data member of a struct, in the order of their
/// declaration. A tuple of them would be instantiated for every struct in every source, which takes GCC
/// minutes.
template <typename T>
struct Fields {};

/// The enumerators of an enum: an array of pairs of name and value.
template <typename T>
struct Enumerators {};

// The table of the scores of heads has the enumerators and what they mean.
template <>
struct Enumerators<HeadScore> {
  static constexpr const char* type = "HeadScore";
#define HOOKED_HEAD_SCORE(score, ...) std::pair{#score, HeadScore::score},
  static constexpr std::pair<const char*, HeadScore> list[] = {
#include "hooked/core/head_scores.inc"
  };
};

/// How many of its first members a struct cannot be made without. Python also takes them by position.
template <typename T>
inline constexpr std::size_t required_members = 0;
template <>
inline constexpr std::size_t required_members<CircuitEdge> = 2;
template <>
inline constexpr std::size_t required_members<FeatureIntervention> = 4;
template <>
inline constexpr std::size_t required_members<GraphDirection> = 2;
template <>
inline constexpr std::size_t required_members<GraphEdge> = 2;
template <>
inline constexpr std::size_t required_members<GridAxis> = 2;
template <>
inline constexpr std::size_t required_members<GridInterval> = 2;
template <>
inline constexpr std::size_t required_members<HeadPlace> = 2;
template <>
inline constexpr std::size_t required_members<InterchangePairs> = 3;
template <>
inline constexpr std::size_t required_members<LinearFit> = 2;
template <>
inline constexpr std::size_t required_members<NormStackOptions> = 1;
template <>
inline constexpr std::size_t required_members<PlaceOfPair> = 2;
template <>
inline constexpr std::size_t required_members<Probe> = 1;
template <>
inline constexpr std::size_t required_members<FeatureNodes> = 1;
template <>
inline constexpr std::size_t required_members<PromptPair> = 2;
template <>
inline constexpr std::size_t required_members<ReadingNorm> = 1;
template <>
inline constexpr std::size_t required_members<ScoreAttributionOptions> = 1;
template <>
inline constexpr std::size_t required_members<SparseCodes> = 3;
template <>
inline constexpr std::size_t required_members<StreamPart> = 1;
template <>
inline constexpr std::size_t required_members<Subspace> = 2;
template <>
inline constexpr std::size_t required_members<LensMaps::Map> = 1;

/// A struct with its defaults; what is required is anything.
template <typename T>
T blank() {
  return T{};
}
template <>
inline ReadingNorm blank<ReadingNorm>() {
  return {.norm = ActivationName()};
}
template <>
inline FeatureNodes blank<FeatureNodes>() {
  return {.features = ActivationName()};
}
template <>
inline InterchangePairs blank<InterchangePairs>() {
  return {.base = at::Tensor(), .source = at::Tensor(), .expected = Answers()};
}
template <>
inline NormStackOptions blank<NormStackOptions>() {
  return {.norm = blank<ReadingNorm>()};
}
template <>
inline ScoreAttributionOptions blank<ScoreAttributionOptions>() {
  return {.scores = ActivationName()};
}

/// The documentation of `RunOptions::edits`, `sweep` or `Grid`; of overloads, in turn. Throws an
/// Error for a name that no header declares.
const char* documentation(std::string_view name);

/// The documentation of a function with that of each of its options, which lives as long as the program.
const char* documentation_with_options(std::string_view name, std::string_view options);

/// The names of a struct's members.
template <typename Struct>
std::vector<const char*> field_names() {
  std::vector<const char*> names;
  Fields<Struct>::visit([&](const auto& field) { names.push_back(field.name); });
  return names;
}

/// The enumerator of that name. Throws ConfigError with all of them.
template <typename T>
T enumerator_named(std::string_view name) {
  std::string known;
  for (const auto& [text, value] : Enumerators<T>::list) {
    if (name == text) return value;
    known += (known.empty() ? "'" : ", '") + std::string(text) + "'";
  }
  throw ConfigError(Enumerators<T>::type,
                    "'" + std::string(name) + "' is not known; expected one of " + known);
}

}  // namespace hooked::python

#include "python/fields.inc"
