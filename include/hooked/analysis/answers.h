#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// The tokens that count as an answer: one token or a set, the same for every row or different for each row.
/// In a set each token counts once, however often it was written: `" Mary"` and `"Mary"` may be one token.
class Answers {
 public:
  /// None yet; every analysis refuses it.
  Answers() : none_(true) {}
  /// One token, in every row.
  Answers(std::int64_t token) : sets_{{token}} {}  // NOLINT: an id is an answer
  /// The same.
  Answers(int token) : sets_{{std::int64_t{token}}} {}  // NOLINT
  /// The token with this text, in every row: `" Mary"`. For functions and metrics that know the model, which
  /// turn the text into an id with in(); all others need ids.
  Answers(std::string_view text) : texts_{{std::string(text)}} {}  // NOLINT
  /// The same.
  Answers(const char* text) : texts_{{std::string(text)}} {}  // NOLINT
  /// Any of these, in every row. Throws ShapeError when there is none.
  static Answers any_of(std::vector<std::int64_t> tokens);
  /// Each row's own token. Throws ShapeError when there is none.
  static Answers by_row(const std::vector<std::int64_t>& tokens);
  /// Each row's own set. `texts` are those that tokens of each row were written as, if any, for texts().
  /// Throws ShapeError for an empty list, a row without a token, and texts of another number of rows.
  static Answers sets_by_row(std::vector<std::vector<std::int64_t>> sets,
                             std::vector<std::vector<std::string>> texts = {});

  /// Each row's own token, by its text. Throws ShapeError when there is none.
  static Answers texts_by_row(std::vector<std::string> texts);

  /// The same answers as ids: texts become the model's tokens; texts() are the same. Throws TokenizerError as
  /// HookedTransformer::to_token, also if a text is several tokens.
  Answers in(const HookedTransformer& model) const;

  /// Each text that an answer was given as, and the first row that it is for; empty for ids.
  std::vector<std::pair<std::string, std::int64_t>> texts() const;

  /// The number of rows that have their own tokens; 0 if all rows have the same.
  std::int64_t rows() const;
  /// The tokens of a row. Throws ShapeError out of range, HookError for texts.
  const std::vector<std::int64_t>& of_row(std::int64_t row) const&;
  /// The same of a temporary, as a copy.
  std::vector<std::int64_t> of_row(std::int64_t row) const&& { return of_row(row); }
  /// The answers of only these rows, in this order. Throws ShapeError out of range, HookError for texts.
  Answers of_rows(const std::vector<std::int64_t>& rows) const;

  /// Throws ShapeError, naming `where`, for an id outside a vocabulary of `vocab` tokens and if the number of
  /// rows differs; HookError for texts.
  void require_fit(std::int64_t rows, std::int64_t vocab, std::string_view where) const;

  /// Whether they are the same tokens; of answers that are not ids yet, the same texts.
  bool operator==(const Answers& other) const;

 private:
  explicit Answers(std::vector<std::vector<std::int64_t>> sets, bool by_row);
  void require_said() const;
  bool are_ids() const { return !sets_.empty() || texts_.empty(); }
  void require_ids() const;
  void require_row(std::int64_t row) const;

  std::vector<std::vector<std::int64_t>> sets_;
  // By rows as `sets_`; before in() there are only these.
  std::vector<std::vector<std::string>> texts_;
  bool by_row_ = false;
  bool none_ = false;
};

}  // namespace hooked
