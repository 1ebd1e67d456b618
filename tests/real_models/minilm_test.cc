// all-MiniLM-L6-v2 compared with transformers (tests/golden/makers/real_models.py).
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hooked/hooked.h"
#include "tests/real_models/recorded.h"
#include "tests/support/fetched_models.h"

namespace hooked::minilm_test {
namespace {

using namespace real_models;

constexpr double kTolerance = 1e-5;  // of float32

// The vectors of the sentences are held by tests/examples/sentence_encoder_test.cc.
TEST(MiniLM, TheStreamOfEachLayerIsThatOfTransformers) {
  if (const auto why = why_absent(kMiniLM); !why.empty()) GTEST_SKIP() << why;
  const auto model = HookedTransformer::load(kMiniLM.string());
  std::vector<std::string> sentences;
  std::vector<at::Tensor> ids;
  const Json words = recorded_words("minilm");
  for (const Json& sentence : words["sentences"]) {
    sentences.push_back(sentence["text"]);
    ids.push_back(at::tensor(recorded_ids(sentence["ids"]), at::kLong));
  }
  ASSERT_GT(sentences.size(), 1U);

  const auto batch = model.to_token_batch(sentences);
  const at::Tensor& real = batch.attention_mask;  // [batch, pos]
  ASSERT_FALSE(real.all().item<bool>()) << "sentences of one length need no padding";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    ASSERT_TRUE(batch.tokens[row].masked_select(real[row]).equal(ids[i])) << sentences[i];
  }

  const auto run =
      model.run_with_cache(batch, act::resid_pre(0) | act::normalized_resid_post, {.output = Output::none});
  const auto recorded = SafetensorsFile::open(kRecorded / "minilm.safetensors");
  const auto expect_stream = [&](std::int64_t place, const Address& point) {
    const at::Tensor stream = run.cache[point];  // [batch, pos, d_model]
    expect_recorded(recorded, "stream." + std::to_string(place),
                    stream.masked_select(real.unsqueeze(-1)).view({-1, stream.size(-1)}), kTolerance);
  };
  expect_stream(0, act::resid_pre(0));
  for (std::int64_t layer = 0; layer < model.config().n_layers; ++layer)
    expect_stream(layer + 1, act::normalized_resid_post(layer));
}

}  // namespace
}  // namespace hooked::minilm_test
