// The added tokens of a vocabulary and of the files next to it, numbered as transformers numbers them.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/name_list.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "text/files/side_files.h"

namespace hooked::text {
namespace {

constexpr std::string_view kFlags[] = {"single_word", "lstrip", "rstrip"};

std::string content_of(const Json& token) { return token.at("content").get<std::string>(); }

bool flag_of(const Json& token, std::string_view key) {
  const auto* found = member(token, key);
  return found && found->is_boolean() && found->get<bool>();
}

// A token with all its flags. By default a special token is searched for in the text as it is.
Json with_flags(const Json& token) {
  Json whole = {{"content", token.at("content")}};
  for (const auto key : kFlags) whole[std::string(key)] = flag_of(token, key);
  const bool special = flag_of(token, "special");
  whole["normalized"] = token.contains("normalized") ? flag_of(token, "normalized") : !special;
  whole["special"] = special;
  return whole;
}

// The added tokens of a tokenizer.json, which its reader has checked.
std::vector<Json> own_tokens(const Json& document) {
  const auto* found = member(document, "added_tokens");
  if (!found || !found->is_array()) return {};
  return {found->begin(), found->end()};
}

// A token without flags.
Json plain_special(const std::string& content) { return {{"content", content}, {"special", true}}; }

bool contains(const std::vector<Json>& tokens, const std::string& content) {
  return std::ranges::any_of(tokens, [&](const Json& token) { return content_of(token) == content; });
}

void append_missing(std::vector<Json>& tokens, const std::vector<Json>& more) {
  for (const auto& token : more) {
    if (!contains(tokens, content_of(token))) tokens.push_back(token);
  }
}

std::int64_t checked_id(std::optional<std::int64_t> id, const std::string& where) {
  if (!id || *id < 0 || *id >= Vocabulary::kIds)
    throw TokenizerError(where, fmt::format("is not an id; expected 0 to {}", Vocabulary::kIds - 1));
  return *id;
}

// A value that Python takes for false.
bool is_empty(const Json* value) { return !value || value->is_null() || value->empty() || *value == ""; }

}  // namespace

/// Numbers tokens as the package `tokenizers` does when they are added: a token that is a piece has the
/// piece's id, all others follow the last one.
class SideFiles::Numbering {
 public:
  /// After the pieces of a tokenizer.json, an object of ids or a list. It must outlive this.
  explicit Numbering(const Json& vocabulary) {
    std::unordered_map<std::string_view, std::int64_t> pieces;
    pieces.reserve(vocabulary.size());
    std::int64_t place = 0;
    for (const auto& [key, piece] : vocabulary.items()) {
      if (piece.is_array() && !piece.empty() && piece[0].is_string()) {
        pieces[piece[0].get_ref<const std::string&>()] = place;
      } else if (vocabulary.is_object() && piece.is_number_integer()) {
        pieces[key] = piece.get<std::int64_t>();
      }
      ++place;
    }
    count_ = vocabulary.is_array() ? place : static_cast<std::int64_t>(pieces.size());
    find_piece_ = [pieces = std::move(pieces)](const std::string& content) -> std::optional<std::int64_t> {
      const auto found = pieces.find(content);
      return found == pieces.end() ? std::nullopt : std::optional(found->second);
    };
  }
  explicit Numbering(const Vocabulary& vocabulary)
      : count_(vocabulary.size()),
        find_piece_([&vocabulary](const std::string& content) { return vocabulary.find(content); }) {}

  /// Treats a token as a piece if its id is not below the number of pieces.
  void know_piece(const std::string& content, std::int64_t id) {
    if (id < count_) return;
    ids_[content] = id;
    count_ = id + 1;
  }

  /// Adds tokens in one call of the package. Calls `visit(token, is_new)` for each; `is_new` says that it is
  /// not a piece and was not added before.
  template <class Visit>
  void add(const std::vector<Json>& tokens, Visit&& visit) {
    std::int64_t next = count_;
    if (!tokens_.empty() && tokens_.rbegin()->first >= count_) next = tokens_.rbegin()->first + 1;
    for (const auto& token : tokens) {
      const auto content = content_of(token);
      if (content.empty()) continue;  // as in the package
      auto id = find(content);
      const bool is_new = !id;
      if (!id) id = next++;
      ids_[content] = *id;
      auto& added = tokens_[*id];
      // The package keeps what it has noted of a token that is added again: that it is special, and its
      // normalized spelling.
      const auto noted = [&](std::string_view key) { return added.is_object() && flag_of(added, key); };
      const bool was_special = noted("special"),
                 was_normalized = noted("normalized") || noted(kWasNormalized);
      added = with_flags(token);
      added["id"] = *id;
      if (was_special) added["special"] = true;
      if (was_normalized) added[std::string(kWasNormalized)] = true;
      visit(token, is_new);
    }
  }

