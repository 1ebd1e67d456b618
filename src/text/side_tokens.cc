// The added tokens of a tokenizer.json and of the files beside it, numbered as transformers numbers them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/name_list.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "text/side_files.h"

namespace hooked::text {
namespace {

constexpr std::string_view kFlags[] = {"single_word", "lstrip", "rstrip"};

std::string content_of(const Json& token) { return token.at("content").get<std::string>(); }

bool flag_of(const Json& token, std::string_view key) {
  const auto found = token.find(key);
  return found != token.end() && found->is_boolean() && found->get<bool>();
}

// With all its flags. A special token is looked for in the text as it is, if nothing else is said.
Json with_flags(const Json& token) {
  Json whole = {{"content", token.at("content")}};
  for (const auto key : kFlags) whole[std::string(key)] = flag_of(token, key);
  const bool special = flag_of(token, "special");
  whole["normalized"] = token.contains("normalized") ? flag_of(token, "normalized") : !special;
  whole["special"] = special;
  return whole;
}

// Those of a tokenizer.json that its reader accepts.
std::vector<Json> own_tokens(const Json& document) {
  std::vector<Json> tokens;
  const auto listed = document.find("added_tokens");
  if (listed == document.end() || !listed->is_array()) return tokens;
  for (const auto& token : *listed) {
    if (token.is_object() && token.contains("id") && token["id"].is_number_integer() &&
        token.contains("content") && token["content"].is_string())
      tokens.push_back(token);
  }
  return tokens;
}

/// Numbers tokens as the package `tokenizers` does when they are added.
class Numbering {
 public:
  Numbering(const Json& vocabulary, const std::set<std::string>& wanted) {
    std::int64_t place = 0;
    for (const auto& [key, piece] : vocabulary.items()) {
      const bool listed = piece.is_array() && !piece.empty() && piece[0].is_string();
      const auto& spelled = listed ? piece[0].get_ref<const std::string&>() : key;
      const auto id = listed || !piece.is_number_integer() ? place : piece.get<std::int64_t>();
      if (wanted.contains(spelled)) pieces_[spelled] = id;
      next_ = std::max(next_, id + 1);
      ++place;
    }
  }

  /// A token of the file, which keeps its id.
  void know(const Json& token, ClassTokens::Start start) {
    ids_[content_of(token)] = token.at("id").get<std::int64_t>();
    if (start == ClassTokens::Start::those_of_file) add(with_flags(token));
  }

  /// Whether the token is a new one: neither in the file nor a piece.
  bool add(Json token) {
    const auto content = content_of(token);
    const auto known = ids_.find(content);
    const auto piece = pieces_.find(content);
    const bool is_new = known == ids_.end() && piece == pieces_.end();
    const std::int64_t id = known != ids_.end() ? known->second : is_new ? next_ : piece->second;
    next_ = std::max(next_, id + 1);
    ids_[content] = id;
    token["id"] = id;
    tokens_[id] = std::move(token);
    return is_new;
  }

  bool has(const std::string& content) const {
    const auto known = ids_.find(content);
    return known != ids_.end() && tokens_.contains(known->second);
  }

  std::int64_t id(const std::string& content) const { return ids_.at(content); }

  Json tokens() && {
    auto list = Json::array();
    for (auto& [id, token] : tokens_) list.push_back(std::move(token));
    return list;
  }

