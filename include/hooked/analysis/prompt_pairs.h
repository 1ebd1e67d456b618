#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hooked/analysis/answers.h"
#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/overwrite.h"

namespace HOOKED_EXPORT hooked {

/// A prompt: a text, or the ids of its tokens.
using Prompt = std::variant<std::string, std::vector<std::int64_t>>;
/// A token: the text of exactly one, or its id.
using PromptToken = std::variant<std::string, std::int64_t>;
/// A place in a prompt: the index of a token as the model reads it (a BOS counts, negative from the end), or
/// the text of a token that occurs there once, with or without the leading space.
using PromptPlace = std::variant<std::int64_t, std::string>;

/// The same place in both prompts of a pair.
struct PlaceOfPair {
  PromptPlace clean;      ///< in the clean prompt
  PromptPlace corrupted;  ///< in the corrupted one
  bool operator==(const PlaceOfPair&) const = default;
};

/// Two prompts that differ in what is studied, in the form that people write. For designated initialisers.
struct PromptPair {
  Prompt clean;                                    ///< the prompt that is answered correctly
  Prompt corrupted;                                ///< the same without what the answer depends on
  std::vector<PromptToken> answers = {};           ///< what the clean prompt asks for: one or any of these
  std::vector<PromptToken> against = {};           ///< what it does not ask for
  std::map<std::string, PlaceOfPair> places = {};  ///< places with a name: `subject`, `verb`
  bool operator==(const PromptPair&) const = default;
};

/// Reads pairs from a file. `.jsonl` has an object per line: `clean` and `corrupted` (a text or an array of
/// ids), `answers` and `against` (a text, an id, or an array of these), `places` (an object of indices,
/// texts, or {"clean": ..., "corrupted": ...}). `.csv` has columns of these names with several answers
/// separated by `|`, `place:NAME` or `clean_place:NAME` and `corrupted_place:NAME` (an integer is an index;
/// empty: none), and for ids between spaces `clean_tokens`, `corrupted_tokens`, `answer_tokens`,
/// `against_tokens`. Throws IoError, and CheckpointError naming the line for what is unknown or malformed.
std::vector<PromptPair> read_prompt_pairs(const std::filesystem::path& file);

/// Writes pairs as `.jsonl`, all of them or nothing; read_prompt_pairs reads them back. Such a file does not
/// show which program wrote it, so an existing one is replaced only with Overwrite::any. Throws IoError.
void write_prompt_pairs(const std::filesystem::path& file, const std::vector<PromptPair>& pairs,
                        Overwrite overwrite = Overwrite::ours);

/// How pairs are tokenized. For designated initialisers.
struct PromptPairOptions {
  PrependBos prepend_bos = PrependBos::by_default;  ///< which tokens are put around texts
  PaddingSide padding_side = PaddingSide::left;     ///< for rows that are shorter than the longest
};

/// Pairs of prompts as two matching batches: row i of both is pair i, and all rows have the same columns,
/// with padding where prompts are shorter. A value.
///
/// A pair is aligned column by column, which needs prompts of the same number of tokens, or at its named
/// places. A pair of different lengths without a place cannot be aligned and is an error.
class PromptPairs {
 public:
  /// Throws ShapeError naming the pair (from 0) that cannot be aligned or has a missing place,
  /// TokenizerError for texts that the model's tokenizer cannot turn into tokens, HookError for a model with
  /// two stacks.
  PromptPairs(const HookedTransformer& model, std::vector<PromptPair> pairs,
              const PromptPairOptions& options = {});
  /// The pairs of a file. Also throws what read_prompt_pairs throws.
  static PromptPairs load(const HookedTransformer& model, const std::filesystem::path& file,
                          const PromptPairOptions& options = {});

  /// The number of pairs.
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(pairs_.size()); }
  /// As they were given.
  const std::vector<PromptPair>& pairs() const& noexcept { return pairs_; }
  /// The same of a temporary, as a copy.
  std::vector<PromptPair> pairs() const&& { return pairs_; }

  const Input& clean() const& noexcept { return clean_.input; }  ///< [pair, pos] and its mask
  Input clean() const&& { return clean_.input; }                 ///< the same of a temporary, as a copy
  const Input& corrupted() const& noexcept { return corrupted_.input; }  ///< [pair, pos] and its mask
  Input corrupted() const&& { return corrupted_.input; }  ///< the same of a temporary, as a copy

  /// Each pair's answers. Throws ShapeError naming a pair without one.
  Answers answers() const { return answers_of(answers_, &PromptPair::answers, "answers"); }
  /// What each pair's answers are compared with. Throws as answers().
  Answers against() const { return answers_of(against_, &PromptPair::against, "against"); }

  /// The names of the places that every pair has.
  std::vector<std::string> place_names() const;
  /// A named place in the clean prompts. Throws ShapeError naming a pair that lacks it.
  Position clean_place(std::string_view name) const { return place(clean_, name); }
  /// The same in the corrupted prompts.
  Position corrupted_place(std::string_view name) const { return place(corrupted_, name); }

  /// Throws ShapeError naming the first pair whose prompts have different numbers of tokens: `what` compares
  /// them column by column.
  void require_same_columns(std::string_view what) const;

 private:
  /// One prompt of each pair.
  struct Side {
    Input input{at::Tensor()};
    std::vector<std::int64_t> lengths;                                     ///< tokens of each pair's prompt
    std::vector<std::map<std::string, std::int64_t, std::less<>>> places;  ///< columns, by pair
  };

  Answers answers_of(const std::vector<std::vector<std::int64_t>>& sets,
                     std::vector<PromptToken> PromptPair::*given, const char* what) const;
  Position place(const Side& side, std::string_view name) const;

  std::vector<PromptPair> pairs_;
  Side clean_, corrupted_;
  std::vector<std::vector<std::int64_t>> answers_, against_;
};

}  // namespace hooked