  bool has(const std::string& content) const {
    const auto known = ids_.find(content);
    return known != ids_.end() && tokens_.contains(known->second);
  }

  std::optional<std::int64_t> find(const std::string& content) const {
    const auto known = ids_.find(content);
    return known != ids_.end() ? std::optional(known->second) : find_piece_(content);
  }

  Json list() && {
    auto list = Json::array();
    for (auto& [id, token] : tokens_) list.push_back(std::move(token));
    return list;
  }

 private:
  std::int64_t count_ = 0;
  std::function<std::optional<std::int64_t>(const std::string&)> find_piece_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::map<std::int64_t, Json> tokens_;
};

std::vector<AddedToken> NumberedTokens::values() const {
  return read_added_tokens(
      ConfigReader({{"added_tokens", list}}, "added tokens", make_error<TokenizerError>));
}

std::vector<std::string> NumberedTokens::notes() const {
  if (renumbered.empty()) return {};
  return {fmt::format("tokens whose ids are those that the package tokenizers gives them: {}",
                      name_list(renumbered))};
}

bool SideFiles::is_special(const std::string& content) const {
  // transformers checks this before it turns the objects in tokenizer_config.json into tokens.
  const auto spells = [&](const Json* token) { return token && token->is_string() && *token == content; };
  for (const auto key : kTokenKeys) {
    const auto* token = member(special_, key);
    const auto* spelled = token && token->is_object() ? member(*token, "content") : token;
    if (spells(token ? spelled : member(config_, key))) return true;
  }
  const auto* listed = member(config_, "extra_special_tokens");
  if (is_empty(listed)) listed = member(config_, "additional_special_tokens");
  for (const auto* list : {listed, member(special_, "extra_special_tokens")}) {
    if (list && list->is_array() &&
        std::ranges::any_of(*list, [&](const Json& token) { return spells(&token); }))
      return true;
  }
  return false;
}

std::vector<Json> SideFiles::listed(const std::vector<Json>& own) const {
  std::map<std::int64_t, Json> by_id;
  if (lists_added()) {
    const auto& listed = config_.at("added_tokens_decoder");
    if (listed.is_object()) {
      for (const auto& [key, token] : listed.items()) {
        const auto place = fmt::format("{}: added_tokens_decoder.{}", where_, printable(key));
        by_id[checked_id(parse_integer(key), place)] = token_entry(token, place);
      }
    }
  } else {
    for (const auto& [content, id] : added_.items()) {
      const auto place = fmt::format("{}: {}", kNames[2], printable(content));
      const bool special = is_special(content);
      by_id[checked_id(id.is_number_integer() ? std::optional(id.get<std::int64_t>()) : std::nullopt,
                       place)] = {{"content", content}, {"special", special}, {"normalized", !special}};
    }
    // In transformers, the tokens of tokenizer.json override those of added_tokens.json.
    for (const auto& token : own) by_id[token.at("id").get<std::int64_t>()] = token;
  }
  std::vector<Json> tokens;
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
      // An object of tokenizer_config.json is a token only if it is marked as one.
      const auto* mark = value.is_object() ? member(value, "__type") : nullptr;
      const bool token = value.is_object() && (file == &special_ || (mark && *mark == "AddedToken"));
      if (key.ends_with("_token") && (value.is_string() || token)) add(key);
    }
  }
  return keys;
}

std::vector<Json> SideFiles::named_tokens(std::span<const DefaultToken> defaults) const {
  std::vector<Json> tokens;
  for (const auto& key : token_keys(defaults)) {
    auto token = named(key, defaults);
    if (!token) continue;
    if (!token->contains("special")) (*token)["special"] = true;
    tokens.push_back(*std::move(token));
  }
  // Extra tokens with a key for each are also named.
  for (const Json* file : {&config_, &special_}) {
    if (file == &special_ && lists_added()) continue;
    const auto* extras = member(*file, "extra_special_tokens");
    if (extras && extras->is_object()) append_missing(tokens, *token_list(*file, "extra_special_tokens"));
  }
  return tokens;
}

std::optional<std::vector<Json>> SideFiles::token_list(const Json& file, std::string_view key) const {
  const auto* found = member(file, key);
  if (!found) return std::nullopt;
  std::vector<Json> tokens;
  if (found->is_null()) return tokens;
  for (const auto& [name, token] : found->items()) {
    tokens.push_back(token_entry(token, fmt::format("{}: {}", where_, key)));
    if (!tokens.back().contains("special")) tokens.back()["special"] = true;
  }
  return tokens;
}

