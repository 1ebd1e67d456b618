#include "tests/reference/plain_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "hooked/hooks/activation_name.h"
#include "tests/reference/pairwise.h"
#include "tests/reference/random_weights.h"

namespace hooked::reference::plain_model_test {
namespace {

ModelConfig default_config() { return make_case(Choice(option_table().size(), 0)).config; }

TEST(PlainModel, HasEveryPointOfTheSiteTableWithItsShape) {
  for (const Case& which : pairwise_cover().cases) {
    const ModelConfig& config = which.config;
    Beside beside;
    if (config.has_encoder()) beside.decoder = random_tokens(config, 1, 2, 1);
    const PlainRun run = forward(config, random_weights(config, 1), random_tokens(config, 1, 3, 1), beside);
    std::set<std::string> names;
    for (const ActivationName& name : activation_names(config)) {
      names.insert(name.to_string());
      const auto found = run.activations.find(name.to_string());
      ASSERT_NE(found, run.activations.end()) << name.to_string() << " in " << describe(which);
      const SiteRow& site = row(name.site);
      ASSERT_EQ(found->second.shape.size(), site.axes.size()) << name.to_string();
      for (std::size_t dim = 0; dim < site.axes.size(); ++dim) {
        const std::int64_t size = size_of(site.axes[dim], config, name.layer);
        if (size < 0) continue;
        EXPECT_EQ(found->second.shape[dim], size) << name.to_string() << " in " << describe(which);
      }
    }
    EXPECT_EQ(names.size(), run.activations.size()) << describe(which);
  }
}

TEST(PlainModel, AttentionIsOneTokensValueWhereThereIsOneToken) {
  const ModelConfig config = default_config();
  const PlainRun run = forward(config, random_weights(config, 3), {{5}});
  for (std::int64_t h = 0; h < config.n_heads; ++h) {
    EXPECT_EQ(run.activations.at("blocks.0.attn.hook_pattern")(0, h, 0, 0), 1.0);
  }
  EXPECT_EQ(run.activations.at("blocks.0.attn.hook_z").values,
            run.activations.at("blocks.0.attn.hook_v").values);
}

TEST(PlainModel, RefusesWeightsThatDoNotFit) {
  const ModelConfig config = default_config();
  const StateDict weights = random_weights(config, 3);
  StateDict missing = weights;
  missing.erase("blocks.1.attn.W_K");
  EXPECT_THROW(forward(config, missing, {{0}}), std::invalid_argument);
  StateDict left_over = weights;
  left_over["blocks.1.mlp.W_gate"] = weights.at("blocks.1.mlp.W_in");
  EXPECT_THROW(forward(config, left_over, {{0}}), std::invalid_argument);
  StateDict misshapen = weights;
  misshapen["unembed.b_U"] = weights.at("blocks.0.attn.b_O");
  EXPECT_THROW(forward(config, misshapen, {{0}}), std::invalid_argument);
  EXPECT_THROW(forward(config, weights, {{config.d_vocab}}), std::invalid_argument);
}

TEST(PlainModel, ADecoderReadsItsStartTokenWhereNothingElseIsGiven) {
  ModelConfig config = two_stack_configs().front();
  const StateDict weights = random_weights(config, 3);
  EXPECT_THROW(forward(config, weights, {{0, 1}}), std::invalid_argument);
  config.encoder->decoder_start_token = 2;
  EXPECT_EQ(forward(config, weights, {{0, 1}}).logits.values,
            forward(config, weights, {{0, 1}}, {.decoder = Tokens{{2}}}).logits.values);
}

// Everything after a point reads the changed value: a model without its blocks' writing is its
// embedding and its end.
TEST(PlainModel, WhatComesAfterAPointReadsWhatIsPutThere) {
  const ModelConfig config = default_config();
  const StateDict weights = random_weights(config, 3);
  const auto silent = [](const std::string& name, Array& value) {
    if (name.ends_with("hook_attn_out") || name.ends_with("hook_mlp_out"))
      for (double& number : value.values) number = 0.0;
  };
  const PlainRun run = forward(config, weights, {{5, 2, 4}}, {.change = silent});
  EXPECT_EQ(run.activations.at("blocks.1.hook_resid_post").values,
            run.activations.at("blocks.0.hook_resid_pre").values);
  EXPECT_NE(run.logits.values, forward(config, weights, {{5, 2, 4}}).logits.values);
}

TEST(PlainModel, WhatItCannotChangeIsRefused) {
  const ModelConfig config = default_config();
  const auto other_token = [](const std::string& name, Array& value) {
    if (name == "hook_tokens") value.values.front() += 1.0;
  };
  EXPECT_THROW(forward(config, random_weights(config, 3), {{5, 2}}, {.change = other_token}),
               std::invalid_argument);
}

TEST(PlainModel, LogProbabilitiesSumToOne) {
  Array logits({1, 1, 3});
  logits.values = {700.0, 701.0, -5.0};
  const Array log_probs = log_probabilities(logits);
  EXPECT_NEAR(std::exp(log_probs(0, 0, 0)) + std::exp(log_probs(0, 0, 1)), 1.0, 1e-12);
  EXPECT_NEAR(log_probs(0, 0, 1) - log_probs(0, 0, 0), 1.0, 1e-12);
}

}  // namespace
}  // namespace hooked::reference::plain_model_test
