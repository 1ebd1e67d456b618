#include "core/weight_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace hooked {
namespace {

constexpr std::string_view kBlock = "{stack}.{layer}.";
constexpr std::string_view kExpert = "{expert}";

// Which models have a weight; the words complete "there when".
namespace weight_conditions {

using Config = const ModelConfig&;
using Place = const BlockPlace&;

bool is_biased(NormKind kind, Config c) { return kind == NormKind::layer_norm && c.norm_bias; }

// Norms in front of sublayers, on the stream or after additions. They carry weights until these are folded.
bool block_norm(Config c, Place p) { return (c.norms_inputs(p.layer) || c.norms_stream()) && !c.norm_folded; }
bool first_norm(Config c, Place p) { return block_norm(c, p) && (p.layer > 0 || c.first_attention_norm); }
bool second_norm(Config c, Place p) {
  return block_norm(c, p) && c.has_mlp() && c.layout != BlockLayout::parallel_one_norm;
}
bool output_norm(Config c, Place p) { return c.norms_outputs(p.layer); }
bool last_norm(Config c) { return c.final_norm != NormKind::none && !c.norm_folded; }
bool embedding_is_normed(Config c) { return c.post_embedding_norm || c.embedding_sum_norm; }
bool reads_source(Config c, Place p) { return c.has_encoder() && p.stack == Stack::decoder; }
bool attends(Config c, Place p) { return c.attends(p.layer); }
bool has_shared_key(Config c) { return c.latent && c.latent->d_shared_key > 0; }
bool has_shared_expert(Config c, Place p) { return c.mixture(p.layer) && c.experts->d_shared > 0; }
bool has_neuron_norm(Config c, Place p) { return c.dense_mlp(p.layer) && c.mlp_norm && !c.norm_folded; }

constexpr WeightCondition always{[](Config, Place) { return true; }, "always"};
constexpr WeightCondition token_types{[](Config c, Place) { return c.token_types > 0; }, "tokens have types"};
constexpr WeightCondition embedding_norm{[](Config c, Place) { return embedding_is_normed(c); },
                                         "the embedding, or the sum of embeddings, is normed"};
constexpr WeightCondition embedding_norm_bias{
    [](Config c, Place) { return embedding_is_normed(c) && is_biased(c.embedding_norm, c); },
    "the embedding, or the sum of embeddings, has a LayerNorm with `norm_bias`"};
constexpr WeightCondition position_embedding{[](Config c, Place) { return c.has_pos_embed(); },
                                             "positions are learned or shortformer"};
constexpr WeightCondition decoder_positions{
    [](Config c, Place) { return c.has_encoder() && c.learned_positions(); },
    "there is an encoder and positions are learned: those of the decoder"};
constexpr WeightCondition decoder_embedding_norm{
    [](Config c, Place) { return c.has_encoder() && c.embedding_sum_norm; },
    "there is an encoder and the sum of embeddings is normed: the decoder's"};
constexpr WeightCondition decoder_embedding_norm_bias{
    [](Config c, Place) { return c.has_encoder() && c.embedding_sum_norm && c.norm_bias; },
    "there is an encoder and the sum of embeddings is normed with `norm_bias`: the decoder's"};
constexpr WeightCondition encoder_final_norm{
    [](Config c, Place) { return c.has_encoder() && !c.norms_stream() && !c.norm_folded; },
    "there is an encoder, and norms are not behind the additions; not folded"};
constexpr WeightCondition encoder_final_norm_bias{[](Config c, Place) {
                                                    return c.has_encoder() && !c.norms_stream() &&
                                                           !c.norm_folded && is_biased(c.norm, c);
                                                  },
                                                  "there is an encoder, and norms are LayerNorms with "
                                                  "`norm_bias` and not behind the additions; not folded"};
constexpr WeightCondition decoder_final_norm{[](Config c, Place) { return c.has_encoder() && last_norm(c); },
                                             "there is an encoder and a final norm; not folded"};
constexpr WeightCondition decoder_final_norm_bias{
    [](Config c, Place) { return c.has_encoder() && last_norm(c) && is_biased(c.final_norm, c); },
    "there is an encoder and the final norm is a LayerNorm with `norm_bias`; not folded"};
constexpr WeightCondition final_norm{[](Config c, Place) { return !c.has_encoder() && last_norm(c); },
                                     "there is one stack with a final norm; not folded"};
constexpr WeightCondition final_norm_bias{
    [](Config c, Place) { return !c.has_encoder() && last_norm(c) && is_biased(c.final_norm, c); },
    "there is one stack whose final norm is a LayerNorm with `norm_bias`; not folded"};
constexpr WeightCondition mlm_head{[](Config c, Place) { return c.has_mlm_head(); },
                                   "there is a masked-LM head"};
constexpr WeightCondition mlm_head_norm_bias{[](Config c, Place) { return c.has_mlm_head() && c.norm_bias; },
                                             "there is a masked-LM head with `norm_bias`"};
constexpr WeightCondition own_unembedding{
    [](Config c, Place) { return c.has_unembedding() && !c.tied_unembedding(); },
    "there is an unembedding that is not tied"};
constexpr WeightCondition unembedding_bias{
    [](Config c, Place) { return c.has_unembedding() && c.unembedding->bias; }, "`unembedding.bias`"};
constexpr WeightCondition unembedding_mean{
    [](Config c, Place) { return c.has_unembedding() && c.unembedding->keeps_mean; },
    "`unembedding.keeps_mean`: the unembedding was centred"};
constexpr WeightCondition unembedding_bias_mean{
    [](Config c, Place) { return c.has_unembedding() && c.unembedding->keeps_mean && c.unembedding->bias; },
    "`unembedding.keeps_mean` and `unembedding.bias`"};

constexpr WeightCondition ln1{
    [](Config c, Place p) { return first_norm(c, p); },
    "norms stand before sublayers, on the stream or after additions; not in layer 0 without "
    "`first_attention_norm`; not folded"};
constexpr WeightCondition ln1_bias{
    [](Config c, Place p) { return first_norm(c, p) && is_biased(c.norm, c); },
    "norms stand before sublayers, on the stream or after additions, and are LayerNorms with `norm_bias`; "
    "not in layer 0 without `first_attention_norm`; not folded"};
constexpr WeightCondition ln2{[](Config c, Place p) { return second_norm(c, p); },
                              "norms stand before sublayers, on the stream or after additions, and the MLP "
                              "does not share the first; not folded"};
constexpr WeightCondition ln2_bias{
    [](Config c, Place p) { return second_norm(c, p) && is_biased(c.norm, c); },
    "norms stand before sublayers, on the stream or after additions, the MLP does not share the first, and "
    "they are LayerNorms with `norm_bias`; not folded"};
constexpr WeightCondition ln3{
    [](Config c, Place p) { return reads_source(c, p) && block_norm(c, p); },
    "in a decoder that reads an encoder, before its MLP (`ln2` is before its cross-attention); not folded"};
constexpr WeightCondition ln3_bias{
    [](Config c, Place p) { return reads_source(c, p) && block_norm(c, p) && is_biased(c.norm, c); },
    "in a decoder that reads an encoder, where norms are LayerNorms with `norm_bias`; not folded"};
constexpr WeightCondition ln1_post{[](Config c, Place p) { return output_norm(c, p); },
                                   "norms stand on the sublayers' outputs"};
constexpr WeightCondition ln1_post_bias{
    [](Config c, Place p) { return output_norm(c, p) && is_biased(c.norm, c); },
    "norms stand on the sublayers' outputs and are LayerNorms with `norm_bias`"};
constexpr WeightCondition ln2_post{[](Config c, Place p) { return output_norm(c, p) && c.has_mlp(); },
                                   "norms stand on the sublayers' outputs, and there is an MLP"};
constexpr WeightCondition ln2_post_bias{
    [](Config c, Place p) { return output_norm(c, p) && c.has_mlp() && is_biased(c.norm, c); },
    "norms stand on the sublayers' outputs, there is an MLP, and they are LayerNorms with `norm_bias`"};

constexpr WeightCondition layer_input{[](Config c, Place) { return c.layer_input.has_value(); },
                                      "`layer_input`"};
constexpr WeightCondition layer_scale{[](Config c, Place) { return c.layer_scale; }, "`layer_scale`"};

constexpr WeightCondition attention{attends, "the layer has attention"};
constexpr WeightCondition queries{[](Config c, Place p) { return attends(c, p) && !c.query_latent(); },
                                  "the layer has attention, and queries are not made from a latent"};
constexpr WeightCondition query_bias{
    [](Config c, Place p) { return attends(c, p) && !c.query_latent() && c.qkv_bias; },
    "the layer has attention, and queries are not made from a latent, with `qkv_bias`"};
constexpr WeightCondition keys_and_values{
    [](Config c, Place p) { return c.makes_keys(p.layer) && !c.latent_attention(); },
    "the layer has attention with keys and values of its own, without latents"};
constexpr WeightCondition key_and_value_bias{
    [](Config c, Place p) { return c.makes_keys(p.layer) && !c.latent_attention() && c.qkv_bias; },
    "the layer has attention with keys and values of its own, without latents, with `qkv_bias`"};
constexpr WeightCondition query_latent{[](Config c, Place p) { return attends(c, p) && c.query_latent(); },
                                       "`latent.d_query`"};
constexpr WeightCondition query_latent_bias{
    [](Config c, Place p) { return attends(c, p) && c.query_latent() && c.qkv_bias; },
    "`latent.d_query` and `qkv_bias`"};
constexpr WeightCondition latent{[](Config c, Place p) { return attends(c, p) && c.latent_attention(); },
                                 "`latent`"};
constexpr WeightCondition latent_bias{
    [](Config c, Place p) { return attends(c, p) && c.latent_attention() && c.qkv_bias; },
    "`latent` and `qkv_bias`"};
constexpr WeightCondition shared_key{[](Config c, Place p) { return attends(c, p) && has_shared_key(c); },
                                     "`latent.d_shared_key`"};
constexpr WeightCondition shared_key_bias{
    [](Config c, Place p) { return attends(c, p) && has_shared_key(c) && c.qkv_bias; },
    "`latent.d_shared_key` and `qkv_bias`"};
constexpr WeightCondition qk_norm{[](Config c, Place p) { return c.norms_heads(p.layer); },
                                  "the layer has attention whose queries and keys are normed"};
constexpr WeightCondition qk_norm_bias{
    [](Config c, Place p) { return c.norms_heads(p.layer) && c.qk_norm->bias; }, "`qk_norm.bias`"};
constexpr WeightCondition key_norm{
    [](Config c, Place p) { return c.norms_heads(p.layer) && c.makes_keys(p.layer); },
    "the layer has attention whose keys are its own and normed"};
constexpr WeightCondition key_norm_bias{
    [](Config c, Place p) { return c.norms_heads(p.layer) && c.makes_keys(p.layer) && c.qk_norm->bias; },
    "the layer has attention whose keys are its own and normed, with `qk_norm.bias`"};
constexpr WeightCondition sinks{[](Config c, Place p) { return attends(c, p) && c.attention_sinks; },
                                "`attention_sinks`"};
constexpr WeightCondition relative_bias{
    [](Config c, Place p) { return c.holds_relative(p.layer); },
    "positions are relative; in layer 0 of each stack, or in each with `relative.in_every_block`"};
constexpr WeightCondition attention_out_bias{
    [](Config c, Place p) { return attends(c, p) && c.attn_out_bias; },
    "the layer has attention, with `attn_out_bias`"};
constexpr WeightCondition short_conv{[](Config c, Place p) { return c.convolves(p.layer); },
                                     "the layer has a short convolution"};
constexpr WeightCondition short_conv_bias{
    [](Config c, Place p) { return c.convolves(p.layer) && c.short_conv->bias; },
    "the layer has a short convolution, with `short_conv.bias`"};
constexpr WeightCondition delta_net{[](Config c, Place p) { return c.recurs(p.layer); },
                                    "the layer has a gated delta net"};
constexpr WeightCondition gated_heads{[](Config c, Place p) { return attends(c, p) && c.gated_heads; },
                                      "the layer has attention, with `gated_heads`"};
constexpr WeightCondition gated_heads_bias{
    [](Config c, Place p) { return attends(c, p) && c.gated_heads && c.qkv_bias; },
    "the layer has attention, with `gated_heads` and `qkv_bias`"};
constexpr WeightCondition cross_attention{[](Config c, Place p) { return reads_source(c, p); },
                                          "in a decoder that reads an encoder"};
constexpr WeightCondition cross_attention_bias{
    [](Config c, Place p) { return reads_source(c, p) && c.qkv_bias; },
    "in a decoder that reads an encoder, with `qkv_bias`"};
constexpr WeightCondition cross_attention_out_bias{
    [](Config c, Place p) { return reads_source(c, p) && c.attn_out_bias; },
    "in a decoder that reads an encoder, with `attn_out_bias`"};

constexpr WeightCondition dense_mlp{[](Config c, Place p) { return c.dense_mlp(p.layer); },
                                    "the layer has an ordinary MLP"};
constexpr WeightCondition mlp_bias{[](Config c, Place p) { return c.dense_mlp(p.layer) && c.mlp_bias; },
                                   "the layer has an ordinary MLP, with `mlp_bias`"};
constexpr WeightCondition gated_mlp{
    [](Config c, Place p) { return c.dense_mlp(p.layer) && c.mlp == MlpKind::gated; },
    "the layer has an ordinary MLP, which is gated"};
constexpr WeightCondition gate_bias{
    [](Config c, Place p) {
      return c.dense_mlp(p.layer) && c.mlp == MlpKind::gated && c.mlp_bias && !c.gated_bias_after_product;
    },
    "the layer has an ordinary MLP, which is gated, with `mlp_bias` that is not added after the product"};
constexpr WeightCondition neuron_norm{[](Config c, Place p) { return has_neuron_norm(c, p); },
                                      "`mlp_norm` (SoLU+LN); not folded"};
constexpr WeightCondition neuron_norm_bias{
    [](Config c, Place p) { return has_neuron_norm(c, p) && c.norm_bias; },
    "`mlp_norm` (SoLU+LN) with `norm_bias`; not folded"};
constexpr WeightCondition xielu{
    [](Config c, Place p) { return c.dense_mlp(p.layer) && c.activation.kind() == Activation::xielu; },
    "the activation is xIELU"};
constexpr WeightCondition mixture{[](Config c, Place p) { return c.mixture(p.layer); },
                                  "the layer is a mixture of experts"};
constexpr WeightCondition router_bias{
    [](Config c, Place p) { return c.mixture(p.layer) && c.experts->router_bias; }, "`experts.router_bias`"};
constexpr WeightCondition choice_bias{
    [](Config c, Place p) { return c.mixture(p.layer) && c.experts->choice_bias; }, "`experts.choice_bias`"};
constexpr WeightCondition expert_scale{
    [](Config c, Place p) { return c.mixture(p.layer) && c.experts->expert_scale; },
    "`experts.expert_scale`"};
constexpr WeightCondition norms_before_experts{
    [](Config c, Place p) { return c.mixture(p.layer) && c.experts->own_norms && !c.norm_folded; },
    "`experts.own_norms`; not folded"};
constexpr WeightCondition norms_behind_experts{
    [](Config c, Place p) { return c.mixture(p.layer) && c.experts->own_norms; }, "`experts.own_norms`"};
constexpr WeightCondition expert_bias{[](Config c, Place p) { return c.mixture(p.layer) && c.experts->bias; },
                                      "`experts.bias`"};
constexpr WeightCondition shared_expert{[](Config c, Place p) { return has_shared_expert(c, p); },
                                        "`experts.d_shared`"};
constexpr WeightCondition shared_expert_bias{
    [](Config c, Place p) { return has_shared_expert(c, p) && c.mlp_bias; },
    "`experts.d_shared` and `mlp_bias`"};
constexpr WeightCondition shared_gate{
    [](Config c, Place p) { return c.mixture(p.layer) && c.experts->shared_gate; }, "`experts.shared_gate`"};
constexpr WeightCondition shared_gate_bias{
    [](Config c, Place p) { return c.mixture(p.layer) && c.experts->shared_gate_bias; },
    "`experts.shared_gate_bias`"};

}  // namespace weight_conditions

constexpr double start_of(WeightKind kind) {
  return kind == WeightKind::gain || kind == WeightKind::plain_gain ? 1.0 : 0.0;
}

std::span<const WeightRow> table() {
  using enum Axis;
  using enum WeightInput;
  constexpr bool stream = true, no = false;
  static constexpr WeightRow kRows[] = {
#define AXES(...) \
  AxisList { __VA_ARGS__ }
#define WEIGHT(path, axes, kind, reads, writes, there) \
  {path, AXES axes, WeightKind::kind, reads, writes, weight_conditions::there, start_of(WeightKind::kind)},
#define NUMBERS(path, axes, start, there) \
  {path, AXES axes, WeightKind::number, nothing, no, weight_conditions::there, start},
#define NUMBER(path, start, there) NUMBERS(path, (one), start, there)
#include "core/weights.inc"
#undef AXES
  };
  return kRows;
}

// `blocks.3.mlp.experts.12.W_in.weight` inside its block and for any expert:
// `mlp.experts.{expert}.W_in.weight`.
std::string pattern_of(std::string_view name) {
  for (const Stack stack : {Stack::blocks, Stack::encoder, Stack::decoder}) {
    const std::string_view folder = stack_name(stack);
    if (!name.starts_with(folder) || name.substr(folder.size(), 1) != ".") continue;
    const auto layer_end = name.find('.', folder.size() + 1);
    if (layer_end != name.npos) name.remove_prefix(layer_end + 1);
  }
  constexpr std::string_view kExperts = "mlp.experts.";
  if (name.starts_with(kExperts)) {
    const auto end = name.find('.', kExperts.size());
    return fmt::format("{}{}{}", kExperts, kExpert, end == name.npos ? "" : name.substr(end));
  }
  const auto leaf = name.rfind('.') + 1;  // npos + 1 is 0
  std::string pattern(name);
  if (name.substr(leaf, 1) == "_") pattern.erase(leaf, 1);
  return pattern;
}

void for_each_expert(const WeightRow& row, const ModelConfig& config,
                     const std::function<void(const std::string& local_name)>& use) {
  const std::string_view local = row.local_path();
  if (!row.per_expert()) return use(std::string(local));
  const auto at = local.find(kExpert);
  for (std::int64_t expert = 0; expert < config.n_experts(); ++expert) {
    use(fmt::format("{}{}{}", local.substr(0, at), expert, local.substr(at + kExpert.size())));
  }
}

// Weights with a least dtype of their own, besides those of norms.
constexpr std::pair<std::string_view, KeptInFloat32 LeastDtypes::*> kKeptInFloat32[] = {
    {"mlp.choice_bias", &LeastDtypes::choice_bias},
    {"mlp.W_gate.weight", &LeastDtypes::router},
    {"mlp.W_gate.bias", &LeastDtypes::router},
    {"mlp.W_out", &LeastDtypes::mlp_out},
    {"mlp.b_out", &LeastDtypes::mlp_out}};

bool is_there(const WeightRow& row, const ModelConfig& config, const WeightPart& part) {
  return row.in_block() == part.has_value() &&
         row.there.holds(config, part.value_or(BlockPlace{Stack::none, -1}));
}

}  // namespace

