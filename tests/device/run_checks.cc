#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <array>

#include "hooked/engine/continuation.h"
#include "tests/device/checks.h"
#include "tests/support/start_at_layer.h"

namespace hooked::device_tests {
namespace run_group {
namespace {

constexpr std::int64_t kPadding = 2;

bool causal_predictor(const Subject& s) { return s.predicts() && s.causal(); }
bool plain(const Subject& s) { return s.one_stack() && !s.golden.token_types.defined(); }
bool plain_causal(const Subject& s) { return plain(s) && s.causal() && !s.golden.attention_mask.defined(); }

NamedTensors run(const Subject& s, const Input& input, const RunOptions& options) {
  return all_of(s.model.run(input, s.options(options)));
}

NamedTensors run(const Subject& s) { return run(s, s.input(), {}); }
NamedTensors run_there(const Subject& s) { return run(s, s.input_there(), {}); }
NamedTensors defaults(const Subject& s) { return run(s, s.input(), {.capture = act::defaults}); }
NamedTensors everything(const Subject& s) { return run(s, s.input_there(), {.capture = act::everything}); }

NamedTensors kept_on_the_host(const Subject& s) {
  return run(s, s.input(), {.capture = act::defaults, .keep = {.device = "cpu"}});
}

NamedTensors two_positions(const Subject& s) {
  return run(s, s.input(),
             {.capture = act::defaults, .keep = {.positions = std::vector<std::int64_t>{0, 2}}});
}

NamedTensors last_position(const Subject& s) {
  return run(s, s.input(), {.capture = act::defaults, .keep = {.positions = AxisIndex::Last{}}});
}

NamedTensors logit_positions(const Subject& s) {
  return run(s, s.input(), {.capture = act::unembed_in, .logit_positions = std::vector<std::int64_t>{0, 1}});
}

NamedTensors logit_tokens(const Subject& s) {
  return run(
      s, s.input(),
      {.logit_positions = std::vector<std::int64_t>{-1}, .logit_tokens = std::vector<std::int64_t>{2, 0}});
}

NamedTensors last_logits(const Subject& s) {
  return run(s, s.input(), {.logit_positions = std::vector<std::int64_t>{-1}});
}

NamedTensors loss(const Subject& s) { return run(s, s.input(), {.output = Output::loss}); }

NamedTensors losses(const Subject& s) {
  return run(s, s.input(), {.output = Output::loss, .loss = {.reduction = LossReduction::per_token}});
}

NamedTensors losses_of_targets(const Subject& s) {
  return run(s, s.input_there(),
             {.output = Output::loss,
              .loss = {.reduction = LossReduction::per_token, .targets = s.there(s.golden.tokens.flip(1))}});
}

Input padded(const Subject& s, bool left) {
  const at::Tensor& tokens = s.golden.tokens;
  const at::Tensor mask = at::ones_like(tokens);
  mask[-1].narrow(0, left ? 0 : tokens.size(1) - kPadding, kPadding).zero_();
  return {tokens, {.attention_mask = mask, .decoder = {.tokens = s.golden.decoder_tokens}}};
}

// What padding itself has is not compared: its rows may differ in rounding's way of infinities.
NamedTensors padding_left(const Subject& s) { return run(s, padded(s, true), {.capture = act::defaults}); }
NamedTensors padding_right(const Subject& s) { return run(s, padded(s, false), {.capture = act::defaults}); }

NamedTensors last_of_padded(const Subject& s) {
  return run(s, padded(s, false), {.capture = act::resid_post, .keep = {.positions = AxisIndex::Last{}}});
}

NamedTensors stopped(const Subject& s) {
  return run(s, s.input(), {.capture = act::resid_pre, .stop_at_layer = 1});
}

NamedTensors ended_with_the_last_point(const Subject& s) {
  return run(s, s.input(), {.capture = act::resid_pre(0), .output = Output::none});
}

NamedTensors started(const Subject& s) {
  const at::Tensor residual =
      s.random({s.golden.tokens.size(0), s.golden.tokens.size(1), s.config().d_model}, 5);
  const auto layer = s.config().last_start(1, s.config().n_layers);
  return run(s, start_at_layer(s.config(), layer, residual, s.golden.tokens), {.capture = act::defaults});
}

NamedTensors prefixed(const Subject& s) {
  const std::int64_t first = 3, rest = s.golden.tokens.size(1) - first;
  const RunResult before = s.model.run(s.golden.tokens.narrow(1, 0, first),
                                       s.options({.capture = act::defaults, .keep_prefix = true}));
  NamedTensors all = run(s, {s.golden.tokens.narrow(1, first, rest), {.prefix = before.prefix}},
                         {.capture = act::everything});
  for (const auto& [name, value] : all_of(before)) all["first." + name] = value;
  return all;
}

NamedTensors ragged(const Subject& s) {
  const at::Tensor row = s.golden.tokens.narrow(0, 0, 1);
  const RunResult before = s.model.run(row, s.options({.keep_prefix = true}));
  const Input input{at::cat({row, row, row}).narrow(1, 1, row.size(1) - 1),
                    {.prefix = before.prefix, .first_columns = {1, 3, 1}}};
  NamedTensors all =
      run(s, input, {.capture = act::resid_post, .logit_positions = std::vector<std::int64_t>{-1}});
  for (auto& [name, value] : all)
    value = value.nan_to_num(12345.0);  // before a row begins the number is missing
  return all;
}

NamedTensors continuation(const Subject& s) {
  const std::int64_t first = 3, rest = s.golden.tokens.size(1) - first;
  return {{"log_probs", continuation_log_probs(s.model, s.golden.tokens.narrow(1, 0, first),
                                               s.there(s.golden.tokens.narrow(1, first, rest)))}};
}

NamedTensors read_late(const Subject& s) {
  const auto cache = s.model.run_with_cache(s.input(), act::everything, s.options()).cache;
  NamedTensors all;
  for (const ActivationName& name : s.model.names()) {
    if (row(name.site).axes.find(Axis::head))
      all[name.to_string() + "[head=0]"] = cache[Address(name).head(0)];
    if (row(name.site).axes.find(Axis::pos) && !per_expert(row(name.site)))
      all[name.to_string() + "[pos=last]"] = cache[Address(name).pos(AxisIndex::Last{})];
  }
  return all;
}

bool has_unembed(const Subject& s) { return s.predicts(); }
bool has_two_layers(const Subject& s) { return plain(s) && s.config().n_layers > 1; }
bool long_and_plain_causal(const Subject& s) { return plain_causal(s) && s.golden.tokens.size(1) > 4; }
bool continues(const Subject& s) { return long_and_plain_causal(s) && s.predicts(); }
bool unpadded(const Subject& s) {
  return !s.golden.attention_mask.defined() && !s.golden.token_types.defined();
}

constexpr std::array<Check, 23> kChecks{{
    {"run", always, run},
    {"run_there", always, run_there},
    {"defaults", always, defaults},
    {"everything", always, everything},
    {"kept_on_the_host", always, kept_on_the_host},
    {"two_positions", unpadded, two_positions},
    {"last_position", always, last_position},
    {"logit_positions", has_unembed, logit_positions},
    {"logit_tokens", has_unembed, logit_tokens},
    {"last_logits", [](const Subject& s) { return s.predicts() && unpadded(s); }, last_logits},
    {"loss", causal_predictor, loss},
    {"losses", causal_predictor, losses},
    {"losses_of_targets", [](const Subject& s) { return causal_predictor(s) && s.one_stack(); },
     losses_of_targets},
    {"padding_left", unpadded, padding_left},
    {"padding_right", unpadded, padding_right},
    {"last_of_padded", unpadded, last_of_padded},
    {"stopped", always, stopped},
    {"ended_with_the_last_point", always, ended_with_the_last_point},
    {"started", has_two_layers, started},
    {"prefixed", long_and_plain_causal, prefixed},
    {"ragged", continues, ragged},
    {"continuation", continues, continuation},
    {"read_late", always, read_late},
}};

}  // namespace
}  // namespace run_group

std::span<const Check> run_checks() { return run_group::kChecks; }

}  // namespace hooked::device_tests
