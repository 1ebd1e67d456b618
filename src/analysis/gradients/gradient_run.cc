#include "analysis/gradients/gradient_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/runs/standing_edits.h"
#include "analysis/values/float32_at_least.h"
#include "analysis/work/obstacles.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

constexpr const char* kLayersAtOnce = "layers_at_once";

// What every norm divides by.
bool is_norm_scale(const ActivationName& name) {
  switch (name.site) {
#define HOOKED_SITE(...)
#define HOOKED_NORM(kind, word, ...) case Site::word##_scale:
#include "hooked/hooks/sites.inc"
    return true;
    default:
      return false;
  }
}

bool is_pattern(const ActivationName& name) {
  return name.site == Site::pattern || name.site == Site::cross_pattern;
}

Selection selection_of(const std::vector<ActivationName>& names) {
  Selection all;
  for (const ActivationName& name : names) all = all | Selection(name);
  return all;
}

/// A gradient run cut into stretches of layers, the last first.
class Stretches {
 public:
  Stretches(const HookedTransformer& model, const Input& input, const BoundMetric& metric,
            const GradientAsk& ask)
      : model_(model), input_(input), metric_(metric), ask_(ask) {
    const std::int64_t layers = model.config().n_layers;
    for (std::int64_t layer = 0; layer < layers; layer += ask.layers_at_once) begins_.push_back(layer);
    require();
  }

  at::Tensor run(const TakeGradients& take) {
    const std::vector<at::Tensor> streams = this->streams();
    at::Tensor scores, gradient;  // with respect to the stream after a stretch
    for (std::size_t stretch = begins_.size(); stretch-- > 0;) {
      const bool last = stretch + 1 == begins_.size();
      const std::int64_t begin = begins_[stretch];
      const Address entry = act::resid_pre(static_cast<std::int32_t>(begin));
      const Selection own = selection_of(names_in(stretch, ask_.of));
      RunOptions options = last ? metric_.needs() : RunOptions{.output = Output::none};
      options.hooks = holding(ask_.hold);
      options.threads = ask_.run.threads;
      options.capture = own | selection_of(names_in(stretch, ask_.keep));
      options.gradients.emplace(GradientRequest{.of = stretch > 0 ? own | Selection(entry) : own,
                                                .skip_unread = ask_.skip_unread && last});
      RunMetric& differentiated = options.gradients->of_run;
      if (last) {
        differentiated.function = [&](const at::Tensor& logits, const ActivationCache& read) {
          const at::Tensor each = metric_(logits, read);
          scores = each.detach();
          return each.sum();
        };
      } else {
        options.stop_at_layer = begins_[stretch + 1];
        differentiated.function = [gradient](const at::Tensor& stream, const ActivationCache&) {
          return (stream * to_device(gradient, stream.device())).sum();
        };
      }
      const RunResult made =
          model_.run(stretch == 0 ? input_ : from_stream(input_, begin, streams[stretch - 1]), options);
      if (stretch > 0) gradient = made.gradients[entry];
      take(made.cache, made.gradients);
    }
    return scores;
  }

 private:
  void require() const {
    const ModelConfig& config = model_.config();
    const auto refuse = [](const char* what) {
      throw HookError(kLayersAtOnce, std::string("stretches of layers cannot be computed anew ") + what +
                                         "; expected layers_at_once to be 0");
    };
    if (ask_.layers_at_once < 0)
      throw HookError(kLayersAtOnce, "a stretch has at least one layer; expected 1 or more");
    if (!ask_.run.hooks.empty() || !ask_.run.edits.empty() || !model_.hooks().empty())
      refuse("with hooks or edits");
    require_free_of(config, kLayersAtOnce, obstacles::kStretches);
    const auto shared = [&](const ActivationName& name) {
      return (name.site == Site::relative_bias && !config.relative()->in_every_block) ||
             (config.shortformer() && name.scope() == SiteScope::entry);
    };
    if (std::any_of(ask_.of.begin(), ask_.of.end(), shared)) refuse("where all layers read an activation");
    if (!metric_.metric().definition().reads_logits || !metric_.metric().definition().activations.empty())
      refuse("for a metric of activations");
  }

