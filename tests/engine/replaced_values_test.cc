// Activations that an edit replaces whole are not computed: weights with NaN are not read.
#include <ATen/ops/isfinite.h>

#include "tests/support/tiny_model.h"

namespace hooked::replaced_values_test {
namespace {

/// A small model with NaN in these weights.
HookedTransformer spoilt(const ModelConfig& config, const std::vector<std::string>& weights) {
  StateDict all = random_weights(config);
  for (const std::string& name : weights) {
    at::Tensor& weight = all.at(name);
    weight = weight.clone().fill_(std::numeric_limits<double>::quiet_NaN());
  }
  return model_of(std::move(all), config);
}

struct Replaced {
  std::string name;
  std::vector<act::BlockSite> sites;  // replaced together
  std::vector<std::string> unread;    // of block 1
};

std::ostream& operator<<(std::ostream& out, const Replaced& replaced) { return out << replaced.name; }

class ReplacedWhole : public testing::TestWithParam<Replaced> {};

TEST_P(ReplacedWhole, IsNotComputed) {
  const auto& [name, sites, unread] = GetParam();
  const ModelConfig config = small_config();
  const HookedTransformer model = random_model(config);
  const auto from = model.run_with_cache(random_tokens(config, {2, 5}, 9)).cache;
  std::vector<Edit> edits;
  for (const act::BlockSite& site : sites) edits.push_back(set(site(1), from[site(1)]));
  const at::Tensor tokens = random_tokens(config, {2, 5});
  const at::Tensor expected = model.run(tokens, {.edits = edits}).logits();

  std::vector<std::string> weights;
  for (const std::string& weight : unread) weights.push_back("blocks.1." + weight);
  const HookedTransformer broken = spoilt(config, weights);
  EXPECT_FALSE(at::isfinite(broken(tokens)).all().item<bool>()) << "these weights are read otherwise";
  const RunResult run = broken.run(tokens, {.edits = edits, .capture = sites.front()(1)});
  EXPECT_LT(relative_difference(run.logits(), expected), 1e-12);
  EXPECT_LT(relative_difference(run.cache[sites.front()(1)], from[sites.front()(1)]), 1e-12);

  // A watched activation that leads to it is computed.
  const RunResult watched = broken.run(tokens, {.edits = edits, .capture = act::everything});
  EXPECT_LT(relative_difference(watched.logits(), expected), 1e-12);
  bool seen = false;
  for (const auto& entry : watched.cache) seen |= !at::isfinite(entry.value()).all().item<bool>();
  EXPECT_TRUE(seen);

  // Later runs read the keys, which have to be computed.
  const auto prefix = model.run(tokens, {.edits = edits, .keep_prefix = true}).prefix.value();
  const at::Tensor next = random_tokens(config, {2, 1}, 4);
  EXPECT_TRUE(at::isfinite(model.run({next, {.prefix = prefix}}).logits()).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(
    Sites, ReplacedWhole,
    testing::Values(Replaced{"resid_post", {act::resid_post}, {"attn.W_Q", "attn.W_O", "mlp.W_out"}},
                    Replaced{"resid_mid", {act::resid_mid}, {"attn.W_Q", "attn.W_O"}},
                    Replaced{"attn_out", {act::attn_out}, {"attn.W_V", "attn.W_O", "attn.b_O"}},
                    Replaced{"z", {act::z}, {"attn.W_Q", "attn.W_V"}},
                    Replaced{"q_k_v", {act::q, act::k, act::v}, {"attn.W_Q", "attn.W_K", "attn.W_V"}},
                    Replaced{"mlp_out", {act::mlp_out}, {"mlp.W_in", "mlp.W_out"}},
                    Replaced{"pre", {act::pre}, {"mlp.W_in"}}, Replaced{"post", {act::post}, {"mlp.W_in"}}),
    named);

TEST(ReplacedValues, AnEditThatDependsOnTheValueNeedsIt) {
  const ModelConfig config = small_config();
  const at::Tensor tokens = random_tokens(config, {2, 5});
  const HookedTransformer broken = spoilt(config, {"blocks.1.attn.W_V"});
  const auto from = random_model(config).run_with_cache(tokens).cache;
  for (const Edit& edit : {add(act::z(1), from[act::z(1)]),
                           set(act::z(1).pos(0), from[act::z(1)].select(1, 0)), scale(act::z(1), 2.0)}) {
    EXPECT_FALSE(at::isfinite(broken.run(tokens, {.edits = {edit}}).logits()).all().item<bool>());
  }
}

}  // namespace
}  // namespace hooked::replaced_values_test
