#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options/command_options.h"
#include "options/shared_options.h"

namespace hooked::cli {

// Options of commands that score pairs of prompts.

/// --clean, --corrupted and similar options; one of them is expected. Also --prepend-bos.
void add_pairs(CLI::App& app, ScoredPairOptions& options, OneOf& inputs);
/// --answer, --against and similar options, --metric (parsed by read_metrics), --position.
void add_scores(CLI::App& app, ScoredPairOptions& options, std::vector<std::string>& metrics);
/// Throws UsageError if nothing says what is scored, or if a metric is given twice.
void require_scored(const ScoredPairOptions& options);

/// The metrics with these names. Throws UsageError with the nearest name.
std::vector<MetricKind> read_metrics(const std::vector<std::string>& names);
/// What places may be patched with, as written on the command line; `other_run` is the name of the pair's
/// other run.
std::vector<std::string> patch_with_names(std::string other_run);
/// Whether it is computed from the prompts of a whole file.
bool takes_many_rows(PatchWith with);
/// The meaning of such a name.
PatchWith read_patch_with(std::string_view name);

/// Throws UsageError with this sentence unless `holds`.
void require(bool holds, const std::string& sentence);

}  // namespace hooked::cli