 private:
  std::unordered_map<std::string, std::int64_t> pieces_, ids_;
  std::map<std::int64_t, Json> tokens_;
  std::int64_t next_ = 0;
};

}  // namespace

std::vector<Json> SideFiles::listed() const {
  std::vector<Json> tokens;
  std::map<std::int64_t, Json> by_id;
  if (lists_added()) {
    const auto& listed = config_.at("added_tokens_decoder");
    if (!listed.is_object()) return tokens;
    for (const auto& [key, token] : listed.items()) {
      const auto place = fmt::format("{}: added_tokens_decoder.{}", where_, printable(key));
      const auto id = parse_integer(key);
      if (!id || *id < 0 || *id >= Vocabulary::kIds)
        throw TokenizerError(place, fmt::format("is not an id; expected 0 to {}", Vocabulary::kIds - 1));
      by_id[*id] = token_entry(token, place);
    }
  } else {
    for (const auto& [content, id] : added_.items()) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
          id.get<std::int64_t>() >= Vocabulary::kIds) {
        throw TokenizerError(fmt::format("{}: {}", kNames[2], printable(content)),
                             fmt::format("is not an id; expected 0 to {}", Vocabulary::kIds - 1));
      }
      by_id[id.get<std::int64_t>()] = {{"content", content}};
    }
  }
  for (auto& [id, token] : by_id) {
    token["id"] = id;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<std::string> SideFiles::token_keys(std::span<const DefaultToken> defaults) const {
  std::vector<std::string> keys(std::begin(kTokenKeys), std::end(kTokenKeys));
  const auto add = [&](std::string_view key) {
    if (std::ranges::find(keys, key) == keys.end()) keys.emplace_back(key);
  };
  for (const auto& token : defaults) add(token.key);
  for (const Json* file : {&config_, &special_}) {
    if (file == &special_ && lists_added()) continue;
    for (const auto& [key, value] : file->items()) {
      if (key.ends_with("_token") && (value.is_string() || value.is_object())) add(key);
    }
  }
  return keys;
}

std::vector<Json> SideFiles::extra_tokens(const std::vector<std::string>& extras) const {
  std::vector<Json> tokens;
  bool named = false;
  for (const std::string_view key : {"extra_special_tokens", "additional_special_tokens"}) {
    for (const Json* file : {&special_, &config_}) {
      if (named || (file == &special_ && lists_added())) continue;
      const auto found = file->find(key);
      if (found == file->end() || found->is_null() || found->empty()) continue;
      named = true;
      for (const auto& [name, token] : found->items()) {
        tokens.push_back(token_entry(token, fmt::format("{}: {}", where_, key)));
        if (!tokens.back().contains("special")) tokens.back()["special"] = true;
      }
    }
  }
  if (named) return tokens;
  for (const auto& content : extras) tokens.push_back({{"content", content}, {"special", true}});
  return tokens;
}

std::vector<std::string> SideFiles::complete(Json& document, const ClassTokens& tokens) const {
  const auto own = own_tokens(document);
  std::vector<Json> named, all = listed();
  for (const auto& key : token_keys(tokens.defaults)) {
    if (auto token = this->named(key, tokens.defaults)) {
      if (!token->contains("special")) (*token)["special"] = true;
      named.push_back(*std::move(token));
    }
  }
  const auto extra = extra_tokens(tokens.extras);
  const auto is_named = [&](const std::string& content) {
    return std::ranges::any_of(named, [&](const Json& token) { return content_of(token) == content; });
  };
  // added_tokens.json has no flags, and transformers reads the tokens of tokenizer.json over it.
  if (!lists_added()) {
    std::map<std::int64_t, Json> by_id;
    for (auto& token : all) {
      const auto content = content_of(token);
      token["special"] = is_named(content) || std::ranges::any_of(extra, [&](const Json& other) {
                           return content_of(other) == content;
                         });
      by_id[token["id"].get<std::int64_t>()] = token;
    }
    all.clear();
    for (const auto& token : own) by_id[token["id"].get<std::int64_t>()] = token;
    for (auto& [id, token] : by_id) all.push_back(token);
  }
  std::set<std::string> wanted;
  for (const std::vector<Json>* list : {&std::as_const(all), &std::as_const(named), &extra}) {
    for (const auto& token : *list) wanted.insert(content_of(token));
  }
  Numbering numbering(document.at("model").at("vocab"), wanted);
  for (const auto& token : own) numbering.know(token, tokens.start);
  std::vector<std::string> added, renumbered;
  const auto add = [&](Json token) {
    const auto content = content_of(token);
    if (content.empty()) return;  // as in the package `tokenizers`
    if (is_named(content)) token["special"] = true;
    const bool is_new = numbering.add(with_flags(token));
    if (is_new) added.push_back(fmt::format("{} ({})", content, numbering.id(content)));
    if (token.contains("id") && token["id"] != numbering.id(content)) {
      renumbered.push_back(
          fmt::format("{} ({}, not {})", content, numbering.id(content), token["id"].dump()));
    }
  };
  for (const auto& token : all) add(token);
  for (const std::vector<Json>* list : {&std::as_const(named), &extra}) {
    for (const auto& token : *list) {
      if (!numbering.has(content_of(token))) add(token);
    }
  }
  document["added_tokens"] = std::move(numbering).tokens();
  std::vector<std::string> notes;
  if (!added.empty()) {
    notes.push_back(fmt::format("tokens that tokenizer.json lacks, added as AutoTokenizer adds them: {}",
                                name_list(added)));
  }
  if (!renumbered.empty()) {
    notes.push_back(fmt::format("tokens whose ids are AutoTokenizer's and not those of {}: {}",
                                lists_added() ? "tokenizer_config.json" : kNames[2], name_list(renumbered)));
  }
  return notes;
}

}  // namespace hooked::text
