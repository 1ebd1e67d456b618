#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config_reader.h"
#include "hooked/text/encoding.h"

namespace hooked::text {

/// A regular expression of Oniguruma in its default syntax, over valid UTF-8.
///
/// Several threads may use one Regex.
class Regex {
 public:
  /// Most backtracking steps of one match (about a second), and most entries of its stack (about 1 GB). An
  /// expression that needs more is refused there instead of running for hours.
  static constexpr unsigned long kMatchSteps = 20'000'000;
  static constexpr unsigned int kStackEntries = 32'000'000;

  /// Additional steps, besides kMatchSteps, for each byte that a search passes over without a match.
  static constexpr unsigned long kStepsPerByte = 100;

  /// Throws std::invalid_argument with Oniguruma's reason if `expression` cannot be compiled.
  explicit Regex(std::string_view expression);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /// Calls `visit` with each match in `text` in order: the leftmost, then the leftmost after it. An
  /// empty match right after another match does not count. Throws TokenizerError if one takes too many
  /// steps.
  void for_each_match(std::string_view text, const std::function<void(TextSpan)>& visit) const;

 private:
  struct Compiled;
  std::string expression_;
  std::unique_ptr<const Compiled> compiled_;
};

/// A part of a text: a match of a pattern, or the text between two.
struct Match {
  TextSpan span;
  bool matches;
};

/// What a file searches for in a text: a string, or a regular expression.
class Pattern {
 public:
  static Pattern literal(std::string_view text);
  /// Throws std::invalid_argument with Oniguruma's reason.
  static Pattern regex(std::string_view expression);

  /// All of `text` as matches and the text between them, in order. Throws TokenizerError if a regular
  /// expression backtracks too long.
  std::vector<Match> cut(std::string_view text) const;

  /// The number of bytes at the end of `text` that may belong to a match once more text follows: all, for a
  /// regular expression.
  std::size_t undecided_bytes(std::string_view text) const;

 private:
  std::string literal_;
  std::shared_ptr<const Regex> regex_;
};

/// Reads a pattern, `{"String": …}` or `{"Regex": …}`. Throws TokenizerError, with Oniguruma's reason for an
/// expression that cannot be compiled.
Pattern read_pattern(const ConfigReader& json);

/// Reads a string of one character. Throws TokenizerError.
char32_t read_character(const ConfigReader& json, std::string_view key);

/// `text` with each `from` replaced by `to`, from left to right. The empty string is found between all
/// characters.
std::string replace_each(std::string_view text, std::string_view from, std::string_view to);

}  // namespace hooked::text
