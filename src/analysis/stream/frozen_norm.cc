#include "analysis/stream/frozen_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <string_view>

#include "core/weight_table.h"
#include "hooks/norm_points.h"

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
  // If one norm precedes both branches of a block, its weights are under ln1.
  auto owner = norm.scale;
  if (owner.site == Site::ln2_scale && config.layout == BlockLayout::parallel_one_norm)
    owner.site = Site::ln1_scale;
  const auto name = owner.to_string();
  const auto path = std::string_view(name).substr(0, name.rfind('.'));
  // The table of weights says which norms still have theirs: folding moves them into what reads the norm.
  const auto read = [&](const WeightRow* row, const std::string& weight) {
    const bool there = row != nullptr && row->also.holds(config);
    return there ? model.weights()[weight].to(at::kCPU, at::kDouble) : at::Tensor();
  };
  const auto w = fmt::format("{}.w", path), b = fmt::format("{}.b", path);
  const WeightRow* const gain = find_weight_row(w);
  norm.weight = read(gain, w);
  if (norm.weight.defined() && config.norm_offset && gain->kind == WeightKind::gain)
    norm.weight = norm.weight + 1.0;
  norm.bias = read(find_weight_row(b), b);
  return norm;
}

}  // namespace hooked
