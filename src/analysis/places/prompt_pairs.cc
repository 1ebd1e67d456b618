#include "hooked/analysis/prompt_pairs.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/work/obstacles.h"
#include "core/json.h"
#include "core/overloaded.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// The tokens of one prompt.
struct Row {
  std::vector<std::int64_t> ids;
  std::vector<std::string> pieces;  ///< for people to read; empty if the model has no tokenizer
};

std::string pair_name(std::size_t pair) { return fmt::format("pair {}", pair); }

Row row_of(const HookedTransformer& model, const Prompt& prompt, const PromptPairOptions& options) {
  Row row;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    for (auto& piece : model.to_pieces(*text, {.prepend_bos = options.prepend_bos})) {
      row.ids.push_back(piece.id);
      row.pieces.push_back(std::move(piece.text));
    }
    return row;
  }
  row.ids = std::get<std::vector<std::int64_t>>(prompt);
  if (model.has_tokenizer() && !row.ids.empty())
    row.pieces = model.to_str_tokens(at::tensor(row.ids, at::kLong));
  return row;
}

/// Some tokens of a row: `[' a', ' bag']`, or ids without a tokenizer.
std::string tokens_text(const Row& row, std::size_t first, std::size_t end) {
  if (first == end) return "nothing";
  constexpr std::size_t kMost = 6;
  std::vector<std::string> shown;
  for (std::size_t i = first; i < std::min(end, first + kMost); ++i)
    shown.push_back(row.pieces.empty() ? std::to_string(row.ids[i]) : fmt::format("'{}'", row.pieces[i]));
  if (end > first + kMost) shown.emplace_back("...");
  return fmt::format("[{}]", fmt::join(shown, ", "));
}

/// Where two rows of different lengths differ: what is between their common beginning and their common end.
std::string difference_text(const Row& clean, const Row& corrupted) {
  const auto& a = clean.ids;
  const auto& b = corrupted.ids;
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t first = 0, same_end = 0;
  while (first < most && a[first] == b[first]) ++first;
  while (same_end < most - first && a[a.size() - 1 - same_end] == b[b.size() - 1 - same_end]) ++same_end;
  return fmt::format("from token {} on the clean one has {} where the corrupted one has {}", first,
                     tokens_text(clean, first, a.size() - same_end),
                     tokens_text(corrupted, first, b.size() - same_end));
}

std::string_view without_blank(std::string_view piece) {
  while (piece.starts_with(' ')) piece.remove_prefix(1);
  return piece;
}

/// The index of the one token with this text.
std::size_t only_token(const Row& row, const std::string& text, const std::string& where,
                       const std::string& what) {
  if (row.pieces.empty()) {
    throw ShapeError(where,
                     fmt::format("{} is a text ('{}'), and this model has no tokenizer; give the token's "
                                 "index",
                                 what, printable(text)));
  }
  std::vector<std::size_t> found;
  const auto collect = [&](const auto& is_it) {
    for (std::size_t i = 0; i < row.pieces.size(); ++i) {
      if (is_it(row.pieces[i])) found.push_back(i);
    }
  };
  collect([&](const std::string& piece) { return piece == text; });
  if (found.empty())
    collect([&](const std::string& piece) { return without_blank(piece) == without_blank(text); });
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    throw ShapeError(where, fmt::format("{}: no token is '{}'; expected one of ['{}']", what, printable(text),
                                        fmt::join(row.pieces, "', '")));
  }
  throw ShapeError(
      where, fmt::format(
                 "{}: '{}' occurs at the tokens {}; expected a text that occurs once; give the token's index",
                 what, printable(text), fmt::join(found, ", ")));
}

/// The index of a place among the row's tokens.
std::int64_t index_of(const Row& row, const PromptPlace& place, const std::string& where,
                      const std::string& what) {
  if (const auto* text = std::get_if<std::string>(&place))
    return static_cast<std::int64_t>(only_token(row, *text, where, what));
  const auto length = static_cast<std::int64_t>(row.ids.size());
  const auto index = std::get<std::int64_t>(place);
  if (index >= -length && index < length) return index < 0 ? index + length : index;
  throw ShapeError(where, fmt::format("{}: token {} is outside the prompt; expected {} to {}", what, index,
                                      -length, length - 1));
}

/// Rows padded on one side to `columns` columns.
Input padded(const HookedTransformer& model, const std::vector<Row>& rows, std::int64_t columns,
             PaddingSide side) {
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows.size()), columns};
  // Any id will do: padding is masked.
  const auto tokens = at::zeros(shape, at::kLong), mask = at::zeros(shape, at::kBool);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto length = static_cast<std::int64_t>(rows[i].ids.size());
    const auto first = side == PaddingSide::left ? columns - length : 0;
    tokens[static_cast<std::int64_t>(i)].narrow(0, first, length).copy_(at::tensor(rows[i].ids, at::kLong));
    mask[static_cast<std::int64_t>(i)].narrow(0, first, length).fill_(true);
  }
  return {tokens.to(model.device()), {.attention_mask = mask.to(model.device())}};
}

