#include "figures.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

namespace toy {
namespace {

/// The likeliest next token at each position, [row, pos].
at::Tensor predictions(const hooked::HookedTransformer& model, const at::Tensor& tokens,
                       const at::Tensor& mask = {}) {
  return model.run({tokens, {.attention_mask = mask}}).logits().argmax(-1);
}

std::int64_t count(const at::Tensor& truths) { return truths.sum().item<std::int64_t>(); }

}  // namespace

Figures measure(const hooked::HookedTransformer& model, const FigureOptions& options) {
  Task task(options.seed);
  Figures figures;
  constexpr std::int64_t kRows = 250;
  while (figures.sentences < options.sentences) {
    const auto rows = std::min(kRows, options.sentences - figures.sentences);
    const auto batch = task.sentences(rows, Pairs::held_out);
    // The answer itself is hidden from the model: attention is causal, and the prediction is read one place
    // earlier.
    const auto predicted =
        predictions(model, batch.tokens, batch.mask).gather(1, (batch.answer_pos - 1).unsqueeze(1));
    const auto right = predicted.squeeze(1).eq(batch.answers);
    figures.sentences += rows;
    figures.right += count(right);
    figures.first_sentences += count(batch.first_answers);
    figures.first_right += count(right.logical_and(batch.first_answers));
  }
  for (std::int64_t half = 4; half <= 31; half += 3) {
    const auto tokens = task.repeats(options.repeats_per_half, half);
    const auto second_repeated = 1 + half + 1;
    const auto right = predictions(model, tokens)
                           .narrow(1, second_repeated - 1, half - 1)
                           .eq(tokens.narrow(1, second_repeated, half - 1));
    figures.repeated_tokens += right.numel();
    figures.repeated_right += count(right);
  }
  return figures;
}

}  // namespace toy
