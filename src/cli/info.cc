// hooked info: what a model or dictionary is, and what weight processing does to it.
#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/dictionary_info.h"
#include "cli/input_options.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/json.h"
#include "core/size_text.h"
#include "hooked/analysis/repetition.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/describe.h"
#include "options/command_options.h"

namespace hooked::cli {
namespace {

// `0, 2, 4, 6 (4 of 8 layers)`; of many the first ones.
std::string layers_text(const std::vector<bool>& chosen) {
  constexpr std::ptrdiff_t kShown = 8;
  std::vector<std::size_t> layers;
  for (std::size_t layer = 0; layer < chosen.size(); ++layer) {
    if (chosen[layer]) layers.push_back(layer);
  }
  const auto shown = std::min(kShown, std::ssize(layers));
  return fmt::format("{}{} ({} of {} layers)", fmt::join(layers.begin(), layers.begin() + shown, ", "),
                     shown < std::ssize(layers) ? ", …" : "", layers.size(), chosen.size());
}

// What changes attention scores and logits in some models only.
void add_unusual(const ModelConfig& config, Table& table) {
  if (config.window) table.add({"window layers", layers_text(config.window->layers)});
  const double usual = std::sqrt(static_cast<double>(config.d_head));
  if (std::abs(config.attn_scale - usual) > 1e-4 * usual)
    table.add({"attn_scale", fmt::format("{:.6g}: what scores are divided by", config.attn_scale)});
  if (config.score_soft_cap > 0)
    table.add({"soft cap of scores", fmt::format("{:g}", config.score_soft_cap)});
  if (config.unembedding && config.unembedding->soft_cap > 0)
    table.add({"soft cap of logits", fmt::format("{:g}", config.unembedding->soft_cap)});
}

// The fields that distinguish models at a glance; --json has all of them.
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
  add_unusual(config, table);
  const Json& hooked = json.at("hooked");
  if (hooked.contains("latent")) table.add({"latent attention", hooked.at("latent").dump()});
  table.print("  ");
}

void print_list(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  fmt::print("\n{}\n", title);
  for (const auto& line : lines) fmt::print("  {}\n", line);
}

std::string bytes_text(std::int64_t bytes) { return size_text(static_cast<std::uint64_t>(bytes)); }

std::string tensors_text(std::int64_t tensors, std::int64_t bytes) {
  return fmt::format("{} tensor{}, {}", grouped(tensors), tensors == 1 ? "" : "s", bytes_text(bytes));
}

void print_storage(const ModelDescription& model) {
  const bool known = model.stated_bytes.has_value();
  fmt::print("\nstored in the files: {}{}\n", bytes_text(model.stored_bytes),
             known ? fmt::format(" of {}", bytes_text(*model.stated_bytes)) : "");
  Table table({{"dtype"}, {"tensors", Align::right}, {"size", Align::right}, {"stored as"}});
  for (const auto& row : model.storage)
    table.add({row.dtype, grouped(row.tensors), bytes_text(row.bytes),
               row.form == "numbers"  ? std::string("plain numbers")
               : row.form == "blocks" ? std::string("blocks of quantised numbers")
                                      : fmt::format("quantised weights, {}", row.form)});
  table.print("  ");
}

void print_adapter(const ModelDescription& model) {
  if (!model.adapter) return;
  fmt::print("\nadapter, merged into its base model when it is loaded\n");
  print_fields({{"base", model.adapter->base},
                {"folder", model.adapter->base_folder},
                {"holds", tensors_text(model.adapter->tensors, model.adapter->bytes)}});
}

// Parts of the checkpoint and files that are not loaded.
void print_unread(const ModelDescription& model) {
  std::vector<Field> fields;
  for (const auto& part : model.unread_parts)
    fields.push_back({part.name, tensors_text(part.tensors, part.bytes)});
  if (!model.ignored_files.empty())
    fields.push_back({"files", fmt::format("{}", fmt::join(model.ignored_files, ", "))});
  if (fields.empty()) return;
  fmt::print("\nin the folder, and not read\n");
  print_fields(fields);
}

void print_missing(const ModelDescription& model) {
  if (model.missing_files.empty()) return;
  constexpr std::size_t kShown = 10;
  std::vector<std::string> shown = model.missing_files;
  if (shown.size() > kShown) {
    shown.resize(kShown);
    shown.push_back(fmt::format("and {} more, which --json lists", model.missing_files.size() - kShown));
  }
  print_list("missing: without these files the model does not load", shown);
  if (!model.fetch.empty()) fmt::print("  `{}` fetches them\n", model.fetch);
}

// `<s> before it, </s> after it (post_processor of tokenizer.json)`
std::string around_line(const Tokenizer& tokenizer, const TokensAround& around) {
  const auto pieces = [&](const std::vector<std::int64_t>& ids) {
    std::string all;
    for (const auto id : ids) all += (all.empty() ? "" : " ") + tokenizer.printable_piece(id);
    return all;
  };
  std::vector<std::string> parts;
  if (!around.before.empty()) parts.push_back(pieces(around.before) + " before it");
  if (!around.after.empty()) parts.push_back(pieces(around.after) + " after it");
  if (parts.empty()) parts.emplace_back("no tokens");
  return fmt::format("{} ({})", fmt::join(parts, ", "), around.why);
}

void print_tokenizer(const ModelDescription& model) {
  fmt::print("\ntokenizer\n");
  if (!model.tokenizer_pieces) return print_fields({{"no tokenizer", model.tokenizer_problem}});
  fmt::print("  {}, {} pieces, {}\n", model.tokenizer_kind, grouped(*model.tokenizer_pieces),
             model.tokenizer_form);
  fmt::print("  around a text: {}\n", around_line(*model.tokenizer, *model.tokens_around));
  fmt::print("  {}\n", model.chat_template
                           ? fmt::format("chat template in {}; --chat uses it", *model.chat_template)
                           : std::string("no chat template, which --chat needs"));
}

void print_info(const std::string& name, const ModelDescription& model) {
  fmt::print("{}: {} parameters{}, {} in memory as {}, family {}\n", name, grouped(model.parameters),
             is_processed(model.processing) ? " before processing" : "", bytes_text(model.bytes),
             model.weights == WeightStorage::stored ? "stored in the file" : dtype_text(model.config.dtype),
             model.family);
  fmt::print("a run reads {}\n\n", model.context ? fmt::format("at most {} tokens", grouped(*model.context))
                                                 : std::string("any number of tokens"));
  print_config(model.config);
  print_adapter(model);
  print_storage(model);
  print_missing(model);
  print_unread(model);
  print_tokenizer(model);
  fmt::print("\nprocessing of the weights when they are loaded; the files stay as they are\n");
  print_steps(model.processing);
  const auto centres = [](const StepReport& step) {
    return step.step == ProcessingStep::center_unembed && step.outcome.ends_with("applied");
  };
  if (std::ranges::any_of(model.processing, centres)) print_logits_centred();
  print_list("notes", model.notes);
  print_list("config keys that nothing reads", model.ignored_keys);
}

// What --json says about the files, in addition to the fields that describe the model.
void add_files(const ModelDescription& model, Json& json) {
  json["context"] = or_null(model.context);
  json["storage"] = Json::array();
  for (const auto& row : model.storage) {
    json["storage"].push_back(
        {{"dtype", row.dtype}, {"form", row.form}, {"tensors", row.tensors}, {"bytes", row.bytes}});
  }
  json["stored_bytes"] = model.stored_bytes;
  json["stated_bytes"] = or_null(model.stated_bytes);
  json["missing_files"] = model.missing_files;
  json["fetch"] = or_null(model.fetch);
  json["unread_parts"] = Json::array();
  for (const auto& part : model.unread_parts)
    json["unread_parts"].push_back({{"name", part.name}, {"tensors", part.tensors}, {"bytes", part.bytes}});
  json["ignored_files"] = model.ignored_files;
  json["tokenizer"] = {{"kind", or_null(model.tokenizer_kind)},
                       {"form", or_null(model.tokenizer_form)},
                       {"pieces", or_null(model.tokenizer_pieces)},
                       {"problem", or_null(model.tokenizer_problem)},
                       {"around", nullptr}};
  if (const auto& around = model.tokens_around)
    json["tokenizer"]["around"] = around_json(*model.tokenizer, *around);
  json["chat_template"] = or_null(model.chat_template);
  json["adapter"] = nullptr;
  if (const auto& adapter = model.adapter) {
    json["adapter"] = {{"base", adapter->base},
                       {"base_folder", adapter->base_folder},
                       {"tensors", adapter->tensors},
                       {"bytes", adapter->bytes}};
  }
}

/// The difference between a model that was processed on loading and the same model as stored.
struct ProcessingCheck {
  double largest;                  ///< difference of a log-probability, in nats
  std::int64_t tokens;             ///< random tokens that both models read
  at::ScalarType dtype;            ///< in which both models ran
  std::vector<std::string> notes;  ///< of the two runs
};

constexpr std::int64_t kRows = 4, kMostHalf = 8;
constexpr double kLeast = -100.0;

Input random_input(const ModelConfig& config) {
  const std::int64_t vocab = std::min(config.d_vocab, config.d_vocab_out());
  const std::int64_t half = std::min({kMostHalf, config.n_ctx / 2, vocab});
  const auto tokens = [&](std::uint64_t seed) {
    return repeated_random_tokens({.rows = kRows,
                                   .half = std::max<std::int64_t>(1, half),
                                   .vocab_begin = 0,
                                   .vocab_end = vocab,
                                   .seed = seed});
  };
  if (!config.has_encoder()) return Input(tokens(0));
  return Input(tokens(0), {.decoder = {.tokens = tokens(1)}});
}

/// Log-probabilities [batch, pos, vocab], and the run's notes.
struct Predicted {
  at::Tensor log_probs;
  std::vector<std::string> notes;
};

Predicted predicted(const ModelOptions& options, std::optional<WeightProcessing> processing,
                    const Input& input) {
  LoadOptions load = load_options(options);
  if (processing) load.processing = std::move(processing);
  const auto model = HookedTransformer::load(options.model, load);
  const RunResult run = model.run(input);
  return {at::log_softmax(run.logits().to(at::kCPU, at::kDouble), -1), notes_of(run)};
}

// Loads the model twice and compares its predictions. Entries with a probability below e^-100 are left out:
// masked ones have none. Throws ConfigError for a model without an unembedding.
ProcessingCheck check_processing(const ModelOptions& options) {
  const ModelConfig config = describe(options.model, load_options(options)).config;
  if (!config.has_unembedding()) {
    throw ConfigError("--check-processing",
                      "the model has no unembedding and predicts nothing; expected one whose "
                      "log-probabilities can be compared");
  }
  const Input input = random_input(config);
  Predicted raw = predicted(options, WeightProcessing::none(), input);
  const Predicted processed = predicted(options, std::nullopt, input);
  const at::Tensor apart =
      (raw.log_probs - processed.log_probs).abs().masked_fill((raw.log_probs >= kLeast).logical_not(), 0.0);
  raw.notes.insert(raw.notes.end(), processed.notes.begin(), processed.notes.end());
  return {.largest = apart.max().item<double>(),
          .tokens = input.main_tokens().numel(),
          .dtype = config.dtype,
          .notes = std::move(raw.notes)};
}

}  // namespace