  std::vector<ActivationName> names_in(std::size_t stretch, const std::vector<ActivationName>& all) const {
    const std::int64_t begin = begins_[stretch];
    const bool last = stretch + 1 == begins_.size();
    std::vector<ActivationName> names;
    for (const ActivationName& name : all) {
      const SiteScope scope = name.scope();
      const bool own = scope == SiteScope::block
                           ? name.layer >= begin && (last || name.layer < begins_[stretch + 1])
                       : scope == SiteScope::exit ? last
                                                  : stretch == 0;
      if (own) names.push_back(name);
    }
    return names;
  }

  /// The streams before all stretches but the first.
  std::vector<at::Tensor> streams() const {
    std::vector<at::Tensor> streams;
    if (begins_.size() == 1) return streams;
    RunOptions plain{
        .output = Output::residual, .stop_at_layer = begins_.back(), .threads = ask_.run.threads};
    for (std::size_t i = 1; i + 1 < begins_.size(); ++i)
      plain.capture = plain.capture | Selection(act::resid_pre(static_cast<std::int32_t>(begins_[i])));
    const RunResult run = model_.run(input_, plain);
    for (std::size_t i = 1; i + 1 < begins_.size(); ++i)
      streams.push_back(run.cache[act::resid_pre(static_cast<std::int32_t>(begins_[i]))]);
    streams.push_back(run.residual());
    return streams;
  }

  const HookedTransformer& model_;
  const Input& input_;
  const BoundMetric& metric_;
  const GradientAsk& ask_;
  std::vector<std::int64_t> begins_;
};

}  // namespace

Hooks holding(const HeldInGradient& hold) {
  const auto constant = [](const at::Tensor& value) { return value.detach(); };
  Hooks hooks;
  if (hold.norms) hooks.emplace_back(Selection::matching(is_norm_scale), constant);
  if (hold.patterns) hooks.emplace_back(Selection::matching(is_pattern), constant);
  return hooks;
}

Input from_stream(const Input& input, std::int64_t layer, at::Tensor stream) {
  Input from = input;
  from.tokens = at::Tensor();
  from.token_types = at::Tensor();  // they are part of the stream
  from.start = StartAtLayer{layer, std::move(stream)};
  return from;
}

void GradientSum::add(const ActivationCache& gradients, double share) {
  if (sum_.empty()) {
    sum_ = gradients.in_form([&](const at::Tensor& value) { return float32_at_least(value) * share; });
    return;
  }
  for (const ActivationCache::Entry& entry : gradients) {
    at::Tensor value = float32_at_least(entry.value()) * share;
    if (sum_.contains(entry.name)) value = sum_[Address(entry.name)] + value;
    ActivationCache::Entry summed = entry;
    summed.held = value;
    sum_.insert(std::move(summed));
  }
}

InputWay::InputWay(const HookedTransformer& model, const PatchSource& from, const ActivationCache& plain,
                   const std::vector<SweptRow>& rows)
    : names_(entries(model)) {
  for (const ActivationName& name : names_) {
    here_.push_back(plain[Address(name)]);
    there_.push_back(whole_values(from, name, here_.back(), rows));
  }
}

std::vector<ActivationName> InputWay::entries(const HookedTransformer& model) {
  std::vector<ActivationName> names;
  for (const ActivationName& name : model.names()) {
    if (name.site == Site::resid_pre && name.layer == 0) names.push_back(name);
  }
  return names;
}

Edits InputWay::at(double share) const {
  Edits edits;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    // Added, so that what comes before the stream has a gradient as well.
    edits.push_back(add(Address(names_[i]), (there_[i] - here_[i]) * share));
  }
  return edits;
}

void require_slope(const HookedTransformer& model, const BoundMetric& metric, const at::Tensor& scores) {
  const Metric& scored = metric.metric();
  if (!scored.definition().minimum) return;
  const double rounding = rounding_of_least_score(model.dtype());
  const at::Tensor least = scores.to(at::kCPU, at::kDouble).sub(*scored.definition().minimum).le(rounding);
  if (!least.any().item<bool>()) return;
  const auto row = least.to(at::kLong).argmax(0).item<std::int64_t>();
  throw HookError(scored.name(),
                  fmt::format("row {} scores {}, the least that there is, so that its gradients are all zero "
                              "and say nothing; expected a reference that is another run than the one that "
                              "is patched, integration over inputs (--steps), or another metric",
                              row, scores[row].item<double>()));
}

