#include "hooked/analysis/repetition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/places/row_columns.h"
#include "analysis/runs/row_runs.h"
#include "analysis/values/numberless.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/engine/loss.h"

namespace hooked {
namespace {

constexpr std::string_view kRepetition = "repetition_scores";

void require_predicts_next(const ModelConfig& config, std::string_view where) {
  const char* lacks = nullptr;
  if (!config.unembedding) lacks = "this model has no unembedding and predicts nothing";
  if (config.has_encoder()) lacks = "this model reads with an encoder and does not predict what it reads";
  if (!config.has_encoder() && config.bidirectional(config.main_stack()))
    lacks = "this model reads both ways and does not predict the next token";
  if (lacks != nullptr)
    throw HookError(where, fmt::format("{}; expected a model that predicts each next token", lacks));
}

}  // namespace

at::Tensor repeated_random_tokens(const RepeatedTokensOptions& options) {
  const auto count = options.vocab_end - options.vocab_begin;
  if (options.rows < 1 || options.half < 1 || options.half > count) {
    throw ShapeError(
        "repeated_random_tokens",
        fmt::format("{} rows of {} different ids cannot be drawn from {} ids; expected rows and half of at "
                    "least 1 and half at most the number of ids",
                    options.rows, options.half, count));
  }
  const std::int64_t start = options.bos >= 0 ? 1 : 0;
  auto tokens = at::full({options.rows, start + 2 * options.half}, options.bos, at::kLong);
  // Fisher-Yates implemented here: the standard's shuffle may differ between libraries, and a seed should
  // always mean the same.
  std::mt19937_64 random(options.seed);
  auto* drawn = tokens.mutable_data_ptr<std::int64_t>() + start;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), options.vocab_begin);
  for (std::int64_t row = 0; row < options.rows; ++row, drawn += tokens.size(1)) {
    for (std::int64_t i = 0; i < options.half; ++i) {
      const auto left = static_cast<std::uint64_t>(count - i);
      std::swap(ids[static_cast<std::size_t>(i)], ids[static_cast<std::size_t>(i) + random() % left]);
      drawn[i] = drawn[options.half + i] = ids[static_cast<std::size_t>(i)];
    }
  }
  return tokens;
}

RepeatedTokensOptions repeated_tokens_of(const HookedTransformer& model) {
  const auto& config = model.config();
  require_predicts_next(config, "repeated_tokens_of");
  RepeatedTokensOptions options{.vocab_end = std::min(config.d_vocab, config.d_vocab_out())};
  if (model.has_tokenizer()) {
    const auto bos = model.tokenizer().bos_id();
    const auto before = model.tokens_around().before;
    if (bos && std::ranges::find(before, *bos) != before.end()) options.bos = *bos;
  }
  return options;
}

RepetitionScores repetition_scores(const HookedTransformer& model, const RepeatedTokensOptions& options,
                                   const RunOptions& run,
                                   const std::function<bool(const SweepProgress&)>& progress) {
  require_predicts_next(model.config(), kRepetition);
  if (options.half < 2) {
    throw ShapeError(
        kRepetition,
        fmt::format("a half of {} tokens has none after its first; expected at least 2", options.half));
  }
  RunOptions whole = run;
  whole.output = Output::logits;
  // Prediction i is of token i + 1: the predictions of a half begin with its second token.
  const std::int64_t first = options.bos >= 0 ? 1 : 0;
  const auto of_halves = [&](const at::Tensor& numbers) {
    const auto half = [&](std::int64_t begin) {
      return numbers.narrow(1, begin, options.half - 1).to(at::kDouble).mean(1);
    };
    return at::stack({half(first), half(first + options.half)}, 1);  // [row, half]
  };
  std::vector<at::Tensor> losses, right;
  const auto runs = run_rows(
      model, repeated_random_tokens(options), whole, kRepetition, progress,
      [&](const Input& some, const RunResult& result) {
        const auto& logits = result.logits();  // [row, pos, vocab]
        const auto predictions = some.tokens.size(1) - 1;
        const auto next = to_device(some.tokens.narrow(1, 1, predictions), logits.device());
        const auto before = logits.narrow(1, 0, predictions);
        auto loss = of_halves(-token_log_probs(before, next));
        const auto lost = before.isnan().any(-1);  // whose largest logit is not known
        right.push_back(
            of_halves(before.argmax(-1).eq(next).to(logits.scalar_type()).masked_fill_(lost, NAN)));
        losses.push_back(std::move(loss));
      },
      Asked::between_layers);
  const auto grid = [&](std::vector<at::Tensor>& numbers, const char* title, const char* unit) {
    if (const auto missing = runs.all_rows - runs.rows; missing > 0)
      numbers.push_back(numberless(
          {missing, 2}, numbers.empty() ? at::TensorOptions(at::kDouble) : numbers.front().options()));
    return Grid(at::cat(numbers),
                {numbered_axis("row", options.rows), {.name = "half", .labels = {"first", "second"}}},
                {.title = title, .unit = unit});
  };
  return {grid(losses, "Loss of random tokens, repeated once", "nats"),
          grid(right, "Random tokens, repeated once, that are predicted", "share of tokens"), runs.complete};
}

RepetitionScores repetition_scores(const HookedTransformer& model) {
  return repetition_scores(model, repeated_tokens_of(model));
}

}  // namespace hooked
