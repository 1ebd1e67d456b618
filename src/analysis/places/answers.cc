#include "hooked/analysis/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/core/shared.h"

namespace hooked {

Answers::Answers(std::vector<std::vector<std::int64_t>> sets, bool by_row)
    : sets_(std::move(sets)), by_row_(by_row) {
  if (sets_.empty()) throw ShapeError("answers", "there is no row; expected at least one");
  for (std::size_t row = 0; row < sets_.size(); ++row) {
    if (sets_[row].empty())
      throw ShapeError("answers", fmt::format("row {} has no token; expected at least one", row));
    std::vector<std::int64_t> once;
    for (const std::int64_t token : sets_[row]) {
      if (std::find(once.begin(), once.end(), token) == once.end()) once.push_back(token);
    }
    sets_[row] = std::move(once);
  }
}

Answers Answers::any_of(std::vector<std::int64_t> tokens) { return Answers({std::move(tokens)}, false); }

Answers Answers::by_row(const std::vector<std::int64_t>& tokens) {
  std::vector<std::vector<std::int64_t>> sets;
  for (const auto token : tokens) sets.push_back({token});
  return Answers(std::move(sets), true);
}

Answers Answers::sets_by_row(std::vector<std::vector<std::int64_t>> sets,
                             std::vector<std::vector<std::string>> texts) {
  Answers answers(std::move(sets), true);
  if (!texts.empty() && texts.size() != answers.sets_.size()) {
    throw ShapeError("answers", fmt::format("there are texts for {} rows; expected one list for each of {}",
                                            texts.size(), answers.sets_.size()));
  }
  answers.texts_ = std::move(texts);
  return answers;
}

Answers Answers::texts_by_row(std::vector<std::string> texts) {
  if (texts.empty()) throw ShapeError("answers", "there is no row; expected at least one");
  Answers answers(std::string_view{});
  answers.texts_.clear();
  for (std::string& text : texts) answers.texts_.push_back({std::move(text)});
  answers.by_row_ = true;
  return answers;
}

void Answers::require_said() const {
  if (!none_) return;
  throw HookError("answer", "no answer is given; expected a token, by its text (\" Mary\") or its id");
}

Answers Answers::in(const HookedTransformer& model) const {
  require_said();
  if (are_ids()) return *this;
  std::vector<std::vector<std::int64_t>> ids;
  for (const auto& of_row : texts_) {
    ids.emplace_back();
    for (const std::string& text : of_row) ids.back().push_back(model.to_token(text));
  }
  Answers answers(std::move(ids), by_row_);
  answers.texts_ = texts_;
  return answers;
}

std::vector<std::pair<std::string, std::int64_t>> Answers::texts() const {
  std::vector<std::pair<std::string, std::int64_t>> all;
  std::set<std::string> seen;
  for (std::size_t row = 0; row < texts_.size(); ++row) {
    for (const std::string& text : texts_[row]) {
      if (seen.insert(text).second) all.emplace_back(text, static_cast<std::int64_t>(row));
    }
  }
  return all;
}

bool Answers::operator==(const Answers& other) const {
  return none_ == other.none_ && by_row_ == other.by_row_ && sets_ == other.sets_ &&
         (are_ids() || texts_ == other.texts_);
}

std::int64_t Answers::rows() const {
  return by_row_ ? static_cast<std::int64_t>(std::max(sets_.size(), texts_.size())) : 0;
}

const std::vector<std::int64_t>& Answers::of_row(std::int64_t row) const& {
  require_ids();
  if (sets_.empty()) refuse_moved_from("answer");
  if (by_row_) require_row(row);
  return sets_[by_row_ ? static_cast<std::size_t>(row) : 0];
}

void Answers::require_row(std::int64_t row) const {
  if (row >= 0 && row < rows()) return;
  throw ShapeError("answers", fmt::format("row {} is out of range; expected 0 to {}", row, rows() - 1));
}

void Answers::require_ids() const {
  require_said();
  if (are_ids()) return;
  throw HookError(
      "answers", fmt::format("'{0}' is a text, and no model says here which token it is; expected an id; use "
                             "model.to_token(\"{0}\"), or answers.in(model) for all of them",
                             texts_.front().front()));
}

Answers Answers::of_rows(const std::vector<std::int64_t>& rows) const {
  require_ids();
  if (!by_row_) return *this;
  std::vector<std::vector<std::int64_t>> sets;
  std::vector<std::vector<std::string>> texts;
  for (const auto row : rows) {
    require_row(row);
    sets.push_back(sets_[static_cast<std::size_t>(row)]);
    if (!texts_.empty()) texts.push_back(texts_[static_cast<std::size_t>(row)]);
  }
  return sets_by_row(std::move(sets), std::move(texts));
}

void Answers::require_fit(std::int64_t rows, std::int64_t vocab, std::string_view where) const {
  require_ids();
  if (by_row_ && this->rows() != rows) {
    throw ShapeError(where,
                     fmt::format("there are answers for {} rows; expected one for each of the run's {} "
                                 "rows, or one for all",
                                 this->rows(), rows));
  }
  for (const auto& set : sets_) {
    for (const auto token : set) {
      if (token >= 0 && token < vocab) continue;
      throw ShapeError(
          where, fmt::format("token id {} is outside the vocabulary; expected 0 to {}", token, vocab - 1));
    }
  }
}

}  // namespace hooked
