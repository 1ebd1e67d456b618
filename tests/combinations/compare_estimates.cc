// Estimates by gradients: each cell by differences of runs.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "hooked/analysis/attribution_patching.h"
#include "tests/combinations/points.h"
#include "tests/combinations/slopes.h"
#include "tests/combinations/sweep_parts.h"

namespace hooked::combinations {
namespace {

using reference::PlainRun;

constexpr std::int64_t kEstimates = 6;

/// The points by which a block writes to the stream.
const std::set<std::string> kWrites{"hook_attn_out", "hook_mlp_out", "hook_layer_input_out"};

const std::set<std::string> kStream{"hook_resid_pre", "hook_resid_mid", "hook_resid_sum", "hook_resid_post",
                                    "hook_normalized_resid_post"};

/// Whether a point is on the stream, between what blocks add.
bool is_on_stream(const std::string& path, const ModelConfig& config) {
  const bool of_norm = path.starts_with("ln1.") || path.starts_with("ln2.");
  return kStream.contains(path) || (of_norm && config.norms_stream());
}

/// The estimates of the cells of one row.
class RowEstimates {
 public:
  RowEstimates(const Subject& subject, const OracleSource& source, const Row& row)
      : subject_(subject),
        source_(source),
        row_(row),
        base_(subject.runs()[static_cast<std::size_t>(row.index)]) {}

  /// Nothing if the score has a kink nearby.
  std::optional<double> of(const Cell& cell, std::int64_t draw) const {
    const Estimate& how = subject_.combination().sweep.estimate;
    if (how.drop_layers) return mean_of_dropped(cell, draw);
    if (how.query_key) return through_patterns(cell, draw);
    if (how.steps == 0) return slope(cell, draw, {});
    double sum = 0.0;
    for (std::int64_t step = 0; step < how.steps; ++step) {
      const double share = (static_cast<double>(step) + 0.5) / static_cast<double>(how.steps);
      const Where way = how.over_inputs ? Where{.path = "hook_resid_pre", .layer = 0}
                                        : Where{.path = cell.where.path, .layer = cell.where.layer};
      const std::string name = name_in(way, *way.layer).to_string();
      const auto one = slope(cell, draw, {adding(name, delta({.where = way}, draw), share)});
      if (!one) return std::nullopt;
      sum += *one / static_cast<double>(how.steps);
    }
    return sum;
  }

  /// The change of a cell's values, NaN elsewhere.
  Array delta(const Cell& cell, std::int64_t draw) const {
    const std::string name = name_in(cell.where, *cell.where.layer).to_string();
    ActivationName of_scores = name_in(cell.where, *cell.where.layer);
    of_scores.site = Site::attn_scores;
    const auto scores = base_.activations.find(of_scores.to_string());
    const Array& here = base_.activations.at(name);
    Array there = here;
    const reference::Change patch = patch_of(source_, cell, row_, {.draw = draw});
    if (scores != base_.activations.end()) {
      Array seen = scores->second;
      patch(of_scores.to_string(), seen);
      if (of_scores.to_string() == name) there = seen;
    }
    if (of_scores.to_string() != name) patch(name, there);
    for (std::size_t i = 0; i < there.values.size(); ++i) {
      there.values[i] = there.values[i] == here.values[i] ? NAN : there.values[i] - here.values[i];
    }
    return there;
  }

 private:
  std::optional<double> slope(const Cell& cell, std::int64_t draw,
                              const std::vector<reference::Change>& more) const {
    const std::string name = name_in(cell.where, *cell.where.layer).to_string();
    const Array along = delta(cell, draw);
    return score_slope(subject_, row_, [&](double x) {
      std::vector<reference::Change> changes = subject_.changes_of(row_);
      changes.insert(changes.end(), more.begin(), more.end());
      changes.push_back(adding(name, along, x));
      return changes;
    });
  }

  /// One slope for each layer, with what that layer writes held fixed.
  std::optional<double> mean_of_dropped(const Cell& cell, std::int64_t draw) const {
    const bool of_stream = is_on_stream(cell.where.path, subject_.config());
    const std::int64_t layers = subject_.config().n_layers;
    double sum = 0.0;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      if (!of_stream && layer == *cell.where.layer) continue;
      const auto held = [this, layer](const std::string& name, Array& value) {
        const std::string prefix = fmt::format("blocks.{}.", layer);
        if (name.starts_with(prefix) && kWrites.contains(name.substr(prefix.size())))
          value = base_.activations.at(name);
      };
      const auto one = slope(cell, draw, {held});
      if (!one) return std::nullopt;
      sum += std::abs(*one);
    }
    return sum / static_cast<double>(of_stream ? layers : layers - 1);
  }

