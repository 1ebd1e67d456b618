#include "hooked/analysis/circuit_judgement.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "analysis/gradients/gradient_run.h"
#include "analysis/gradients/kept_parts.h"
#include "analysis/places/row_columns.h"
#include "analysis/runs/source_reader.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// The number of sets of `size` out of `count`, or `most` + 1 if there are more than `most`.
std::int64_t number_of_sets(std::int64_t count, std::int64_t size, std::int64_t most) {
  std::int64_t sets = 1;
  size = std::min(size, count - size);
  for (std::int64_t i = 1; i <= size; ++i) {
    if (sets > (most + 1) * i / (count - size + i) + 1) return most + 1;
    sets = sets * (count - size + i) / i;
    if (sets > most) return most + 1;
  }
  return sets;
}

PartSet set_of(std::int64_t count, std::span<const std::int64_t> members) {
  PartSet set(count);
  for (const std::int64_t member : members) set.insert(member);
  return set;
}

/// Calls `use` with every set of `size` of the numbers below `count`, in lexicographic order.
template <typename Use>
void for_each_set(std::int64_t count, std::int64_t size, const Use& use) {
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(size));
  std::iota(chosen.begin(), chosen.end(), 0);
  while (true) {
    use(set_of(count, chosen));
    std::int64_t at = size - 1;
    while (at >= 0 && chosen[static_cast<std::size_t>(at)] == count - size + at) --at;
    if (at < 0) return;
    std::iota(chosen.begin() + at, chosen.end(), chosen[static_cast<std::size_t>(at)] + 1);
  }
}

/// Seeded draws that are the same on every platform.
class SetDraw {
 public:
  explicit SetDraw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(count));
  }
  PartSet set(std::int64_t count, std::int64_t size) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    for (std::int64_t i = 0; i < size; ++i)
      std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i + below(count - i))]);
    return set_of(count, std::span(all).first(static_cast<std::size_t>(size)));
  }

 private:
  std::mt19937_64 engine_;
};

/// Other sets of the circuit's size.
struct Others {
  std::vector<PartSet> sets;
  bool all = false;
};

Others other_sets(std::int64_t count, const PartSet& own, const CircuitJudgementOptions& options) {
  Others others;
  const std::int64_t size = std::ssize(own.members());
  if (options.sets == 0) return others;
  if (number_of_sets(count, size, options.sets + 1) <= options.sets + 1) {
    others.all = true;
    for_each_set(count, size, [&](PartSet set) {
      if (set != own) others.sets.push_back(std::move(set));
    });
    return others;
  }
  SetDraw draw(options.seed);
  while (static_cast<std::int64_t>(others.sets.size()) < options.sets) {
    PartSet set = draw.set(count, size);
    if (set != own) others.sets.push_back(std::move(set));
  }
  return others;
}

/// Subsets of a circuit of these parts of a model with `count`, except the empty one.
std::vector<PartSet> subsets(std::int64_t count, const std::vector<std::int64_t>& parts,
                             const CircuitJudgementOptions& options) {
  std::vector<PartSet> all;
  if (parts.empty() || options.sets == 0) return all;
  const auto of_bits = [&](auto has) {
    PartSet some(count);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (has(i)) some.insert(parts[i]);
    }
    return some;
  };
  if (parts.size() < 20 && (std::int64_t{1} << parts.size()) - 1 <= options.sets) {
    for (std::uint64_t bits = 1; bits < (std::uint64_t{1} << parts.size()); ++bits)
      all.push_back(of_bits([&](std::size_t i) { return ((bits >> i) & 1) != 0; }));
    return all;
  }
  SetDraw draw(options.seed + 1);
  while (static_cast<std::int64_t>(all.size()) < options.sets) {
    PartSet some = of_bits([&](std::size_t) { return draw.below(2) == 1; });
    if (some != PartSet(count)) all.push_back(std::move(some));
  }
  return all;
}

/// Sets to run, and access to their scores afterwards.
class Runs {
 public:
  std::size_t add(PartSet kept) {
    sets_.push_back(std::move(kept));
    return sets_.size() - 1;
  }
  void run(const KeptParts& parts) {
    const SetScores scores = parts.scores(sets_);
    complete_ = scores.complete;
    // Over all rows: NaN if one of them was not reached.
    whole_ = scores.whole.mean().item<double>();
    const at::Tensor means = scores.kept.mean(0).contiguous();
    means_.assign(means.const_data_ptr<double>(), means.const_data_ptr<double>() + means.numel());
  }
  double operator[](std::size_t number) const { return means_[number]; }
  double whole() const { return whole_; }
  bool complete() const { return complete_; }

 private:
  std::vector<PartSet> sets_;
  std::vector<double> means_;
  double whole_ = kNoNumber;
  bool complete_ = true;
};

/// The circuits by what they consist of, `head 0.2 + mlp 1`; no two alike.
GridAxis circuit_axis(const std::vector<Circuit>& circuits) {
  constexpr std::size_t kMost = 6;  // of the parts that are named
  GridAxis axis{.name = "circuit", .labels = {}};
  for (const Circuit& circuit : circuits) {
    std::vector<std::string> parts = circuit.nodes();
    if (circuit.kind() == CircuitKind::edges) {
      parts.clear();
      for (const CircuitEdge& edge : circuit.edges())
        parts.push_back(fmt::format("{} -> {}", edge.writer, edge.reader));
    }
    const std::size_t all = parts.size(), named = std::min(all, kMost);
    parts.resize(named);
    std::string label = all == 0 ? "nothing" : fmt::format("{}", fmt::join(parts, " + "));
    if (all > named) label += fmt::format(" + {} more", all - named);
    const auto same = std::ranges::count_if(axis.labels, [&](const std::string& other) {
      return other == label || other.starts_with(label + " (");
    });
    axis.labels.push_back(same == 0 ? label : fmt::format("{} ({})", label, same + 1));
  }
  return axis;
}

}  // namespace

