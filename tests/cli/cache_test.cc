#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <set>

#include "tests/cli/cli_fixture.h"

namespace hooked::cache_test {
namespace {

class CacheTest : public CliTest {
 protected:
  /// Runs `hooked cache` on tokens 1,2,3,4 in float64.
  SafetensorsFile cache(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"cache",   model(),   "--tokens", "1,2,3,4",
                                          "--dtype", "float64", "--out",    path("out.safetensors")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    succeed(arguments);
    return SafetensorsFile::open(path("out.safetensors"));
  }

  static std::set<std::string> names(const SafetensorsFile& file) {
    std::set<std::string> names;
    for (const auto& tensor : file.tensors()) names.insert(tensor.name);
    return names;
  }

  HookedTransformer exact() const { return HookedTransformer::load(model(), {.dtype = at::kDouble}); }
  static at::Tensor tokens() { return at::tensor({1, 2, 3, 4}, at::TensorOptions(at::kLong)).unsqueeze(0); }
};

TEST_F(CacheTest, HoldsTokensLogitsAndTheDefaultPoints) {
  const auto file = cache();
  const auto run = exact().run_with_cache(tokens());
  std::set<std::string> want = {"tokens", "logits"};
  for (const auto& entry : run.cache) want.insert(entry.name.to_string());
  EXPECT_EQ(names(file), want);
  EXPECT_FALSE(want.contains("blocks.0.attn.hook_result"));
  EXPECT_TRUE(at::equal(file.read("tokens"), tokens()));
  EXPECT_TRUE(at::equal(file.read("logits"), run.logits()));
  for (const auto& entry : run.cache)
    EXPECT_TRUE(at::equal(file.read(entry.name.to_string()), entry.value()));
}

TEST_F(CacheTest, AStarIsEveryPoint) {
  std::set<std::string> want = {"tokens", "logits"};
  const auto model = load();
  for (const auto& name : model.names()) want.insert(name.to_string());
  EXPECT_EQ(names(cache({"--names", "*"})), want);
}

TEST_F(CacheTest, NamesAreGlobs) {
  EXPECT_EQ(names(cache({"--names", "*.hook_pattern,hook_embed"})),
            (std::set<std::string>{"tokens", "logits", "hook_embed", "blocks.0.attn.hook_pattern",
                                   "blocks.1.attn.hook_pattern"}));
  expect_failure(
      {"cache", model(), "--tokens", "1", "--names", "*.hook_patern", "--out", path("no.safetensors")}, 1,
      "*.hook_patern");
  EXPECT_FALSE(std::filesystem::exists(path("no.safetensors")));
}

TEST_F(CacheTest, StopsBeforeALayer) {
  const auto whole = exact().run_with_cache(tokens());
  for (const std::int64_t stop : {0, 1, 2}) {
    std::set<std::string> want = {"tokens"};
    for (const auto& entry : whole.cache) {
      const auto& site = row(entry.name.site);
      if (site.scope == SiteScope::entry || (site.scope == SiteScope::block && entry.name.layer < stop)) {
        want.insert(entry.name.to_string());
      }
    }
    EXPECT_EQ(names(cache({"--stop-at-layer", std::to_string(stop)})), want) << stop;
  }
  const auto file = cache({"--stop-at-layer", "-1"});
  EXPECT_TRUE(at::equal(file.read("blocks.0.hook_resid_post"), whole.cache["blocks.0.hook_resid_post"]));
  EXPECT_EQ(file.find("logits"), nullptr);
}

TEST_F(CacheTest, ANameBeyondTheStopIsRefused) {
  const auto refused = [&](const std::string& stop, const std::string& names, const std::string& what) {
    expect_failure({"cache", model(), "--tokens", "1", "--stop-at-layer", stop, "--names", names, "--out",
                    path("no.safetensors")},
                   1, what);
  };
  refused("1", "blocks.1.hook_resid_pre", "blocks.1.hook_resid_pre");
  refused("1", "blocks.1.*", "blocks.1");
  refused("3", "*", "3");
}

TEST_F(CacheTest, GradientsAreThoseOfTheLogitDifference) {
  const auto file = cache({"--gradients", "--answer-token", "5", "--against-token", "6", "--names",
                           "blocks.0.hook_resid_post,unembed.hook_out,blocks.1.attn.hook_z"});
  EXPECT_EQ(file.read("grad.blocks.0.hook_resid_post").sizes(),
            file.read("blocks.0.hook_resid_post").sizes());
  // The logits' own gradient is +1 and -1 at the last position.
  auto want = at::zeros_like(file.read("unembed.hook_out"));
  want[0][3][5] = 1;
  want[0][3][6] = -1;
  EXPECT_TRUE(at::equal(file.read("grad.unembed.hook_out"), want));

  // Central differences on one number of z, float64.
  const auto difference = [&](double shift) {
    const auto logits =
        exact().run(tokens(), {.edits = {add(act::z(1).head(2).pos(1).at(Axis::d_head, 3), shift)}}).logits();
    return (logits[0][3][5].item<double>() - logits[0][3][6].item<double>());
  };
  const double numeric = (difference(1e-5) - difference(-1e-5)) / 2e-5;
  EXPECT_NEAR(file.read("grad.blocks.1.attn.hook_z")[0][1][2][3].item<double>(), numeric, 1e-8);
}

TEST_F(CacheTest, GradientsOfEveryPointAreThere) {
  const auto file = cache(
      {"--gradients", "--answer-token", "5", "--against-token", "6", "--position", "1", "--names", "*"});
  const auto model = load();
  for (const auto& name : model.names()) {
    const auto* gradient = file.find("grad." + name.to_string());
    if (name.site == Site::tokens) {
      EXPECT_EQ(gradient, nullptr);  // ids have none
      continue;
    }
    ASSERT_NE(gradient, nullptr) << name.to_string();
    EXPECT_EQ(gradient->shape, file.find(name.to_string())->shape) << name.to_string();
  }
  // Nothing after the position affects it.
  const auto gradient = file.read("grad.blocks.1.hook_resid_pre");
  EXPECT_EQ(gradient.narrow(1, 2, 2).abs().max().item<double>(), 0.0);
  EXPECT_GT(gradient.narrow(1, 0, 2).abs().max().item<double>(), 0.0);
}

TEST_F(CacheTest, TokensMayBeWords) {
  write_tokenizer();
  const auto by_word = cache({"--gradients", "--answer", "w5", "--against", "w6", "--names", "hook_embed"});
  const auto gradient = by_word.read("grad.hook_embed");
  const auto by_id =
      cache({"--gradients", "--answer-token", "5", "--against-token", "6", "--names", "hook_embed"});
  EXPECT_TRUE(at::equal(gradient, by_id.read("grad.hook_embed")));
}

TEST_F(CacheTest, WrongGradientOptionsAreRefused) {
  const auto refused = [&](const std::vector<std::string>& more, int exit_code, const std::string& what) {
    std::vector<std::string> arguments = {"cache", model(), "--tokens",
                                          "1,2",   "--out", path("no.safetensors")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_failure(arguments, exit_code, what);
  };
  refused({"--gradients"}, 2, "--answer-token");
  refused({"--gradients", "--answer-token", "1,2", "--against-token", "2"}, 2, "got 2");
  refused({"--answer-token", "1", "--against-token", "2"}, 2, "--gradients");
  refused({"--gradients", "--answer-token", "1", "--against-token", "2", "--stop-at-layer", "1"}, 2,
          "--stop-at-layer");
  refused({"--gradients", "--answer-token", "1", "--against-token", "99"}, 1, "99");
  refused({"--gradients", "--answer-token", "Mary", "--against-token", "2"}, 2,
          "'Mary' is no id; expected ids such as 1,2; --answer takes a text");
  refused({"--gradients", "--answer-token", "1", "--against-token", "2", "--position", "2"}, 1,
          "expected -2 to 1");
  refused({"--gradients", "--answer-token", "1", "--against-token", "2", "--position", "0:2"}, 2,
          "--position: '0:2' is not a position; expected one such as 3 or -1, or last");
}

TEST_F(CacheTest, LastIsAPosition) {
  const auto gradients = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "cache",           model(), "--tokens", "1,2,3",    "--gradients", "--answer-token",      "5",
        "--against-token", "6",     "--names",  "*.hook_z", "--out",       path("g.safetensors"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    succeed(arguments);
    return SafetensorsFile::open(path("g.safetensors")).read("grad.blocks.0.attn.hook_z");
  };
  EXPECT_TRUE(at::equal(gradients({"--position", "last"}), gradients({})));
  EXPECT_TRUE(at::equal(gradients({"--position", "-1"}), gradients({})));
  EXPECT_FALSE(at::equal(gradients({"--position", "1"}), gradients({})));
}

TEST_F(CacheTest, JsonNamesWhatIsInTheFile) {
  const auto json = succeed({"cache", model(), "--tokens", "1,2", "--names", "hook_embed", "--out",
                             path("out.safetensors"), "--json"})
                        .json();
  EXPECT_EQ(json["tokens"], parse_json("[[1, 2]]", {}));
  std::vector<std::string> names;
  for (const Json& tensor : json["tensors"]) names.push_back(tensor["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"tokens", "logits", "hook_embed"}));
  EXPECT_EQ(json["tensors"][2]["axes"], Json::array({"batch", "pos", "d_model"}));
  EXPECT_EQ(json["fingerprint"], load().identity()->fingerprint);
  EXPECT_EQ(json["bytes"], 2 * 8 + 2 * 11 * 4 + 2 * 12 * 4);
}

TEST_F(CacheTest, PrintsAFewLinesAndAllOfThemWhenAsked) {
  const std::vector<std::string> call = {"cache",   model(), "--tokens",
                                         "1,2,3,4", "--out", path("o.safetensors")};
  const auto brief = succeed(call).out;
  EXPECT_LE(std::count(brief.begin(), brief.end(), '\n'), 8) << brief;
  for (const std::string& part : {path("o.safetensors") + ": 42 tensors, ", model() + ", float32",
                                  std::string("1,2,3,4 (1 x 4 tokens in all)"), std::string("layers 0-1 ")})
    EXPECT_NE(brief.find(part), std::string::npos) << brief;
  auto with_list = call;
  with_list.push_back("--list");
  const auto all = succeed(with_list).out;
  EXPECT_EQ(all.rfind(brief, 0), 0u) << "the same, and more";
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n') - std::count(brief.begin(), brief.end(), '\n'), 43);
  const auto line = all.substr(all.find("blocks.0.attn.hook_pattern "));
  EXPECT_NE(line.substr(0, line.find('\n')).find("  [batch 1, head 3, query 4, key 4]  "), std::string::npos)
      << line;
}

TEST_F(CacheTest, IsACacheForPrograms) {
  cache(
      {"--gradients", "--answer-token", "5", "--against-token", "6", "--names", "*.hook_pattern,hook_embed"});
  const auto loaded = ActivationCache::load(path("out.safetensors"));
  EXPECT_EQ(loaded.size(), 3u) << "without tokens, logits and gradients";
  const auto run = exact().run_with_cache(tokens());
  // A run with gradients computes its scores as a whole, this one in tiles.
  EXPECT_TRUE(at::allclose(loaded[act::pattern(-1)], run.cache[act::pattern(-1)], 1e-12, 1e-12));
  EXPECT_TRUE(at::equal(loaded["embed[pos=last]"], run.cache["embed[pos=last]"]));
  const auto from = read_provenance(SafetensorsFile::open(path("out.safetensors")));
  EXPECT_EQ(from.dtype, "float64");
  EXPECT_EQ(from.more.at("gradients_of"), "logit 5 minus logit 6 at position 3 of row 0");
}

TEST_F(CacheTest, AFileThatCannotBeWrittenIsAnError) {
  expect_failure({"cache", model(), "--tokens", "1", "--out", path("absent/out.safetensors")}, 1, "absent");
}

}  // namespace
}  // namespace hooked::cache_test
