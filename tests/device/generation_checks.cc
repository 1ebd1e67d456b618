#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <array>

#include "tests/device/checks.h"

namespace hooked::device_tests {
namespace generation_group {
namespace {

constexpr std::int64_t kNew = 3;

NamedTensors all_of(const GenerateResult& result) {
  NamedTensors all = by_name(result.cache);
  all["tokens"] = result.tokens;
  all["mask"] = result.attention_mask;
  all["log_probs"] = result.log_probs;
  return all;
}

// Only the first columns, to leave room; a decoder begins with its start token.
Input prompt(const Subject& s, bool there = false) {
  if (!s.one_stack()) return there ? Input(s.there(s.golden.tokens)) : Input(s.golden.tokens);
  const at::Tensor tokens = s.golden.tokens.narrow(1, 0, 3);
  return there ? s.there(tokens) : tokens;
}

NamedTensors generated(const Subject& s, const Input& from, GenerateOptions options) {
  if (options.max_new_tokens == GenerateOptions().max_new_tokens) options.max_new_tokens = kNew;
  options.eager = s.eager;
  if (!options.stop.tokens) options.stop.tokens = std::vector<std::int64_t>();
  return all_of(s.model.generate(from, options));
}

NamedTensors greedy(const Subject& s) { return generated(s, prompt(s), {.sampling = {.greedy = true}}); }
NamedTensors greedy_there(const Subject& s) {
  return generated(s, prompt(s, true), {.sampling = {.greedy = true}});
}
NamedTensors sampled(const Subject& s) { return generated(s, prompt(s), {.sampling = {.seed = 5}}); }
NamedTensors filtered(const Subject& s) {
  return generated(s, prompt(s),
                   {.sampling = {.temperature = 0.8,
                                 .top_k = 9,
                                 .top_p = 0.9,
                                 .min_p = 0.01,
                                 .repetition_penalty = 1.2,
                                 .frequency_penalty = 0.1,
                                 .seed = 2}});
}
NamedTensors captured(const Subject& s) {
  return generated(s, prompt(s), {.sampling = {.greedy = true}, .capture = act::defaults});
}
NamedTensors captured_on_the_host(const Subject& s) {
  return generated(s, prompt(s),
                   {.sampling = {.greedy = true}, .capture = act::resid_post, .keep = {.device = "cpu"}});
}
NamedTensors edited(const Subject& s) {
  return generated(s, prompt(s),
                   {.sampling = {.greedy = true},
                    .edits = {scale(act::z(s.attending()).pos(AxisIndex::Range{1, {}}), 0.5)},
                    .prompt_edits = {zero(act::attn_out(0).pos(0))},
                    .new_token_edits = {add(act::resid_post(0), 0.5)},
                    .capture = act::resid_post});
}
// Each kind of edit, of one column, of some and of all future columns.
NamedTensors edited_by_kind(const Subject& s) {
  const std::int64_t first = 3;  // new column
  const auto run = s.model.run(s.golden.tokens, {.capture = act::resid_post});
  const Address later = act::resid_post(0).pos(AxisIndex::Range{first + 1, {}});
  return generated(s, prompt(s),
                   {.max_new_tokens = 5,
                    .sampling = {.greedy = true},
                    .edits = {set(act::z(s.attending()).head(0).pos(AxisIndex::Range{1, {}}),
                                  s.random({s.config().value_dim(s.attending())}, 3)),
                              set(act::resid_pre(0).pos(std::vector<std::int64_t>{1, first + 1}), 0.25),
                              replace(act::resid_post(0).pos(first), run.cache)},
                    .new_token_edits = {add(later, s.random({s.config().d_model}, 4)),
                                        scale(act::attn_out(0), s.random({s.config().d_model}, 5)),
                                        scale(act::resid_post(0).pos(-1).row(0), 2.0),
                                        project_out(later, s.random({s.config().d_model}, 6))},
                    .capture = act::defaults});
}
NamedTensors everything(const Subject& s) {
  return generated(s, prompt(s), {.sampling = {.greedy = true}, .capture = act::everything});
}
NamedTensors kept_in_part(const Subject& s) {
  return generated(s, prompt(s),
                   {.max_new_tokens = 5,
                    .sampling = {.greedy = true},
                    .capture = act::defaults,
                    .keep = {.positions = std::vector<std::int64_t>{1, 4, 5}, .device = "cpu"}});
}
// More columns than the first room has.
NamedTensors many(const Subject& s) {
  return generated(
      s, prompt(s),
      {.max_new_tokens = 70, .sampling = {.temperature = 0.9, .seed = 3}, .capture = act::resid_post});
}
NamedTensors edited_pattern(const Subject& s) {
  return generated(s, prompt(s),
                   {.sampling = {.greedy = true},
                    .edits = {scale(act::pattern(s.attending()).key(0), 0.5)},
                    .capture = act::z});
}
NamedTensors edited_keys(const Subject& s) {
  const std::int64_t heads = s.config().n_heads;
  return generated(
      s, prompt(s),
      {.max_new_tokens = 5,
       .sampling = {.greedy = true},
       .edits = {add(act::attn_scores(s.attending()).key(-1), 0.5),
                 scale(act::pattern(s.attending()).key(AxisIndex::Range{1, {}}), s.random({heads, 1, 1}, 7)),
                 set(act::pattern(s.attending()).head(0).key(2), s.random({1}, 8))},
       .new_token_edits = {zero(act::pattern(s.attending()).head(-1).key(std::vector<std::int64_t>{0, 4})),
                           set(act::attn_scores(s.attending()).pos(4).key(1), -0.25)},
       .capture = act::pattern | act::z});
}
NamedTensors with_hooks(const Subject& s) {
  return generated(s, prompt(s),
                   {.sampling = {.greedy = true},
                    .hooks = {Hook(act::pattern, [](const at::Tensor& x) { return x * 0.5; })}});
}
NamedTensors stopped(const Subject& s) {
  // The first row's second new token ends rows: ended rows are padded.
  const auto tokens = s.model
                          .generate(prompt(s), {.max_new_tokens = 2,
                                                .sampling = {.greedy = true},
                                                .stop = {.tokens = std::vector<std::int64_t>()}})
                          .tokens;
  const auto stop = tokens.to(at::kCPU)[0][-1].item<std::int64_t>();
  return generated(
      s, prompt(s),
      {.sampling = {.greedy = true}, .stop = {.tokens = std::vector{stop}}, .capture = act::resid_post});
}
NamedTensors padded(const Subject& s) {
  const at::Tensor tokens = s.golden.tokens.narrow(1, 0, 3);
  const at::Tensor mask = at::ones_like(tokens);
  mask[-1][0] = 0;
  return generated(s, {tokens, {.attention_mask = mask}},
                   {.sampling = {.greedy = true}, .capture = act::resid_post});
}
NamedTensors behind_prefix(const Subject& s) {
  const auto before = s.model.run(s.golden.tokens.narrow(1, 0, 2), {.keep_prefix = true});
  return generated(s, {s.golden.tokens.narrow(1, 2, 1), {.prefix = before.prefix}},
                   {.sampling = {.greedy = true}});
}

bool goes_on(const Subject& s) {
  return s.predicts() && s.causal() && s.config().d_vocab_out() == s.config().d_vocab &&
         !s.golden.token_types.defined();
}
bool goes_on_alone(const Subject& s) { return goes_on(s) && s.one_stack(); }
bool goes_on_for_long(const Subject& s) {
  const ModelConfig& c = s.config();
  return goes_on(s) && !c.mixture(0) && (c.n_ctx > 75 || c.alibi() != nullptr || c.relative() != nullptr);
}
bool several_rows(const Subject& s) { return goes_on(s) && s.golden.tokens.size(0) > 1; }

constexpr std::array<Check, 17> kChecks{{
    {"greedy", goes_on, greedy},
    {"greedy_there", goes_on, greedy_there},
    {"sampled", goes_on, sampled},
    {"filtered", goes_on, filtered},
    {"captured", goes_on, captured},
    {"captured_on_the_host", goes_on, captured_on_the_host},
    {"edited", goes_on_alone, edited},
    {"edited_by_kind", goes_on_alone, edited_by_kind},
    {"edited_pattern", goes_on_alone, edited_pattern},
    {"edited_keys", goes_on_alone, edited_keys},
    {"everything", goes_on, everything},
    {"kept_in_part", goes_on_alone, kept_in_part},
    {"many", goes_on_for_long, many},
    {"hooked", goes_on, with_hooks},
    {"stopped", several_rows, stopped},
    {"padded", goes_on_alone, padded},
    {"behind_prefix", goes_on_alone, behind_prefix},
}};

}  // namespace
}  // namespace generation_group

std::span<const Check> generation_checks() { return generation_group::kChecks; }

}  // namespace hooked::device_tests
