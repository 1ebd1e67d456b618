#include "text/side_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/json.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "text/limited_files.h"

namespace hooked::text {
namespace {

// Special tokens, in the order in which transformers adds them.
constexpr std::string_view kTokenKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};
constexpr std::string_view kTokenLists[] = {"additional_special_tokens", "extra_special_tokens"};

// The classes of models whose tokenizer_config.json, in older repositories, names none. Not that of GPT-2:
// the pair of files alone is its tokenizer already, and one that names no BOS token, as its tokenizer.json,
// gets none.
constexpr Named<std::string_view> kClasses[] = {
    {"llama", "LlamaTokenizer"},
    {"mistral", "LlamaTokenizer"},
    {"mixtral", "LlamaTokenizer"},
    {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},
    {"gemma3_text", "GemmaTokenizer"},
    {"gemma3", "GemmaTokenizer"},
    {"t5", "T5Tokenizer"},
    {"mt5", "T5Tokenizer"},
    {"umt5", "T5Tokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
    {"camembert", "CamembertTokenizer"},
    {"xglm", "XGLMTokenizer"},
    {"mbart", "MBartTokenizer"},
    {"pegasus", "PegasusTokenizer"},
    {"albert", "AlbertTokenizer"},
    {"xlnet", "XLNetTokenizer"},
    {"deberta-v2", "DebertaV2Tokenizer"},
    {"bert", "BertTokenizer"},
    {"distilbert", "DistilBertTokenizer"},
    {"electra", "ElectraTokenizer"},
    {"mpnet", "MPNetTokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"bart", "BartTokenizer"},
    {"qwen2", "Qwen2Tokenizer"},
    {"qwen2_moe", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},
    {"qwen", "QWenTokenizer"},
    {"clip", "CLIPTokenizer"},
    {"ctrl", "CTRLTokenizer"},
    {"openai-gpt", "OpenAIGPTTokenizer"},
};

Json object_if_there(const std::filesystem::path& file) {
  return is_there(file) ? read_object(read_limited(file), file.native()) : Json::object();
}

// What a config.json that can be read calls its model; what is wrong with others is not this room's business.
std::string model_type_of(const std::filesystem::path& folder) {
  try {
    const auto json = object_if_there(folder / "config.json");
    const auto type = json.find("model_type");
    return type != json.end() && type->is_string() ? type->get<std::string>() : std::string();
  } catch (const Error&) {
    return {};
  }
}

const Json* member(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// A token as a string, or as an object with its content and flags, as an entry of `added_tokens`.
Json as_entry(const Json& token, std::string_view where) {
  Json entry = token.is_string() ? Json{{"content", token}} : token;
  if (!entry.is_object() || !entry.contains("content") || !entry["content"].is_string()) {
    throw TokenizerError(
        where,
        fmt::format("is {}; expected a token's spelling, or an object with its content", json_kind(token)));
  }
  return entry;
}

}  // namespace

SideFiles SideFiles::read(const std::filesystem::path& folder) {
  SideFiles files;
  files.config_ = object_if_there(folder / kNames[0]);
  files.special_ = object_if_there(folder / kNames[1]);
  files.added_ = object_if_there(folder / kNames[2]);
  files.where_ = printable((folder / kNames[0]).native());
  files.options_.emplace(files.config_, files.where_, make_error<TokenizerError>);
  files.class_named_ = files.options_->has("tokenizer_class");
  if (files.class_named_) {
    files.class_ = files.options_->text("tokenizer_class");
    constexpr std::string_view kFast = "Fast";
    if (files.class_.ends_with(kFast)) files.class_.resize(files.class_.size() - kFast.size());
    return files;
  }
  const auto type = model_type_of(folder);
  for (const auto& row : kClasses) {
    if (row.name == type) files.class_ = row.value;
  }
  return files;
}

void SideFiles::refuse_class(std::string_view what) const {
  throw TokenizerError(where_ + ": tokenizer_class", fmt::format("\"{}\" {}", printable(class_), what));
}

bool SideFiles::flag(std::string_view key, bool fallback) const {
  return options_ ? options_->boolean_or(key, fallback) : fallback;
}

std::optional<Json> SideFiles::named(std::string_view key, std::span<const DefaultToken> defaults) const {
  const auto fallback =
      std::find_if(defaults.begin(), defaults.end(), [&](const auto& token) { return token.key == key; });
  const auto place = fmt::format("{}: {}", where_, key);
  for (const Json* file : {&config_, &special_}) {
    const auto* token = member(*file, key);
    if (!token) continue;
    if (token->is_null()) return std::nullopt;
    auto entry = as_entry(*token, place);
    const bool same = fallback != defaults.end() && entry["content"] == fallback->content;
    if (token->is_string() && same && fallback->lstrip) entry["lstrip"] = true;
    return entry;
  }
  if (fallback == defaults.end()) return std::nullopt;
  return Json{{"content", fallback->content}, {"lstrip", fallback->lstrip}};
}

std::optional<std::string> SideFiles::token(std::string_view key,
                                            std::span<const DefaultToken> defaults) const {
  const auto entry = named(key, defaults);
  if (!entry) return std::nullopt;
  return entry->at("content").get<std::string>();
}

Json SideFiles::added_tokens(const Vocabulary& vocabulary, std::span<const DefaultToken> defaults) const {
  auto list = Json::array();
  std::map<std::string, std::size_t> places;  // in the list, by content
  std::int64_t next = vocabulary.size();
  const auto add = [&](Json entry, std::optional<std::int64_t> id) {
    const auto content = entry["content"].get<std::string>();
    if (!id) {
      if (places.contains(content)) return;  // listed already, with its flags
      id = vocabulary.find(content);
      if (!id) id = next;
      entry["special"] = true;
      if (!entry.contains("normalized")) entry["normalized"] = false;
    }
    entry["id"] = *id;
    next = std::max(next, *id + 1);
    places.emplace(content, list.size());
    list.push_back(std::move(entry));
  };
  if (const auto* listed = member(config_, "added_tokens_decoder"); listed && listed->is_object()) {
    for (const auto& [key, token] : listed->items()) {
      const auto place = fmt::format("{}: added_tokens_decoder.{}", where_, printable(key));
      const auto id = parse_integer(key);
      if (!id || *id < 0 || *id >= Vocabulary::kIds)
        throw TokenizerError(place, fmt::format("is not an id; expected 0 to {}", Vocabulary::kIds - 1));
      add(as_entry(token, place), id);
    }
  } else {
    for (const auto& [content, id] : added_.items()) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
          id.get<std::int64_t>() >= Vocabulary::kIds) {
        throw TokenizerError(fmt::format("{}: {}", kNames[2], printable(content)),
                             fmt::format("is not an id; expected 0 to {}", Vocabulary::kIds - 1));
      }
      add({{"content", content}}, id.get<std::int64_t>());
    }
  }
  for (const auto key : kTokenKeys) {
    if (auto entry = named(key, defaults)) add(std::move(*entry), std::nullopt);
  }
  for (const auto key : kTokenLists) {
    for (const Json* file : {&config_, &special_}) {
      const auto* tokens = member(*file, key);
      if (!tokens || !tokens->is_array()) continue;
      for (const auto& token : *tokens)
        add(as_entry(token, fmt::format("{}: {}", where_, key)), std::nullopt);
      break;
    }
  }
  return list;
}

std::vector<AddedToken> SideFiles::read_added(const Vocabulary& vocabulary,
                                              std::span<const DefaultToken> defaults) const {
  const ConfigReader json({{"added_tokens", added_tokens(vocabulary, defaults)}}, where_,
                          make_error<TokenizerError>);
  return read_added_tokens(json, vocabulary);
}

std::optional<std::string> SideFiles::config_with_class() const {
  if (class_named_ || class_.empty()) return std::nullopt;
  auto config = config_;
  config["tokenizer_class"] = class_;
  return config.dump(2) + "\n";
}

}  // namespace hooked::text