Grid run_circuits(const HookedTransformer& model, const std::vector<Circuit>& circuits,
                  const SweepOptions& sweep) {
  if (circuits.empty())
    throw HookError("run_circuits", "there is none to run; expected at least one circuit");
  const KeptParts parts(model, circuits.front().kind(), sweep);
  std::vector<PartSet> sets;
  for (const Circuit& circuit : circuits) sets.push_back(parts.parts_of(circuit));
  const at::Tensor kept = parts.scores(sets).kept;
  std::vector<GridAxis> axes;
  if (parts.rows() > 1) axes.push_back(numbered_axis("row", parts.rows()));
  axes.push_back(circuit_axis(circuits));
  return Grid(parts.rows() > 1 ? kept : kept[0], std::move(axes),
              {.title = titled("Circuits by themselves, the rest replaced", sweep.from),
               .unit = sweep.metric.front().name()});
}

CircuitJudgement judge_circuit(const HookedTransformer& model, const Circuit& circuit,
                               const CircuitJudgementOptions& options) {
  if (options.sets < 0)
    throw HookError("judge_circuit", fmt::format("sets is {}; expected 0 or more", options.sets));
  const KeptParts parts(model, circuit.kind(), options.sweep);
  const PartSet own = parts.parts_of(circuit);
  Others others = other_sets(parts.count(), own, options);
  Runs runs;
  const std::vector<std::int64_t> members = own.members();
  const std::size_t none = runs.add(PartSet(parts.count())), alone = runs.add(own),
                    ablated = runs.add(own.complement());
  std::vector<std::size_t> less;
  for (const std::int64_t part : members) {
    PartSet rest = own;
    rest.erase(part);
    less.push_back(runs.add(std::move(rest)));
  }
  std::vector<std::pair<std::size_t, std::size_t>> knocked;
  for (const PartSet& knocked_out : subsets(parts.count(), members, options))
    knocked.emplace_back(runs.add(own.minus(knocked_out)), runs.add(knocked_out.complement()));
  std::vector<std::pair<std::size_t, std::size_t>> of_others;
  for (PartSet& other : others.sets) {
    const std::size_t ablated_too = runs.add(other.complement());
    of_others.emplace_back(runs.add(std::move(other)), ablated_too);
  }
  runs.run(parts);

  // If the whole model and none of it score the same, the remaining difference is rounding.
  const double range = runs.whole() - runs[none];
  const double rounding = model.dtype() == at::kDouble ? 1e-10 : model.dtype() == at::kFloat ? 1e-4 : 1e-2;
  // Both may be at the metric's minimum, where scores are only rounding.
  const std::optional<double> minimum = options.sweep.metric.front().definition().minimum;
  const bool least =
      minimum && std::max(runs.whole(), runs[none]) - *minimum <= rounding_of_least_score(model.dtype());
  const bool nothing =
      least || std::abs(range) <= rounding * std::max(std::abs(runs.whole()), std::abs(runs[none]));
  const auto share = [&](double change) { return nothing ? kNoNumber : change / range; };
  const auto faithfulness = [&](std::size_t run) { return share(runs[run] - runs[none]); };
  const auto completeness = [&](std::size_t run) { return share(runs.whole() - runs[run]); };
  GridAxis part_axis{.name = "part", .labels = {}}, set_axis{.name = "set", .labels = {}};
  std::vector<double> falls, measures;
  for (std::size_t i = 0; i < less.size(); ++i) falls.push_back(faithfulness(alone) - faithfulness(less[i]));
  for (const std::int64_t part : members) part_axis.labels.push_back(parts.name(part));
  double farthest = knocked.empty() ? kNoNumber : 0;
  for (const auto& [circuit_less, model_less] : knocked) {
    const double apart = std::abs(share(runs[circuit_less] - runs[model_less]));
    if (std::isnan(apart) || std::isnan(farthest)) {
      farthest = kNoNumber;
    } else {
      farthest = std::max(farthest, apart);
    }
  }
  std::int64_t at_least = 0;
  for (std::size_t i = 0; i < of_others.size(); ++i) {
    set_axis.labels.push_back(std::to_string(i));
    measures.push_back(faithfulness(of_others[i].first));
    measures.push_back(completeness(of_others[i].second));
    if (faithfulness(of_others[i].first) >= faithfulness(alone)) ++at_least;
  }
  const auto n_sets = static_cast<std::int64_t>(of_others.size());
  return {.whole = runs.whole(),
          .none = runs[none],
          .circuit = runs[alone],
          .without = runs[ablated],
          .faithfulness = faithfulness(alone),
          .completeness = completeness(ablated),
          .incompleteness = farthest,
          .minimality =
              Grid(at::tensor(falls, at::kDouble), {part_axis},
                   {.title = titled("Faithfulness that is lost without a part, ablated", options.sweep.from),
                    .unit = "share of the score"}),
          .others = Grid(at::tensor(measures, at::kDouble).view({n_sets, 2}),
                         {set_axis, {.name = "measure", .labels = {"faithfulness", "completeness"}}},
                         {.title = titled("Other sets of the same size, ablated", options.sweep.from),
                          .unit = "share of the score"}),
          .all_others = others.all,
          .more_faithful = n_sets == 0 || !runs.complete() || std::isnan(faithfulness(alone))
                               ? kNoNumber
                               : static_cast<double>(at_least) / static_cast<double>(n_sets),
          .complete = runs.complete()};
}

}  // namespace hooked
