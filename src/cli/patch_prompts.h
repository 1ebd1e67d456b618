#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/prompt_pairs.h"
#include "hooked/analysis/sweep.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/selection.h"
#include "options/command_options.h"

namespace hooked::cli {

/// The two runs of a pair of prompts.
enum class PromptSide : std::uint8_t { clean, corrupted };

/// What a source keeps of the run that it is derived from, and how it is drawn if it is random.
struct SourceRun {
  Selection capture;
  std::uint64_t seed = 0;
};

/// Pairs of prompts, and what is known about them before anything is patched.
class PatchPrompts {
 public:
  /// Throws UsageError if options and file do not fit together, and what PromptPairs, edits and metrics
  /// throw.
  PatchPrompts(const HookedTransformer& model, const ScoredPairOptions& options);

  const PromptPairs& pairs() const { return pairs_; }
  const Input& input(PromptSide side) const {
    return side == PromptSide::clean ? pairs_.clean() : pairs_.corrupted();
  }
  /// The edits of --edit, which apply to every run.
  const Edits& edits(PromptSide side) const {
    return side == PromptSide::clean ? clean_edits_ : corrupted_edits_;
  }
  /// The positions that a word of --positions names: the columns of a range of that side's tokens, or the
  /// word itself. The name of a place that all pairs have comes first. Throws HookError out of range.
  std::vector<std::string> each_position(PromptSide side, const std::string& text) const;
  /// A column, `last` or the name of a place. Throws ShapeError for a name that a pair lacks.
  Position position(PromptSide side, const std::string& text) const;
  /// The metrics of the runs.
  const std::vector<MetricKind>& metric_kinds() const { return kinds_; }
  /// The same, with the answers of the runs of that side.
  std::vector<Metric> metrics(PromptSide side) const;
  /// The scores of the runs of that side, [metric, row] float64.
  at::Tensor scores(PromptSide side) const;
  /// What places are patched with, if it is derived from the run of that side.
  PatchSource source(PatchWith with, PromptSide side, SourceRun how) const;
  /// Adds the tokens of the run of that side, of both prompts and around texts.
  void add_tokens(PromptSide side, Json& json) const;
  /// In a few words: the prompts of one pair, or the file and the number of pairs, and the answers if they
  /// are the same for all: `clean “John saw Mary”, corrupted “Mary saw Mary”, “ Mary” against “ John”`.
  std::string text() const;
  /// Notes on the first answers with another spelling that is also one token (spelling_notes).
  std::vector<std::string> answer_notes() const;

 private:
  Metric metric(MetricKind kind, const Position& position) const;

  HookedTransformer model_;
  std::string file_;  // of the pairs; empty: none
  Json around_;       // around_json() of their texts; null if they have none
  PromptPairs pairs_;
  Edits clean_edits_, corrupted_edits_;
  std::vector<MetricKind> kinds_;
  std::string position_;
  at::Tensor
      reference_;  // logits of the clean run, [row, 1, vocab]; undefined unless a metric compares with it
};

}  // namespace hooked::cli
