#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/patch_prompts.h"
#include "hooked/analysis/sweep.h"
#include "options/command_options.h"

namespace hooked::cli {

/// The sweeps of one patching.
class PatchSweeps {
 public:
  /// Throws HookError for sites that do not exist, UsageError if --layers, --heads or --positions narrow none
  /// of the sweeps, and as replicate() for --replicas.
  PatchSweeps(const HookedTransformer& model, const PatchOptions& options, const PatchPrompts& prompts);

  /// The side that is patched, and the side that values come from.
  PromptSide into() const { return options_.noising ? PromptSide::clean : PromptSide::corrupted; }
  PromptSide from() const { return options_.noising ? PromptSide::corrupted : PromptSide::clean; }

  /// Runs one sweep. `progress` may end it; `partial` is its file, empty for none. Throws as sweep() does.
  SweepReport run(const SweepChoice& choice, std::function<bool(const SweepProgress&)> progress,
                  const std::string& partial) const;

 private:
  SweepOptions options_of(const SweepChoice& choice) const;
  std::vector<SweptPlace> places_on(Axis axis) const;
  PatchSource source(const std::vector<Site>& sites) const;

  const HookedTransformer& model_;
  const PatchOptions& options_;
  const PatchPrompts& prompts_;
  std::vector<HookedTransformer> replicas_;
};

}  // namespace hooked::cli
