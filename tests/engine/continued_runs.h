#pragma once

#include "hooked/engine/prefix.h"
#include "tests/support/tiny_model.h"

namespace hooked {

/// What a run on `input` leaves for runs that go on from it.
inline Prefix prefix_of(const HookedTransformer& model, const Input& input, RunOptions options = {}) {
  options.output = Output::none;
  options.keep_prefix = true;
  return model.run(input, options).prefix.value();
}

/// Greedy generation of `steps` tokens, with no stop tokens.
inline GenerateOptions greedy(std::int64_t steps, const Selection& capture = {}) {
  return {.max_new_tokens = steps,
          .sampling = {.greedy = true},
          .stop = {.tokens = std::vector<std::int64_t>()},
          .capture = capture};
}

/// Whether the keys of earlier tokens turn again as the row grows: a run that continues from them then
/// differs from one run of the whole row.
inline bool keys_turn_again(const ModelConfig& config) {
  return config.rotary() != nullptr && depends_on_length(config.rotary()->scaling);
}

/// Whether runs go on from prefixes, at any length, as parts of the whole run.
inline bool can_continue(const ModelConfig& config) {
  return config.direction == AttentionDirection::causal && !keys_turn_again(config);
}

/// Checks that `rest` is the end of `whole`: its logits and all that it cached but experts' tokens, which are
/// others in a part of a sequence.
inline void expect_end_of(const RunResult& whole, const RunResult& rest, double tolerance = 1e-10) {
  const std::int64_t columns = rest.logits().size(1);
  const auto end_of = [&](const at::Tensor& x, std::int64_t axis) {
    return x.narrow(axis, x.size(axis) - columns, columns);
  };
  EXPECT_LT(relative_difference(rest.logits(), end_of(whole.logits(), 1)), tolerance);
  for (const auto& entry : rest.cache) {
    if (!axis_on(entry.name.site, Axis::pos)) continue;
    const at::Tensor expected = end_of(whole.cache[entry.name], sequence_dimension(entry.name.site));
    EXPECT_LT(relative_difference(entry.value(), expected), tolerance) << entry.name.to_string();
  }
}

/// Checks that the steps of a generation are the columns of one run of its tokens. What has queries reads
/// other keys at every step and is left out.
inline void expect_columns_of_a_run(const HookedTransformer& model, const GenerateResult& made,
                                    double tolerance = 1e-10) {
  const RunResult whole = model.run_with_cache(made.tokens);
  for (const auto& entry : made.cache) {
    if (row(entry.name.site).axes.find(Axis::query)) continue;
    EXPECT_LT(relative_difference(entry.value(), whole.cache[entry.name]), tolerance)
        << entry.name.to_string();
  }
}

}  // namespace hooked
