// The C++ that reports show, compiled and run: report_test.cc finds the code of each section in a block here.
// What changes in src/report/section_sources.h changes here too. It writes pictures where it runs, from a
// folder that has examples/.
#include <hooked/hooked.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <vector>

namespace {

// A pair of texts.
void of_texts(const hooked::Dictionary& dictionary) {
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model", {.without = {hooked::ProcessingStep::center_writing_weights}});
    const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to",
                                        {.prepend_bos = hooked::PrependBos::yes});
    const auto logits = model.run(tokens).logits();
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model", {.without = {hooked::ProcessingStep::center_writing_weights}});
    const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to",
                                        {.prepend_bos = hooked::PrependBos::yes});
    const auto run = model.run_with_cache(tokens);
    std::cout << hooked::logit_lens(model, run.cache, {.positions = {}});
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model", {.without = {hooked::ProcessingStep::center_writing_weights}});
    const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to",
                                        {.prepend_bos = hooked::PrependBos::yes});
    const auto run = model.run_with_cache(tokens, hooked::act::pattern);
    hooked::attention_grid(model, run.cache, hooked::act::pattern(0)).save("heads.svg");
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model", {.without = {hooked::ProcessingStep::center_writing_weights}});
    const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to",
                                        {.prepend_bos = hooked::PrependBos::yes});
    const auto run = model.run_with_cache(tokens, hooked::act::pattern);
    hooked::head_scores(run.cache, hooked::HeadScore::previous_token).save("scores.svg");
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model", {.without = {hooked::ProcessingStep::center_writing_weights}});
    const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to",
                                        {.prepend_bos = hooked::PrependBos::yes});
    const auto run = model.run_with_cache(tokens);
    std::cout << hooked::direct_logit_attribution(model, run.cache, {.answer = " Mary", .against = " John"});
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model", {.without = {hooked::ProcessingStep::center_writing_weights}});
    const hooked::PromptPairs pairs(
        model,
        {{.clean = "When John and Mary went to the shop, John gave a bag to",
          .corrupted = "When John and Mary went to the shop, Mary gave a bag to"}},
        {.prepend_bos = hooked::PrependBos::yes});
    std::cout << hooked::sweep(model, hooked::patching_preset("block_every"),
                               {.from = model.run_with_cache(pairs.clean()).cache,
                                .into = pairs.corrupted(),
                                .metric = hooked::logit_difference(" Mary", " John")});
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model", {.without = {hooked::ProcessingStep::center_writing_weights}});
    const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to",
                                        {.prepend_bos = hooked::PrependBos::yes});
    // dictionary: the hooked::Dictionary of blocks.0.hook_resid_post
    const auto spliced = model.with_dictionary(dictionary, {.with_error = true});
    const auto run = spliced.run_with_cache(tokens, hooked::act::sae_acts_post);
    const auto firing = hooked::firing_features(run.cache, "blocks.0.hook_resid_post.hook_sae_acts_post");
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model", {.without = {hooked::ProcessingStep::center_writing_weights}});
    const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to",
                                        {.prepend_bos = hooked::PrependBos::yes});
    const auto graph = hooked::attribute_graph(model, hooked::GraphFeatures::neurons(), tokens);
  }
}

// A pair of tokens, and one answer.
void of_tokens(const hooked::DictionarySet& transcoders) {
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model",
        {.without = {hooked::ProcessingStep::fold_ln, hooked::ProcessingStep::center_writing_weights,
                     hooked::ProcessingStep::center_unembed, hooked::ProcessingStep::fold_value_biases}});
    const auto tokens = at::tensor({0, 10, 20, 30}, at::kLong).unsqueeze(0);
    const auto logits = model.run(tokens).logits();
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model",
        {.without = {hooked::ProcessingStep::fold_ln, hooked::ProcessingStep::center_writing_weights,
                     hooked::ProcessingStep::center_unembed, hooked::ProcessingStep::fold_value_biases}});
    const auto tokens = at::tensor({0, 10, 20, 30}, at::kLong).unsqueeze(0);
    const auto run = model.run_with_cache(tokens);
    std::cout << hooked::logit_lens(model, run.cache, {.positions = {}});
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model",
        {.without = {hooked::ProcessingStep::fold_ln, hooked::ProcessingStep::center_writing_weights,
                     hooked::ProcessingStep::center_unembed, hooked::ProcessingStep::fold_value_biases}});
    const auto tokens = at::tensor({0, 10, 20, 30}, at::kLong).unsqueeze(0);
    const auto run = model.run_with_cache(tokens, hooked::act::pattern);
    hooked::attention_grid(model, run.cache, hooked::act::pattern(0)).save("heads.svg");
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model",
        {.without = {hooked::ProcessingStep::fold_ln, hooked::ProcessingStep::center_writing_weights,
                     hooked::ProcessingStep::center_unembed, hooked::ProcessingStep::fold_value_biases}});
    const auto tokens = at::tensor({0, 10, 20, 30}, at::kLong).unsqueeze(0);
    const auto run = model.run_with_cache(tokens, hooked::act::pattern);
    hooked::head_scores(run.cache, hooked::HeadScore::previous_token).save("scores.svg");
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model",
        {.without = {hooked::ProcessingStep::fold_ln, hooked::ProcessingStep::center_writing_weights,
                     hooked::ProcessingStep::center_unembed, hooked::ProcessingStep::fold_value_biases}});
    const auto tokens = at::tensor({0, 10, 20, 30}, at::kLong).unsqueeze(0);
    const auto run = model.run_with_cache(tokens);
    std::cout << hooked::direct_logit_attribution(model, run.cache, {.answer = 5});
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model",
        {.without = {hooked::ProcessingStep::fold_ln, hooked::ProcessingStep::center_writing_weights,
                     hooked::ProcessingStep::center_unembed, hooked::ProcessingStep::fold_value_biases}});
    const hooked::PromptPairs pairs(model, {{.clean = std::vector<std::int64_t>{0, 10, 20, 30},
                                             .corrupted = std::vector<std::int64_t>{0, 10, 21, 30}}});
    std::cout << hooked::sweep(model, hooked::patching_preset("block_every"),
                               {.from = model.run_with_cache(pairs.clean()).cache,
                                .into = pairs.corrupted(),
                                .metric = hooked::logit(5)});
  }
  {
    const auto model = hooked::HookedTransformer::load(
        "examples/toy_model",
        {.without = {hooked::ProcessingStep::fold_ln, hooked::ProcessingStep::center_writing_weights,
                     hooked::ProcessingStep::center_unembed, hooked::ProcessingStep::fold_value_biases}});
    const auto tokens = at::tensor({0, 10, 20, 30}, at::kLong).unsqueeze(0);
    // transcoders: a hooked::DictionarySet of the MLPs' transcoders
    const auto graph = hooked::attribute_graph(model, transcoders.members(), tokens);
  }
}

// Another dtype.
void of_a_dtype() {
  const auto model = hooked::HookedTransformer::load("examples/toy_model", {.dtype = at::kDouble});
  const auto tokens = at::tensor({0, 10, 20, 30}, at::kLong).unsqueeze(0);
  const auto logits = model.run(tokens).logits();
}

}  // namespace

int main() try {
  of_texts(hooked::Dictionary::load("examples/toy_sae"));
  of_tokens(hooked::DictionarySet::load("examples/toy_transcoders"));
  of_a_dtype();
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
