// Against transformers' logits processors (tests/golden/make.py sampling).
#include "engine/sampling.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/log.h>
#include <ATen/ops/randperm.h>

#include "core/id_list.h"
#include "core/json.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/test.h"

namespace hooked::sampling_test {
namespace {

const std::string kFolder = "tests/golden/sampling/";

SamplingOptions options_of(const Json& row) {
  SamplingOptions options;
  options.temperature = row.value("temperature", options.temperature);
  options.top_k = row.value("top_k", options.top_k);
  options.top_p = row.value("top_p", options.top_p);
  options.min_p = row.value("min_p", options.min_p);
  options.repetition_penalty = row.value("repetition_penalty", options.repetition_penalty);
  return options;
}

TEST(SamplingLogits, AreThoseOfTransformersProcessors) {
  const auto tensors = SafetensorsFile::open(kFolder + "logits.safetensors");
  const at::Tensor logits = tensors.read("logits"), tokens = tensors.read("tokens");
  const at::Tensor occurred =
      at::zeros(logits.sizes(), at::kLong).scatter_add(1, tokens, at::ones_like(tokens));
  const Json rows = parse_json(read_text_file(kFolder + "index.json", 1 << 20), {});
  ASSERT_GT(rows.size(), 10u);
  for (const Json& row : rows) {
    const std::string name = row.at("case");
    const at::Tensor ours = sampling_logits(logits, occurred, options_of(row.at("options")));
    const at::Tensor theirs = tensors.read("expected." + name);
    EXPECT_TRUE(at::equal(at::isfinite(ours), at::isfinite(theirs))) << name;
    EXPECT_TRUE(at::allclose(ours, theirs, 1e-12, 1e-12)) << name;
  }
}

// A peaked row needs a few tokens, a flat one nearly the whole vocabulary, which is sorted in parts.
TEST(SamplingLogits, TopPKeepsTheFewestLikeliestTokensThatReachIt) {
  const at::Tensor ranks = at::arange(3000, at::kDouble);
  const at::Tensor shuffled =
      at::randperm(3000, at::detail::createCPUGenerator(3), at::TensorOptions(at::kLong));
  const at::Tensor logits = at::stack({-0.5 * ranks, -0.01 * ranks, -1e-5 * ranks}).index_select(1, shuffled);
  for (const double p : {0.05, 0.5, 0.9, 0.999, 0.999999}) {
    const at::Tensor kept = at::isfinite(sampling_logits(logits, {}, {.top_p = p}));
    const at::Tensor probabilities = at::softmax(logits, -1);
    for (std::int64_t row = 0; row < logits.size(0); ++row) {
      const at::Tensor inside = probabilities[row].masked_select(kept[row]);
      const double sum = inside.sum().item<double>();
      EXPECT_GE(sum, p - 1e-12) << p << " in row " << row;
      EXPECT_LT(sum - inside.min().item<double>(), p + 1e-12) << "one less is too few";
      EXPECT_EQ((probabilities[row] > inside.min()).sum().item<std::int64_t>(), inside.numel() - 1)
          << "the likeliest";
    }
  }
}

TEST(SamplingLogits, FrequencyPenaltyCounts) {
  const at::Tensor logits = at::tensor({1.0, 2.0, 3.0}, at::kDouble).unsqueeze(0);
  const at::Tensor occurred = at::tensor({0, 1, 4}, at::kLong).unsqueeze(0);
  const at::Tensor changed = sampling_logits(logits, occurred, {.frequency_penalty = 0.5});
  EXPECT_TRUE(at::allclose(changed, at::tensor({1.0, 1.5, 1.0}, at::kDouble).unsqueeze(0)));
}

TEST(SamplingLogits, KeepTheWiderOfTheirDtypeAndFloat32) {
  const at::Tensor logits = at::tensor({1.0, 2.0}, at::kDouble).to(at::kBFloat16).unsqueeze(0);
  EXPECT_EQ(sampling_logits(logits, {}, {.temperature = 0.5}).scalar_type(), at::kFloat);
}

TEST(Sampling, RefusesOptionsThatMeanNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 0.0}, SamplingOptions{.temperature = -1.0},
        SamplingOptions{.temperature = nan}, SamplingOptions{.top_k = -1}, SamplingOptions{.top_p = 0.0},
        SamplingOptions{.top_p = 1.1}, SamplingOptions{.min_p = -0.1}, SamplingOptions{.min_p = nan},
        SamplingOptions{.repetition_penalty = 0.0}, SamplingOptions{.frequency_penalty = nan},
        SamplingOptions{.greedy = true, .temperature = 0.5}, SamplingOptions{.greedy = true, .top_k = 3}}) {
    EXPECT_THROW(require_sampling_options(options), ConfigError);
  }
  EXPECT_NE(
      text_thrown_by<ConfigError>([] { require_sampling_options({.temperature = 0.0}); }).find("greedy"),
      std::string::npos);
}

