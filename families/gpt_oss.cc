// gpt-oss (OpenAI 2025): attention sinks, a window on every other layer, experts with biases and a clamped
// activation.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::gpt_oss {
namespace {

using Tensors = std::vector<at::Tensor>;

// All experts in one tensor [expert, in, out], gate and up in alternate columns.
void add_experts(Recipes& r, const ModelConfig& c) {
  r.copy("mlp.W_gate.weight", "mlp.router.weight");
  r.copy("mlp.W_gate.bias", "mlp.router.bias");
  const std::int64_t n = c.experts->n_experts;
  for (std::int64_t e = 0; e < n; ++e) {
    const std::string expert = fmt::format("mlp.experts.{}.", e);
    for (const auto& [name, first] : {std::pair{"W_gate", 0}, std::pair{"W_in", 1}}) {
      const auto cut = [e, n, first = first](const Tensors& all) {
        return expert_of(all[0], e, n).slice(-1, first, std::nullopt, 2).t();  // a bias is unchanged
      };
      r.make(expert + name + ".weight", {"mlp.experts.gate_up_proj"}, cut);
      r.make(expert + name + ".bias", {"mlp.experts.gate_up_proj_bias"}, cut);
    }
    const auto cut = [e, n](const Tensors& all) { return expert_of(all[0], e, n).t(); };
    r.make(expert + "W_out.weight", {"mlp.experts.down_proj"}, cut);
    r.make(expert + "W_out.bias", {"mlp.experts.down_proj_bias"}, cut);
  }
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return mixture_recipes(c, [&](Recipes& r) {
    r.copy("attn.sinks", "self_attn.sinks");
    add_experts(r, c);
  });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .d_head = 64, .eps = 1e-5});
  json.ignore({"hidden_act", "experts_per_token", "initial_context_length"});
  c.activation = Activation::swish_with(hf.positive_or("swiglu_alpha", 1.702));
  c.gate_limit = hf.positive_or("swiglu_limit", 7.0);
  c.up_offset = true;
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", true);
  c.attention_sinks = true;
  c.least_dtypes.norms = KeptInFloat32::in_float16;
  read_experts(hf, c, {.n_experts_fallback = 128, .per_token_fallback = 4});
  c.experts->router = RouterKind::choose_then_softmax;
  c.experts->router_bias = c.experts->bias = true;
  hf.set_windows(c, {"sliding_window", 128}, hf.layers_of_type(c, [](std::int64_t l) { return l % 2 == 0; }));
  read_rope(hf, c, {.theta = 150000.0, .group = R"({"rope_type": "yarn", "factor": 32.0, "truncate": false,
                          "original_max_position_embeddings": 4096})"});
  return c;
}

}  // namespace

extern const Family kGptOss = llama_family("gpt_oss", read, recipes);

}  // namespace hooked::families::gpt_oss
