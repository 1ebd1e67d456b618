#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/work/obstacles.h"
#include "hooked/core/model_config.h"

// What analyses refuse: the table that docs/reading-functions.md prints, and that a test holds against the
// functions, called of every kind of golden checkpoint (tests/analysis/refusals_test.cc).
namespace hooked {

/// How an analysis is called, in addition to its name.
struct Asking {
  bool norms = true;          ///< CircuitOptions::norms
  Stack stack = Stack::none;  ///< of the stack that predicts, or Stack::encoder
  bool crosses = false;       ///< of cross-attention
  std::int64_t layer = 0;     ///< the layer
  bool prefix = false;        ///< of the cache of a run after a prefix
};

/// One row of the table.
struct Refusal {
  std::vector<std::string_view> calls;  ///< what is refused, by the names that the test knows
  std::string where;
  std::string because;
  bool (*holds)(const ModelConfig& c, const Asking& a);  ///< whether `where` applies
};

/// The parts of the table, and what its rows share.
namespace refusal_table {

using Calls = std::vector<std::string_view>;
using Config = const ModelConfig&;
using Asked = const Asking&;

inline Calls joined(std::initializer_list<Calls> parts) {
  Calls all;
  for (const Calls& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

template <const Obstacles& kObstacles>
bool meets(Config c, Asked) {
  return first_in(c, kObstacles).has_value();
}

/// What an analysis does not support.
template <const Obstacles& kObstacles>
Refusal row(Calls calls) {
  const bool ends = kObstacles.instead.empty();
  return {std::move(calls), words_of(kObstacles),
          std::string(kObstacles.because) + (ends ? "" : "; ") + std::string(kObstacles.instead),
          meets<kObstacles>};
}

inline bool everywhere(Config, Asked) { return true; }
inline bool no_unembedding(Config c, Asked) { return !c.has_unembedding(); }
inline bool mlm_head(Config c, Asked) { return c.has_mlm_head(); }
inline bool of_encoder(Config, Asked a) { return a.stack == Stack::encoder; }
inline bool latents(Config c, Asked) { return c.latent_attention(); }
inline bool no_attention(Config c, Asked a) { return a.stack != Stack::encoder && !c.attends(a.layer); }

/// Functions that read a run.
inline std::vector<Refusal> of_runs() {
  const Calls of_final_norm{"`normed_logit`", "`norm_shares`", "`leave_one_out`"};
  const Calls paths{"`path_expansion`", "`path_logits`"};
  const Calls graphs{"`attribute_graph`, `edge_heads`, `intervene`", "`attribute_graph` of neurons"};
  const Calls of_logits =
      joined({{"`direct_logit_attribution`", "`source_attribution`"}, of_final_norm, paths});
  return {
      {of_logits, "models without an unembedding",
       "they have no logits; `residual_parts` takes their stream apart", no_unembedding},
      {of_logits, "models with a masked-LM head",
       "its activation function is between the stream and the logits, and no sum of parts passes it",
       mlm_head},
      {of_final_norm, "models without a final norm", "there is no norm to measure",
       [](Config c, Asked) { return c.final_norm == NormKind::none; }},
      {{"`unnormed_reading`"},
       "models whose MLPs do not read through a norm that leaves the stream as it is",
       "there is no such reading",
       [](Config c, Asked) {
         return !c.has_mlp() || c.norm == NormKind::none || c.norms_stream() ||
                (c.norm_place == NormPlace::output && c.pre_norm_layers.empty());
       }},
      row<obstacles::kConstantValues>({"`ValueBiases::in_bias`"}),
      {joined({{"`head_scores`", "`attention_grid`", "`source_attribution`", "`score_attribution`"}, paths}),
       "caches of runs after a prefix", "the prefix's attention, keys and values are not in the cache",
       [](Config, Asked a) { return a.prefix; }},
      row<obstacles::kLinearHeads>({"`score_attribution`"}),
      {{"`score_attribution`"},
       "a layer that shares the keys of another",
       "its keys are made of another stream than its queries",
       [](Config c, Asked a) { return a.stack != Stack::encoder && c.shares_keys(a.layer); }},
      {{"`head_scores` by `previous_token`, `current_token`, `duplicate_token`, `induction` or `distance`"},
       "cross-attention",
       "queries and keys are of two texts",
       [](Config, Asked a) { return a.crosses; }},
      {{"`logit_lens`", "`logit_lens` with `maps`"},
       "models without an unembedding",
       "they have no logits",
       no_unembedding},
      row<obstacles::kLens>({"`logit_lens`", "`logit_lens` with `maps`"}),
      {{"`logit_lens` with `maps`"},
       "processed weights",
       "fitted maps are of the stream as published weights make it",
       [](Config c, Asked) { return !c.processing.empty(); }},
      {{"`logit_lens` with `maps` and `parts`"}, "everywhere", "maps read the stream, not parts", everywhere},
      row<obstacles::kPaths>(paths),
      row<obstacles::kGraphs>(graphs),
      {graphs, "models without MLPs or without an unembedding", "graphs lead through MLPs to logits",
       [](Config c, Asked) { return !c.has_mlp() || !c.has_unembedding(); }},
      row<obstacles::kPlainNeurons>({"`attribute_graph` of neurons"}),
      {{"`feature_logits`"},
       "norms on the stream itself, masked-LM heads, models without an unembedding",
       "what a feature writes does not reach the logits along one direction",
       [](Config c, Asked) { return c.norms_stream() || c.has_mlm_head() || !c.has_unembedding(); }},
      {{"`dictionary_quality`"},
       "two stacks, bidirectional models, models without an unembedding",
       "they do not predict the next token",
       [](Config c, Asked) {
         return c.has_encoder() || c.direction == AttentionDirection::bidirectional || !c.has_unembedding();
       }},
  };
}

/// Functions of weights.
inline std::vector<Refusal> of_weights() {
  const Calls singular_of_heads{"`singular_directions` of OV circuits",
                                "`singular_directions` of QK circuits"};
  const Calls singular = joined({singular_of_heads, {"`singular_directions` of MLPs"}});
  const Calls full_qk{"`full_qk_circuit`", "`full_qk_circuit` of positions"};
  const Calls full_ov{"`full_ov_circuit`", "`full_ov_circuit` of positions"};
  const Calls compositions{"`composition_scores` by queries and keys", "`composition_scores` by values"};
  const Calls qk_of_heads = joined({{"`qk_circuits_at`", "`singular_directions` of QK circuits"}, full_qk});
  const Calls ov = joined(
      {{"`ov_circuits`", "`copying_scores`", "`singular_directions` of OV circuits"}, compositions, full_ov});
  const Calls of_heads = joined(
      {{"`ov_circuits`", "`qk_circuits`", "`qk_circuits_at`", "`copying_scores`", "`stream_matrix` of heads"},
       compositions,
       singular_of_heads,
       full_qk,
       full_ov});
  const Calls of_unembedding = joined({{"`stream_matrix` of the unembedding"}, singular, full_ov});
  return {
      {of_heads, "latent attention", "queries, keys and values are computed from normed latents", latents},
      row<obstacles::kLinearHeads>(of_heads),
      row<obstacles::kOwnKeys>(of_heads),
      {{"`qk_circuits`", "`composition_scores` by queries and keys"},
       "query and key norms, in any layer",
       "only a run has their scales; `score_attribution` takes scores of a run apart",
       [](Config c, Asked) { return c.qk_norm.has_value(); }},
      {qk_of_heads, "layers with query and key norms", "only a run has their scales",
       [](Config c, Asked a) { return c.norms_heads(a.layer); }},
      row<obstacles::kPlainValues>(ov),
      {joined({{"`score_attribution`", "`stream_matrix` of heads", "`full_qk_circuit`", "`full_ov_circuit`",
                "`qk_circuits_at`"},
               singular_of_heads}),
       "a layer without attention", "it has no heads", no_attention},
      {joined({{"`virtual_weights`", "`subspace_overlap`", "`copying_scores`"},
               compositions,
               singular,
               full_ov}),
       "norms on the stream itself and numbers that multiply it, with `.norms`",
       "only a run has the scale of what is between the two ends",
       [](Config c, Asked a) { return a.norms && meets<obstacles::kPlainStream>(c, a); }},
      {full_qk, "the same, after the first layer", "the same",
       [](Config c, Asked a) { return a.norms && a.layer > 0 && meets<obstacles::kPlainStream>(c, a); }},
      {{"`full_qk_circuit` of positions", "`full_ov_circuit` of positions", "`stream_matrix` of positions"},
       "positions that are not embeddings",
       "nothing of them is in the stream",
       [](Config c, Asked) { return !c.has_pos_embed(); }},
      {{"`full_ov_circuit` of positions"},
       "shortformer's positions",
       "values do not read them",
       [](Config c, Asked) { return c.shortformer(); }},
      {{"`position_biases`"},
       "positions other than ALiBi and relative ones",
       "nothing is added to scores",
       [](Config c, Asked) { return c.alibi() == nullptr && c.relative() == nullptr; }},
      {{"`full_qk_circuit` of long rows", "`qk_circuits_at` of long rows"},
       "queries that grow with their positions, in rows of as many tokens",
       "the size of a query depends on its position",
       everywhere},
      {of_unembedding, "models without an unembedding", "no matrix reads logits", no_unembedding},
      {of_unembedding, "models with a masked-LM head", "a layer is between the stream and the logits",
       mlm_head},
      {of_unembedding, "an encoder's stack", "no logits are read from its stream", of_encoder},
      {{"`copying_scores`"},
       "two stacks, masked-LM heads, models that predict another vocabulary or none",
       "there is no circuit from tokens to their own logits",
       [](Config c, Asked) {
         return c.has_encoder() || !c.has_unembedding() || c.has_mlm_head() || c.d_vocab_out() != c.d_vocab;
       }},
  };
}

/// Functions that patch runs, or draw prompts.
inline std::vector<Refusal> of_patched_runs() {
  const Calls edges{"`edge_attribution`", "`run_circuits` of edges"};
  return {
      {{"`repetition_scores`", "`repeated_tokens_of`"},
       "two stacks, bidirectional models, models without an unembedding",
       "they do not predict the next token",
       [](Config c, Asked) {
         return c.has_encoder() || c.direction == AttentionDirection::bidirectional || !c.has_unembedding();
       }},
      row<obstacles::kPairs>({"`PromptPairs`"}),
      {{"`scores`, `sweep` and its like by metrics of logits", "`logits_at`"},
       "models without an unembedding",
       "they have no logits; metrics may read activations",
       no_unembedding},
      {{"`judge_interchange`", "`align_subspace`"},
       "models without an unembedding",
       "they give no answer",
       no_unembedding},
      row<obstacles::kDirectPaths>({"`direct_path`"}),
      {{"`attribution_patching` by `rank` or `top1`", "`edge_attribution` by `rank` or `top1`"},
       "everywhere",
       "they move in steps, and their gradient is zero",
       everywhere},
      {{"`attribution_patching` of ids"}, "everywhere", "ids have no gradient", everywhere},
      {{"`attribution_patching` with `query_key`"},
       "an encoder's queries and keys",
       "runs start in the stack that predicts",
       of_encoder},
      {{"`attribution_patching` with `drop_layers`"},
       "models of one layer",
       "without it nothing is left",
       [](Config c, Asked) { return c.n_layers + c.n_encoder_layers() == 1; }},
      row<obstacles::kStretches>({"`attribution_patching` with `layers_at_once`"}),
      {{"`attribution_patching` with `layers_at_once` and hooks or edits",
        "`attribution_patching` with `layers_at_once` by a metric of activations",
        "`attribution_patching` with `layers_at_once` of what all layers read"},
       "everywhere",
       "stretches of layers cannot be computed anew by themselves",
       everywhere},
      row<obstacles::kEdges>(edges),
      {{"`edge_attribution` with `check` and `by_position`"},
       "everywhere",
       "edges are patched at all positions together",
       everywhere},
      {{"`edge_attribution` with hooks or edits of the stream"},
       "everywhere",
       "edges are carried as the model carries them",
       everywhere},
      row<obstacles::kCircuitsOfEdges>({"`run_circuits` of edges"}),
  };
}

}  // namespace refusal_table

/// The table, in the order of the page.
inline std::vector<Refusal> refusals() {
  std::vector<Refusal> rows;
  for (auto* part : {refusal_table::of_runs, refusal_table::of_weights, refusal_table::of_patched_runs}) {
    for (Refusal& row : (*part)()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace hooked
