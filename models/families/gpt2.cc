// GPT-2 (Radford et al. 2019): model_type `gpt2`. Its Conv1D weights are stored [in, out].
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "models/families/family.h"

namespace hooked {
namespace {

FamilyConfig read_config(std::string_view text, std::string_view where) {
  const ConfigReader json(text, where);
  FamilyConfig read;
  ModelConfig& c = read.config;
  c.n_layers = json.integer("n_layer");
  c.d_model = json.integer("n_embd");
  c.n_heads = c.n_kv_heads = json.integer("n_head");
  c.n_ctx = json.integer_or(json.first_of({"n_positions", "n_ctx"}), 1024);
  c.d_vocab = c.d_vocab_out = json.integer("vocab_size");
  c.d_mlp = json.has("n_inner") ? json.integer("n_inner") : 4 * c.d_model;
  if (c.n_heads < 1 || c.d_model % c.n_heads != 0) {
    json.refuse("n_head", fmt::format("heads do not divide n_embd {}; expected a divisor of it", c.d_model));
  }
  c.d_head = c.d_model / c.n_heads;
  c.eps = json.number_or("layer_norm_epsilon", 1e-5);

  const std::string activation = json.text_or("activation_function", "gelu_new");
  const auto parsed = parse_activation(activation);
  if (!parsed) json.refuse("activation_function", "is not an activation this engine knows");
  c.activation = *parsed;

  c.attn_scale = json.boolean_or("scale_attn_weights", true) ? std::sqrt(static_cast<double>(c.d_head)) : 1.0;
  c.scale_by_inverse_layer = json.boolean_or("scale_attn_by_inverse_layer_idx", false);
  c.tied_unembedding = json.boolean_or("tie_word_embeddings", true);
  c.unembed_bias = false;
  if (json.boolean_or("add_cross_attention", false)) {
    json.refuse("add_cross_attention", "needs an encoder, which this family does not have; expected false");
  }
  if (json.has("quantization_config")) {
    json.refuse("quantization_config", "describes quantised weights, which are not supported; expected none");
  }
  // Keys of other families that would change what the model computes.
  for (const char* key : {"rope_scaling", "rope_parameters", "rope_theta", "sliding_window", "num_experts",
                          "num_local_experts", "attn_logit_softcapping", "final_logit_softcapping"}) {
    if (json.has(key)) json.refuse(key, "is not honoured by this family; expected none");
  }
  if (json.boolean_or("reorder_and_upcast_attn", false)) {
    read.notes.push_back("reorder_and_upcast_attn changes rounding only and is not imitated");
  }
  // Known, and without effect on what the model computes.
  json.ignore({"model_type",
               "architectures",
               "n_ctx",
               "n_positions",
               "attn_pdrop",
               "embd_pdrop",
               "resid_pdrop",
               "initializer_range",
               "bos_token_id",
               "eos_token_id",
               "pad_token_id",
               "torch_dtype",
               "dtype",
               "use_cache",
               "transformers_version",
               "summary_activation",
               "summary_first_dropout",
               "summary_proj_to_labels",
               "summary_type",
               "summary_use_proj",
               "task_specific_params",
               "n_head",
               "is_decoder",
               "_name_or_path"});
  c.validate();
  read.ignored_keys = json.unread();
  return read;
}

std::vector<TensorRecipe> make_recipes(const ModelConfig& c) {
  const std::int64_t h = c.n_heads, d = c.d_head, m = c.d_model;
  std::vector<TensorRecipe> recipes{{"embed.W_E", "wte.weight"}};
  // A table longer than the context is legal; positions beyond it cannot be reached.
  recipes.push_back({"pos_embed.W_pos", "wpe.weight"});
  for (std::int64_t l = 0; l < c.n_layers; ++l) {
    const std::string theirs = fmt::format("h.{}.", l);
    const std::string ours = fmt::format("blocks.{}.", l);
    const auto norm = [&](std::string_view our_name, std::string_view their_name) {
      recipes.push_back(
          {fmt::format("{}{}.w", ours, our_name), fmt::format("{}{}.weight", theirs, their_name)});
      recipes.push_back(
          {fmt::format("{}{}.b", ours, our_name), fmt::format("{}{}.bias", theirs, their_name)});
    };
    norm("ln1", "ln_1");
    norm("ln2", "ln_2");
    for (const auto& [letter, place] : {std::pair{'Q', 0}, std::pair{'K', 1}, std::pair{'V', 2}}) {
      const std::int64_t first = place * m;
      recipes.push_back(
          {fmt::format("{}attn.W_{}", ours, letter), theirs + "attn.c_attn.weight", [=](const at::Tensor& w) {
             return w.narrow(1, first, m).view({m, h, d}).permute({1, 0, 2});
           }});
      recipes.push_back(
          {fmt::format("{}attn.b_{}", ours, letter), theirs + "attn.c_attn.bias", [=](const at::Tensor& b) {
             return b.narrow(0, first, m).view({h, d});
           }});
    }
    recipes.push_back({ours + "attn.W_O", theirs + "attn.c_proj.weight", [=](const at::Tensor& w) {
                         return w.view({h, d, m});
                       }});
    recipes.push_back({ours + "attn.b_O", theirs + "attn.c_proj.bias"});
    recipes.push_back({ours + "mlp.W_in", theirs + "mlp.c_fc.weight"});
    recipes.push_back({ours + "mlp.b_in", theirs + "mlp.c_fc.bias"});
    recipes.push_back({ours + "mlp.W_out", theirs + "mlp.c_proj.weight"});
    recipes.push_back({ours + "mlp.b_out", theirs + "mlp.c_proj.bias"});
  }
  recipes.push_back({"ln_final.w", "ln_f.weight"});
  recipes.push_back({"ln_final.b", "ln_f.bias"});
  if (!c.tied_unembedding) {
    recipes.push_back({"unembed.W_U", "lm_head.weight", [](const at::Tensor& w) { return w.t(); }});
  }
  return recipes;
}

constexpr std::string_view kBuffers[] = {"h.*.attn.bias", "h.*.attn.masked_bias", "lm_head.weight"};

}  // namespace

const Family kGpt2Family{"gpt2", "transformer.", read_config, make_recipes, kBuffers};

}  // namespace hooked
