#include "families/shared/delta_net_layout.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

namespace hooked {
namespace {

using Tensors = std::vector<at::Tensor>;

// `count` blocks of `width` rows each, from row `first` of each of the key heads' `rows` rows, as heads
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

// One of a tensor's stacked parts, whose sizes are `parts`, as heads.
void add_heads(Recipes& r, const char* ours, const char* theirs, const std::vector<std::int64_t>& parts,
               std::size_t part, std::int64_t width) {
  r.make(fmt::format("linear_attn.{}", ours), {fmt::format("linear_attn.{}.weight", theirs)},
         [=](const Tensors& weight) {
           const at::Tensor rows = weight[0].split_with_sizes(parts, 0)[part];
           return rows.unflatten(0, {-1, width}).transpose(1, 2);
         });
}

// A number for each head.
void add_numbers(Recipes& r, const char* ours, const char* theirs) {
  r.turned(fmt::format("linear_attn.{}", ours), fmt::format("linear_attn.{}.weight", theirs));
}

void add_in_parts(Recipes& r, const DeltaNet& s) {
  const std::int64_t keys = s.n_key_heads * s.d_key, values = s.n_heads * s.d_value;
  add_heads(r, "W_Q", "in_proj_qkv", {keys, keys, values}, 0, s.d_key);
  add_heads(r, "W_K", "in_proj_qkv", {keys, keys, values}, 1, s.d_key);
  add_heads(r, "W_V", "in_proj_qkv", {keys, keys, values}, 2, s.d_value);
  add_heads(r, "W_gate", "in_proj_z", {values}, 0, s.d_value);
  add_numbers(r, "W_beta", "in_proj_b");
  add_numbers(r, "W_decay", "in_proj_a");
}

void add_apart(Recipes& r, const DeltaNet& s) {
  const std::int64_t keys = s.n_key_heads * s.d_key, values = s.n_heads * s.d_value;
  add_heads(r, "W_Q", "q_proj", {keys}, 0, s.d_key);
  add_heads(r, "W_K", "k_proj", {keys}, 0, s.d_key);
  add_heads(r, "W_V", "v_proj", {values}, 0, s.d_value);
  add_heads(r, "W_gate", "g_proj", {values}, 0, s.d_value);
  add_numbers(r, "W_beta", "b_proj");
  add_numbers(r, "W_decay", "a_proj");
}

// The convolution's filters [dimension, 1, tap] in one tensor, or one for each of queries, keys and values.
void add_filter(Recipes& r, DeltaNetFiles files) {
  const char* const ours = "linear_attn.filter.weight";
  const auto together = [](const Tensors& weight) { return weight[0].select(1, 0); };
  if (files != DeltaNetFiles::apart) {
    r.make(ours, {"linear_attn.conv1d.weight"}, together);
    return;
  }
  TensorRecipe& recipe = r.make(
      ours, {"linear_attn.q_conv1d.weight", "linear_attn.k_conv1d.weight", "linear_attn.v_conv1d.weight"},
      [](const Tensors& weights) { return at::cat(weights).select(1, 0); });
  r.or_made_of(recipe, {"linear_attn.conv1d.weight"}, together);
}

}  // namespace

LayerFlags linear_layers(HfConfig& hf, const ModelConfig& c, const std::function<LayerFlags()>& usual) {
  if (!hf.json().has("layer_types")) return usual();
  hf.comes_from("delta_net.layers", hf.json().where("layer_types"));
  return hf.layers_of_type(c, nullptr, "linear_attention");
}

DeltaNet read_delta_nets(HfConfig& hf, const ModelConfig& c, LayerFlags layers,
                         const DeltaNetDefaults& defaults) {
  const ConfigReader& json = hf.json();
  DeltaNet net{.n_key_heads = hf.count_or("linear_num_key_heads", defaults.n_key_heads),
               .n_heads = hf.count_or("linear_num_value_heads", defaults.n_heads),
               .d_key = hf.count_or("linear_key_head_dim", defaults.d_key),
               .d_value = hf.count_or("linear_value_head_dim", defaults.d_value),
               .kernel = hf.count_or("linear_conv_kernel_dim", 4),
               .layers = std::move(layers)};
  if (net.n_heads % net.n_key_heads != 0) {
    json.refuse("linear_num_value_heads",
                fmt::format("is not a multiple of linear_num_key_heads = {}; expected one", net.n_key_heads));
  }
  if (c.activation.kind() != Activation::silu) {
    json.refuse("hidden_act",
                "is also the activation of the linear attention's convolution; expected silu in a model that "
                "has such layers");
  }
  hf.comes_from("delta_net.kernel", json.where("linear_conv_kernel_dim"));
  return net;
}

void add_delta_net(Recipes& r, const ModelConfig& c, DeltaNetFiles files) {
  const DeltaNet& s = *c.delta_net;
  const bool apart = files == DeltaNetFiles::apart;
  if (files == DeltaNetFiles::by_key_head) add_by_key_head(r, s);
  if (files == DeltaNetFiles::in_parts) add_in_parts(r, s);
  if (apart) add_apart(r, s);
  add_filter(r, files);
  r.copy("linear_attn.A_log", "linear_attn.A_log");
  r.copy("linear_attn.dt_bias", "linear_attn.dt_bias");
  r.copy("linear_attn.norm.w", apart ? "linear_attn.o_norm.weight" : "linear_attn.norm.weight");
  r.make("linear_attn.W_O", {apart ? "linear_attn.o_proj.weight" : "linear_attn.out_proj.weight"},
         [heads = s.n_heads, width = s.d_value](const Tensors& weight) {
           return weight[0].t().unflatten(0, {heads, width});
         });
}

}  // namespace hooked