std::vector<std::int64_t> draws(const SamplingOptions& options, const at::Tensor& logits, int steps) {
  Sampler sampler(options, at::zeros({logits.size(0), 1}, at::kLong), {}, logits.size(1));
  std::vector<std::int64_t> picked;
  const TokenRules none;
  const RuledTokens all(none, {}, {.stop_tokens = {}, .max_new_tokens = steps});
  for (int i = 0; i < steps; ++i) picked.push_back(sampler.pick(logits, all).here.back());
  return picked;
}

TEST(Sampler, DrawsByTheProbabilities) {
  const std::vector<double> probabilities{0.5, 0.0, 0.3, 0.2};
  const at::Tensor logits = at::log(at::tensor(probabilities, at::kDouble)).unsqueeze(0);
  constexpr int kDraws = 20000;
  std::vector<double> shares(4, 0.0);
  for (const std::int64_t id : draws({.seed = 3}, logits, kDraws))
    shares[static_cast<std::size_t>(id)] += 1.0 / kDraws;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(shares[i], probabilities[i], 0.015);
  EXPECT_EQ(shares[1], 0.0);
}

TEST(Sampler, IsReproducibleAndRowsDoNotDependOnTheirNeighbours) {
  const at::Tensor row = at::tensor({0.1, 0.3, 0.2, 0.25, 0.4}, at::kDouble).unsqueeze(0);
  EXPECT_EQ(draws({.seed = 8}, row, 40), draws({.seed = 8}, row, 40));
  EXPECT_NE(draws({.seed = 8}, row, 40), draws({.seed = 9}, row, 40));
  EXPECT_EQ(draws({.seed = 8}, row.repeat({3, 1}), 40), draws({.seed = 10}, row, 40));
}

TEST(Sampler, CountsWhatItPicked) {
  const at::Tensor logits = at::tensor({2.0, 1.5, 1.25}, at::kDouble).unsqueeze(0);
  EXPECT_EQ(draws({.greedy = true, .frequency_penalty = 0.4}, logits, 4),
            (std::vector<std::int64_t>{0, 1, 2, 0}));
}

// Whole generations, against transformers' generate. Penalties depend on the logits' zero point, which
// center_unembed moves.
TEST_F(CheckpointTensors, GenerationsAreThoseOfTransformersProcessedAndRaw) {
  const Json recorded = parse_json(read_text_file(kFolder + "generations.json", 1 << 20), {});
  const at::Tensor prompt =
      at::tensor(recorded.at("prompt").get<std::vector<std::int64_t>>(), at::kLong).unsqueeze(0);
  const auto greedy = recorded.at("greedy").get<std::size_t>();
  for (const auto& [name, model] : recorded.at("models").items()) {
    take(name);
    for (const auto& [weight, number] : model.at("added").items())
      tensors_.at(weight) += number.get<double>();
    const HookedTransformer raw = load();
    const auto processed = HookedTransformer::load(written(), {.dtype = at::kDouble});
    const auto step =
        std::ranges::find(processed.processing(), ProcessingStep::center_unembed, &StepReport::step);
    ASSERT_EQ(step->outcome, "applied") << name;
    for (std::size_t i = 0; i < recorded.at("options").size(); ++i) {
      const auto expected = model.at("tokens").at(i).get<std::vector<std::int64_t>>();
      GenerateOptions options{.max_new_tokens = static_cast<std::int64_t>(expected.size()),
                              .sampling = options_of(recorded.at("options").at(i)),
                              .stop = {.tokens = std::vector<std::int64_t>()}};
      options.sampling.greedy = i < greedy;
      options.sampling.seed = i;
      for (const HookedTransformer* each : {&raw, &processed}) {
        const at::Tensor tokens = each->generate(prompt, options).tokens;
        EXPECT_EQ(id_list(tokens.slice(1, -options.max_new_tokens)), expected)
            << name << ", options " << i << (each == &raw ? ", raw" : ", processed");
      }
    }
  }
}

}  // namespace
}  // namespace hooked::sampling_test
