#include "analysis/stream/frozen_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <string_view>

#include "hooks/norm_points.h"
#include "hooks/stream.h"

namespace hooked {
namespace {

/// The points of the norm of the stream that has this point: a norm of vectors [d_model], before what reads
/// them or after what writes them. (A masked-LM head's norm is on no stream.)
std::optional<NormPoints> norm_of_stream(Site site) {
  const auto norm = norm_with(site);
  if (!norm) return std::nullopt;
  const SiteRow& made = row(norm->normalized);
  return made.axes.find(Axis::d_model) && !made.asked_rows ? norm : std::nullopt;
}

NormKind kind_of(Site scale, const ModelConfig& config) {
  const SiteScope scope = row(scale).scope;
  if (scope == SiteScope::entry) return config.embedding_norm;
  return scope == SiteScope::exit ? config.final_norm : config.norm;
}

/// Folding removes the weights of norms that something reads through, but not those of norms on embeddings or
/// on the outputs of sublayers and their parts.
bool keeps_weight(Site normalized, const ModelConfig& config) {
  if (!config.norm_folded) return true;
  for (const Stack stack : stacks_of(config)) {
    for (const StreamStep& step : stream_of(config, stack)) {
      if (step.kind != StreamStep::Kind::read) continue;
      if (std::ranges::find(step.through, normalized, &ActivationName::site) != step.through.end())
        return false;
    }
  }
  return true;
}

}  // namespace

at::Tensor centred(const at::Tensor& x, bool centres) { return centres ? x - x.mean(-1, true) : x; }

namespace {

// What a change of the scale takes off: with y = c(x) / s, and s the root mean square of c(x), dy is c(dx) /
// s minus y times the mean of y c(dx) / s. The same holds for directions, as the map is symmetric.
at::Tensor with_moving_scale(const at::Tensor& divided, const at::Tensor& normalized) {
  return divided - normalized * (normalized * divided).mean(-1, /*keepdim=*/true);
}

}  // namespace

at::Tensor FrozenNorm::of(const at::Tensor& x) const {
  auto divided = centred(x, centres) / scale;
  if (normalized.defined()) divided = with_moving_scale(divided, normalized);
  return weight.defined() ? divided * weight : divided;
}

at::Tensor FrozenNorm::before(const at::Tensor& directions) const {
  // Centring is a projection, so it may be applied to either side of a product.
  const auto divided =
      centred(weight.defined() ? directions * weight : directions, centres) / scale.unsqueeze(2);
  return normalized.defined() ? with_moving_scale(divided, normalized.unsqueeze(2)) : divided;
}

FrozenNorm scale_of_stream(const HookedTransformer& model, const BlockPlace& block) {
  const auto number = model.weights()[fmt::format("{}.resid_scale", block.path())].to(at::kCPU, at::kDouble);
  return {.scale = at::ones({1, 1, 1}, at::kDouble), .weight = number.expand({model.config().d_model})};
}

bool is_scale_of_stream(Site site) {
  const auto norm = norm_of_stream(site);
  return norm && norm->scale == site;
}

bool is_normalized_stream(Site site) {
  const auto norm = norm_of_stream(site);
  return norm && norm->normalized == site;
}

StreamNorm stream_norm_at(const HookedTransformer& model, const ActivationName& point) {
  const auto& config = model.config();
  StreamNorm norm{.scale = point, .normalized = point, .kind = {}, .weight = {}, .bias = {}};
  const auto points = norm_of_stream(point.site);
  assert(points);
  norm.scale.site = points->scale;
  norm.normalized.site = points->normalized;
  norm.kind = kind_of(norm.scale.site, config);
  if (!keeps_weight(norm.normalized.site, config)) return norm;
  // If one norm precedes both branches of a block, its weights are under ln1.
  auto owner = norm.scale;
  if (owner.site == Site::ln2_scale && config.layout == BlockLayout::parallel_one_norm)
    owner.site = Site::ln1_scale;
  const auto name = owner.to_string();
  const auto path = std::string_view(name).substr(0, name.rfind('.'));
  const auto read = [&](const char* leaf) {
    return model.weights()[fmt::format("{}.{}", path, leaf)].to(at::kCPU, at::kDouble);
  };
  norm.weight = read("w");
  if (config.norm_offset && owner.site != Site::embed_ln_scale) norm.weight = norm.weight + 1.0;
  if (config.norm_bias && norm.centres()) norm.bias = read("b");
  return norm;
}

}  // namespace hooked
