#include "cli/json_output.h"

#include <fmt/format.h>

#include <string>

#include "core/id_list.h"
#include "hooked/engine/run_result.h"
#include "options/patch_names.h"

namespace hooked::cli {

void print_json(const Json& value) { fmt::print("{}\n", json_text(value)); }

Json model_json(const Provenance& model) {
  auto steps = Json::object();
  for (const auto& [step, outcome] : model.processing) steps[step] = outcome;
  return {{"model", or_null(model.model)},
          {"fingerprint", or_null(model.fingerprint)},
          {"dtype", or_null(model.dtype)},
          {"processing", or_null(steps)}};
}

Json model_json(const HookedTransformer& model) { return model_json(model.provenance()); }

Json token_json(const HookedTransformer& model, std::int64_t id) {
  const ModelConfig& config = model.config();
  // An encoder's head may have more logits than the embedding has rows.
  const bool is_token =
      model.has_tokenizer() && config.d_vocab_out() >= config.d_vocab && id < config.d_vocab;
  return {{"id", id}, {"token", is_token ? Json(model.tokenizer().decoded_piece(id)) : Json(nullptr)}};
}

Json next_token_json(const HookedTransformer& model, std::int64_t id, double logit, double probability) {
  Json json = token_json(model, id);
  json["logit"] = number_json(logit);
  json["probability"] = number_json(probability);
  return json;
}

Json around_json(const Tokenizer& tokenizer, const TokensAround& around) {
  const auto tokens_json = [&](const std::vector<std::int64_t>& ids) {
    auto tokens = Json::array();
    for (const std::int64_t id : ids) tokens.push_back({{"id", id}, {"token", tokenizer.decoded_piece(id)}});
    return tokens;
  };
  return {{"before", tokens_json(around.before)}, {"after", tokens_json(around.after)}, {"why", around.why}};
}

Json around_json(const HookedTransformer& model, PrependBos choice) {
  return around_json(model.tokenizer(), model.tokens_around({.prepend_bos = choice}));
}

Json rows_json(const at::Tensor& tokens, const at::Tensor& mask) {
  auto rows = Json::array();
  for (std::int64_t row = 0; row < tokens.size(0); ++row) {
    const auto ids = tokens[row].to(at::kCPU);
    rows.push_back(id_list(mask.defined() ? ids.masked_select(mask[row].to(at::kCPU).ne(0)) : ids));
  }
  return rows;
}

void add_tokens(const Input& input, Json& json) {
  json["tokens"] = rows_json(input.tokens, input.attention_mask);
  if (input.attention_mask.defined()) {
    // A row's first real column; masks may be of any dtype.
    const at::Tensor before = input.attention_mask.ne(0).to(at::kCPU, at::kInt).argmax(1);
    if (before.any().item<bool>()) json["padding"] = id_list(before);
  }
  if (input.decoder.tokens.defined())
    json["decoder_tokens"] = rows_json(input.decoder.tokens, input.decoder.attention_mask);
}

void add_tokens(const GivenInput& given, Json& json) {
  add_tokens(given.input, json);
  json["around"] = given.around;
}

std::int64_t position_in_row(const Input& input, std::int64_t row, std::int64_t column) {
  const at::Tensor mask = input.main_mask();
  return mask.defined() ? mask[row].narrow(0, 0, column).ne(0).sum().item<std::int64_t>() : column;
}

Json grid_json(const Grid& grid) {
  const std::string text = grid.to_json();
  return parse_json(text, {.bytes = text.size()});
}

Json numbers_json(const at::Tensor& numbers) {
  auto list = Json::array();
  for (std::int64_t i = 0; i < numbers.size(0); ++i) list.push_back(number_json(numbers[i].item<double>()));
  return list;
}

Json metric_json(MetricKind kind) {
  const MetricName& metric = metric_name(kind);
  return {{"name", metric.name}, {"unit", metric.unit}};
}

Json not_finite_json(const std::vector<std::string>& notes) {
  Json found = Json::array();
  for (const std::string& note : notes) {
    if (note.starts_with(kNotFinite)) found.push_back(note.substr(kNotFinite.size()));
  }
  return found;
}

}  // namespace hooked::cli
