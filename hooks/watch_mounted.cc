// What a dictionary does where it stands in a run.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooks/mounted_dictionary.h"
#include "hooks/watch.h"

namespace hooked {
namespace {

// What a dictionary reads or replaces of an activation: one head, or all heads one after another.
at::Tensor as_read(const at::Tensor& activation, const MountedDictionary& mounted) {
  if (mounted.head) return activation.select(2, *mounted.head);
  return activation.dim() > 3 ? activation.flatten(2) : activation;
}

// The activation in which that has been replaced.
at::Tensor put_back(const at::Tensor& output, const at::Tensor& activation,
                    const MountedDictionary& mounted) {
  if (!mounted.head) return output.view(activation.sizes());
  const std::int64_t head = *mounted.head;
  return at::cat({activation.narrow(2, 0, head), output.unsqueeze(2),
                  activation.narrow(2, head + 1, activation.size(2) - head - 1)},
                 2);
}

}  // namespace

std::vector<ActivationName> names_inside(const MountedDictionary& mounted) {
  std::vector<ActivationName> names;
  for (const Site site : {Site::sae_input, Site::sae_acts_pre, Site::sae_acts_post, Site::sae_recons,
                          Site::sae_error, Site::sae_output}) {
    if (site != Site::sae_acts_pre || mounted.coder->has_preactivations())
      names.push_back(mounted.inside(site));
  }
  return names;
}

at::Tensor Watch::pass_inside(const MountedDictionary& mounted, Site site, at::Tensor value) {
  return watches_inside(mounted, site) ? pass(*points().find(mounted.inside(site)), std::move(value), {})
                                       : value;
}

bool Watch::watches_inside(const MountedDictionary& mounted, Site site) const {
  const auto point = points().find(mounted.inside(site));
  return point && watches(*point);
}

bool Watch::changes_inside(const MountedDictionary& mounted, Site site) const {
  const auto point = points().find(mounted.inside(site));
  return point && may_change(*point);
}

bool Watch::changes_features(const MountedDictionary& mounted) const {
  return std::ranges::any_of(std::array{Site::sae_input, Site::sae_acts_pre, Site::sae_acts_post},
                             [&](Site site) { return changes_inside(mounted, site); });
}

// Note [Dictionaries in a run]
// With the error term the output is x + (decode(edited) - decode(features)): x itself where nothing is
// edited, to the last bit. While gradients are recorded the error is a constant, so that x's gradient is that
// of the path through the dictionary; the value stays x, because the two reconstructions that are subtracted
// are equal.
at::Tensor Watch::through_dictionary(std::size_t number, const at::Tensor& activation) {
  const MountedDictionary& mounted = plan_->dictionaries()[number];
  const Coder& coder = *mounted.coder;
  const bool at_place = mounted.reads == mounted.writes;
  const at::Tensor whole = as_read(activation, mounted);
  const at::Tensor read = at_place ? whole : as_read(read_[number], mounted);

  const auto features_of = [&](const at::Tensor& input) {
    return coder.activations(coder.preactivations(input), input);
  };
  // The features of each source: of this run, and those that it would have if nobody changed them here.
  const auto of_sources = [&](at::Tensor Coded::*which) {
    std::vector<at::Tensor> all;
    for (const std::size_t source : mounted.sources) all.push_back(coded_[source].*which);
    return all;
  };
  const bool shared = mounted.sources.size() > 1 || plan_->lends_features(number);
  const bool changed = std::ranges::any_of(
      mounted.sources, [&](std::size_t source) { return changes_features(plan_->dictionaries()[source]); });
  const bool edited = changed || changes_inside(mounted, Site::sae_recons);
  const bool watched = std::ranges::any_of(
      names_inside(mounted), [&](const ActivationName& name) { return watches_inside(mounted, name.site); });
  if (mounted.with_error && !changed && !watched && !shared && !c10::GradMode::is_enabled())
    return activation;
  const bool whole_features = shared || changed ||
                              std::ranges::any_of(std::array{Site::sae_acts_pre, Site::sae_acts_post},
                                                  [&](Site site) { return watches_inside(mounted, site); });

  const at::Tensor unedited_input = coder.input_of(read);
  const at::Tensor input = pass_inside(mounted, Site::sae_input, unedited_input);
  at::Tensor reconstruction;
  if (whole_features) {
    at::Tensor before = coder.preactivations(input);
    if (before.defined()) before = pass_inside(mounted, Site::sae_acts_pre, std::move(before));
    coded_[number].features = pass_inside(mounted, Site::sae_acts_post, coder.activations(before, input));
    if (changes_features(mounted)) {
      const at::NoGradGuard constant;
      coded_[number].unedited = features_of(unedited_input);
    } else {
      coded_[number].unedited = coded_[number].features.detach();
    }
    reconstruction = coder.decode(of_sources(&Coded::features), input);
  } else {
    reconstruction = coder.reconstruct(input);
  }
  reconstruction = pass_inside(mounted, Site::sae_recons, reconstruction);
  // In the wider of both dtypes, so that differences are not rounded to the activation's.
  const at::ScalarType wide = c10::promoteTypes(whole.scalar_type(), reconstruction.scalar_type());
  const at::Tensor output = coder.output_of(reconstruction, input, whole.to(wide));
  const at::Tensor here = whole.detach().to(wide);
  const at::Tensor stays = stays_at(mounted, whole);
  const bool wants_error = watches_inside(mounted, Site::sae_error);
  at::Tensor unedited;  // the reconstruction that the error is measured against
  if (mounted.with_error || wants_error) {
    const at::NoGradGuard constant;
    unedited = changed ? coder.output_of(coder.decode(of_sources(&Coded::unedited), unedited_input),
                                         unedited_input, here)
                       : output.detach();
  }
  at::Tensor result = output;
  if (mounted.with_error) {
    result = edited || c10::GradMode::is_enabled() ? here + (result - unedited) : here;
  }
  if (wants_error) {
    at::Tensor error = here - unedited;
    if (stays.defined()) error = at::where(stays, at::zeros_like(error), error);
    const at::Tensor passed = pass_inside(mounted, Site::sae_error, error);
    const bool counts =
        changes_inside(mounted, Site::sae_error) || (c10::GradMode::is_enabled() && passed.requires_grad());
    if (mounted.with_error && counts) result = result + (passed - error);
  }
  if (stays.defined()) result = at::where(stays, whole.to(wide), result);
  result = pass_inside(mounted, Site::sae_output, result.to(whole.scalar_type()));
  return put_back(result, activation, mounted);
}

at::Tensor Watch::stays_at(const MountedDictionary& mounted, const at::Tensor& activation) const {
  if (mounted.excluded.empty()) return {};
  if (!extent_.tokens.defined()) {
    throw HookError(
        mounted.writes.to_string(),
        "the dictionary leaves out some tokens, and this run has none: it starts from a residual; "
        "expected a run from tokens");
  }
  const at::Tensor ids = extent_.tokens.to(activation.device());
  return at::isin(ids, to_device(mounted.excluded, activation.device())).unsqueeze(-1);
}

}  // namespace hooked
