#include "families/shared/recipes.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

namespace hooked {
namespace {

using Tensors = std::vector<at::Tensor>;

std::vector<std::int64_t> counting_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

at::Tensor in_out(const at::Tensor& stored, LinearLayout layout) {
  return layout == LinearLayout::in_out ? stored : stored.t();
}

// Times a number, in the wider of the stored precision and the model's.
at::Tensor scaled(const at::Tensor& stored, double scale, at::ScalarType dtype) {
  return scale == 1.0 ? stored : stored.to(c10::promoteTypes(stored.scalar_type(), dtype)) * scale;
}

// The blocks of rows at `places`, in that order: a view if they are contiguous.
at::Tensor picked(const at::Tensor& blocks, const std::vector<std::int64_t>& places) {
  const auto count = static_cast<std::int64_t>(places.size());
  if (places == counting_from(places.front(), count)) return blocks.narrow(0, places.front(), count);
  Tensors rows;
  for (const std::int64_t place : places) rows.push_back(blocks.select(0, place));
  return at::stack(rows);
}

bool has_bias(const ModelConfig& c, std::string_view norm) {
  const NormKind kind = norm == "ln_final" ? c.final_norm : c.norm;
  return norm == "embed.ln" || norm == "mlm_head.ln" ? c.norm_bias
                                                     : kind == NormKind::layer_norm && c.norm_bias;
}

}  // namespace

at::Tensor expert_of(const at::Tensor& all, std::int64_t expert, std::int64_t count) {
  return all.unflatten(0, {count, 1}).select(0, expert).squeeze(0);
}

FusedHeads FusedHeads::side_by_side(const ModelConfig& config) {
  const std::int64_t h = config.n_heads, kv = config.n_kv_heads;
  return {counting_from(0, h), counting_from(h, kv), counting_from(h + kv, kv)};
}

FusedHeads FusedHeads::by_group(const ModelConfig& config) {
  const std::int64_t group = config.n_heads / config.n_kv_heads;
  FusedHeads heads;
  for (std::int64_t g = 0; g < config.n_kv_heads; ++g) {
    const std::int64_t first = g * (group + 2);
    for (std::int64_t i = 0; i < group; ++i) heads.q.push_back(first + i);
    heads.k.push_back(first + group);
    heads.v.push_back(first + group + 1);
  }
  return heads;
}

Recipes::Recipes(const ModelConfig& config, LinearLayout layout) : config_(config), layout_(layout) {}

void Recipes::each_block(std::string_view theirs, const std::function<void(std::int64_t layer)>& block) {
  each_block(config_.main_stack(), theirs, block);
}

void Recipes::each_block(Stack stack, std::string_view theirs,
                         const std::function<void(std::int64_t layer)>& block) {
  for (const BlockPlace& place : config_.blocks()) {
    if (place.stack != stack) continue;
    layer_ = place.layer;
    ours_ = place.path() + ".";
    theirs_ = fmt::format(fmt::runtime(theirs), layer_);
    block(layer_);
  }
  ours_.clear();
  theirs_.clear();
}

void Recipes::cross_attention(const std::function<void()>& parts) {
  attention_ = "cross_attn";
  parts();
  attention_ = "attn";
}

void Recipes::copy(std::string_view ours_name, std::string_view theirs_name) {
  recipes_.push_back({ours(ours_name), {theirs(theirs_name)}});
}

TensorRecipe& Recipes::turned(std::string_view ours_name, std::string_view theirs_name) {
  return make(ours_name, {std::string(theirs_name)}, [](const Tensors& stored) { return stored[0].t(); });
}

void Recipes::scaled_copy(std::string_view ours_name, std::string_view theirs_name, double scale) {
  make(ours_name, {std::string(theirs_name)},
       [scale, dtype = config_.dtype](const Tensors& stored) { return scaled(stored[0], scale, dtype); });
}

TensorRecipe& Recipes::make(std::string_view ours_name, const std::vector<std::string>& theirs_names,
                            std::function<at::Tensor(const Tensors&)> how) {
  TensorRecipe recipe{ours(ours_name), {}, std::move(how)};
  for (const std::string& name : theirs_names) recipe.sources.push_back(theirs(name));
  return recipes_.emplace_back(std::move(recipe));
}

void Recipes::or_made_of(TensorRecipe& recipe, const std::vector<std::string>& theirs_names,
                         std::function<at::Tensor(const Tensors&)> how) const {
  TensorRecipe other{recipe.target, {}, std::move(how)};
  for (const std::string& name : theirs_names) other.sources.push_back(theirs(name));
  recipe.otherwise = std::make_shared<const TensorRecipe>(std::move(other));
}

void Recipes::positions(std::string_view theirs_name, std::int64_t offset) {
  if (offset == 0) return copy("pos_embed.W_pos", theirs_name);
  make("pos_embed.W_pos", {std::string(theirs_name)},
       [offset](const Tensors& table) { return table[0].narrow(0, offset, table[0].size(0) - offset); });
}

void Recipes::unembedding(std::string_view theirs_name, std::string_view alias) {
  if (!config_.has_unembedding()) return;
  const std::string name(theirs_name);
  if (!config_.tied_unembedding()) {
    TensorRecipe& recipe = turned("unembed.W_U", name + ".weight");
    if (!alias.empty()) recipe.alias = std::string(alias) + ".weight";
  }
  if (!config_.unembedding->bias) return;
  copy("unembed.b_U", name + ".bias");
  if (!alias.empty()) recipes_.back().alias = std::string(alias) + ".bias";
}

void Recipes::norm(std::string_view ours_name, std::string_view theirs_name) {
  copy(fmt::format("{}.w", ours_name), fmt::format("{}.weight", theirs_name));
  recipes_.back().alias = theirs(fmt::format("{}.gamma", theirs_name));
  if (!has_bias(config_, ours_name)) return;
  copy(fmt::format("{}.b", ours_name), fmt::format("{}.bias", theirs_name));
  recipes_.back().alias = theirs(fmt::format("{}.beta", theirs_name));
}

void Recipes::mlm_head(std::string_view their_layer, std::string_view their_norm, LayerBias bias) {
  if (!config_.has_mlm_head()) return;
  turned("mlm_head.W", fmt::format("{}.weight", their_layer));
  if (bias == LayerBias::stored) {
    copy("mlm_head.b", fmt::format("{}.bias", their_layer));
  } else {
    make("mlm_head.b", {},
         [m = config_.d_model, dtype = config_.dtype](const Tensors&) { return at::zeros({m}, dtype); });
  }
  norm("mlm_head.ln", their_norm);
}

void Recipes::scaled_norm(std::string_view ours_name, std::string_view theirs_name, double scale) {
  scaled_copy(fmt::format("{}.w", ours_name), fmt::format("{}.weight", theirs_name), scale);
}

void Recipes::plain_norm(std::string_view ours_name) {
  make(fmt::format("{}.w", ours_name), {},
       [m = config_.d_model, dtype = config_.dtype](const Tensors&) { return at::ones({m}, dtype); });
}

void Recipes::qk_norm(std::string_view their_q, std::string_view their_k) {
  for (const auto& [letter, their_name, heads] :
       {std::tuple{'q', their_q, config_.n_heads}, std::tuple{'k', their_k, config_.kv_heads(layer_)}}) {
    if (letter == 'k' && config_.shares_keys(layer_)) continue;
    const std::string our_name = fmt::format("attn.{}_norm", letter);
    const auto flat = [heads = heads](const Tensors& weight) {  // [head, d_head] if each has its own
      return weight[0].dim() == 1 ? weight[0] : weight[0].unflatten(0, {heads, 1}).flatten();
    };
    make(fmt::format("{}.w", our_name), {fmt::format("{}.weight", their_name)}, flat);
    if (config_.qk_norm->bias)
      make(fmt::format("{}.b", our_name), {fmt::format("{}.bias", their_name)}, flat);
  }
}

void Recipes::plain_qk_norm() {
  for (const char* name : {"attn.q_norm.w", "attn.k_norm.w"}) {
    make(name, {}, [d = config_.head_width(layer_), dtype = config_.dtype](const Tensors&) {
      return at::ones({d}, dtype);
    });
  }
}

std::string Recipes::head_name(char kind, char letter) const {
  return fmt::format("{}.{}{}_{}", attention_, config_.grouped_query() && letter != 'Q' ? "_" : "", kind,
                     letter);
}

void Recipes::heads(char letter, std::string_view theirs_name) {
  if (letter != 'Q' && config_.shares_keys(layer_)) return;
  const std::string name(theirs_name);
  const std::int64_t count = letter == 'Q' ? config_.n_heads : config_.kv_heads(layer_);
  const std::int64_t d = config_.head_width(layer_);
  make(head_name('W', letter), {name + ".weight"}, [layout = layout_, count, d](const Tensors& weight) {
    return in_out(weight[0], layout).t().unflatten(0, {count, d}).transpose(1, 2);
  });
  if (!config_.qkv_bias) return;
  make(head_name('b', letter), {name + ".bias"}, [count, d](const Tensors& bias) {
    return bias[0].view({count, d});
  });
}

void Recipes::gated_queries(std::string_view theirs_name) {
  const std::string name(theirs_name);
  const std::int64_t heads = config_.n_heads, d = config_.head_width(layer_);
  for (const auto& [letter, part] : {std::pair{'Q', 0}, std::pair{'G', 1}}) {
    make(fmt::format("attn.W_{}", letter), {name + ".weight"}, [=, part = part](const Tensors& weight) {
      return weight[0].unflatten(0, {heads, 2, d}).select(1, part).transpose(1, 2);
    });
    if (!config_.qkv_bias) continue;
    make(fmt::format("attn.b_{}", letter), {name + ".bias"}, [=, part = part](const Tensors& bias) {
      return bias[0].view({heads, 2, d}).select(1, part);
    });
  }
}

void Recipes::fused_qkv(std::string_view theirs_name, const FusedHeads& fused) {
  const std::string name(theirs_name);
  const std::int64_t d = config_.head_width(layer_);
  const std::int64_t slots = config_.n_heads + 2 * config_.kv_heads(layer_);
  for (const auto& [letter, places] :
       {std::pair{'Q', fused.q}, std::pair{'K', fused.k}, std::pair{'V', fused.v}}) {
    const auto ours_of = [places = places](const at::Tensor& blocks) { return picked(blocks, places); };
    make(head_name('W', letter), {name + ".weight"},
         [layout = layout_, ours_of, slots, d](const Tensors& weight) {
           return ours_of(in_out(weight[0], layout).t().unflatten(0, {slots, d})).transpose(1, 2);
         });
    if (!config_.qkv_bias) continue;
    make(head_name('b', letter), {name + ".bias"}, [ours_of, slots, d](const Tensors& bias) {
      return ours_of(bias[0].view({slots, d}));
    });
  }
}

void Recipes::attention_out(std::string_view theirs_name, double scale) {
  const std::string name(theirs_name);
  const std::int64_t h = config_.n_heads, d = config_.value_dim(layer_), m = config_.d_model;
  make(attention_ + ".W_O", {name + ".weight"},
       [=, layout = layout_, dtype = config_.dtype](const Tensors& weight) {
         return scaled(in_out(weight[0], layout), scale, dtype).unflatten(0, {h, d}).view({h, d, m});
       });
  if (!config_.attn_out_bias) return;
  scaled_copy(attention_ + ".b_O", name + ".bias", scale);
}

void Recipes::short_convolution(std::string_view their_in, std::string_view their_filter,
                                std::string_view their_out) {
  const std::string in(their_in), filter(their_filter), out(their_out);
  const std::int64_t d = config_.d_model;
  const bool biased = config_.short_conv->bias;
  for (const auto& [letter, part] : {std::pair{'B', 0}, std::pair{'C', 1}, std::pair{'X', 2}}) {
    make(fmt::format("conv.W_{}", letter), {in + ".weight"}, [d, part = part](const Tensors& weight) {
      return weight[0].unflatten(0, {3, d}).select(0, part).t();
    });
    if (!biased) continue;
    make(fmt::format("conv.b_{}", letter), {in + ".bias"}, [d, part = part](const Tensors& bias) {
      return bias[0].unflatten(0, {3, d}).select(0, part);
    });
  }
  make("conv.filter.weight", {filter + ".weight"},
       [](const Tensors& weight) { return weight[0].select(1, 0); });
  turned("conv.W_out", out + ".weight");
  if (!biased) return;
  copy("conv.filter.bias", filter + ".bias");
  copy("conv.b_out", out + ".bias");
}

void Recipes::linear(std::string_view weight, std::string_view bias, std::string_view theirs_name) {
  const std::string name(theirs_name);
  make(weight, {name + ".weight"},
       [layout = layout_](const Tensors& stored) { return in_out(stored[0], layout); });
  if (config_.mlp_bias) copy(bias, name + ".bias");
}

void Recipes::fused_gate_up(std::string_view theirs_name) {
  const std::string name(theirs_name);
  const std::int64_t d = config_.d_mlp;
  for (const auto& [ours_name, first] : {std::pair{"gate", 0}, std::pair{"in", 1}}) {
    make(fmt::format("mlp.W_{}", ours_name), {name + ".weight"},
         [layout = layout_, d, first = first](const Tensors& weight) {
           const at::Tensor both = in_out(weight[0], layout);
           return both.unflatten(1, {2, d}).select(1, first);
         });
    if (!config_.mlp_bias) continue;
    make(fmt::format("mlp.b_{}", ours_name), {name + ".bias"}, [d, first = first](const Tensors& bias) {
      return bias[0].unflatten(0, {2, d}).select(0, first);
    });
  }
}

void Recipes::mlp_out(std::string_view theirs_name, double scale) {
  const std::string name(theirs_name);
  make("mlp.W_out", {name + ".weight"},
       [scale, layout = layout_, dtype = config_.dtype](const Tensors& weight) {
         return scaled(in_out(weight[0], layout), scale, dtype);
       });
  if (!config_.mlp_bias) return;
  scaled_copy("mlp.b_out", name + ".bias", scale);
}

void Recipes::expert_matrix(const std::string& ours_name, const std::string& theirs_name, double scale,
                            const Cut& cut) {
  const auto scale_it = [scale, dtype = config_.dtype](const at::Tensor& weight) {
    return scaled(weight, scale, dtype);
  };
  TensorRecipe from_all{ours(ours_name),
                        {theirs(cut.theirs)},
                        [scale_it, cut, n = config_.experts->n_experts](const Tensors& all) {
                          return scale_it(cut.made(expert_of(all[0], cut.expert, n)));
                        }};
  if (!cut.alias.empty()) from_all.alias = theirs(cut.alias);
  if (theirs_name.empty()) {
    recipes_.push_back(std::move(from_all));
    return;
  }
  TensorRecipe& alone = make(ours_name, {theirs_name + ".weight"},
                             [scale_it](const Tensors& weight) { return scale_it(weight[0]); });
  alone.otherwise = std::make_shared<const TensorRecipe>(std::move(from_all));
}

void Recipes::mixture(const MixtureNames& names, double scale) {
  TensorRecipe& router =
      make("mlp.W_gate.weight", {names.router}, [](const Tensors& weight) { return weight[0]; });
  if (!names.router_alias.empty()) or_named(router, names.router_alias);
  const std::int64_t d = config_.experts->d_expert;
  const auto with_rows = [turned = names.turned](const at::Tensor& stored, std::int64_t rows) {
    const bool turns =
        turned == MixtureNames::yes || (turned == MixtureNames::where_needed && stored.size(0) != rows);
    return turns ? stored.t() : stored;
  };
  const auto half = [d, with_rows](std::int64_t which) {
    return [d, which, with_rows](const at::Tensor& both) {
      return with_rows(both, 2 * d).unflatten(0, {2, d}).select(0, which);
    };
  };
  const auto whole = [m = config_.d_model, with_rows](const at::Tensor& weight) {
    return with_rows(weight, m);
  };
  for (std::int64_t e = 0; e < config_.experts->n_experts; ++e) {
    const auto add = [&](const char* part, const std::string& theirs_part, double factor, const Cut& cut) {
      const std::string alone =
          names.expert.empty() ? std::string() : fmt::format(fmt::runtime(names.expert), e) + theirs_part;
      expert_matrix(fmt::format("mlp.experts.{}.W_{}.weight", e, part), alone, factor, cut);
    };
    add("gate", names.gate, 1.0, {names.gate_up, names.gate_up_alias, e, half(0)});
    add("in", names.in, 1.0, {names.gate_up, names.gate_up_alias, e, half(1)});
    add("out", names.out, scale, {names.down, names.down_alias, e, whole});
  }
}

void Recipes::shared_expert(std::string_view theirs_name) {
  const std::string ours_name = "mlp.shared_expert.";
  for (const auto& [part, their_part] :
       {std::pair{"gate", "gate_proj"}, std::pair{"in", "up_proj"}, std::pair{"out", "down_proj"}}) {
    linear(fmt::format("{}W_{}", ours_name, part), fmt::format("{}b_{}", ours_name, part),
           fmt::format("{}.{}", theirs_name, their_part));
  }
}

void Recipes::fused_shared_expert(std::string_view their_gate_up, std::string_view their_down, double scale) {
  const std::string gate_up = fmt::format("{}.weight", their_gate_up);
  for (const auto& [part, first] : {std::pair{"gate", 0}, std::pair{"in", 1}}) {
    make(fmt::format("mlp.shared_expert.W_{}", part), {gate_up},
         [layout = layout_, d = config_.experts->d_shared, first = first](const Tensors& weight) {
           return in_out(weight[0], layout).unflatten(1, {2, d}).select(1, first);
         });
  }
  make("mlp.shared_expert.W_out", {fmt::format("{}.weight", their_down)},
       [scale, layout = layout_, dtype = config_.dtype](const Tensors& weight) {
         return scaled(in_out(weight[0], layout), scale, dtype);
       });
}

}  // namespace hooked
