// Prints docs/weights.md from the table of weights and the module graphs of a few models.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/weight_table.h"
#include "hooked/core/axis.h"
#include "hooked/hooks/point_index.h"
#include "models/transformer/transformer.h"
#include "page.h"

namespace {

using hooked::ModelConfig;
using hooked::WeightInput;
using hooked::WeightKind;
using hooked::WeightRow;

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

std::string names() {
  std::string text;
  for (const WeightRow& row : hooked::weight_table()) {
    std::vector<std::string_view> axes;
    for (const hooked::Axis axis : row.axes) axes.push_back(hooked::axis_name(axis));
    text +=
        fmt::format("| `{}` | [{}] | {} | {} | {} | {} |\n", row.path, fmt::join(axes, ", "), kind_text(row),
                    input_text(row.reads), row.writes_stream ? "yes" : "", row.when_there());
  }
  return text;
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

std::string packed() {
  std::string text;
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
      text += fmt::format("| `{}` | {} |\n", path, fmt::join(held, ", "));
    }
  }
  return text + "| every other | itself |\n";
}

}  // namespace

int main(int, char** argv) {
  hooked::print_page(argv[1], "weights", {{"names", names()}, {"packed", packed()}});
}