void perform(const InfoOptions& options) {
  if (is_dictionary(options.model.model)) {
    if (options.check_processing) {
      throw ConfigError("--check-processing", "a dictionary has no weight processing; expected a model");
    }
    print_dictionary_info(options.model.model, options.json);
    return;
  }
  const ModelDescription model = describe(options.model.model, load_options(options.model));
  std::optional<ProcessingCheck> check;
  if (options.check_processing && model.weights == WeightStorage::stored) {
    throw ConfigError("--check-processing",
                      "weights that stay as they are stored are not processed, so that there is nothing to "
                      "check; expected expanded weights; leave out --weights stored");
  }
  if (options.check_processing) check = check_processing(options.model);
  if (check) print_notes(check->notes);
  if (!options.json) {
    print_info(options.model.model, model);
    if (check) {
      fmt::print(
          "\nwith and without it, log-probabilities of {} random tokens differ by at most {:.2g} ({})\n",
          check->tokens, check->largest, dtype_text(check->dtype));
    }
    return;
  }
  Provenance from{.model = options.model.model, .dtype = std::string(dtype_text(model.config.dtype))};
  for (const auto& [step, outcome] : model.processing)
    from.processing.emplace_back(processing_step_name(step), outcome);
  Json json = model_json(from);
  json.update({{"family", model.family},
               {"config", parse_json(config_json(model.config), {})},
               {"parameters", model.parameters},
               {"bytes", model.bytes},
               {"weights", model.weights == WeightStorage::stored ? "stored" : "expanded"},
               {"notes", model.notes},
               {"ignored_keys", model.ignored_keys}});
  add_files(model, json);
  if (check) {
    json["processing_check"] = {{"largest", number_json(check->largest)},
                                {"tokens", check->tokens},
                                {"dtype", dtype_text(check->dtype)},
                                {"not_finite", not_finite_json(check->notes)}};
  }
  print_json(json);
}

}  // namespace hooked::cli
