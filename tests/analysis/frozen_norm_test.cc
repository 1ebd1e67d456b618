#include "analysis/stream/frozen_norm.h"

#include "hooked/hooks/site.h"
#include "tests/support/tiny_model.h"

namespace hooked::frozen_norm_test {
namespace {

constexpr double kEps = 1e-2;  // large enough to count

at::Tensor numbers(std::int64_t from) {
  return (at::arange(from, from + 24, at::kDouble) * 1.7).sin().view({1, 3, 8});
}

/// A norm at `x` [row, pos, d_model] with weights.
FrozenNorm norm_at(const at::Tensor& x, bool centres, bool moves) {
  const at::Tensor from = centred(x, centres), scale = (from.square().mean(-1, true) + kEps).sqrt();
  return {.centres = centres,
          .scale = scale,
          .weight = at::arange(8, at::kDouble) * 0.1 + 0.5,
          .normalized = moves ? from / scale : at::Tensor()};
}

TEST(FrozenNorm, IsTheDerivativeWhereItsScaleMoves) {
  const at::Tensor x = numbers(0), change = numbers(50) * 1e-6;
  for (const bool centres : {false, true}) {
    const auto value = [&](const at::Tensor& at) { return norm_at(at, centres, false).of(at); };
    const at::Tensor slope = (value(x + change) - value(x - change)) / 2;
    const at::Tensor made = norm_at(x, centres, true).of(change);
    EXPECT_LT((made - slope).abs().max().item<double>(), 1e-6 * slope.abs().max().item<double>());
    EXPECT_GT((norm_at(x, centres, false).of(change) - slope).abs().max().item<double>(),
              1e-2 * slope.abs().max().item<double>());
  }
}

TEST(FrozenNorm, DirectionsBeforeItSeeWhatThoseBehindItSee) {
  const at::Tensor x = numbers(0), change = numbers(50);
  const at::Tensor directions = numbers(90).unsqueeze(2);  // [row, pos, direction, d_model]
  for (const bool centres : {false, true}) {
    for (const bool moves : {false, true}) {
      const FrozenNorm norm = norm_at(x, centres, moves);
      const at::Tensor behind = (norm.of(change).unsqueeze(2) * directions).sum(-1);
      const at::Tensor before = (change.unsqueeze(2) * norm.before(directions)).sum(-1);
      EXPECT_TRUE(behind.allclose(before, 1e-12, 1e-12));
    }
  }
}

// The path of a point's norm, where the point's own name is `leaf`.
std::string norm_path(const ActivationName& point, std::string_view leaf) {
  const std::string path = point.to_string();
  EXPECT_TRUE(path.ends_with(leaf)) << path;
  return path.substr(0, path.size() - leaf.size());
}

TEST(FrozenNorm, BothPointsOfANormAreOfOneNorm) {
  std::set<std::string> scales, normalized;
  for (const SiteRow& site : site_table()) {
    const ActivationName point{.site = site.site, .layer = site.scope == SiteScope::block ? 1 : -1};
    if (is_scale_of_stream(site.site)) scales.insert(norm_path(point, ".hook_scale"));
    if (is_normalized_stream(site.site)) normalized.insert(norm_path(point, ".hook_normalized"));
  }
  EXPECT_EQ(scales.size(), 14u);
  EXPECT_EQ(scales, normalized);

  const HookedTransformer model = random_model(two_layer_config());
  for (const ActivationName& point : model.names()) {
    if (!is_scale_of_stream(point.site) && !is_normalized_stream(point.site)) continue;
    const StreamNorm norm = stream_norm_at(model, point);
    EXPECT_EQ(norm_path(norm.scale, ".hook_scale"), norm_path(norm.normalized, ".hook_normalized"));
    EXPECT_TRUE(point == norm.scale || point == norm.normalized) << point.to_string();
  }
}

}  // namespace
}  // namespace hooked::frozen_norm_test
