#include "hooked/analysis/patching_presets.h"

#include "tests/analysis/preset_cells.h"
#include "tests/support/tiny_model.h"

namespace hooked::patching_presets_test {
namespace {

/// Every number of every preset is that of one full run. Returns how many were compared.
std::int64_t expect_full_runs(const HookedTransformer& model, double tolerance) {
  const at::Tensor clean = random_row(5, model.config().d_vocab, 1),
                   corrupted = random_row(5, model.config().d_vocab, 2);
  const auto cache = model.run_with_cache(clean, act::everything).cache;
  const Metric metric = logit_difference(1, 3);
  std::int64_t compared = 0;
  for (const PatchingPreset& preset : patching_presets()) {
    const SweepOptions options{.from = cache, .into = corrupted, .metric = metric};
    if (!fits(preset, model)) {
      EXPECT_THROW(sweep(model, preset, options), HookError) << preset.name;
      continue;
    }
    const auto grid = sweep(model, preset, options);
    const bool several = preset.parts.size() > 1;
    EXPECT_EQ(grid.axes().size(), preset.over.size() + (several ? 1 : 0));
    for (const auto& cell : grid.largest(100000)) {
      const Address address = patched_at(preset, cell.index);
      const double alone =
          metric.score(model, corrupted, {.edits = {replace(address, cache)}})[0].item<double>();
      EXPECT_NEAR(cell.value, alone, tolerance) << preset.name << ' ' << address.to_string();
      ++compared;
    }
    const bool grouped = model.config().grouped_query();
    const std::int64_t missing = grid.values().isnan().sum().item<std::int64_t>();
    if (!several || !grouped || preset.over[1] == Axis::pos) continue;
    const ModelConfig& config = model.config();
    const auto parts = static_cast<std::int64_t>(preset.parts.size());
    std::int64_t absent = 0;
    for (std::int64_t layer = 0; layer < config.n_layers; ++layer)
      absent += config.makes_keys(layer) ? 2 * (config.n_heads - config.kv_heads(layer))
                : config.attends(layer)  ? 2 * config.n_heads
                                         : config.n_heads * parts;
    EXPECT_EQ(missing, absent)
        << "keys and values have fewer heads, or none, and layers without attention none";
  }
  return compared;
}

class PresetsOfRandomConfig : public testing::TestWithParam<std::uint64_t> {};

TEST_P(PresetsOfRandomConfig, EqualOneFullRunPerPlace) {
  EXPECT_GT(expect_full_runs(random_model(random_double_config(GetParam())), 1e-10), 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PresetsOfRandomConfig, testing::Range<std::uint64_t>(0, 40));

TEST(PatchingPresets, AreFoundByTransformerLenssNames) {
  EXPECT_EQ(patching_presets().size(), 18U);
  EXPECT_EQ(patching_preset("head_all_pos_every").name, "attn_head_all_pos_every");
  EXPECT_EQ(patching_preset("head_by_pos_every").name, "attn_head_by_pos_every");
  EXPECT_THAT(
      text_thrown_by<HookError>([] { patching_preset("attn_head_out_by_position"); }),
      AllOf(HasSubstr("attn_head_out_by_position"), HasSubstr("the nearest is attn_head_out_by_pos")));
}

TEST(PatchingPresets, MayBeNarrowedToSomePlacesAndRows) {
  const auto model = random_model(two_layer_config());
  const at::Tensor clean = at::cat({random_row(5, 11, 1), random_row(5, 11, 3)}),
                   corrupted = at::cat({random_row(5, 11, 2), random_row(5, 11, 4)});
  SweepOptions options{.from = model.run_with_cache(clean).cache, .into = corrupted, .metric = logit(3)};
  const auto all = sweep(model, patching_preset("attn_head_by_pos_every"), options);
  EXPECT_EQ(all.values().sizes(), at::IntArrayRef({2, 5, 2, 5, 4}));
  options.over = {{Axis::head, {3, 0}}, {Axis::pos, {-1}}, {Axis::batch, {1}}};
  const auto some = sweep(model, patching_preset("attn_head_by_pos_every"), options);
  EXPECT_EQ(some.values().sizes(), at::IntArrayRef({1, 5, 2, 1, 2}));
  for (std::int64_t site = 0; site < 5; ++site)
    EXPECT_NEAR(some.at({0, site, 1, 0, 0}), all.at({1, site, 1, 4, 3}), 1e-10);
  EXPECT_EQ(some.axis("site").labels, (std::vector<std::string>{"z", "q", "k", "v", "pattern"}));
  options.over = {{Axis::key, {0}}};
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { sweep(model, patching_preset("attn_head_by_pos_every"), options); }),
      HasSubstr("no axis key"));
  options.site = act::z;
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model, patching_preset("resid_pre"), options); }),
              HasSubstr("neither `site` nor `table`"));
}

TEST(PatchingPresets, HeadsThatASiteLacksHaveNoNumber) {
  ModelConfig config = two_layer_config();
  config.n_kv_heads = 2;
  const auto model = random_model(config);
  const at::Tensor clean = random_row(5, 11, 1), corrupted = random_row(5, 11, 2);
  const auto cache = model.run_with_cache(clean).cache;
  const auto grid =
      sweep(model, patching_preset("attn_head_all_pos_every"),
            {.over = {{Axis::head, {-1, 1}}}, .from = cache, .into = corrupted, .metric = logit(3)});
  EXPECT_EQ(grid.axis("head").labels, (std::vector<std::string>{"3", "1"}));
  EXPECT_TRUE(std::isnan(grid.slice("site", "k").at({1, 0}))) << "there is no key/value head 3";
  EXPECT_NEAR(
      grid.slice("site", "v").at({1, 1}),
      logit(3).score(model, corrupted, {.edits = {replace(act::v(1).head(1), cache)}})[0].item<double>(),
      1e-10);
  EXPECT_NEAR(
      grid.slice("site", "q").at({1, 0}),
      logit(3).score(model, corrupted, {.edits = {replace(act::q(1).head(3), cache)}})[0].item<double>(),
      1e-10);
}

TEST(PatchingPresets, Float32IsCloseToOneFullRunPerPlace) {
  ModelConfig config = two_layer_config();
  config.dtype = at::kFloat;
  EXPECT_GT(expect_full_runs(HookedTransformer::create(config, {.seed = 2}), 1e-4), 700);
}

}  // namespace
}  // namespace hooked::patching_presets_test
