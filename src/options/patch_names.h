#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "options/command_options.h"

namespace hooked::cli {

/// What a metric needs in addition to a run.
enum class MetricNeeds : std::uint8_t { nothing, answer, against, reference };

/// A metric by its name on the command line (core/metrics.inc).
struct MetricName {
  std::string_view name;
  MetricKind kind;
  MetricNeeds needs;
  std::string_view unit;

  bool needs_answer() const { return needs == MetricNeeds::answer || needs == MetricNeeds::against; }
};

/// All metrics, in the order of MetricKind.
std::span<const MetricName> metric_names() noexcept;

/// The metrics that need no answer, in words: `loss, kl_divergence or js_divergence`.
std::string metrics_without_answer();

/// The row of a metric.
const MetricName& metric_name(MetricKind kind) noexcept;

/// The metric of a name. Throws UsageError with the nearest name.
MetricKind read_metric(std::string_view name);

/// Names of all sweeps except sites with axes: the presets and the paths into heads.
std::vector<std::string> sweep_names();

/// The sweeps in a list such as `resid_pre,post:layer,d_mlp`, split at its commas: an axis's name
/// after a `SITE:axis` belongs to that. Throws UsageError for an unknown name and for one that appears
/// twice.
std::vector<SweepChoice> read_sweeps(const std::vector<std::string>& words);

}  // namespace hooked::cli
