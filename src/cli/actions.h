#pragma once

#include "options/command_options.h"

namespace hooked::cli {

/// What each command does, given its options. Results go to stdout. Throws UsageError if only the model can
/// tell that the command line is wrong, and the library's errors.
void perform(const ListOptions& options);
void perform(const InfoOptions& options);
void perform(const NamesOptions& options);
void perform(const TokenizeOptions& options);
void perform(const RunCommandOptions& options);
void perform(const CacheOptions& options);
void perform(const ShowOptions& options);
void perform(const GenerateCommandOptions& options);
void perform(const LensOptions& options);
void perform(const AttributeOptions& options);
void perform(const HeadsOptions& options);
void perform(const CircuitsOptions& options);
void perform(const WeightsOptions& options);
void perform(const PatchOptions& options);
void perform(const SaeOptions& options);
void perform(const GraphOptions& options);
void perform(const HarvestCommandOptions& options);
void perform(const ReportCommandOptions& options);
void perform(const SaveOptions& options);
void perform(const BenchOptions& options);

}  // namespace hooked::cli
