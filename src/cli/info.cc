// hooked info: what a model is, and what weight processing does to it.
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "core/json.h"
#include "engine/loaded_model.h"
#include "engine/usual_processing.h"
#include "hooked/core/tensor_text.h"

namespace hooked::cli {
namespace {

struct InfoOptions {
  ModelOptions model;
  bool json = false;
};

Json config_json(const ModelConfig& config) { return parse_json(config.to_json(), {}); }

// The fields that tell two models apart at a glance; --json has all of them.
void print_config(const ModelConfig& config) {
  const auto json = config_json(config);
  Table table({{}, {}});
  if (config.has_encoder()) table.add({"n_encoder_layers", std::to_string(config.n_encoder_layers)});
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

void print_info(const std::string& name, const HookedTransformer& model,
                const std::vector<StepReport>& processing) {
  const auto& config = model.config();
  const auto parameters = config.parameter_count();
  fmt::print("{}: {} parameters, {} as {}, family {}\n\n", name, grouped(parameters),
             size_text(static_cast<std::uint64_t>(parameters) * c10::elementSize(config.dtype)),
             dtype_text(config.dtype), model.family());
  print_config(config);
  fmt::print("\nprocessing when it is loaded\n");
  Table steps({{}, {}});
  for (const auto& step : processing) steps.add({std::string(processing_step_name(step.step)), step.outcome});
  steps.print("  ");
  const auto& tokenizer = model.loaded()->tokenizer;
  fmt::print("\ntokenizer\n  {}\n", tokenizer ? fmt::format("{} pieces", grouped(tokenizer->vocab_size()))
                                              : std::string("none that can be used; pass ids with --tokens"));
  print_list("notes", model.notes());
  print_list("config keys that nothing reads", model.ignored_keys());
}

void info(const InfoOptions& options) {
  // The raw model is what the checkpoint says; what processing would do follows from its config.
  const auto model = options.model.load_raw();
  const auto& config = model.config();
  const auto processing = plan_processing(
      config, options.model.processing().value_or(usual_processing(read_model_config(options.model.model))));
  if (!options.json) return print_info(options.model.model, model, processing);

  auto steps = Json::object();
  for (const auto& step : processing) steps[std::string(processing_step_name(step.step))] = step.outcome;
  const auto parameters = config.parameter_count();
  print_json({{"family", model.family()},
              {"config", config_json(config)},
              {"parameters", parameters},
              {"bytes", parameters * static_cast<std::int64_t>(c10::elementSize(config.dtype))},
              {"processing", steps},
              {"notes", model.notes()},
              {"ignored_keys", model.ignored_keys()}});
}

}  // namespace

Action define_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  add_model_options(app, options->model);
  app.add_flag("--json", options->json, "one JSON object on stdout");
  return [options] { info(*options); };
}

}  // namespace hooked::cli
