#include "families/shared/karpathy_layout.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <stdexcept>

#include "core/json.h"
#include "families/shared/gpt2_layout.h"
#include "families/shared/recipes.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr std::size_t kValuesBytes = std::size_t{64}
                                     << 20;  // JSON of plain values escapes some of their text

using Shape = std::vector<std::int64_t>;

const Shape* shape_of(const CheckpointTraits& seen, const std::string& name, std::size_t rank) {
  const auto found = seen.shapes.find(name);
  return found != seen.shapes.end() && found->second.size() == rank ? &found->second : nullptr;
}

// The number of blocks, counted by a tensor that each of them has; `{}` is replaced by its number.
std::int64_t count_blocks(const CheckpointTraits& seen, std::string_view name) {
  std::int64_t count = 0;
  while (seen.shapes.contains(fmt::format(fmt::runtime(name), count))) ++count;
  return count;
}

}  // namespace

std::optional<GptShapes> gpt_shapes(const CheckpointTraits& seen) {
  const std::string prefix = seen.shapes.contains("transformer.wte.weight") ? "transformer." : "";
  const Shape* tokens = shape_of(seen, prefix + "wte.weight", 2);
  const Shape* positions = shape_of(seen, prefix + "wpe.weight", 2);
  const Shape* qkv = shape_of(seen, prefix + "h.0.attn.c_attn.weight", 2);
  if (tokens == nullptr || positions == nullptr || qkv == nullptr) return std::nullopt;
  if ((*qkv)[0] != 3 * (*tokens)[1] || (*qkv)[1] != (*tokens)[1]) return std::nullopt;
  return GptShapes{.n_layer = count_blocks(seen, prefix + "h.{}.attn.c_attn.weight"),
                   .n_embd = (*tokens)[1],
                   .vocab_size = (*tokens)[0],
                   .block_size = (*positions)[0],
                   .bias = seen.shapes.contains(prefix + "ln_f.bias")};
}

std::optional<GptShapes> early_mingpt_shapes(const CheckpointTraits& seen) {
  const Shape* tokens = shape_of(seen, "tok_emb.weight", 2);
  const Shape* positions = shape_of(seen, "pos_emb", 3);
  if (tokens == nullptr || positions == nullptr) return std::nullopt;
  const auto n_layer = count_blocks(seen, "blocks.{}.attn.query.weight");
  if (n_layer == 0) return std::nullopt;
  return GptShapes{.n_layer = n_layer,
                   .n_embd = (*tokens)[1],
                   .vocab_size = (*tokens)[0],
                   .block_size = (*positions)[1],
                   .bias = true};
}

std::optional<Json> model_args(const CheckpointTraits& seen) {
  const Json values = object_of(seen.values, seen.weights_where);
  const auto args = values.find("model_args");
  return args != values.end() && args->is_object() ? std::optional(*args) : std::nullopt;
}

void add_sizes(Json& config, const GptShapes& shapes) {
  const std::pair<const char*, std::int64_t> sizes[] = {{"n_layer", shapes.n_layer},
                                                        {"n_embd", shapes.n_embd},
                                                        {"vocab_size", shapes.vocab_size},
                                                        {"block_size", shapes.block_size}};
  for (const auto& [key, value] : sizes) {
    if (!config.contains(key) || config[key].is_null()) config[key] = value;
  }
}

Json object_of(const std::string& text, const std::string& where) {
  try {
    auto json = parse_python_json(text, {.bytes = kValuesBytes, .depth = 80});
    if (json.is_object()) return json;
    throw std::invalid_argument(fmt::format("wrong type; expected a JSON object, got {}", json_kind(json)));
  } catch (const std::invalid_argument& error) {
    throw ConfigError(where, error.what());
  }
}

void refuse_without_heads(const CheckpointTraits& seen, std::string_view model_types) {
  throw ConfigError(fmt::format("{}: n_head", seen.config_where),
                    fmt::format("missing; expected the number of heads, which the tensors of {} do not tell; "
                                "write a config.json with \"model_type\": {} and \"n_head\"",
                                seen.weights_where, model_types));
}

ModelConfig read_gpt_sizes(HfConfig& hf, bool tied, bool bias) {
  ModelConfig c = hf.sizes({.n_layers = "n_layer",
                            .d_model = "n_embd",
                            .n_heads = "n_head",
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = {},
                            .mlp_ratio = 4,
                            .n_ctx = "block_size"},
                           tied);
  c.norm_bias = c.qkv_bias = c.attn_out_bias = c.mlp_bias = bias;
  return c;
}

std::vector<TensorRecipe> gpt_recipes(const ModelConfig& c) {
  Recipes r(c);
  add_gpt2_parts(r, [&] { add_gpt2_attention(r, FusedHeads::side_by_side(c)); });
  return std::move(r).take();
}

std::vector<TensorRecipe> early_mingpt_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("tok_emb.weight");
  r.make("pos_embed.W_pos", {"pos_emb"},
         [](const std::vector<at::Tensor>& table) { return table[0].squeeze(0); });
  r.each_block("blocks.{}.", [&](std::int64_t) {
    r.norm("ln1", "ln1");
    r.queries("attn.query");
    r.keys("attn.key");
    r.values("attn.value");
    r.attention_out("attn.proj");
    r.norm("ln2", "ln2");
    r.mlp_in("mlp.0");
    r.mlp_out("mlp.2");
  });
  r.norm("ln_final", "ln_f");
  r.unembedding("head");
  return std::move(r).take();
}

}  // namespace hooked