std::vector<std::int64_t> ids_of(const HookedTransformer& model, const std::vector<PromptToken>& tokens,
                                 const std::string& where) {
  if (!tokens.empty() && !model.config().has_unembedding()) {
    throw HookError(where,
                    "this model has no unembedding and so no logits of an answer; expected a language model");
  }
  std::vector<std::int64_t> ids;
  for (const auto& token : tokens) {
    ids.push_back(std::visit(Overloaded{[](std::int64_t id) { return id; },
                                        [&](const std::string& text) {
                                          try {
                                            return model.to_token(text);
                                          } catch (const TokenizerError& error) {
                                            throw TokenizerError(where + ": " + error.where(),
                                                                 error.message());
                                          }
                                        }},
                             token));
    if (ids.back() >= 0 && ids.back() < model.config().d_vocab_out()) continue;
    throw ShapeError(where, fmt::format("the answer {} is outside the vocabulary; expected 0 to {}",
                                        ids.back(), model.config().d_vocab_out() - 1));
  }
  return ids;
}

}  // namespace

PromptPairs::PromptPairs(const HookedTransformer& model, std::vector<PromptPair> pairs,
                         const PromptPairOptions& options)
    : pairs_(std::move(pairs)) {
  require_free_of(model.config(), "prompt pairs", obstacles::kPairs);
  if (pairs_.empty()) throw ShapeError("prompt pairs", "there is no pair; expected at least one");
  std::vector<Row> clean, corrupted;
  std::size_t columns = 0;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    for (auto* rows : {&clean, &corrupted}) {
      const bool is_clean = rows == &clean;
      rows->push_back(row_of(model, is_clean ? pairs_[i].clean : pairs_[i].corrupted, options));
      if (rows->back().ids.empty()) {
        throw ShapeError(pair_name(i), fmt::format("the {} prompt has no tokens; expected at least one",
                                                   is_clean ? "clean" : "corrupted"));
      }
      columns = std::max(columns, rows->back().ids.size());
    }
    if (clean[i].ids.size() != corrupted[i].ids.size() && pairs_[i].places.empty()) {
      throw ShapeError(
          pair_name(i),
          fmt::format("the prompts cannot be aligned; expected as many tokens in the corrupted prompt "
                      "as in the clean one ({}), got {}; {}; make them equally long, or name the places that "
                      "belong together",
                      clean[i].ids.size(), corrupted[i].ids.size(), difference_text(clean[i], corrupted[i])));
    }
    answers_.push_back(ids_of(model, pairs_[i].answers, pair_name(i)));
    against_.push_back(ids_of(model, pairs_[i].against, pair_name(i)));
  }
  const auto n_columns = static_cast<std::int64_t>(columns);
  for (const auto& [side, rows] : {std::pair{&clean_, &clean}, {&corrupted_, &corrupted}}) {
    const bool is_clean = side == &clean_;
    side->input = padded(model, *rows, n_columns, options.padding_side);
    for (std::size_t i = 0; i < rows->size(); ++i) {
      const auto& row = (*rows)[i];
      side->lengths.push_back(static_cast<std::int64_t>(row.ids.size()));
      const auto first = options.padding_side == PaddingSide::left ? n_columns - side->lengths.back() : 0;
      auto& places = side->places.emplace_back();
      for (const auto& [name, place] : pairs_[i].places) {
        const auto what = fmt::format("place '{}' of the {} prompt", name, is_clean ? "clean" : "corrupted");
        places[name] = first + index_of(row, is_clean ? place.clean : place.corrupted, pair_name(i), what);
      }
    }
  }
}

PromptPairs PromptPairs::load(const HookedTransformer& model, const std::filesystem::path& file,
                              const PromptPairOptions& options) {
  return {model, read_prompt_pairs(file), options};
}

Answers PromptPairs::answers_of(const std::vector<std::vector<std::int64_t>>& sets,
                                std::vector<PromptToken> PromptPair::*given, const char* what) const {
  std::vector<std::vector<std::string>> texts(sets.size());
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].empty())
      throw ShapeError(pair_name(i), fmt::format("the pair has no `{}`; expected at least one token", what));
    for (const PromptToken& token : pairs_[i].*given) {
      if (const auto* text = std::get_if<std::string>(&token)) texts[i].push_back(*text);
    }
  }
  return Answers::sets_by_row(sets, std::move(texts));
}

std::vector<std::string> PromptPairs::place_names() const {
  std::vector<std::string> names;
  if (clean_.places.empty()) return names;  // for pairs that were moved from
  for (const auto& [name, column] : clean_.places.front()) {
    const auto has = [&name = name](const auto& places) { return places.contains(name); };
    if (std::all_of(clean_.places.begin(), clean_.places.end(), has)) names.push_back(name);
  }
  return names;
}

Position PromptPairs::place(const Side& side, std::string_view name) const {
  std::vector<std::int64_t> columns;
  for (std::size_t i = 0; i < side.places.size(); ++i) {
    const auto found = side.places[i].find(name);
    if (found == side.places[i].end()) {
      const std::vector<std::string> names = place_names();
      throw ShapeError(
          pair_name(i),
          fmt::format("the pair has no place '{}'; expected {}", name,
                      names.empty() ? "a column such as 3 or -1, or `last`, as no place is in every pair"
                                    : fmt::format("one that every pair has: {}", fmt::join(names, ", "))));
    }
    columns.push_back(found->second);
  }
  return {std::string(name), std::move(columns)};
}

void PromptPairs::require_same_columns(std::string_view what) const {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (clean_.lengths[i] == corrupted_.lengths[i]) continue;
    throw ShapeError(pair_name(i),
                     fmt::format("{} compares the prompts column by column; expected as many tokens in the "
                                 "corrupted prompt as in the clean one ({}), got {}; use named places",
                                 what, clean_.lengths[i], corrupted_.lengths[i]));
  }
}

}  // namespace hooked
