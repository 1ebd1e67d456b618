#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options/command_options.h"
#include "options/shared_options.h"

namespace hooked::cli {

// Options of commands that score pairs of prompts.

/// --clean, --corrupted and their likes, of which one is expected; --prepend-bos.
void add_pairs(CLI::App& app, ScoredPairOptions& options, OneOf& inputs);
/// --answer, --against and their likes, --metric (its words are read by read_metrics), --position.
void add_scores(CLI::App& app, ScoredPairOptions& options, std::vector<std::string>& metrics);
/// Throws UsageError where nothing says what is scored, or a metric stands twice.
void require_scored(const ScoredPairOptions& options);

/// The metrics of these names. Throws UsageError with the nearest name.
std::vector<MetricKind> read_metrics(const std::vector<std::string>& names);
/// What places may be patched with, as the command line says it; the other run of the pair goes by
/// `other_run`.
std::vector<std::string> patch_with_names(std::string other_run);
/// Whether it is made of the prompts of a whole file.
bool takes_many_rows(PatchWith with);
/// What such a name means.
PatchWith read_patch_with(std::string_view name);

/// Throws UsageError with this sentence unless it holds.
void require(bool holds, const std::string& sentence);

}  // namespace hooked::cli
