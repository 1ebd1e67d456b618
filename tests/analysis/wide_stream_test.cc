// Analyses of a model whose stream is wider than its dtype.

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/residual.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/support/goldens.h"
#include "tests/support/test.h"

namespace hooked::wide_stream_test {
namespace {

// The stream of T5 in float16 is in float32, and so is what analyses put into it.
TEST(T5InFloat16, IsReadAsInFloat32) {
  for (const char* name : {"t5", "t5_gated", "t5_encoder"}) {
    const auto read = [&](at::ScalarType dtype) {
      const GoldenRun golden = read_golden(golden_case(name));
      const auto model = HookedTransformer::load(golden_case(name).folder().string(), {.dtype = dtype});
      const auto run = model.run_with_cache({golden.tokens, {.decoder = {.tokens = golden.decoder_tokens}}},
                                            act::defaults, {.output = Output::none});
      std::vector<at::Tensor> values{accumulated_residual(model, run.cache, {.positions = {}}).values()};
      if (model.config().has_unembedding()) {
        values.push_back(logit_lens(model, run.cache, {.positions = {}, .tokens = {3, 7}}).logits.values());
        values.push_back(direct_logit_attribution(model, run.cache, {.answer = 3, .against = 5}).values());
      }
      return values;
    };
    const auto half = read(at::kHalf), whole = read(at::kFloat);
    for (std::size_t i = 0; i < half.size(); ++i) {
      EXPECT_LT(((half[i] - whole[i]).abs().max() / whole[i].abs().max()).item<double>(), 0.01) << name << i;
    }
  }
}

}  // namespace
}  // namespace hooked::wide_stream_test
