// hooked info: what a model is, and what weight processing does to it.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/actions.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "core/json.h"
#include "core/size_text.h"
#include "hooked/core/tensor_text.h"
#include "hooked/loading/describe.h"

namespace hooked::cli {
namespace {

// The fields that tell two models apart at a glance; --json has all of them.
void print_config(const ModelConfig& config) {
  const auto json = parse_json(config_json(config), {});
  Table table({{}, {}});
  if (config.has_encoder()) table.add({"n_encoder_layers", std::to_string(config.n_encoder_layers())});
  for (const auto* key :
       {"n_layers", "d_model", "n_heads", "n_key_value_heads", "d_head", "d_mlp", "d_vocab", "n_ctx",
        "num_experts", "experts_per_token", "act_fn", "gated_mlp", "attn_only", "parallel_attn_mlp",
        "normalization_type", "positional_embedding_type", "window_size", "default_prepend_bos"}) {
    const auto field = json.find(key);
    if (field == json.end() || field->is_null() || *field == false) continue;
    table.add({key, field->is_string() ? field->get<std::string>() : field->dump()});
  }
  const Json& hooked = json.at("hooked");
  if (hooked.contains("latent")) table.add({"latent attention", hooked.at("latent").dump()});
  table.print("  ");
}

void print_list(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  fmt::print("\n{}\n", title);
  for (const auto& line : lines) fmt::print("  {}\n", line);
}

void print_info(const std::string& name, const ModelDescription& model) {
  fmt::print("{}: {} parameters, {} as {}, family {}\n\n", name, grouped(model.parameters),
             size_text(static_cast<std::uint64_t>(model.bytes)), dtype_text(model.config.dtype),
             model.family);
  print_config(model.config);
  fmt::print("\nprocessing when it is loaded\n");
  Table steps({{}, {}});
  for (const auto& step : model.processing) {
    steps.add({std::string(processing_step_name(step.step)), step.outcome});
  }
  steps.print("  ");
  fmt::print("\ntokenizer\n  {}\n", model.tokenizer_pieces
                                        ? fmt::format("{} pieces", grouped(*model.tokenizer_pieces))
                                        : std::string("none that can be used; pass ids with --tokens"));
  if (model.tokenizer_pieces) {
    fmt::print("  {}\n", model.chat_template
                             ? fmt::format("chat template in {}; --chat uses it", *model.chat_template)
                             : std::string("no chat template"));
  }
  print_list("notes", model.notes);
  print_list("config keys that nothing reads", model.ignored_keys);
}

}  // namespace

void perform(const InfoOptions& options) {
  const ModelDescription model = describe(options.model.model, load_options(options.model));
  if (!options.json) return print_info(options.model.model, model);

  auto steps = Json::object();
  for (const auto& step : model.processing) {
    steps[std::string(processing_step_name(step.step))] = step.outcome;
  }
  print_json({{"family", model.family},
              {"config", parse_json(config_json(model.config), {})},
              {"parameters", model.parameters},
              {"bytes", model.bytes},
              {"processing", steps},
              {"chat_template", model.chat_template ? Json(*model.chat_template) : Json()},
              {"notes", model.notes},
              {"ignored_keys", model.ignored_keys}});
}

}  // namespace hooked::cli
