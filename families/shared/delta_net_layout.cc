#include "families/shared/delta_net_layout.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

namespace hooked {
namespace {

using Tensors = std::vector<at::Tensor>;

std::int64_t count_or(const HfConfig& hf, std::string_view key, std::int64_t fallback) {
  return hf.json().has(key) ? hf.count(key) : fallback;
}

LayerFlags recurrent_layers(HfConfig& hf, const ModelConfig& c) {
  const ConfigReader& json = hf.json();
  if (!json.has("layer_types")) {
    const std::int64_t interval = count_or(hf, "full_attention_interval", 4);
    const bool said = json.has("full_attention_interval");
    hf.comes_from("delta_net.layers", json.where(said ? "full_attention_interval" : "num_hidden_layers"));
    return flag_layers(c, [&](std::int64_t l) { return (l + 1) % interval != 0; });
  }
  json.ignore({"full_attention_interval"});
  hf.comes_from("delta_net.layers", json.where("layer_types"));
  LayerFlags recurs;
  for (const std::string& type : json.texts("layer_types")) {
    if (type != "linear_attention" && type != "full_attention") {
      json.refuse("layer_types",
                  "has a kind of layer that is not supported; expected linear_attention and full_attention");
    }
    recurs.push_back(type == "linear_attention");
  }
  if (static_cast<std::int64_t>(recurs.size()) != c.n_layers) {
    json.refuse("layer_types", fmt::format("has {} entries; expected one for each of the {} layers",
                                           recurs.size(), c.n_layers));
  }
  return recurs;
}

// `count` blocks of `width` rows each from row `first` of each of the key heads' `rows` rows, as heads
// [head, width, d_model].
at::Tensor rows_of(const at::Tensor& stored, std::int64_t key_heads, std::int64_t first, std::int64_t count,
                   std::int64_t width) {
  return stored.unflatten(0, {key_heads, -1})
      .narrow(1, first, count * width)
      .unflatten(1, {count, width})
      .flatten(0, 1);
}

void add_by_key_head(Recipes& r, const DeltaNet& s) {
  const std::int64_t group = s.n_heads / s.n_key_heads;
  const auto heads = [&](const char* ours, std::int64_t first, std::int64_t count, std::int64_t width) {
    r.make(fmt::format("linear_attn.{}", ours), {"linear_attn.in_proj_qkvz.weight"},
           [=, key_heads = s.n_key_heads](const Tensors& weight) {
             return rows_of(weight[0], key_heads, first, count, width).transpose(1, 2);
           });
  };
  heads("W_Q", 0, 1, s.d_key);
  heads("W_K", s.d_key, 1, s.d_key);
  heads("W_V", 2 * s.d_key, group, s.d_value);
  heads("W_gate", 2 * s.d_key + group * s.d_value, group, s.d_value);
  for (const auto& [ours, first] : {std::pair{"W_beta", std::int64_t{0}}, std::pair{"W_decay", group}}) {
    r.make(fmt::format("linear_attn.{}", ours), {"linear_attn.in_proj_ba.weight"},
           [=, key_heads = s.n_key_heads, first = first](const Tensors& weight) {
             return rows_of(weight[0], key_heads, first, group, 1).squeeze(1).t();
           });
  }
}

void add_in_parts(Recipes& r, const DeltaNet& s) {
  const std::int64_t keys = s.n_key_heads * s.d_key, values = s.n_heads * s.d_value;
  // One of the parts, one above the other, of the sizes `parts` that a tensor has.
  const auto heads = [&](const char* ours, const char* theirs, std::vector<std::int64_t> parts,
                         std::size_t part, std::int64_t width) {
    r.make(fmt::format("linear_attn.{}", ours), {fmt::format("linear_attn.{}.weight", theirs)},
           [=](const Tensors& weight) {
             const at::Tensor rows = weight[0].split_with_sizes(parts, 0)[part];
             return rows.unflatten(0, {-1, width}).transpose(1, 2);
           });
  };
  heads("W_Q", "in_proj_qkv", {keys, keys, values}, 0, s.d_key);
  heads("W_K", "in_proj_qkv", {keys, keys, values}, 1, s.d_key);
  heads("W_V", "in_proj_qkv", {keys, keys, values}, 2, s.d_value);
  heads("W_gate", "in_proj_z", {values}, 0, s.d_value);
  for (const auto& [ours, theirs] : {std::pair{"W_beta", "in_proj_b"}, std::pair{"W_decay", "in_proj_a"}}) {
    r.make(fmt::format("linear_attn.{}", ours), {fmt::format("linear_attn.{}.weight", theirs)},
           [](const Tensors& weight) { return weight[0].t(); });
  }
}

}  // namespace

void read_qwen_delta_nets(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.norm_offset = true;
  c.gated_heads = true;
  DeltaNet net{.n_key_heads = count_or(hf, "linear_num_key_heads", 16),
               .n_heads = count_or(hf, "linear_num_value_heads", 32),
               .d_key = count_or(hf, "linear_key_head_dim", 128),
               .d_value = count_or(hf, "linear_value_head_dim", 128),
               .kernel = count_or(hf, "linear_conv_kernel_dim", 4),
               .layers = none_if_all_false(recurrent_layers(hf, c))};
  if (net.layers.empty()) return;
  if (net.n_heads % net.n_key_heads != 0) {
    json.refuse("linear_num_value_heads",
                fmt::format("is no multiple of linear_num_key_heads = {}; expected one", net.n_key_heads));
  }
  if (c.activation.kind() != Activation::silu) {
    json.refuse("hidden_act",
                "is also the activation of the linear attention's convolution; expected silu in a model that "
                "has such layers");
  }
  hf.comes_from("delta_net.kernel", json.where("linear_conv_kernel_dim"));
  c.delta_net = std::move(net);
}

void add_qwen_mixer(Recipes& r, const ModelConfig& c, DeltaNetFiles files) {
  if (!c.recurs(r.layer())) {
    r.gated_queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    r.qk_norm("self_attn.q_norm", "self_attn.k_norm");
    r.attention_out("self_attn.o_proj");
    return;
  }
  const DeltaNet& s = *c.delta_net;
  files == DeltaNetFiles::by_key_head ? add_by_key_head(r, s) : add_in_parts(r, s);
  r.make("linear_attn.filter.weight", {"linear_attn.conv1d.weight"},
         [](const Tensors& weight) { return weight[0].select(1, 0); });
  r.copy("linear_attn.A_log", "linear_attn.A_log");
  r.copy("linear_attn.dt_bias", "linear_attn.dt_bias");
  r.copy("linear_attn.norm.w", "linear_attn.norm.weight");
  r.make("linear_attn.W_O", {"linear_attn.out_proj.weight"},
         [heads = s.n_heads, width = s.d_value](const Tensors& weight) {
           return weight[0].t().unflatten(0, {heads, width});
         });
}

}  // namespace hooked