  /// The pattern under the cell's queries or keys, also of other heads if one norm spans them and of
  /// later layers that attend with the same keys, and from there on the slope.
  std::optional<double> through_patterns(const Cell& cell, std::int64_t draw) const {
    const ActivationName name = name_in(cell.where, *cell.where.layer);
    const ModelConfig& config = subject_.config();
    std::vector<reference::Change> held = subject_.changes_of(row_);
    held.push_back(patch_of(source_, cell, row_, {.draw = draw}));
    std::vector<ActivationName> patterns;
    for (std::int32_t layer = name.layer; layer < config.n_layers; ++layer) {
      ActivationName other = name;
      other.layer = layer;
      const bool attends_too =
          name.site == Site::k && config.attends(layer) && config.key_layer(layer) == name.layer;
      if (layer != name.layer && !attends_too) continue;
      other.site = Site::pattern;
      patterns.push_back(other);
      if (layer == name.layer) continue;
      other.site = Site::resid_pre;
      held.push_back([stream = other.to_string(), this](const std::string& at, Array& value) {
        if (at == stream) value = base_.activations.at(at);
      });
    }
    const PlainRun patched = subject_.oracle().run(row_, held);
    std::vector<std::pair<std::string, Array>> along;
    for (const ActivationName& pattern : patterns) {
      const std::string at = pattern.to_string();
      Array change = patched.activations.at(at);
      for (std::size_t i = 0; i < change.values.size(); ++i)
        change.values[i] -= base_.activations.at(at).values[i];
      along.emplace_back(at, std::move(change));
    }
    return score_slope(subject_, row_, [&](double x) {
      std::vector<reference::Change> moved = subject_.changes_of(row_);
      for (const auto& [at, change] : along) moved.push_back(adding(at, change, x));
      return moved;
    });
  }

  const Subject& subject_;
  const OracleSource& source_;
  const Row& row_;
  const PlainRun& base_;
};

}  // namespace

Integration integration_of(const Estimate& how) {
  if (how.steps == 0) return {};
  return {.over = how.over_inputs ? IntegrateOver::inputs : IntegrateOver::activations, .steps = how.steps};
}

std::optional<double> estimate_of(const Subject& subject, const OracleSource& source, const Row& row,
                                  const Cell& cell) {
  return RowEstimates(subject, source, row).of(cell, 0);
}

void compare_estimates(const Subject& subject, Comparison& comparison) {
  const Combination& c = subject.combination();
  const Subject::Attached handle = subject.attached(c.changes);
  const Estimate& how = c.sweep.estimate;
  const Grid grid = attribution_patching(handle.model, {.sweep = sweep_options(subject),
                                                        .integration = integration_of(how),
                                                        .query_key = how.query_key,
                                                        .drop_layers = how.drop_layers});
  const OracleSource source(subject);
  const bool several = c.rows() > 1;
  std::vector<std::set<std::int64_t>> fits(subject.rows().size());
  for (auto& draws : fits) {
    for (std::int64_t draw = 0; draw < source.draws(); ++draw) draws.insert(draw);
  }
  for (const auto& index : some_cells(grid.values().sizes().vec(), kEstimates)) {
    const Row& row = subject.rows()[several ? static_cast<std::size_t>(index.front()) : 0];
    const Cell cell = cell_at(subject, row, {index.begin() + (several ? 1 : 0), index.end()});
    const std::string what = fmt::format("estimate {}", index);
    if (!cell.exists) {
      comparison.expect_number(what, grid.at(index), NAN);
      continue;
    }
    const RowEstimates estimates(subject, source, row);
    std::set<std::int64_t>& draws = fits[static_cast<std::size_t>(row.index)];
    std::set<std::int64_t> fitting;
    Comparison last;
    for (const std::int64_t draw : draws) {
      const auto expected = estimates.of(cell, draw);
      Comparison one;
      if (expected) one.expect_number(what, grid.at(index), *expected, kSlopeTolerance);
      if (one.outcome().difference.empty()) fitting.insert(draw);
      last = one;
    }
    if (fitting.empty()) return comparison.differs(last.outcome().difference);
    comparison.count(1);
    draws = fitting;
  }
}

}  // namespace hooked::combinations
