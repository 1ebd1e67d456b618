#include "text/files/side_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/json.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "text/files/limited_files.h"

namespace hooked::text {
namespace {

// The tokenizer classes of models whose tokenizer_config.json, in older repositories, names none. GPT-2's is
// not among them: the pair of files alone is its tokenizer already, and one that names no BOS token gets
// none, as with its tokenizer.json.
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

// A config.json, if it can be read; other readers report what is wrong with it.
Json model_config(const std::filesystem::path& folder) {
  try {
    return object_if_there(folder / "config.json");
  } catch (const Error&) {
    return Json::object();
  }
}

std::string text_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Which files have words that transformers may fix: those of Mistral's models, and of unnamed models, from
// before its fifth version.
bool has_mistral_words(const Json& config) {
  const auto version = text_of(config, "transformers_version");
  if (!version.empty() && version[0] >= '5') return false;
  const auto type = text_of(config, "model_type");
  constexpr std::string_view kTypes[] = {"mistral",   "mistral3", "voxtral",
                                         "ministral", "pixtral",  "hooked_transformer"};
  return type.empty() || std::ranges::find(kTypes, type) != std::end(kTypes);
}

}  // namespace

const Json* member(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string without_fast(std::string name) {
  constexpr std::string_view kFast = "Fast";
  if (name.ends_with(kFast)) name.resize(name.size() - kFast.size());
  return name;
}

Json token_entry(const Json& token, std::string_view where) {
  Json entry = token.is_string() ? Json{{"content", token}} : token;
  if (!entry.is_object() || !entry.contains("content") || !entry["content"].is_string()) {
    throw TokenizerError(
        where,
        fmt::format("is {}; expected a token's spelling, or an object with its content", json_kind(token)));
  }
  return entry;
}

SideFiles SideFiles::read(const std::filesystem::path& folder) {
  SideFiles files;
  files.config_ = object_if_there(folder / kNames[0]);
  files.special_ = object_if_there(folder / kNames[1]);
  files.added_ = object_if_there(folder / kNames[2]);
  files.where_ = printable((folder / kNames[0]).native());
  files.options_.emplace(files.config_, files.where_, make_error<TokenizerError>);
  const Json config = model_config(folder);
  files.mistral_words_ = is_there(folder / "config.json") && has_mistral_words(config);
  files.name_class(config);
  return files;
}

SideFiles SideFiles::parse(std::string_view config, std::string_view name) {
  SideFiles files;
  files.config_ = read_object(config, name);
  files.where_ = printable(name);
  files.options_.emplace(files.config_, files.where_, make_error<TokenizerError>);
  files.name_class(Json::object());
  return files;
}

void SideFiles::name_class(const Json& config) {
  class_named_ = options_->has("tokenizer_class");
  hints_.model_type = text_of(config, "model_type");
  hints_.named = class_named_ ? options_->text("tokenizer_class") : text_of(config, "tokenizer_class");
  if (const auto* code = member(config_, "auto_map"))
    hints_.has_remote_code = code->is_array() || code->contains("AutoTokenizer");
  if (class_named_) {
    class_ = without_fast(hints_.named);
    return;
  }
  for (const auto& row : kClasses) {
    if (row.name == hints_.model_type) class_ = row.value;
  }
}

void SideFiles::refuse_class(std::string_view name, std::string_view what) const {
  throw TokenizerError(where_ + ": tokenizer_class", fmt::format("\"{}\" {}", printable(name), what));
}

bool SideFiles::names_ends() const {
  return options_ && (options_->has("add_bos_token") || options_->boolean_or("add_eos_token", false));
}

std::string SideFiles::around_keys() const {
  return fmt::format("add_bos_token and add_eos_token of {}", where_.substr(where_.rfind('/') + 1));
}

bool SideFiles::flag(std::string_view key, bool fallback) const {
  return options_ ? options_->boolean_or(key, fallback) : fallback;
}

std::optional<Json> SideFiles::named(std::string_view key, std::span<const DefaultToken> defaults) const {
  const auto fallback =
      std::find_if(defaults.begin(), defaults.end(), [&](const auto& token) { return token.key == key; });
  const auto with_flags = [&](Json entry) {
    if (fallback == defaults.end()) return entry;
    if (fallback->lstrip) entry["lstrip"] = true;
    if (fallback->normalized) entry["normalized"] = true;
    return entry;
  };
  for (const Json* file : {&special_, &config_}) {
    const auto* token = file == &special_ && lists_added() ? nullptr : member(*file, key);
    if (!token) continue;
    if (token->is_null()) return std::nullopt;
    const auto name =
        file == &special_ ? fmt::format("{}{}", where_.substr(0, where_.rfind('/') + 1), kNames[1]) : where_;
    auto entry = token_entry(*token, fmt::format("{}: {}", name, key));
    return token->is_string() ? with_flags(std::move(entry)) : entry;
  }
  if (fallback == defaults.end()) return std::nullopt;
  return with_flags({{"content", fallback->content}});
}

std::optional<std::string> SideFiles::token(std::string_view key,
                                            std::span<const DefaultToken> defaults) const {
  const auto entry = named(key, defaults);
  if (!entry) return std::nullopt;
  return entry->at("content").get<std::string>();
}

std::optional<std::string> SideFiles::config_with_class(std::string_view tokenizer_class) const {
  const bool same = class_named_ ? class_ == tokenizer_class : tokenizer_class.empty();
  if (same && (mistral_words_ || !config_.contains("fix_mistral_regex"))) return std::nullopt;
  auto config = config_;
  config["tokenizer_class"] = tokenizer_class.empty() ? "PreTrainedTokenizerFast" : tokenizer_class;
  if (!mistral_words_) config.erase("fix_mistral_regex");
  if (config == config_) return std::nullopt;
  return config.dump(2) + "\n";
}

std::optional<std::string> SideFiles::config_with_class() const {
  if (class_named_ || class_.empty()) return std::nullopt;
  auto config = config_;
  config["tokenizer_class"] = class_;
  return config.dump(2) + "\n";
}

}  // namespace hooked::text
