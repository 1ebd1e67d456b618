#pragma once

#include <string_view>

namespace hooked {

/// What makes a section of a report again: a command and its options, and what follows the lines that load
/// the model and make its tokens (`model` and `tokens`, or `pairs`) in C++ and Python. `{answer}` and the
/// like are filled in; braces of the languages are doubled.
struct SectionSource {
  std::string_view command, cpp, python;
};

inline constexpr SectionSource kTokensSource{
    "run --positions all",
    R"(const auto logits = model.run(tokens).logits();)",
    R"(logits = model.run(tokens).logits)",
};

inline constexpr SectionSource kLensSource{
    "lens --positions all",
    R"(const auto run = model.run_with_cache(tokens);
std::cout << hooked::logit_lens(model, run.cache, {{.positions = {{}}}});)",
    R"(run = model.run_with_cache(tokens)
print(hooked.logit_lens(model, run.cache, positions=[])))",
};

inline constexpr SectionSource kAttentionSource{
    "heads --pattern 0",
    R"(const auto run = model.run_with_cache(tokens, hooked::act::pattern);
hooked::attention_grid(model, run.cache, hooked::act::pattern(0)).save("heads.svg");)",
    R"(run = model.run_with_cache(tokens, hooked.act.pattern)
hooked.attention_grid(model, run.cache, hooked.act.pattern(0)))",
};

inline constexpr SectionSource kScoresSource{
    "heads",
    R"(const auto run = model.run_with_cache(tokens, hooked::act::pattern);
hooked::head_scores(run.cache, hooked::HeadScore::previous_token).save("scores.svg");)",
    R"(run = model.run_with_cache(tokens, hooked.act.pattern)
hooked.head_scores(run.cache, "previous_token"))",
};

inline constexpr SectionSource kAttributionSource{
    "attribute{answers_in_shell}",
    R"(const auto run = model.run_with_cache(tokens);
std::cout << hooked::direct_logit_attribution(model, run.cache, {{.answer = {answer}{against_in_cpp}}});)",
    R"(run = model.run_with_cache(tokens)
hooked.direct_logit_attribution(model, run.cache, answer={answer}{against_in_python}))",
};

inline constexpr SectionSource kPatchingSource{
    "patch{answers_in_shell} --sweep block_every,attn_head_out_all_pos",
    R"(std::cout << hooked::sweep(model, hooked::patching_preset("block_every"),
                           {{.from = model.run_with_cache(pairs.clean()).cache,
                            .into = pairs.corrupted(),
                            .metric = hooked::{metric}}});)",
    R"(hooked.sweep(model, hooked.patching_preset("block_every"),
             from_=model.run_with_cache(pairs.clean).cache, into=pairs.corrupted,
             metric=hooked.{metric}))",
};

inline constexpr SectionSource kFeaturesSource{
    "sae",
    R"(// dictionary: the hooked::Dictionary of {place}
const auto spliced = model.with_dictionary(dictionary{with_error_in_cpp});
const auto run = spliced.run_with_cache(tokens, hooked::act::sae_acts_post);
const auto firing = hooked::firing_features(run.cache, "{features}");{examples_in_cpp})",
    R"(# dictionary: the hooked.Dictionary of {place}
spliced = model.with_dictionary(dictionary{with_error_in_python})
run = spliced.run_with_cache(tokens, hooked.act.sae_acts_post)
firing = hooked.firing_features(run.cache, "{features}"){examples_in_python})",
};

/// What follows if a harvest has examples of the dictionary.
inline constexpr std::string_view kExamplesInCpp = R"(
const auto examples = hooked::FeatureExamples::load({folder}).at("{features}");)";
inline constexpr std::string_view kExamplesInPython = R"(
examples = hooked.FeatureExamples.load({folder})["{features}"])";

inline constexpr SectionSource kGraphSource{
    "graph",
    R"(// transcoders: a hooked::DictionarySet of the MLPs' transcoders
const auto graph = hooked::attribute_graph(model, transcoders.members(), tokens);)",
    R"(# transcoders: a hooked.DictionarySet of the MLPs' transcoders
graph = hooked.attribute_graph(model, transcoders, tokens))",
};

inline constexpr SectionSource kNeuronsSource{
    "graph --neurons",
    R"(const auto graph = hooked::attribute_graph(model, hooked::GraphFeatures::neurons(), tokens);)",
    R"(graph = hooked.attribute_graph(model, hooked.GraphFeatures.neurons(), tokens))",
};

/// What is put around a text, if the caller says it.
inline constexpr std::string_view kAroundInShell = " --prepend-bos {}";
inline constexpr std::string_view kAroundInCpp = R"(, {{.prepend_bos = hooked::PrependBos::{}}})";
inline constexpr std::string_view kAroundInPython = ", prepend_bos=\"{}\"";

/// The lines before them: `{model}`, in `{how}` how it was loaded, `{tokens}`, and in `{around}` what is put
/// around texts.
inline constexpr std::string_view kLoadInCpp =
    R"(const auto model = hooked::HookedTransformer::load({model}{how});
const auto tokens = {tokens};
)";
inline constexpr std::string_view kLoadInPython = R"(model = hooked.HookedTransformer.load({model}{how})
tokens = {tokens}
)";
inline constexpr std::string_view kTextTokens = R"(model.to_tokens({text}{around}))";
inline constexpr std::string_view kIdsInCpp = R"(at::tensor({{{ids}}}, at::kLong).unsqueeze(0))";
inline constexpr std::string_view kIdsInPython = R"(torch.tensor([[{ids}]]))";

/// The same for a pair of prompts: `{clean}`, `{corrupted}`, `{around}`.
inline constexpr std::string_view kPairInCpp =
    R"(const auto model = hooked::HookedTransformer::load({model}{how});
const hooked::PromptPairs pairs(model, {{{{.clean = {clean}, .corrupted = {corrupted}}}}}{around});
)";
inline constexpr std::string_view kPairInPython = R"(model = hooked.HookedTransformer.load({model}{how})
pairs = hooked.PromptPairs(model, [hooked.PromptPair(clean={clean}, corrupted={corrupted})]{around})
)";
inline constexpr std::string_view kIdListInCpp = R"(std::vector<std::int64_t>{{{ids}}})";
inline constexpr std::string_view kIdListInPython = R"([{ids}])";

}  // namespace hooked
