#include "loading/gguf/gguf_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "loading/gguf/gguf_tokenizer_tables.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/strings/symbol_joiner.h"

namespace hooked {
namespace {

constexpr std::string_view kTokenizerFileName = "tokenizer.json",
                           kTokenizerConfigName = "tokenizer_config.json";
constexpr std::int64_t kMostPieces = std::int64_t{1} << 24;
constexpr std::uint64_t kMergeFrame = 8;  // bytes of a merge in JSON in addition to its pieces: ["",""],

using PieceType = text::SentencePieceModel::Type;

std::string quoted(std::string_view text) { return json_text(Json(std::string(text))); }

/// Builds the text of a tokenizer.json from metadata. Large lists are written directly.
class GgufTokenizerText {
 public:
  GgufTokenizerText(const GgufMetadata& metadata, const std::string& where)
      : metadata_(metadata), where_(where) {}

  std::string tokenizer() {
    const std::string model = text("model").value_or("");
    read_pieces();
    if (model == "gpt2") return byte_level();
    if (model == "llama") return sentence_pieces();
    refuse("model", model.empty() ? "is missing; expected gpt2 or llama"
                                  : fmt::format("is '{}', which is not supported; expected gpt2 or llama",
                                                printable(model)));
  }

  /// After tokenizer(): the special tokens, and the chat template.
  std::string config() const {
    Json config = Json::object();
    for (const auto& [key, name] :
         {std::pair{"bos_token_id", "bos_token"}, std::pair{"eos_token_id", "eos_token"},
          std::pair{"unknown_token_id", "unk_token"}, std::pair{"padding_token_id", "pad_token"}}) {
      if (const auto id = piece_id(key)) config[name] = std::string(pieces_[*id]);
    }
    if (says_bos_) config["add_bos_token"] = adds_bos_;
    if (says_bos_ || adds_eos_) config["add_eos_token"] = adds_eos_;
    if (const GgufValue* chat = find_value(metadata_, "tokenizer.chat_template");
        chat && chat->text() && !chat->is_array())
      config["chat_template"] = std::string(*chat->text());
    return json_text(config);
  }

 private:
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const {
    throw TokenizerError(where_, fmt::format("metadata '{}{}' {}", kTokenizerKeys, key, what));
  }

  const GgufValue* find(std::string_view key) const {
    return find_value(metadata_, fmt::format("{}{}", kTokenizerKeys, key));
  }

  std::optional<std::string> text(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto words = value->is_array() ? std::nullopt : value->text();
    if (!words) refuse(key, fmt::format("is not a text; expected one, got {}", value->type_text()));
    return std::string(*words);
  }

  bool flag(std::string_view key, bool fallback) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return fallback;
    const auto said = value->is_array() ? std::nullopt : value->boolean();
    if (!said) refuse(key, fmt::format("is not a bool; expected one, got {}", value->type_text()));
    return *said;
  }

  // A list, of texts or numbers, which must have one element for each piece.
  const GgufValue* list(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value != nullptr && (!value->is_array() || value->size() != pieces_.size())) {
      refuse(key, fmt::format("does not fit the {} tokens; expected one element for each, got {} of {}",
                              pieces_.size(), value->is_array() ? value->size() : 1, value->type_text()));
    }
    return value;
  }

  std::optional<std::size_t> piece_id(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto id = value->is_array() ? std::nullopt : value->integer();
    if (!id || *id < 0 || *id >= static_cast<std::int64_t>(pieces_.size())) {
      refuse(key, fmt::format("is not a token; expected 0 to {}, got {}", pieces_.size() - 1,
                              id ? std::to_string(*id) : value->type_text()));
    }
    return static_cast<std::size_t>(*id);
  }