std::string_view WeightRow::local_path() const { return in_block() ? path.substr(kBlock.size()) : path; }

std::span<const WeightRow> weight_table() noexcept { return table(); }

const WeightRow* find_weight_row(std::string_view name) {
  static const auto by_local_path = [] {
    std::unordered_map<std::string_view, const WeightRow*> rows;
    for (const WeightRow& row : table()) rows.emplace(row.local_path(), &row);
    return rows;
  }();
  const auto found = by_local_path.find(pattern_of(name));
  return found == by_local_path.end() ? nullptr : found->second;
}

std::vector<std::int64_t> weight_shape(const WeightRow& row, const ModelConfig& config,
                                       const WeightPart& part) {
  std::vector<std::int64_t> shape;
  for (const Axis axis : row.axes) shape.push_back(size_of(axis, config, part ? part->layer : 0));
  return shape;
}

at::ScalarType weight_dtype(const WeightRow& row, const ModelConfig& config) {
  if (row.is_gain() || row.kind == WeightKind::shift) return config.dtype_of(config.least_dtypes.norms);
  for (const auto& [path, group] : kKeptInFloat32) {
    if (row.local_path() == path) return config.dtype_of(config.least_dtypes.*group);
  }
  return config.dtype;
}

void for_each_weight(const ModelConfig& config, const WeightPart& part,
                     const std::function<void(const WeightRow& row, const std::string& local_name)>& use) {
  for (const WeightRow& row : table()) {
    if (!is_there(row, config, part)) continue;
    for_each_expert(row, config, [&](const std::string& local_name) { use(row, local_name); });
  }
}

