#include "tests/device/counts_table.h"

#include <ATen/TensorOperators.h>

#include "hooked/analysis/sweep.h"
#include "tests/device/checks.h"

namespace hooked::device_tests {
namespace {

strict::Counts steps_of(const HookedTransformer& model, const at::Tensor& prompt, std::int64_t steps,
                        bool eager) {
  return strict::counts_of([&] {
    model.generate(prompt, {.max_new_tokens = steps,
                            .sampling = {.greedy = true},
                            .stop = {.tokens = std::vector<std::int64_t>()},
                            .eager = eager});
  });
}

}  // namespace

const std::vector<std::string>& counted_checkpoints() {
  static const std::vector<std::string> kNames{"gpt2",       "llama",   "mistral",     "bloom",
                                               "gemma2",     "mixtral", "deepseek_v3", "gpt_oss",
                                               "qwen3_next", "lfm2",    "bert",        "t5"};
  return kNames;
}

CountedModel counted(const std::string& checkpoint) {
  const GoldenCase& golden_of = golden_case(checkpoint);
  const GoldenRun golden = read_golden(golden_of);
  const auto model = HookedTransformer::load(golden_of.folder().string(), {.device = "strict"});
  const Subject subject{model, golden};
  const auto count = [&](const Input& input, RunOptions options) {
    options.eager = true;
    return strict::counts_of([&] { model.run(input, subject.options(options)); });
  };
  const auto block = [&](const Selection& capture) {
    const std::int64_t layers = model.config().n_layers;
    return count(subject.input(), {.capture = capture, .stop_at_layer = layers}) -
           count(subject.input(), {.capture = capture, .stop_at_layer = layers - 1});
  };
  // What the last block adds to a run, in order.
  const auto operators_of_block = [&](std::int64_t launches) {
    const strict::LaunchList list;
    count(subject.input(), {.stop_at_layer = model.config().n_layers});
    return std::vector<std::string>(list.names().end() - launches, list.names().end());
  };
  const Selection kept = defaults_without_experts();
  CountedModel all{.name = checkpoint,
                   .layers = model.config().n_layers,
                   .run = count(subject.input(), {}),
                   .run_there = count(subject.input_there(), {}),
                   .cached = count(subject.input(), {.capture = kept}),
                   .cached_here = count(subject.input(), {.capture = kept, .keep = {.device = "cpu"}}),
                   .block = block({}),
                   .cached_block = block(kept),
                   .operators = {},
                   .replayed = {},
                   .gradients = {},
                   .step = {},
                   .replayed_step = {},
                   .sweep = {},
                   .replayed_sweep = {}};
  all.operators = operators_of_block(all.block.launches);
  const auto cached = [&] { return model.run(subject.input(), subject.options({.capture = kept})); };
  if (cached().notes.empty()) {
    cached();  // is recorded
    all.replayed = strict::counts_of(cached);
  }
  if (subject.predicts()) {
    const LogitMetric metric([](const at::Tensor& logits) { return logits.square().mean(); });
    all.gradients = count(subject.input(), {.gradients = GradientRequest{act::resid_pre, metric}});
  }
  if (subject.predicts() && subject.causal()) {
    const at::Tensor prompt = subject.one_stack() ? golden.tokens.narrow(1, 0, 3) : golden.tokens;
    all.step = steps_of(model, prompt, 4, /*eager=*/true) - steps_of(model, prompt, 3, /*eager=*/true);
    if (all.replayed) {
      steps_of(model, prompt, 4, /*eager=*/false);  // is recorded
      all.replayed_step =
          steps_of(model, prompt, 4, /*eager=*/false) - steps_of(model, prompt, 3, /*eager=*/false);
    }
  }
  if (subject.predicts() && subject.one_stack()) {
    const Input row(golden.tokens.narrow(0, 0, 1));
    const auto swept = [&] {
      return strict::counts_of([&] {
        all.cells = sweep(model, {.site = act::resid_pre,
                                  .over = {Axis::layer, Axis::pos},
                                  .from = PatchSource::zero(),
                                  .into = row,
                                  .metric = logit_difference(1, 2)})
                        .values()
                        .numel();
      });
    };
    all.sweep = swept();
    if (all.replayed) {
      swept();  // is recorded
      all.replayed_sweep = swept();
    }
  }
  return all;
}

}  // namespace hooked::device_tests