  void read_pieces() {
    const GgufValue* tokens = find("tokens");
    if (tokens == nullptr || !tokens->is_array() || tokens->size() == 0 || !tokens->text(0))
      refuse("tokens", "is missing or no list of texts; expected the vocabulary");
    if (static_cast<std::int64_t>(tokens->size()) > kMostPieces)
      refuse("tokens",
             fmt::format("is too long; expected at most {} texts, got {}", kMostPieces, tokens->size()));
    for (std::size_t i = 0; i < tokens->size(); ++i) {
      pieces_.push_back(*tokens->text(i));
      if (first_invalid_byte(pieces_.back()))
        refuse("tokens", fmt::format("has a text that is not UTF-8, number {}: '{}'; expected UTF-8", i,
                                     printable(pieces_.back())));
    }
    const GgufValue* types = list("token_type");
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::int64_t type = types == nullptr ? 1 : types->integer(i).value_or(0);
      if (type < 1 || type > 6)
        refuse("token_type", fmt::format("has {} for token {}; expected 1 to 6", type, i));
      types_.push_back(static_cast<PieceType>(type));
    }
  }

  bool is_added(std::size_t id) const {
    return types_[id] == PieceType::control || types_[id] == PieceType::user_defined ||
           types_[id] == PieceType::unknown;
  }

  std::string vocabulary() const {
    std::string all;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (types_[i] == PieceType::unused) continue;  // padding: it has no spelling of its own
      all += fmt::format("{}{}:{}", all.empty() ? "" : ",", quoted(pieces_[i]), i);
    }
    return all;
  }

  std::string added_tokens() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (!is_added(i) || pieces_[i].empty()) continue;
      all.push_back(json_text({{"id", i},
                               {"content", std::string(pieces_[i])},
                               {"single_word", false},
                               {"lstrip", false},
                               {"rstrip", false},
                               {"normalized", false},
                               {"special", types_[i] != PieceType::user_defined}}));
    }
    return fmt::format("{}", fmt::join(all, ","));
  }

  // The tokens around a text, if the file has any.
  std::string post_processor(bool bos_fallback, const Json& usual) {
    const auto bos = piece_id("bos_token_id"), eos = piece_id("eos_token_id");
    adds_bos_ = flag("add_bos_token", bos_fallback) && bos;
    says_bos_ = bos_fallback || find("add_bos_token") != nullptr;
    adds_eos_ = flag("add_eos_token", false) && eos;
    if (!adds_bos_ && !adds_eos_) return json_text(usual);
    Json special = Json::object();
    const auto single = [&](const char* sequence, int type) {
      Json steps = Json::array();
      const auto add = [&](std::size_t id) {
        const std::string piece(pieces_[id]);
        steps.push_back({{"SpecialToken", {{"id", piece}, {"type_id", type}}}});
        special[piece] = {{"id", piece}, {"ids", {id}}, {"tokens", {piece}}};
      };
      if (adds_bos_) add(*bos);
      steps.push_back({{"Sequence", {{"id", sequence}, {"type_id", type}}}});
      if (adds_eos_) add(*eos);
      return steps;
    };
    const Json first = single("A", 0);
    Json both = first;
    for (const Json& step : single("B", 1)) both.push_back(step);
    return json_text(
        {{"type", "TemplateProcessing"}, {"single", first}, {"pair", both}, {"special_tokens", special}});
  }

  std::string document(std::string_view normalizer, std::string_view pre_tokenizer, std::string_view post,
                       std::string_view decoder, std::string_view model) const {
    return fmt::format(
        R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":{},)"
        R"("pre_tokenizer":{},"post_processor":{},"decoder":{},"model":{}}})",
        added_tokens(), normalizer, pre_tokenizer, post, decoder, model);
  }

  std::string byte_level() {
    const auto name = text("pre");
    const GgufPreTokenizer* words = name ? find_gguf_pre_tokenizer(*name) : nullptr;
    if (words == nullptr) {
      std::vector<std::string_view> known;
      for (const GgufPreTokenizer& row : gguf_pre_tokenizers())
        known.insert(known.end(), row.names.begin(), row.names.end());
      refuse("pre", fmt::format("{}; expected one of [{}]",
                                name ? fmt::format("is '{}', which is not supported", printable(*name))
                                     : "is missing",
                                fmt::join(known, ", ")));
    }
    const Json bytes = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
    const GgufValue* merges = find("merges");
    if (merges == nullptr || !merges->is_array() || (merges->size() > 0 && !merges->text(0)))
      refuse("merges", "is missing or no list of texts; expected what BPE joins");
    std::string joined;
    for (std::size_t i = 0; i < merges->size(); ++i)
      joined += fmt::format("{}{}", joined.empty() ? "" : ",", quoted(*merges->text(i)));
    const std::string model = fmt::format(
        R"({{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
        R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":{},"vocab":{{{}}},)"
        R"("merges":[{}]}})",
        words->whole_words, vocabulary(), joined);
    return document(words->normalizer, words->pre_tokenizer, post_processor(words->prepends_bos, bytes),
                    json_text(bytes), model);
  }

  // Note [SentencePiece as merges]
  // SentencePiece's BPE joins the two neighbours whose joint piece has the highest score. Merges express the
  // same: all ways to cut a piece in two pieces, in the order of the scores. Their text can be a thousand
  // times as long as the pieces', and finding them takes quadratic time in a piece's length: both are
  // limited.
  std::string sentence_pieces() {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].size() <= text::MergeTable::kLongestPiece) continue;
      refuse("tokens", fmt::format("has a text of {} bytes, number {}; expected at most {}",
                                   pieces_[i].size(), i, text::MergeTable::kLongestPiece));
    }
    const GgufValue* scores = list("scores");
    if (scores == nullptr) refuse("scores", "is missing; expected the score of each token");
    if (find("precompiled_charsmap") != nullptr)
      refuse("precompiled_charsmap", "is not supported with this model; expected no such key");
    if (!flag("escape_whitespaces", true)) refuse("escape_whitespaces", "is not supported; expected true");
    if (flag("remove_extra_whitespaces", false))
      refuse("remove_extra_whitespaces", "is not supported; expected false");
    Json steps = Json::array(), decoded = Json::array();
    const bool prefix = flag("add_space_prefix", true);
    if (prefix) steps.push_back({{"type", "Prepend"}, {"prepend", text::kSpaceSymbol}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", text::kSpaceSymbol}});
    decoded.push_back({{"type", "Replace"}, {"pattern", {{"String", text::kSpaceSymbol}}}, {"content", " "}});
    decoded.push_back({{"type", "ByteFallback"}});
    decoded.push_back({{"type", "Fuse"}});
    if (prefix) decoded.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    const auto unknown = std::ranges::find(types_, PieceType::unknown);
    const std::string unk = unknown == types_.end()
                                ? "null"
                                : quoted(pieces_[static_cast<std::size_t>(unknown - types_.begin())]);
    const bool bytes = std::ranges::count(types_, PieceType::byte) == 256;
    const std::string model =
        fmt::format(R"({{"type":"BPE","dropout":null,"unk_token":{},"continuing_subword_prefix":null,)"
                    R"("end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":{},"ignore_merges":false,)"
                    R"("vocab":{{{}}},"merges":[{}]}})",
                    unk, bytes, vocabulary(), merges_by_score(*scores));
    return document(json_text({{"type", "Sequence"}, {"normalizers", steps}}), "null",
                    post_processor(true, nullptr), json_text({{"type", "Sequence"}, {"decoders", decoded}}),
                    model);
  }

  // One way to join piece `piece` from two: `left` of its first bytes and the rest.
  struct Merge {
    double score;
    std::uint32_t left_characters, right_characters;
    std::uint32_t piece, left;

    auto order() const { return std::tie(score, left_characters, right_characters); }
  };

  std::string merges_by_score(const GgufValue& scores) const {
    std::unordered_map<std::string_view, std::size_t> ids;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (types_[i] == PieceType::normal) ids.insert_or_assign(pieces_[i], i);
    }
    std::vector<Merge> merges;
    std::uint64_t bytes = 0;  // of their text
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (types_[i] != PieceType::normal) continue;
      const auto score = scores.real(i);
      if (!score || *score != *score)
        refuse("scores", fmt::format("has no number for token {}; expected one", i));
      if (ids.at(pieces_[i]) != i) continue;  // it appears again later, and the last of its ids counts
      const std::size_t before = merges.size();
      add_merges(i, *score, ids, merges);
      bytes += (merges.size() - before) * (pieces_[i].size() + kMergeFrame);
      if (bytes > Tokenizer::kFileBytes) {
        refuse("tokens", fmt::format("can be made of others in too many ways; expected merges of at most {} "
                                     "bytes, got more by token {}",
                                     Tokenizer::kFileBytes, i));
      }
    }
    std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) { return a.order() > b.order(); });
    std::string joined;
    for (const Merge& merge : merges) {
      const std::string_view piece = pieces_[merge.piece];
      joined += fmt::format("{}[{},{}]", joined.empty() ? "" : ",", quoted(piece.substr(0, merge.left)),
                            quoted(piece.substr(merge.left)));
    }
    return joined;
  }

  // Every cut of a piece into two others, by their ids.
  void add_merges(std::size_t id, double score, const std::unordered_map<std::string_view, std::size_t>& ids,
                  std::vector<Merge>& merges) const {
    const std::string_view piece = pieces_[id];
    std::uint32_t characters = 0, before = 0;
    for (std::size_t at = 0; at < piece.size(); at += utf8_length(piece.substr(at))) ++characters;
    std::vector<std::tuple<std::size_t, std::size_t, Merge>> cuts;
    for (std::size_t at = utf8_length(piece); at < piece.size(); at += utf8_length(piece.substr(at))) {
      ++before;
      const auto left = ids.find(piece.substr(0, at));
      if (left == ids.end()) continue;
      const auto right = ids.find(piece.substr(at));
      if (right == ids.end()) continue;
      cuts.emplace_back(left->second, right->second,
                        Merge{score, before, characters - before, static_cast<std::uint32_t>(id),
                              static_cast<std::uint32_t>(at)});
    }
    std::ranges::stable_sort(cuts, [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    for (const auto& cut : cuts) merges.push_back(std::get<2>(cut));
  }

  const GgufMetadata& metadata_;
  std::string where_;
  std::vector<std::string_view> pieces_;
  std::vector<PieceType> types_;
  bool says_bos_ = false, adds_bos_ = false, adds_eos_ = false;
};

bool has_a_tokenizer(const GgufMetadata& metadata) {
  const GgufValue* model = find_value(metadata, "tokenizer.ggml.model");
  return model != nullptr && model->text() != "no_vocab" && model->text() != "none";
}

TokenizerFiles tokenizer_files(const GgufMetadata& metadata, const std::string& where) {
  GgufTokenizerText made(metadata, where);
  std::string json = made.tokenizer();
  std::string config = made.config();
  TokenizerFiles text;
  text.tokenizer = Tokenizer::parse(json, where, config);
  text.form = "metadata of the GGUF file";
  if (const auto keys = unread_tokenizer_keys(metadata); !keys.empty())
    text.notes.push_back(
        fmt::format("keys of the tokenizer that are not followed: {}", fmt::join(keys, ", ")));
  text.files = {{std::string(kTokenizerFileName), std::move(json)},
                {std::string(kTokenizerConfigName), std::move(config)}};
  return text;
}

}  // namespace

TokenizerFiles read_gguf_tokenizer(const GgufMetadata& metadata, const ModelConfig& config,
                                   const std::string& where) {
  if (!has_a_tokenizer(metadata)) return {};
  return tokenizer_by([&](TokenizerFiles& text) { text = tokenizer_files(metadata, where); }, config);
}

Tokenizer gguf_tokenizer(const GgufMetadata& metadata, const std::string& where) {
  if (has_a_tokenizer(metadata)) return *tokenizer_files(metadata, where).tokenizer;
  throw TokenizerError(
      where,
      "this file has no tokenizer; expected metadata under 'tokenizer.ggml.'; pass token ids "
      "instead of text");
}

std::vector<std::int64_t> gguf_stop_tokens(const GgufMetadata& metadata) {
  std::vector<std::int64_t> ids;
  for (const std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const auto id = find_integer(metadata, key);
    if (id && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
  }
  return ids;
}

}  // namespace hooked
