#include "loading/gguf/gguf_architectures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "io/files/path_text.h"
#include "loading/gguf/gguf_model.h"

namespace hooked {
namespace {

constexpr std::string_view kArchitectureKey = "general.architecture";

using enum GgufLayout;

// Names that a file does not have are harmless: the family says which tensors exist.

// Parts of blocks that many architectures have.
constexpr GgufName kQueriesAndKeys[] = {{"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"}};
constexpr GgufName kTurnedQueriesAndKeys[] = {{"attn_q", "self_attn.q_proj", query_rows},
                                              {"attn_k", "self_attn.k_proj", key_rows}};
constexpr GgufName kValuesAndOutput[] = {
    {"attn_v", "self_attn.v_proj"}, {"attn_output", "self_attn.o_proj"}, {"attn_rot_embd", "", dropped}};
constexpr GgufName kPreNorms[] = {{"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"}};
constexpr GgufName kQueryAndKeyNorms[] = {{"attn_q_norm", "self_attn.q_norm"},
                                          {"attn_k_norm", "self_attn.k_norm"}};
constexpr GgufName kGatedMlp[] = {
    {"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}};

using Parts = std::span<const GgufName>;

constexpr Parts kLlamaBlocks[] = {kTurnedQueriesAndKeys, kValuesAndOutput, kPreNorms, kGatedMlp};

constexpr GgufName kMixtralExperts[] = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                                        {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1", experts},
                                        {"ffn_up_exps", "block_sparse_moe.experts.{}.w3", experts},
                                        {"ffn_down_exps", "block_sparse_moe.experts.{}.w2", experts}};
constexpr Parts kMixtralBlocks[] = {kTurnedQueriesAndKeys, kValuesAndOutput, kPreNorms, kMixtralExperts};

constexpr GgufName kQwenExperts[] = {{"ffn_gate_inp", "mlp.gate"},
                                     {"ffn_gate_exps", "mlp.experts.{}.gate_proj", experts},
                                     {"ffn_up_exps", "mlp.experts.{}.up_proj", experts},
                                     {"ffn_down_exps", "mlp.experts.{}.down_proj", experts},
                                     {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", column},
                                     {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                     {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                     {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
constexpr Parts kQwenBlocks[] = {kQueriesAndKeys,   kValuesAndOutput, kPreNorms,
                                 kQueryAndKeyNorms, kGatedMlp,        kQwenExperts};

constexpr GgufName kGemmaEnds[] = {
    {"token_embd", "embed_tokens"}, {"output_norm", "norm", offset}, {"output", "lm_head"}};

constexpr GgufName kGemmaNorms[] = {{"attn_norm", "input_layernorm", offset},
                                    {"ffn_norm", "post_attention_layernorm", offset}};
constexpr Parts kGemmaBlocks[] = {kQueriesAndKeys, kValuesAndOutput, kGemmaNorms, kGatedMlp};

// Gemma 2 and 3: the norm before the MLP has a different name.
constexpr GgufName kGemmaTwoNorms[] = {{"attn_norm", "input_layernorm", offset},
                                       {"attn_q_norm", "self_attn.q_norm", offset},
                                       {"attn_k_norm", "self_attn.k_norm", offset},
                                       {"post_attention_norm", "post_attention_layernorm", offset},
                                       {"ffn_norm", "pre_feedforward_layernorm", offset},
                                       {"post_ffw_norm", "post_feedforward_layernorm", offset}};
constexpr Parts kGemmaTwoNormBlocks[] = {kQueriesAndKeys, kValuesAndOutput, kGemmaTwoNorms, kGatedMlp};

constexpr GgufName kOlmo2Norms[] = {{"post_attention_norm", "post_attention_layernorm"},
                                    {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Parts kOlmo2Blocks[] = {kQueriesAndKeys, kValuesAndOutput, kQueryAndKeyNorms, kOlmo2Norms,
                                  kGatedMlp};

constexpr GgufName kPhi2Ends[] = {
    {"token_embd", "embed_tokens"}, {"output_norm", "final_layernorm"}, {"output", "lm_head"}};

constexpr GgufName kPhi2Parts[] = {{"attn_norm", "input_layernorm"},
                                   {"attn_qkv", "self_attn.{}_proj", split},
                                   {"attn_v", "self_attn.v_proj"},
                                   {"attn_output", "self_attn.dense"},
                                   {"ffn_up", "mlp.fc1"},
                                   {"ffn_down", "mlp.fc2"}};
constexpr Parts kPhi2Blocks[] = {kQueriesAndKeys, kPhi2Parts};

constexpr GgufName kPhi3Parts[] = {{"attn_qkv", "self_attn.qkv_proj"},
                                   {"attn_output", "self_attn.o_proj"},
                                   {"ffn_up", "mlp.gate_up_proj"},  // gate and up, as in the checkpoint
                                   {"ffn_down", "mlp.down_proj"}};
constexpr Parts kPhi3Blocks[] = {kPreNorms, kPhi3Parts};

constexpr GgufName kStarcoder2Mlp[] = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
constexpr Parts kStarcoder2Blocks[] = {kQueriesAndKeys, kValuesAndOutput, kPreNorms, kStarcoder2Mlp};

constexpr GgufName kGpt2Ends[] = {
    {"token_embd", "wte"}, {"position_embd", "wpe"}, {"output_norm", "ln_f"}, {"output", "lm_head"}};

constexpr GgufName kGpt2Parts[] = {
    {"attn_norm", "ln_1"}, {"attn_qkv", "attn.c_attn", turned}, {"attn_output", "attn.c_proj", turned},
    {"ffn_norm", "ln_2"},  {"ffn_up", "mlp.c_fc", turned},      {"ffn_down", "mlp.c_proj", turned}};
constexpr Parts kGpt2Blocks[] = {kGpt2Parts};

constexpr GgufName kGptNeoxEnds[] = {
    {"token_embd", "embed_in"}, {"output_norm", "final_layer_norm"}, {"output", "embed_out"}};

constexpr GgufName kGptNeoxParts[] = {
    {"attn_norm", "input_layernorm"},   {"attn_qkv", "attention.query_key_value", side_by_side},
    {"attn_output", "attention.dense"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.dense_h_to_4h"},    {"ffn_down", "mlp.dense_4h_to_h"}};
constexpr Parts kGptNeoxBlocks[] = {kGptNeoxParts};

constexpr GgufName kFalconEnds[] = {
    {"token_embd", "word_embeddings"}, {"output_norm", "ln_f"}, {"output", "lm_head"}};

constexpr GgufName kFalconParts[] = {{"attn_qkv", "self_attention.query_key_value", side_by_side},
                                     {"attn_output", "self_attention.dense"},
                                     {"ffn_up", "mlp.dense_h_to_4h"},
                                     {"ffn_down", "mlp.dense_4h_to_h"}};
constexpr GgufName kFalconNorm[] = {{"attn_norm", "input_layernorm"}};
// If each sublayer has a norm, `attn_norm` is the MLP's.
constexpr GgufName kFalconTwoNorms[] = {{"attn_norm", "ln_mlp"}, {"attn_norm_2", "ln_attn"}};
constexpr Parts kFalconBlocks[] = {kFalconNorm, kFalconParts};
constexpr Parts kFalconTwoNormBlocks[] = {kFalconTwoNorms, kFalconParts};

// Keys of a family's config that only the tensors tell.
void read_llama(GgufModelReader& r) {
  const bool attention = r.has_tensor("blk.0.attn_q.bias"), mlp = r.has_tensor("blk.0.ffn_up.bias");
  if (const auto window = r.window()) {  // Mistral, which has no biases
    r.set("model_type", "mistral");
    r.set("sliding_window", *window);
    return;
  }
  r.set("attention_bias", attention);
  r.set("mlp_bias", mlp);
}

void read_mixtral(GgufModelReader& r) {
  r.read_experts("num_local_experts");
  r.require("expert_weights_norm", true);
  if (const auto window = r.window()) r.set("sliding_window", *window);
}

void read_qwen3(GgufModelReader& r) { r.set("attention_bias", r.has_tensor("blk.0.attn_q.bias")); }

void read_qwen_mixture(GgufModelReader& r, bool renormalised) {
  r.read_experts("num_experts");
  r.set("norm_topk_prob", r.boolean("expert_weights_norm").value_or(renormalised));
  r.set("moe_intermediate_size", r.required("expert_feed_forward_length"));
  r.set("mlp_only_layers", r.layers_without("ffn_gate_inp.weight"));
}

void read_qwen2_moe(GgufModelReader& r) {
  read_qwen_mixture(r, false);
  r.set("shared_expert_intermediate_size", r.required("expert_shared_feed_forward_length"));
  r.zero_or_one("expert_shared_count");
}

void read_qwen3_moe(GgufModelReader& r) {
  read_qwen_mixture(r, true);
  r.set("attention_bias", r.has_tensor("blk.0.attn_q.bias"));
}

// The score scale is not in the file: the two largest models have another one than the others, and llama.cpp
// recognises them by their number of layers.
void read_gemma_scale(GgufModelReader& r, std::int64_t layers_of_27b) {
  const bool by_width = r.n_layers() == layers_of_27b;
  r.set("query_pre_attn_scalar", by_width ? r.d_model() / r.n_heads() : r.d_head());
}

void read_gemma_caps(GgufModelReader& r) {
  for (const auto& [key, config_key] : {std::pair{"attn_logit_softcapping", "attn_logit_softcapping"},
                                        std::pair{"final_logit_softcapping", "final_logit_softcapping"}}) {
    const auto cap = r.real(key);
    if (!cap) continue;
    if (*cap == 0.0) {
      r.set(config_key, nullptr);
    } else {
      r.set(config_key, *cap);
    }
  }
}

void read_gemma2(GgufModelReader& r) {
  read_gemma_scale(r, 46);
  read_gemma_caps(r);
  if (const auto window = r.window()) r.set("sliding_window", *window);
}

void read_gemma3(GgufModelReader& r) {
  read_gemma_scale(r, 62);
  read_gemma_caps(r);
  const auto pattern = r.integer("attention.sliding_window_pattern");
  if (const auto window = r.window()) {
    r.set("sliding_window", *window);
    r.set("sliding_window_pattern", pattern.value_or(6));
  } else {  // files of the first ones, of 1B, lack it: their windows are the family's default
    r.refuse("attention.sliding_window", "is missing; expected how many keys the windowed layers see");
  }
  Json full = r.rope();
  const Json windowed = {{"rope_type", "default"},
                         {"rope_theta", r.real("rope.freq_base_swa").value_or(10000.0)}};
  r.set("rope_parameters", {{"full_attention", std::move(full)}, {"sliding_attention", windowed}});
}

void read_phi3(GgufModelReader& r) {
  if (const auto window = r.window()) {
    r.set("sliding_window", *window);
  } else {
    r.set("sliding_window", nullptr);
  }
  const auto original = r.integer("rope.scaling.original_context_length");
  r.set("original_max_position_embeddings", original.value_or(r.n_ctx()));
}

void read_starcoder2(GgufModelReader& r) {
  r.set("use_bias", r.has_tensor("blk.0.attn_q.bias"));
  if (const auto window = r.window()) r.set("sliding_window", *window);
}

void read_gptneox(GgufModelReader& r) {
  r.set("use_parallel_residual", r.boolean("use_parallel_residual").value_or(true));
  r.set("attention_bias", r.has_tensor("blk.0.attn_qkv.bias"));
}

// In models of the older kind, all heads are one group, which means the same.
void read_falcon(GgufModelReader& r, std::int64_t norms) {
  r.set("new_decoder_architecture", true);
  r.set("num_ln_in_parallel_attn", norms);
  r.set("bias", r.has_tensor("blk.0.attn_qkv.bias"));
  if (const auto layout = r.text("tensor_data_layout"); layout && *layout != "jploski")
    r.refuse("tensor_data_layout", fmt::format("is '{}', which is not known; expected 'jploski'", *layout));
}

void read_falcon_one_norm(GgufModelReader& r) { read_falcon(r, 1); }
void read_falcon_two_norms(GgufModelReader& r) { read_falcon(r, 2); }

void read_olmo2(GgufModelReader& r) { r.set("attention_bias", r.has_tensor("blk.0.attn_q.bias")); }

constexpr GgufConfigKeys kFalconKeys = {
    .d_mlp = "ffn_hidden_size", .kv_heads = "num_kv_heads", .d_head = "", .eps = "layer_norm_epsilon"};

constexpr GgufArchitecture kGgufArchitectures[] = {
    {.name = "falcon",
     .when = "attn_norm_2.weight",
     .model_type = "falcon",
     .block = "h.{}.",
     .ends = kFalconEnds,
     .blocks = kFalconTwoNormBlocks,
     .keys = kFalconKeys,
     .layer_norm = true,
     .read = read_falcon_two_norms},
    {.name = "falcon",
     .model_type = "falcon",
     .block = "h.{}.",
     .ends = kFalconEnds,
     .blocks = kFalconBlocks,
     .keys = kFalconKeys,
     .layer_norm = true,
     .read = read_falcon_one_norm},
    {.name = "gemma", .model_type = "gemma", .ends = kGemmaEnds, .blocks = kGemmaBlocks},
    {.name = "gemma2",
     .model_type = "gemma2",
     .ends = kGemmaEnds,
     .blocks = kGemmaTwoNormBlocks,
     .read = read_gemma2},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .ends = kGemmaEnds,
     .blocks = kGemmaTwoNormBlocks,
     .read = read_gemma3},
    {.name = "gpt2",
     .model_type = "gpt2",
     .block = "h.{}.",
     .ends = kGpt2Ends,
     .blocks = kGpt2Blocks,
     .keys = {.d_mlp = "n_inner", .kv_heads = "", .d_head = "", .eps = "layer_norm_epsilon"},
     .layer_norm = true,
     .rotary = false},
    {.name = "gptneox",
     .model_type = "gpt_neox",
     .ends = kGptNeoxEnds,
     .blocks = kGptNeoxBlocks,
     .keys = {.kv_heads = "", .d_head = "", .eps = "layer_norm_eps"},
     .layer_norm = true,
     .partial = true,
     .read = read_gptneox},
    {.name = "llama",
     .when = "ffn_gate_inp.weight",
     .model_type = "mixtral",
     .blocks = kMixtralBlocks,
     .read = read_mixtral},
    {.name = "llama", .model_type = "llama", .blocks = kLlamaBlocks, .read = read_llama},
    {.name = "olmo2", .model_type = "olmo2", .blocks = kOlmo2Blocks, .read = read_olmo2},
    {.name = "phi2",
     .model_type = "phi",
     .ends = kPhi2Ends,
     .blocks = kPhi2Blocks,
     .keys = {.eps = "layer_norm_eps"},
     .layer_norm = true,
     .partial = true},
    {.name = "phi3", .model_type = "phi3", .blocks = kPhi3Blocks, .partial = true, .read = read_phi3},
    {.name = "qwen2", .model_type = "qwen2", .blocks = kQwenBlocks},
    {.name = "qwen2moe", .model_type = "qwen2_moe", .blocks = kQwenBlocks, .read = read_qwen2_moe},
    {.name = "qwen3", .model_type = "qwen3", .blocks = kQwenBlocks, .read = read_qwen3},
    {.name = "qwen3moe", .model_type = "qwen3_moe", .blocks = kQwenBlocks, .read = read_qwen3_moe},
    {.name = "starcoder2",
     .model_type = "starcoder2",
     .blocks = kStarcoder2Blocks,
     .keys = {.eps = "norm_epsilon"},
     .layer_norm = true,
     .read = read_starcoder2},
};

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() { return kGgufArchitectures; }

std::optional<std::string_view> gguf_architecture_name(const CheckpointReader& reader) {
  const GgufValue* value = find_value(*reader.gguf(), kArchitectureKey);
  return value == nullptr || value->is_array() ? std::nullopt : value->text();
}

const GgufArchitecture& gguf_architecture(const CheckpointReader& reader) {
  const std::string where = path_text(reader.gguf_file());
  const auto name = gguf_architecture_name(reader);
  std::vector<std::string_view> known;
  for (const GgufArchitecture& row : kGgufArchitectures) {
    const bool here = row.when.empty() || reader.contains(fmt::format("blk.0.{}", row.when));
    if (name && row.name == *name && here) return row;
    if (known.empty() || known.back() != row.name) known.push_back(row.name);
  }
  throw CheckpointError(where,
                        fmt::format("metadata '{}' {}; expected one of [{}]", kArchitectureKey,
                                    name ? fmt::format("is '{}', which is not supported", printable(*name))
                                         : "is missing or no text",
                                    fmt::join(known, ", ")));
}

}  // namespace hooked
