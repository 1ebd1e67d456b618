#include "text/tokenizer_rules.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "core/json.h"
#include "core/name_list.h"
#include "hooked/core/error.h"
#include "text/limited_files.h"

namespace hooked {

void Tokenizer::Rules::take_chat(text::ChatTemplates templates) {
  chat = std::move(templates);
  if (chat.problem)
    notes.push_back(fmt::format("the chat template cannot be used: {}", chat.problem->what()));
}

std::string Tokenizer::Rules::normalize(std::string_view text) const {
  text::NormalizedString normalized(text, {0, text.size()});
  if (normalizer) normalizer->apply(normalized);
  return std::string(normalized.text());
}

}  // namespace hooked

namespace hooked::text {
namespace {

Json parse_document(std::string_view json, std::string_view name, const JsonLimits& limits) {
  try {
    return parse_json(json, limits);
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(printable(name), reason.what());
  }
}

void check_special_ids(const ConfigReader& json, const Tokenizer::Rules& rules) {
  if (!rules.post_processor) return;
  for (const auto id : rules.post_processor->special_ids()) {
    if (rules.piece(id)) continue;
    throw TokenizerError(
        json.where("post_processor"),
        fmt::format("adds the id {}, which no piece has; expected an id of the vocabulary, 0 to {}", id,
                    rules.size() - 1));
  }
}

// The id of a token that tokenizer_config.json names, as a string or as an object with its `content`.
std::optional<std::int64_t> named_token(const ConfigReader& json, std::string_view key,
                                        const Tokenizer::Rules& rules) {
  if (!json.has(key)) return std::nullopt;
  if (json.holds_object(key)) return named_token(json.object(key), "content", rules);
  const auto id = rules.find(json.text(key));
  if (!id) json.refuse(key, "is not in the vocabulary; expected a piece of the tokenizer");
  return id;
}

}  // namespace

Tokenizer::Rules read_rules(Json document, std::string_view name) {
  const ConfigReader json(std::move(document), name, make_error<TokenizerError>);
  Tokenizer::Rules rules;
  if (const auto steps = json.object_if("pre_tokenizer")) rules.pre_tokenizers = read_pre_tokenizer(*steps);
  // A model that can read bytes makes it needless to spell them as characters.
  const bool bytes_at_hand =
      !rules.pre_tokenizers.empty() && rules.pre_tokenizers.back()->only_spells_bytes();
  rules.model =
      read_model(json.object("model"), bytes_at_hand ? WordSpelling::bytes : WordSpelling::characters);
  if (rules.model->spelling() == WordSpelling::bytes) rules.pre_tokenizers.pop_back();

  if (const auto step = json.object_if("normalizer")) rules.normalizer = read_normalizer(*step);
  if (const auto step = json.object_if("decoder")) rules.decoder = read_decoder(*step);
  rules.added = AddedTokens(read_added_tokens(json, rules.model->vocabulary()),
                            [&](std::string_view text) { return rules.normalize(text); });
  if (const auto step = json.object_if("post_processor")) rules.post_processor = read_post_processor(*step);
  check_special_ids(json, rules);
  if (const auto& repeated = rules.model->vocabulary().repeated(); !repeated.empty()) {
    rules.notes.push_back(fmt::format("{} names pieces more than once, and each has the last of its ids: {}",
                                      json.object("model").where("vocab"), name_list(repeated)));
  }
  return rules;
}

std::string read_tokenizer_bytes(const std::filesystem::path& file) {
  return read_limited(file, Tokenizer::kFileBytes);
}

Json parse_tokenizer_json(std::string_view json, std::string_view name,
                          std::optional<std::vector<std::string_view>> repeating) {
  return parse_document(json, name, {.bytes = Tokenizer::kFileBytes, .repeating = std::move(repeating)});
}

Tokenizer::Rules read_tokenizer(std::string_view json, std::string_view name) {
  auto rules =
      read_rules(parse_tokenizer_json(json, name, std::vector<std::string_view>{"model", "vocab"}), name);
  rules.form = "tokenizer.json";
  return rules;
}

Tokenizer::Rules read_tokenizer_file(const std::filesystem::path& file) {
  return read_tokenizer(read_tokenizer_bytes(file), file.native());
}

void read_tokenizer_config(const std::filesystem::path& folder, Tokenizer::Rules& rules) {
  const auto file = folder / "tokenizer_config.json";
  if (is_there(file)) read_tokenizer_config(read_limited(file), file.native(), rules);
}

void read_tokenizer_config(std::string_view text, std::string_view name, Tokenizer::Rules& rules) {
  const ConfigReader json(read_object(text, name), name, make_error<TokenizerError>);
  rules.bos = named_token(json, "bos_token", rules);
  rules.eos = named_token(json, "eos_token", rules);
}

}  // namespace hooked::text
