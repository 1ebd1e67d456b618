#include "options/patch_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/json.h"
#include "core/nearest.h"
#include "options/command.h"
#include "options/option_table.h"

namespace hooked::cli {
namespace {

/// A preset by its names on the command line.
struct PresetName {
  std::string_view name, also;
};

#define HOOKED_PRESET(name, also, over, sites, patches) PresetName{name, also},
constexpr std::array kPresetNames{
#include "core/patching_presets.inc"
};

constexpr std::array<std::string_view, 3> kDirectPaths{"direct_path_q", "direct_path_k", "direct_path_v"};

#define HOOKED_AXIS(axis, written, ...) std::string_view{written},
constexpr std::array kAxisNames{
#include "hooked/core/axes.inc"
};

#define HOOKED_METRIC(name, needs, unit) MetricName{#name, MetricKind::name, MetricNeeds::needs, unit},
constexpr std::array kMetricNames{
#include "core/metrics.inc"
};

bool is_axis(std::string_view word) {
  return std::find(kAxisNames.begin(), kAxisNames.end(), word) != kAxisNames.end();
}

void require_axis(std::string_view word, std::string_view sweep) {
  if (is_axis(word)) return;
  const std::vector<std::string> known(kAxisNames.begin(), kAxisNames.end());
  throw UsageError(
      fmt::format("--sweep: '{}' in '{}' is not an axis; expected SITE:layer and any of the site's own axes, "
                  "such as post:layer,d_mlp{}",
                  printable(word), printable(sweep), nearest_text(kDidYouMean, word, known)));
}

// `site`: the preceding choice if it is a site; then the word may be meant as one of its axes.
[[noreturn]] void refuse_sweep(const std::string& word, const SweepChoice* site) {
  std::vector<std::string> known = sweep_names();
  if (site == nullptr) {
    throw UsageError(
        fmt::format("--sweep: there is no sweep '{}'; expected a name that --help lists, or a site "
                    "and axes such as post:layer,d_mlp{}",
                    printable(word), nearest_text(kDidYouMean, word, known)));
  }
  known.insert(known.end(), kAxisNames.begin(), kAxisNames.end());
  throw UsageError(
      fmt::format("--sweep: '{}' after '{}' is neither an axis nor a sweep; expected one of the site's axes, "
                  "or a name that --help lists{}",
                  printable(word), printable(site->name), nearest_text(kDidYouMean, word, known)));
}

SweepChoice read_sweep(const std::string& word, const SweepChoice* site) {
  if (const auto colon = word.find(':'); colon != std::string::npos) {
    SweepChoice choice{SweepChoice::Kind::site, word, word.substr(0, colon), {word.substr(colon + 1)}};
    require_axis(choice.axes.front(), word);
    return choice;
  }
  for (const PresetName& preset : kPresetNames) {
    if (preset.name == word || (!preset.also.empty() && preset.also == word))
      return {SweepChoice::Kind::preset, std::string(preset.name)};
  }
  if (std::find(kDirectPaths.begin(), kDirectPaths.end(), word) != kDirectPaths.end())
    return {SweepChoice::Kind::direct_path, word};
  refuse_sweep(word, site);
}

}  // namespace

std::span<const MetricName> metric_names() noexcept { return kMetricNames; }

std::string metrics_without_answer() {
  std::vector<std::string_view> names;
  for (const MetricName& metric : kMetricNames) {
    if (!metric.needs_answer()) names.push_back(metric.name);
  }
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

const MetricName& metric_name(MetricKind kind) noexcept {
  return kMetricNames[static_cast<std::size_t>(kind)];
}

MetricKind read_metric(std::string_view name) {
  std::vector<std::string> known;
  for (const MetricName& metric : kMetricNames) {
    if (metric.name == name) return metric.kind;
    known.emplace_back(metric.name);
  }
  throw UsageError(fmt::format("--metric: there is no metric '{}'; expected some of {}{}", printable(name),
                               fmt::join(known, ", "), nearest_text(kDidYouMean, name, known)));
}

std::vector<std::string> sweep_names() {
  std::vector<std::string> names;
  for (const PresetName& preset : kPresetNames) names.emplace_back(preset.name);
  names.insert(names.end(), kDirectPaths.begin(), kDirectPaths.end());
  return names;
}

std::vector<SweepChoice> read_sweeps(const std::vector<std::string>& words) {
  std::vector<SweepChoice> choices;
  for (const std::string& word : words) {
    SweepChoice* site =
        !choices.empty() && choices.back().kind == SweepChoice::Kind::site ? &choices.back() : nullptr;
    if (site != nullptr && is_axis(word)) {
      site->name += ',' + word;
      site->axes.push_back(word);
    } else {
      choices.push_back(read_sweep(word, site));
    }
  }
  std::vector<std::string> names;
  for (const SweepChoice& choice : choices) names.push_back(choice.name);
  require_each_once(names, "--sweep", "sweep");
  return choices;
}

}  // namespace hooked::cli
