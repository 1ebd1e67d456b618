#include "text/tokenizer/tokenizer_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/json.h"
#include "core/name_list.h"
#include "hooked/core/error.h"
#include "text/classes/class_pipelines.h"
#include "text/files/limited_files.h"

namespace hooked {

void Tokenizer::Rules::put_around(TokensAround tokens) {
  post_processor = text::with_tokens_around(std::move(post_processor), tokens);
  around = std::move(tokens);
}

void Tokenizer::Rules::take_ends(const text::SideFiles& beside,
                                 std::span<const text::DefaultToken> defaults) {
  const auto id_of = [&](std::string_view key) {
    const auto content = beside.token(key, defaults);
    return content ? find(*content) : std::nullopt;
  };
  bos = id_of("bos_token");
  eos = id_of("eos_token");
}

TokensAround Tokenizer::Rules::around_by_keys(const text::SideFiles& beside) const {
  const auto ids_if = [&](std::string_view key, const std::optional<std::int64_t>& id) {
    return id && beside.flag(key, false) ? std::vector{*id} : std::vector<std::int64_t>{};
  };
  return {ids_if("add_bos_token", bos), ids_if("add_eos_token", eos), beside.around_keys()};
}

void Tokenizer::Rules::take_text_options(const text::SideFiles& beside) {
  splits_special_tokens = beside.flag("split_special_tokens", false);
  if (!splits_special_tokens) return;
  notes.emplace_back(
      "special tokens inside a text are ordinary text, as split_special_tokens of tokenizer_config.json "
      "says");
}

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

void read_around(const ConfigReader& json, Tokenizer::Rules& rules) {
  if (!rules.post_processor) return;
  rules.around = rules.post_processor->around();
  if (!rules.around) return;
  const auto where = json.where("post_processor");
  const auto file = json.where();
  rules.around->why = fmt::format("post_processor of {}", file.substr(file.rfind('/') + 1));
  for (const auto* ids : {&rules.around->before, &rules.around->after}) {
    for (const auto id : *ids) {
      if (rules.piece(id)) continue;
      if (id < 0 || id >= Vocabulary::kIds) {
        throw TokenizerError(where,
                             fmt::format("adds the id {}; expected 0 to {}", id, Vocabulary::kIds - 1));
      }
      // As the package does. A model may have the id.
      rules.without_piece.emplace(id, fmt::format("<{}>", id));
      rules.notes.push_back(
          fmt::format("{} puts the id {} around a text, which no piece has", rules.around->why, id));
    }
  }
}

// The file's own tokens are checked before they are numbered.
void check_added_tokens(const Json& document, std::string_view name) {
  const auto listed = document.find("added_tokens");
  if (listed == document.end()) return;
  read_added_tokens(ConfigReader({{"added_tokens", *listed}}, name, make_error<TokenizerError>));
}

// The tokens around a text by the keys of tokenizer_config.json, unless a post-processor says them.
void take_around_keys(const SideFiles& beside, Tokenizer::Rules& rules) {
  if (!beside.names_ends()) return;
  const TokensAround asked = rules.around_by_keys(beside);
  const auto has = [](const std::vector<std::int64_t>& ids, const std::optional<std::int64_t>& id) {
    return id && std::ranges::find(ids, *id) != ids.end();
  };
  if (!rules.around) {
    if (!asked.before.empty() || !asked.after.empty()) {
      rules.notes.push_back(
          fmt::format("a text gets the tokens that {} ask for; AutoTokenizer, which reads the "
                      "post-processor alone, puts none there",
                      beside.around_keys()));
    }
    return rules.put_around(asked);
  }
  const bool bos = has(rules.around->before, rules.bos), eos = has(rules.around->after, rules.eos);
  if (bos == !asked.before.empty() && eos == !asked.after.empty()) {
    rules.around->why += fmt::format(" and {}", beside.around_keys());
  } else {
    rules.notes.push_back(fmt::format("{} do not agree with {}, which decides, as in AutoTokenizer",
                                      beside.around_keys(), rules.around->why));
  }
}

}  // namespace

Tokenizer::Rules read_rules(Json document, std::string_view name) {
  const ConfigReader json(std::move(document), name, make_error<TokenizerError>);
  Tokenizer::Rules rules;
  if (const auto steps = json.object_if("pre_tokenizer")) rules.pre_tokenizers = read_pre_tokenizer(*steps);
  // A model that can read bytes does not need them spelled as characters.
  const bool bytes_at_hand =
      !rules.pre_tokenizers.empty() && rules.pre_tokenizers.back()->only_spells_bytes();
  rules.model =
      read_model(json.object("model"), bytes_at_hand ? WordSpelling::bytes : WordSpelling::characters);
  if (rules.model->spelling() == WordSpelling::bytes) rules.pre_tokenizers.pop_back();

  if (const auto step = json.object_if("normalizer")) rules.normalizer = read_normalizer(*step);
  if (const auto step = json.object_if("decoder")) rules.decoder = read_decoder(*step);
  rules.added =
      AddedTokens(read_added_tokens(json), [&](std::string_view text) { return rules.normalize(text); });
  if (const auto& lost = rules.added.never_found(); !lost.empty()) {
    rules.notes.push_back(
        fmt::format("the normalizer leaves nothing of some added tokens, so they are found in no text, where "
                    "the tokenizers package would cut every text into its characters: {}",
                    name_list(lost)));
  }
  if (const auto step = json.object_if("post_processor")) rules.post_processor = read_post_processor(*step);
  read_around(json, rules);
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

Tokenizer::Rules read_tokenizer(std::string_view json, std::string_view name, const SideFiles& beside) {
  Json document = parse_tokenizer_json(json, name, std::vector<std::string_view>{"model", "vocab"});
  check_added_tokens(document, name);
  const auto used_by = json_class(json, beside);
  const auto notes = apply_class({.name = used_by}, document, beside);
  auto rules = read_rules(std::move(document), name);
  rules.form = "tokenizer.json";
  for (const auto* some : {&notes.file, &notes.ids})
    rules.notes.insert(rules.notes.end(), some->begin(), some->end());
  rules.take_ends(beside, default_tokens(used_by));
  take_around_keys(beside, rules);
  return rules;
}

}  // namespace hooked::text
