#pragma once

#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"
#include "tests/support/goldens.h"
#include "tests/support/test.h"

namespace hooked {

/// The model of a golden case in float64, as it is.
inline HookedTransformer load_golden(const GoldenCase& golden,
                                     const WeightProcessing& processing = WeightProcessing::none()) {
  return HookedTransformer::load(golden.folder().string(), {.dtype = at::kDouble, .processing = processing});
}

/// All processing that applies, or none.
inline WeightProcessing processing_if(bool processed) {
  return processed ? WeightProcessing::all_that_apply() : WeightProcessing::none();
}

/// The model of a golden case in float64 and a run of its recorded prompts that keeps everything.
struct GoldenModel {
  HookedTransformer model;
  ActivationCache cache;
  at::Tensor logits;  ///< [batch, pos, vocab], after any cap; undefined without an unembedding
  at::Tensor tokens;  ///< [batch, pos] of the stack that predicts
};

/// How the record's padding is run: as tokens like others, or as padding.
enum class GoldenPadding { tokens, padding };

/// As it is, or with all processing that applies.
inline GoldenModel golden_model(const GoldenCase& golden, bool processed,
                                GoldenPadding padding = GoldenPadding::tokens) {
  const auto recorded = read_golden(golden);
  auto model = load_golden(golden, processing_if(processed));
  Input input{recorded.tokens,
              {.token_types = recorded.token_types, .decoder = {.tokens = recorded.decoder_tokens}}};
  if (padding == GoldenPadding::padding) input.attention_mask = recorded.attention_mask;
  const bool predicts = model.config().has_unembedding();
  auto run =
      model.run_with_cache(input, act::everything, {.output = predicts ? Output::logits : Output::none});
  auto tokens = recorded.decoder_tokens.defined() ? recorded.decoder_tokens : recorded.tokens;
  auto logits = predicts ? run.logits() : at::Tensor();
  return {std::move(model), std::move(run.cache), std::move(logits), std::move(tokens)};
}

}  // namespace hooked