bool stays_at_the_run(const Integration& integration) {
  return integration.over == IntegrateOver::nothing ||
         (integration.steps == 1 && integration.rule == StepRule::left);
}

double step_of(const Integration& integration, std::int64_t i) {
  if (integration.steps < 1) {
    throw HookError("integration", fmt::format("there are {} steps; expected at least 1", integration.steps));
  }
  const double within = integration.rule == StepRule::midpoint ? 0.5
                        : integration.rule == StepRule::right  ? 1.0
                                                               : 0.0;
  return (static_cast<double>(i) + within) / static_cast<double>(integration.steps);
}

namespace {

/// Gradients with respect to the input of hooks and edits at some points: the first hook there records it.
class GradientsBefore {
 public:
  GradientsBefore(const HookedTransformer& model, const GradientAsk& ask, const Hooks& hooks) {
    const PointIndex& points = model.points();
    for (const ActivationName& name : ask.of_what_edits_read) {
      if (may_change(name, hooks, ask.run.edits, points)) names_.push_back(name);
    }
  }

  bool empty() const { return names_.empty(); }
  Hooks hooks() {
    Hooks all;
    for (const ActivationName& name : names_) {
      all.emplace_back(Selection(name), [this, name](const at::Tensor& value) {
        at::Tensor given = value.view_as(value);
        made_[name] = at::zeros_like(given);  // no gradient passes an edit that sets all of it
        if (given.requires_grad()) {
          given.register_hook([this, name](const at::Tensor& gradient) { made_[name] = gradient.detach(); });
        }
        return given;
      });
    }
    return all;
  }
  /// `gradients` with these instead of the ones with respect to the output of hooks and edits.
  ActivationCache in(ActivationCache gradients) const {
    for (const auto& [name, gradient] : made_) gradients.insert({.name = name, .held = gradient});
    return gradients;
  }

 private:
  std::vector<ActivationName> names_;
  std::map<ActivationName, at::Tensor> made_;
};

}  // namespace

at::Tensor gradient_run(const HookedTransformer& model, const Input& input, const BoundMetric& metric,
                        const GradientAsk& ask, const TakeGradients& take) {
  if (ask.layers_at_once != 0) return Stretches(model, input, metric, ask).run(take);
  const Metric::Definition& definition = metric.metric().definition();
  RunOptions options = metric.needs(ask.run);
  Hooks standing = model.hooks();
  standing.insert(standing.end(), ask.run.hooks.begin(), ask.run.hooks.end());
  GradientsBefore before(model, ask, standing);
  options.hooks = before.hooks();
  for (const Hooks& hooks : {standing, holding(ask.hold)})
    options.hooks.insert(options.hooks.end(), hooks.begin(), hooks.end());
  // A caller that reads no logits asks for those of one column.
  if (!definition.reads_logits && model.config().has_unembedding())
    options.logit_positions = std::vector<std::int64_t>{input.first_column()};
  Selection of = selection_of(ask.of);
  options.capture = of | selection_of(ask.keep);
  // Gradients go back to the beginning of the streams, so that they reach everything after it.
  if (!before.empty()) of = of | selection_of(InputWay::entries(model));
  at::Tensor scores;
  const RunMetric differentiated = metric;  // throws for a metric without a gradient
  options.gradients.emplace(
      GradientRequest{.of = of,
                      .of_run = {.reads = differentiated.reads,
                                 .function =
                                     [&](const at::Tensor& output, const ActivationCache& read) {
                                       const at::Tensor each = metric(output, read);
                                       scores = each.detach();
                                       return each.sum();
                                     }},
                      .skip_unread = ask.skip_unread});
  const RunResult made = HookedTransformer(model.loaded()).run(input, options);
  take(made.cache, before.in(made.gradients));
  return scores;
}

}  // namespace hooked