std::string weight_name(const WeightPart& part, std::string_view local_name, const ModelConfig& config) {
  const std::string stored = config.grouped_query() ? grouped_spelling(local_name) : std::string(local_name);
  return part ? fmt::format("{}.{}", part->path(), stored) : stored;
}

std::string grouped_spelling(std::string_view name) {
  const auto leaf = name.rfind('.') + 1;
  const auto* row = find_weight_row(name);
  if (row == nullptr || !row->axes.find(Axis::kv_head) || name.substr(leaf, 1) == "_") {
    return std::string(name);
  }
  return fmt::format("{}_{}", name.substr(0, leaf), name.substr(leaf));
}

std::string_view final_norm_path(Stack stack) {
  if (stack == Stack::encoder) return "encoder_final_ln";
  return stack == Stack::decoder ? "decoder_final_ln" : "ln_final";
}

std::vector<WeightPart> weight_parts(const ModelConfig& config) {
  std::vector<WeightPart> parts;
  for (const BlockPlace& block : config.blocks()) parts.emplace_back(block);
  parts.emplace_back(std::nullopt);
  return parts;
}

std::int64_t ModelConfig::parameter_count() const {
  std::int64_t count = 0;
  for (const WeightPart& part : weight_parts(*this)) {
    for (const WeightRow& row : table()) {
      if (!is_there(row, *this, part)) continue;
      std::int64_t size = row.per_expert() ? n_experts() : 1;
      for (const std::int64_t length : weight_shape(row, *this, part)) size *= length;
      count += size;
    }
  }
  return count;
}

}  // namespace hooked
