// Apertus (Swiss AI Initiative 2025): xIELU without a gate, norms of each query and key.
#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log1p.h>

#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::apertus {
namespace {

// Softplus in the wider of the stored precision and the model's; stored numbers may lack an axis.
at::Tensor softplus(const at::Tensor& x, at::ScalarType dtype) {
  return at::log1p(at::exp(x.to(c10::promoteTypes(x.scalar_type(), dtype)))).view({1});
}

void add_xielu(Recipes& r, const ModelConfig& c) {
  using Tensors = std::vector<at::Tensor>;
  const auto number = [](const Tensors& theirs) { return theirs[0].view({1}); };
  r.make("mlp.xielu.alpha_p", {"mlp.act_fn.alpha_p"},
         [dtype = c.dtype](const Tensors& theirs) { return softplus(theirs[0], dtype); });
  r.make("mlp.xielu.alpha_n", {"mlp.act_fn.alpha_n", "mlp.act_fn.beta"},
         [dtype = c.dtype](const Tensors& theirs) { return softplus(theirs[0], dtype) + theirs[1]; });
  r.make("mlp.xielu.beta", {"mlp.act_fn.beta"}, number);
  r.make("mlp.xielu.eps", {"mlp.act_fn.eps"}, number);
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "attention_layernorm");
    add_llama_attention(r, c);
    r.norm("ln2", "feedforward_layernorm");
    add_llama_mlp(r, c);
    if (c.activation.kind() == Activation::xielu) add_xielu(r, c);
  });
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c =
      read_llama_config(hf, {.n_ctx = 65536, .eps = 1e-5, .mlp = MlpKind::plain, .activation = "xielu"});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  hf.json().ignore({"post_norm", "qk_norm"});
  read_rope(hf, c,
            {.theta = 12e6, .group = R"({"rope_type": "llama3", "rope_theta": 12000000.0, "factor": 8.0,
                          "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192})"});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("apertus", read, recipes);

}  // namespace hooked::families::apertus
