#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/attribution_graph.h"
#include "hooked/analysis/prompt_pairs.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/report/page.h"

namespace HOOKED_EXPORT hooked {

/// What a report is about in addition to a prompt. For designated initialisers.
struct ReportOptions {
  std::string title = {};  ///< empty: the name of the model
  /// What the model is called in the page and its commands; empty: as it was given to load().
  std::string model_name = {};
  /// The same prompt without what the answer depends on, of as many tokens: adds activation patching. Needs
  /// answers.
  std::optional<Prompt> corrupted = std::nullopt;
  std::vector<PromptToken> answers = {};  ///< whose logit is taken apart; empty: the likeliest next token
  std::vector<PromptToken> against = {};  ///< subtracted from it, if given
  PrependBos prepend_bos = PrependBos::by_default;  ///< which tokens are put around texts
  /// Adds an attribution graph over these, pruned.
  std::optional<GraphFeatures> graph = std::nullopt;
  /// Options of the model for the commands of the page, as a shell reads them: `--dtype float64`.
  std::string shell_options = {};
  /// The same of the model's dictionaries: `--dictionary sae --with-error`.
  std::string shell_dictionaries = {};
  std::int64_t features = 20;  ///< of each dictionary in the model, at most
  /// Folders of harvests with ReductionOptions::examples of the model's dictionaries: adds them to the
  /// features.
  std::vector<std::filesystem::path> examples = {};
  /// Called before each section and during it; false ends the work, and the page has what is done.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// A page about a prompt: its tokens and what comes next, a lens, attention, scores of heads, which parts
/// write the answer; for a pair of prompts activation patching, for the model's dictionaries their
/// features, and an attribution graph. Each section says how it is made again. What the model does not
/// have is said in its section. Throws HookError for a model of two stacks, for a corrupted prompt without
/// answers, and for examples of another model or dictionary; and what the prompts, answers,
/// FeatureExamples::load and the run throw.
///
///     report(model, "When John and Mary went to the shop, John gave a bag to",
///            {.corrupted = "When John and Mary went to the shop, Mary gave a bag to",
///             .answers = {" Mary"}, .against = {" John"}}).save("report.html");
Page report(const HookedTransformer& model, const Prompt& prompt, const ReportOptions& options = {});

}  // namespace hooked
