#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "hooked/core/part.h"

/// What analyses cannot handle: the parts of a model in whose presence they are refused. Errors state it,
/// docs/reading-functions.md prints it, and a test checks the two against each other for every kind of golden
/// checkpoint.
namespace hooked {

/// Parts that an analysis cannot handle.
struct Obstacles {
  std::initializer_list<Part> parts;
  std::string_view because;       ///< what the analysis loses in such a model
  std::string_view instead = "";  ///< what handles such a model; empty: nothing does
};

/// The first of them that a model has.
std::optional<Part> first_in(const ModelConfig& config, const Obstacles& obstacles);

/// All of them in words: `an encoder; attention with latents (`latent`)`.
std::string words_of(const Obstacles& obstacles);

/// Throws HookError, in the name of `where`, for a model that has one of them.
void require_free_of(const ModelConfig& config, std::string_view where, const Obstacles& obstacles);

namespace obstacles {

inline constexpr Obstacles kDirectPaths{
    {Part::encoder, Part::short_conv, Part::delta_net, Part::latents, Part::full_heads, Part::shared_keys,
     Part::layer_input, Part::layer_scale, Part::stream_norms},
    "no straight path leads from head to head",
    "path_patching takes this one"};
inline constexpr Obstacles kEdges{
    {Part::short_conv, Part::delta_net, Part::gated_heads, Part::shared_keys, Part::layer_input},
    "something other than queries, keys, values and MLPs reads the stream, and no edge leads there",
    "path_patching and attribution_patching take this one"};
inline constexpr Obstacles kCircuitsOfEdges{{Part::encoder, Part::stream_norms, Part::layer_scale,
                                             Part::ln1_post, Part::embedding_sum_norm, Part::latents},
                                            "what is read there is not a sum of edges",
                                            "circuits of nodes take this one"};
inline constexpr Obstacles kStretches{{Part::encoder, Part::shared_keys, Part::layer_input},
                                      "stretches of layers cannot be computed anew by themselves",
                                      "layers_at_once of 0 takes this one"};
inline constexpr Obstacles kLens{{Part::stream_norms}, "no point of the stream can be read as the last one"};
inline constexpr Obstacles kPaths{{Part::shared_keys, Part::qkv_clip},
                                  "values are not a matrix times their own layer's stream"};
inline constexpr Obstacles kConstantValues{
    {Part::sinks, Part::gated_heads, Part::value_norm, Part::qkv_clip, Part::latents, Part::shared_keys},
    "what is constant in the values cannot be separated",
    "value biases left in the heads' parts take this one"};
inline constexpr Obstacles kLinearHeads{{Part::qkv_clip}, "clipping is not linear"};
inline constexpr Obstacles kOwnKeys{{Part::shared_keys},
                                    "keys and values of some layers are made of another layer's stream",
                                    "source_attribution of a run takes this one"};
inline constexpr Obstacles kPlainValues{{Part::value_norm, Part::gated_heads},
                                        "only a run knows what happens between values and head outputs",
                                        "source_attribution takes this one"};
inline constexpr Obstacles kPlainStream{
    {Part::stream_norms, Part::layer_scale},
    "a norm or a scale lies between writer and reader, and only a run knows it",
    "the bare matrices, without the norms, take this one"};
inline constexpr Obstacles kGraphs{
    {Part::encoder, Part::delta_net, Part::qkv_clip, Part::layer_input, Part::mlm_head},
    "holding patterns, gates and the scales of norms does not make it linear",
    "path_patching and attribution_patching take this one"};
inline constexpr Obstacles kPlainNeurons{{Part::gated_mlp, Part::neuron_norm, Part::mixture, Part::ln2_post},
                                         "what neurons write is not their activation times a row of W_out, "
                                         "or they read by more than one direction",
                                         "a graph with transcoders takes this one"};
inline constexpr Obstacles kPairs{{Part::encoder}, "a pair's prompts are of one stack"};

}  // namespace obstacles
}  // namespace hooked
