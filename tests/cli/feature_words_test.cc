// Features of dictionaries in `hooked attribute`, `hooked lens` and `hooked patch`.
#include <ATen/Functions.h>

#include "hooked/hooked.h"
#include "tests/cli/cli_fixture.h"

namespace hooked::feature_words_test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class FeatureWords : public CliTest {
 protected:
  FeatureWords() { dictionary().save(folder_ / "sae"); }

  static Dictionary dictionary() {
    const auto numbers = [](at::IntArrayRef sizes, std::uint64_t seed) {
      return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kDouble);
    };
    DictionaryConfig c;
    c.d_in = c.d_out = 12;
    c.features = 20;
    c.dtype = at::kDouble;
    c.input = c.output = "blocks.0.hook_mlp_out";
    return {c,
            {.W_enc = numbers({12, 20}, 1),
             .b_enc = numbers({20}, 2) - 1,
             .W_dec = numbers({20, 12}, 3),
             .b_dec = numbers({12}, 4)}};
  }
  Words with(const char* command, const Words& more) const {
    return Words{command, model(), "--dtype", "float64", "--no-processing"} + more;
  }
  Words spliced(const char* command, const Words& more) const {
    return with(command, Words{"--dictionary", path("sae"), "--with-error"} + more);
  }
  HookedTransformer in_float64() const {
    return HookedTransformer::load(model(), {.dtype = at::kDouble, .processing = WeightProcessing::none()})
        .with_dictionary(dictionary(), {.with_error = true});
  }
};

TEST_F(FeatureWords, AttributeSplitsALogitByFeature) {
  const Words words{"--tokens", "1,2,3,4", "--answer-token", "5", "--grain", "feature"};
  const auto json = succeed(spliced("attribute", words + Words{"--json"})).json();
  const auto model = in_float64();
  const auto run = model.run_with_cache(at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4}),
                                        act::defaults | act::sae_acts_post);
  const Grid grid = direct_logit_attribution(model, run.cache, {.answer = 5, .grain = Grain::feature});
  EXPECT_EQ(json["parts"]["axes"][1]["labels"].get<Words>(), grid.axis("part").labels);
  EXPECT_NEAR(json["parts"]["values"][0][2][0].get<double>(), grid.at({0, 2, 0}), 1e-9);
  EXPECT_NE(succeed(spliced("attribute", words)).out.find("mlp error 0"), std::string::npos);
  expect_failure(with("attribute", words), 2, "expected --dictionary with it");
}

TEST_F(FeatureWords, TheLensReadsFeatures) {
  const Words words{"--tokens", "1,2,3,4", "--answer-token", "5", "--parts", "feature"};
  EXPECT_NE(succeed(spliced("lens", words)).out.find("mlp feature 0."), std::string::npos);
  expect_failure(with("lens", words), 2, "expected --dictionary with it");
}

TEST_F(FeatureWords, PatchAblatesEachFeature) {
  const Words words{"--clean-tokens", "1,2,3,4", "--corrupted-tokens", "1,5,3,4",
                    "--answer-token", "6",       "--against-token",    "7"};
  const auto model = in_float64();
  const auto corrupted = at::tensor({1, 5, 3, 4}, at::kLong).view({1, 4});
  SweepOptions options{.site = act::sae_acts_post,
                       .over = {Axis::layer, Axis::feature},
                       .from = PatchSource::zero(),
                       .into = corrupted,
                       .metric = logit_difference(6, 7)};
  const Grid grid = sweep(model, options);
  const Words zeroed = words + Words{"--from", "zero", "--out", path("f.json"), "--force"};
  for (const char* site :
       {"sae_acts_post", "hook_sae_acts_post", "mlp_out.sae_acts_post", "hook_mlp_out.hook_sae_acts_post"}) {
    succeed(spliced("patch", zeroed + Words{"--sweep", std::string(site) + ":layer,feature"}));
    const Grid saved = Grid::load(path("f.json"));
    EXPECT_EQ(saved.axis("feature").labels, grid.axis("feature").labels) << site;
    EXPECT_TRUE(at::allclose(saved.values(), grid.values(), 0, 1e-9, /*equal_nan=*/true)) << site;
  }
  // The clean run's features.
  succeed(spliced("patch", words + Words{"--out", path("f.json"), "--force", "--sweep",
                                         "sae_acts_post:layer,pos,feature"}));
  options.over = {Axis::layer, Axis::pos, Axis::feature};
  options.from =
      model.run_with_cache(at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4}), act::sae_acts_post).cache;
  EXPECT_TRUE(
      at::allclose(Grid::load(path("f.json")).values(), sweep(model, options).values(), 0, 1e-9, true));
  expect_failure(with("patch", words + Words{"--sweep", "sae_acts_post:layer,feature"}), 2,
                 "expected --dictionary with it");
  expect_failure(spliced("patch", words + Words{"--sweep", "resid_post.sae_acts_post:layer,feature"}), 1,
                 "none stands at resid_post");
}

}  // namespace
}  // namespace hooked::feature_words_test