// Note [Extra special tokens]
// transformers has two keys for a list of special tokens. A list in tokenizer_config.json, under either key,
// replaces those of a class, even if it is empty; so does `extra_special_tokens` of special_tokens_map.json.
// But the map's `additional_special_tokens` is only an argument of the class, which adds its own tokens to it
// or ignores it, and a SentencePiece file's own tokens replace it.
std::vector<Json> SideFiles::extra_tokens(const ClassTokens& tokens) const {
  constexpr std::string_view kExtra = "extra_special_tokens", kOlder = "additional_special_tokens";
  const auto* extra = member(config_, kExtra);
  std::optional<std::vector<Json>> decided, argument;
  if (is_empty(extra) && config_.contains(kOlder)) {
    decided = token_list(config_, kOlder);
  } else if (extra && !extra->is_object()) {
    decided = token_list(config_, kExtra);
    argument = token_list(config_, kOlder);
  }
  if (!lists_added()) {
    const auto* more = member(special_, kExtra);
    if (more && more->is_array()) {
      if (!decided) decided.emplace();
      append_missing(*decided, *token_list(special_, kExtra));
    }
    if (auto listed = token_list(special_, kOlder); listed && !special_.at(kOlder).is_null())
      argument = std::move(listed);
  }
  if (decided) return *std::move(decided);
  if (tokens.vocabulary_extras) argument = tokens.vocabulary_extras;

  using Extras = ClassTokens::Extras;
  std::vector<Json> own;
  for (const auto& content : tokens.extras) own.push_back(plain_special(content));
  if (!argument || tokens.extras_stand == Extras::alone) return own;
  if (tokens.extras_stand == Extras::left_out) return *std::move(argument);
  const bool own_first = tokens.extras_stand == Extras::before_listed;
  auto all = own_first ? std::move(own) : *argument;
  append_missing(all, own_first ? *argument : own);
  return all;
}

NumberedTokens SideFiles::number(const Json& document, const ClassTokens& tokens) const {
  return number(own_tokens(document), Numbering(document.at("model").at("vocab")), tokens);
}

NumberedTokens SideFiles::number(const Vocabulary& vocabulary, const ClassTokens& tokens) const {
  return number({}, Numbering(vocabulary), tokens);
}

NumberedTokens SideFiles::number(const std::vector<Json>& own, Numbering numbering,
                                 const ClassTokens& tokens) const {
  NumberedTokens numbered;
  const auto named = named_tokens(tokens.defaults);
  const auto extra = extra_tokens(tokens);
  std::map<std::string, std::int64_t> stated;  // in tokenizer.json
  for (const auto& token : own) stated[content_of(token)] = token.at("id").get<std::int64_t>();

  if (tokens.start == ClassTokens::Start::those_of_file) numbering.add(own, [](const Json&, bool) {});
  auto all = listed(own);
  if (tokens.start == ClassTokens::Start::listed_as_pieces) {
    for (const auto& token : all) numbering.know_piece(content_of(token), token.at("id").get<std::int64_t>());
  }
  std::set<std::string> known;
  for (const auto& token : all) known.insert(content_of(token));
  std::vector<Json> named_once;
  for (const auto* list : {&named, &extra}) {
    for (const auto& token : *list) {
      const auto content = content_of(token);
      if (numbering.has(content) || known.contains(content)) continue;
      // A token that several keys name has the flags of the last.
      auto whole = with_flags(token);
      if (std::ranges::find(named_once, whole) == named_once.end()) named_once.push_back(std::move(whole));
    }
  }
  all.insert(all.end(), named_once.begin(), named_once.end());
  for (auto& token : all) {
    if (flag_of(token, "special") || !contains(named, content_of(token))) continue;
    token = with_flags(token);
    token["special"] = true;
  }
  numbering.add(all, [&](const Json& token, bool is_new) {
    const auto content = content_of(token);
    if (is_new && !stated.contains(content))
      numbered.added.push_back(fmt::format("{} ({})", content, *numbering.find(content)));
    if (token.contains("id")) stated.try_emplace(content, token["id"].get<std::int64_t>());
  });
  if (tokens.readds_special) {
    std::vector<Json> again;
    for (const auto* list : {&named, &extra}) {
      for (const auto& token : *list) again.push_back(plain_special(content_of(token)));
    }
    numbering.add(again, [](const Json&, bool) {});
  }
  for (const auto& [content, id] : stated) {
    const auto given = numbering.find(content);
    if (given && *given != id && numbering.has(content))
      numbered.renumbered.push_back(fmt::format("{} ({}, not {})", content, *given, id));
  }
  numbered.list = std::move(numbering).list();
  return numbered;
}

}  // namespace hooked::text
