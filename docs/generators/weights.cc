// Prints docs/weights.md from the table of weights and the module graphs of a few models.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/weight_table.h"
#include "hooked/core/axis.h"
#include "hooked/hooks/point_index.h"
#include "models/transformer/transformer.h"

namespace {

using hooked::ModelConfig;
using hooked::WeightInput;
using hooked::WeightKind;
using hooked::WeightRow;

constexpr std::string_view kPreface = R"(# Weights

Generated from the table of weights (`src/core/weights.inc`) and the module graph; do not edit. Run
`cmake --build --preset release --target docs` after a change. A test fails when this page is out of date.

## Names in the state dict

Those of TransformerLens; they are also the names in a native folder's `model.safetensors`. `{stack}` is `blocks`, or `encoder`
and `decoder` in an encoder-decoder. Where queries have more heads than keys, weights with a kv_head axis carry an underscore
(`attn._W_K`). A matrix is stored [in, out], with its heads in front; those called `.weight` are stored [out, in]. What reads a
value after a norm takes the norm's weights in when they are folded; what writes to the stream loses its mean when
`center_writing_weights` is applied.

| name | shape | what it is | reads | writes to the stream | there when |
|---|---|---|---|---|---|
)";

constexpr std::string_view kNames = R"(
`embed.embed.W_E` and `embed.pos_embed.W_pos`, as TransformerLens's `HookedEncoder` spells them, are read too. TransformerLens has no
names for latent attention; these are the letters of DeepSeek-V2's paper
([decision 19](decisions/0019-latent-attention.md)). A norm of queries or keys spans one
head, or all heads one after another. RMSNorms have `.w` only. Absent optional biases are zeros. Buffers that
TransformerLens writes in addition (`mask`, `IGNORE`, rotary tables) are skipped.

## Packed parameters

Weights are packed once, `[out, in]`, in memory as the product on this processor reads them fastest (`models/storage/matrix.h`). Each weight
above is a part of one of these. They are also the tensors of a native folder's `packed.safetensors`
([decision 44](decisions/0044-packed-folders.md)).

| parameter | weights in it |
|---|---|
)";

std::string_view kind_text(const WeightRow& row) {
  switch (row.kind) {
    case WeightKind::matrix:
    case WeightKind::linear:
      return "matrix";
    case WeightKind::bias:
      return "bias";
    case WeightKind::optional_bias:
      return "optional bias";
    case WeightKind::gain:
      return "norm's weight";
    case WeightKind::plain_gain:
      return "norm's weight, never an offset";
    case WeightKind::shift:
      return "norm's bias";
    case WeightKind::number:
      return "numbers";
  }
  return "";
}

std::string_view input_text(WeightInput input) {
  switch (input) {
    case WeightInput::nothing:
      return "";
    case WeightInput::attention_input:
      return "stream, before attention";
    case WeightInput::cross_input:
      return "stream, before cross-attention";
    case WeightInput::mlp_input:
      return "stream, before the MLP";
    case WeightInput::router_input:
      return "stream, before the router";
    case WeightInput::expert_input:
      return "stream, before routed experts";
    case WeightInput::neurons:
      return "neurons";
    case WeightInput::encoder_output:
      return "encoder's output";
    case WeightInput::final_stream:
      return "last stream";
    case WeightInput::unembed_input:
      return "last stream, or the masked-LM head";
  }
  return "";
}

void print_names() {
  for (const WeightRow& row : hooked::weight_table()) {
    std::vector<std::string_view> axes;
    for (const hooked::Axis axis : row.axes) axes.push_back(hooked::axis_name(axis));
    std::cout << fmt::format("| `{}` | [{}] | {} | {} | {} | {} |\n", row.path, fmt::join(axes, ", "),
                             kind_text(row), input_text(row.reads), row.writes_stream ? "yes" : "",
                             row.when_there());
  }
}

ModelConfig small_model() {
  ModelConfig config;
  config.n_layers = 1;
  config.d_model = 8;
  config.n_ctx = 4;
  config.n_heads = config.n_kv_heads = 2;
  config.d_head = 4;
  config.d_mlp = 16;
  config.d_vocab = 9;
  config.unembedding = hooked::Unembedding{.d_vocab = 9};
  return config;
}

// Models that together have every way of packing.
std::vector<ModelConfig> models() {
  std::vector<ModelConfig> all(4, small_model());
  all[1].mlp = hooked::MlpKind::gated;
  all[2].mlp = hooked::MlpKind::gated;
  all[2].experts = hooked::Experts{.n_experts = 2, .per_token = 1, .d_expert = 16, .bias = true};
  all[2].experts->router_bias = true;
  all[3].latent = hooked::Latents{.d_kv = 4, .d_query = 6, .d_shared_key = 2, .d_value = 4};
  return all;
}

std::string pattern_of(std::string path) {
  for (const auto& [number, pattern] :
       {std::pair{"blocks.0.", "{stack}.{layer}."}, {"experts.0.", "experts.{expert}."}}) {
    if (const auto at = path.find(number); at != path.npos) {
      path.replace(at, std::string_view(number).size(), pattern);
    }
  }
  return path;
}

// `W_Q` of `blocks.0.attn.W_Q`, `W_in.weight` of an expert's.
std::string leaf_of(std::string_view name) {
  constexpr std::string_view kWeight = ".weight", kBias = ".bias";
  const std::size_t ending = name.ends_with(kWeight) ? kWeight.size()
                             : name.ends_with(kBias) ? kBias.size()
                                                     : 0;
  const auto dot = name.substr(0, name.size() - ending).rfind('.');
  return std::string(name.substr(dot + 1));
}

void print_packed() {
  std::vector<std::string> seen;
  for (const ModelConfig& config : models()) {
    const hooked::PointIndex points(config);
    const hooked::Transformer graph(config, points, at::TensorOptions(config.dtype));
    std::map<const void*, std::vector<std::string>> weights;
    for (const hooked::WeightSlot& slot : graph.slots()) {
      const std::string leaf = leaf_of(slot.name);
      weights[slot.view.pieces().storage().data()].push_back(fmt::format("`{}`", leaf));
    }
    for (const auto& item : graph.named_parameters()) {
      const std::string path = pattern_of(item.key());
      const auto& held = weights.at(item.value().storage().data());
      if (held.size() < 2 || std::ranges::find(seen, path) != seen.end()) continue;
      if (path.find("experts.1.") != path.npos) continue;
      seen.push_back(path);
      std::cout << fmt::format("| `{}` | {} |\n", path, fmt::join(held, ", "));
    }
  }
  std::cout << "| every other | itself |\n";
}

}  // namespace

int main() {
  std::cout << kPreface;
  print_names();
  std::cout << kNames;
  print_packed();
}
