#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "hooked/core/model_parts.h"

namespace hooked {

/// A value and the word for it in files and messages. Of a value's words in a table, the first is the one
/// written; the others are accepted when reading.
template <class E>
struct Word {
  E value;
  std::string_view text;
};

inline constexpr Word<NormKind> kNormKindWords[] = {
    {NormKind::none, "none"}, {NormKind::layer_norm, "LN"}, {NormKind::rms_norm, "RMS"}};
inline constexpr Word<NormKind> kQkNormKindWords[] = {{NormKind::layer_norm, "LN"},
                                                      {NormKind::rms_norm, "RMS"}};

inline constexpr Word<KeptInFloat32> kKeptInFloat32Words[] = {{KeptInFloat32::never, "never"},
                                                              {KeptInFloat32::in_float16, "in_float16"},
                                                              {KeptInFloat32::in_half, "in_half"}};

inline constexpr Word<NormPlace> kNormPlaceWords[] = {{NormPlace::pre, "pre"},
                                                      {NormPlace::post, "post"},
                                                      {NormPlace::output, "output"},
                                                      {NormPlace::both, "both"},
                                                      {NormPlace::stream, "stream"}};

inline constexpr Word<BlockLayout> kBlockLayoutWords[] = {
    {BlockLayout::serial, "serial"},
    {BlockLayout::parallel_two_norms, "parallel_two_norms"},
    {BlockLayout::parallel_one_norm, "parallel_one_norm"}};

inline constexpr Word<MlpKind> kMlpKindWords[] = {
    {MlpKind::none, "none"}, {MlpKind::plain, "plain"}, {MlpKind::gated, "gated"}};

inline constexpr Word<QkNorm::Span> kQkNormSpanWords[] = {{QkNorm::per_head, "per_head"},
                                                          {QkNorm::each_head, "each_head"},
                                                          {QkNorm::whole_projection, "whole_projection"}};

inline constexpr Word<Window::Kind> kWindowKindWords[] = {{Window::sliding, "sliding"},
                                                          {Window::chunks, "chunks"}};

inline constexpr Word<RouterKind> kRouterKindWords[] = {
    {RouterKind::softmax_then_choose, "softmax_then_choose"},
    {RouterKind::sigmoid_then_choose, "sigmoid_then_choose"},
    {RouterKind::choose_then_softmax, "choose_then_softmax"},
    {RouterKind::sparse_mixer, "sparse_mixer"}};

inline constexpr Word<GroupScore> kGroupScoreWords[] = {{GroupScore::best, "best"},
                                                        {GroupScore::best_two, "best_two"}};

inline constexpr Word<AttentionDirection> kAttentionDirectionWords[] = {
    {AttentionDirection::causal, "causal"}, {AttentionDirection::bidirectional, "bidirectional"}};

inline constexpr Word<Activation::Kind> kActivationWords[] = {
    {Activation::relu, "relu"},
    {Activation::gelu, "gelu"},
    {Activation::gelu_tanh, "gelu_new"},
    {Activation::gelu_fast, "gelu_fast"},
    {Activation::gelu_bloom, "bloom_gelu"},
    {Activation::gelu_quick, "quick_gelu"},
    {Activation::silu, "silu"},
    {Activation::solu, "solu"},
    {Activation::relu_squared, "relu2"},
    {Activation::sigmoid, "sigmoid"},
    {Activation::xielu, "xielu"},
    {Activation::swish, "swish_beta"},
    {Activation::gelu_clipped, "gelu_10"},
    {Activation::hard_swish, "hardswish"},
    {Activation::identity, "linear"},
    {Activation::laplace, "laplace"},
    {Activation::leaky_relu, "leaky_relu"},
    {Activation::mish, "mish"},
    {Activation::relu6, "relu6"},
    {Activation::sqrt_softplus, "sqrtsoftplus"},
    {Activation::tanh, "tanh"},
    {Activation::gelu, "gelu_python"},
    {Activation::gelu_tanh, "gelu_pytorch_tanh"},
    {Activation::gelu_tanh, "gelu_python_tanh"},
    {Activation::gelu_tanh, "gelu_accurate"},
    {Activation::gelu_quick, "gelu_quick"},
    {Activation::silu, "swish"},
    {Activation::relu_squared, "relu_squared"},
};

// The kinds of positions and of rotary scaling, in the order of their variants.
inline constexpr std::string_view kPositionWords[] = {"none",   "standard", "shortformer",
                                                      "rotary", "alibi",    "relative_positional_bias"};
static_assert(std::size(kPositionWords) == std::variant_size_v<Positions>);
inline constexpr std::string_view kRopeScalingWords[] = {"none", "linear",  "llama3",
                                                         "yarn", "dynamic", "longrope"};
static_assert(std::size(kRopeScalingWords) == std::variant_size_v<RopeScaling>);

inline std::string_view word_of(const Positions& positions) { return kPositionWords[positions.index()]; }
inline std::string_view word_of(const RopeScaling& scaling) { return kRopeScalingWords[scaling.index()]; }

/// The word written for `value`; `?` for a number that is not a value of the enum.
template <class E, std::size_t N>
constexpr std::string_view word_of(const Word<E> (&words)[N], E value) noexcept {
  for (const auto& word : words) {
    if (word.value == value) return word.text;
  }
  return "?";
}

/// The value with the word `text`.
template <class E, std::size_t N>
constexpr std::optional<E> value_of(const Word<E> (&words)[N], std::string_view text) noexcept {
  for (const auto& word : words) {
    if (word.text == text) return word.value;
  }
  return std::nullopt;
}

/// All words, for messages: `pre, post, output, both`.
template <class E, std::size_t N>
std::string all_words(const Word<E> (&words)[N]) {
  std::string list;
  for (const auto& word : words) list.append(list.empty() ? "" : ", ").append(word.text);
  return list;
}

}  // namespace hooked
