#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "text/model/model.h"
#include "text/strings/symbol_joiner.h"
#include "text/unicode/byte_characters.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

// Words of this length or more are not cached.
constexpr std::size_t kLongWord = 256;
constexpr std::size_t kBasicPlane = 0x10000;
// Limits of the cache: words, and symbols of all words.
constexpr std::size_t kCachedWords = std::size_t{1} << 16;
constexpr std::size_t kCachedSymbols = std::size_t{1} << 20;

// The symbols of the words that an encoder has seen. Bounded: a word replaces another with the same hash, and
// all are dropped when they take too much memory. Belongs to one encoder, and so to one thread.
class WordCache {
 public:
  // For a text of `text_bytes` bytes. The words must stay where they are in memory.
  explicit WordCache(std::size_t text_bytes)
      : slots_(std::bit_ceil(std::clamp<std::size_t>(text_bytes / 16, 16, kCachedWords))) {}

  // The symbols of a word, empty if it is not cached. Valid until the next put().
  std::span<const Symbol> find(std::string_view word) noexcept {
    last_ = std::hash<std::string_view>{}(word) & (slots_.size() - 1);
    const auto& slot = slots_[last_];
    if (slot.count == 0 || slot.word != word) return {};
    return std::span(symbols_).subspan(slot.begin, slot.count);
  }

  // Keeps the symbols, at least one, of a word that find() has just not found.
  void put(std::string_view word, std::span<const Symbol> symbols) {
    if (symbols_.size() + symbols.size() > kCachedSymbols) {
      std::fill(slots_.begin(), slots_.end(), Slot{});
      symbols_.clear();
    }
    slots_[last_] = {word, static_cast<std::uint32_t>(symbols_.size()),
                     static_cast<std::uint32_t>(symbols.size())};
    symbols_.insert(symbols_.end(), symbols.begin(), symbols.end());
  }

 private:
  struct Slot {
    std::string_view word;
    std::uint32_t begin = 0;
    std::uint32_t count = 0;  // 0: free
  };

  std::vector<Slot> slots_;  // a power of two
  std::vector<Symbol> symbols_;
  std::size_t last_ = 0;  // the slot that find() looked at
};

// Byte-pair encoding: a word's characters (or bytes) are joined by a ranked list of pairs.
class BpeModel : public Model {
 public:
  struct Options {
    std::optional<std::string>
        unknown;  // the piece for characters outside the vocabulary; null: they are left out
    std::string continuing_prefix;  // before each character of a word but the first
    std::string end_suffix;         // after the last character of a word
    bool fuse_unknown = false;      // unknown characters next to each other are one token
    bool byte_fallback = false;     // unknown characters as pieces `<0xEF>`, if the vocabulary has them
    bool ignore_merges = false;     // a word that is a piece is that token, whatever the merges are
    WordSpelling spelling = WordSpelling::characters;
  };
  // If words are bytes, prefix, suffix and byte fallback are not used.
  BpeModel(Vocabulary vocabulary, MergeTable merges, Options options);

  WordSpelling spelling() const noexcept override { return options_.spelling; }
  std::string_view kind() const noexcept override { return "BPE"; }
  std::unique_ptr<WordEncoder> encoder(std::size_t text_bytes) const override;

 private:
  friend class BpeEncoder;

  std::optional<std::int64_t> find_word(std::string_view word) const;

  MergeTable merges_;
  Options options_;
  std::optional<std::int64_t> unknown_;
  std::vector<std::int64_t> byte_fallback_;  // [byte], -1 if none
  std::vector<std::int32_t> character_ids_;  // [character below 0x10000 or byte], -1 if none
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>
      words_;  // by bytes, for ignore_merges
};

class BpeEncoder : public WordEncoder {
 public:
  BpeEncoder(const BpeModel& model, std::size_t text_bytes)
      : model_(model), joiner_(model.merges_), cache_(text_bytes) {}

  void encode(std::string_view word, std::vector<WordToken>& tokens) override {
    if (model_.options_.ignore_merges) {
      if (const auto id = model_.find_word(word)) {
        tokens.push_back({*id, {0, word.size()}});
        return;
      }
    }
    const bool cached = word.size() < kLongWord;
    if (cached) {
      if (const auto known = cache_.find(word); !known.empty()) return append(known, word.size(), tokens);
    }
    SymbolJoiner::require_joinable(word);
    symbols_.clear();
    if (model_.options_.spelling == WordSpelling::bytes) {
      for (std::size_t i = 0; i < word.size(); ++i) {
        const auto id = model_.character_ids_[static_cast<unsigned char>(word[i])];
        add(id, word.substr(i, 1));
      }
    } else {
      spell_characters(word);
    }
    flush_unknown();
    joiner_.join(symbols_);
    if (cached && !symbols_.empty()) cache_.put(word, symbols_);
    append(symbols_, word.size(), tokens);
  }

 private:
  // What is added to the end of a word may be spelled in bytes. They are not bytes of the word, and are put
  // at its end.
  static void append(std::span<const Symbol> symbols, std::size_t word_bytes,
                     std::vector<WordToken>& tokens) {
    std::size_t begin = 0;
    for (const auto& symbol : symbols) {
      const std::size_t end = std::min(begin + symbol.bytes, word_bytes);
      tokens.push_back({symbol.id, {begin, end}});
      begin = end;
    }
  }

  void spell_characters(std::string_view word) {
    const auto& prefix = model_.options_.continuing_prefix;
    const auto& suffix = model_.options_.end_suffix;
    const bool plain = prefix.empty() && suffix.empty();
    std::size_t at = 0;
    for_each_character(word, [&](char32_t c, std::string_view bytes) {
      const bool first = at == 0;
      at += bytes.size();
      if (plain) {
        const auto id = c < kBasicPlane
                            ? model_.character_ids_[c]
                            : static_cast<std::int32_t>(model_.vocabulary().find(bytes).value_or(-1));
        return add(id, bytes);
      }
      spelled_.assign(first ? "" : prefix);
      spelled_ += bytes;
      if (at == word.size()) spelled_ += suffix;
      add(static_cast<std::int32_t>(model_.vocabulary().find(spelled_).value_or(-1)), spelled_, bytes.size());
    });
  }

  void add(std::int32_t id, std::string_view spelled) { add(id, spelled, spelled.size()); }

  // Adds a character of `bytes` bytes of the word, spelled `spelled` in the vocabulary, with its id there
  // (-1: it is not in the vocabulary).
  void add(std::int32_t id, std::string_view spelled, std::size_t bytes) {
    if (id >= 0) {
      flush_unknown();
      symbols_.push_back({id, static_cast<std::uint32_t>(bytes)});
      return;
    }
    const auto& fallback = model_.byte_fallback_;
    if (!fallback.empty() && std::all_of(spelled.begin(), spelled.end(), [&](char byte) {
          return fallback[static_cast<unsigned char>(byte)] >= 0;
        })) {
      // The package `tokenizers` puts these before pending unknown characters, and so do we.
      for (const auto byte : spelled) {
        symbols_.push_back({static_cast<std::int32_t>(fallback[static_cast<unsigned char>(byte)]), 1});
      }
      return;
    }
    if (!model_.options_.unknown) return;
    if (!model_.unknown_) throw UnknownWord(spelled);
    if (!model_.options_.fuse_unknown) flush_unknown();
    unknown_bytes_ += bytes;
  }

  void flush_unknown() {
    if (unknown_bytes_ == 0) return;
    symbols_.push_back(
        {static_cast<std::int32_t>(*model_.unknown_), static_cast<std::uint32_t>(unknown_bytes_)});
    unknown_bytes_ = 0;
  }

  const BpeModel& model_;
  SymbolJoiner joiner_;
  WordCache cache_;
  std::vector<Symbol> symbols_;
  std::size_t unknown_bytes_ = 0;  // of unknown characters that are not a symbol yet
  std::string spelled_;
};

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges, Options options)
    : Model(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  const auto& pieces = this->vocabulary();
  if (options_.unknown) unknown_ = pieces.find(*options_.unknown);
  if (options_.byte_fallback) byte_fallback_ = byte_piece_ids(pieces);
  const bool bytes = options_.spelling == WordSpelling::bytes;
  character_ids_.assign(bytes ? 256 : kBasicPlane, -1);
  for (std::int64_t id = 0; id < pieces.size(); ++id) {
    const auto* piece = pieces.piece(id);
    if (!piece || piece->empty()) continue;
    const auto number = static_cast<std::int32_t>(id);
    if (bytes) {
      const auto spelled = spelled_bytes(*piece);
      if (!spelled) continue;
      if (spelled->size() == 1) character_ids_[static_cast<unsigned char>(spelled->front())] = number;
      if (options_.ignore_merges) words_.emplace(*spelled, id);
    } else if (const auto first = first_char(*piece); first && first->bytes == piece->size()) {
      if (first->code_point < kBasicPlane) character_ids_[first->code_point] = number;
    }
  }
}

std::unique_ptr<WordEncoder> BpeModel::encoder(std::size_t text_bytes) const {
  return std::make_unique<BpeEncoder>(*this, text_bytes);
}

std::optional<std::int64_t> BpeModel::find_word(std::string_view word) const {
  if (options_.spelling == WordSpelling::characters) return vocabulary().find(word);
  const auto found = words_.find(word);
  if (found == words_.end()) return std::nullopt;
  return found->second;
}

// A merge as two pieces: "left right" or ["left", "right"].
std::pair<std::string, std::string> read_merge(const ConfigReader& list, const std::string& key) {
  if (!list.holds_text(key)) {
    auto pair = list.texts(key);
    if (pair.size() != 2) list.refuse(key, "is not a pair; expected two pieces");
    return {std::move(pair[0]), std::move(pair[1])};
  }
  const auto text = list.text(key);
  const auto blank = text.find(' ');
  if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos) {
    list.refuse(key, "is not a merge; expected two pieces with one blank between them");
  }
  return {text.substr(0, blank), text.substr(blank + 1)};
}

MergeTable read_merges(const ConfigReader& list, const Vocabulary& vocabulary, std::size_t prefix_bytes) {
  MergeTable merges(list.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto key = std::to_string(i);
    // Some files still have the header of the merges.txt that they were made from.
    if (list.holds_text(key) && list.text(key).starts_with("#version")) continue;
    const auto [left, right] = read_merge(list, key);
    const auto id_of = [&](std::string_view piece) {
      const auto id = vocabulary.find(piece);
      if (!id) {
        list.refuse(key,
                    fmt::format("needs the piece \"{}\", which the vocabulary lacks; expected pieces of the "
                                "vocabulary, also for what two are joined to",
                                printable(piece)));
      }
      return static_cast<std::int32_t>(*id);
    };
    const auto left_id = id_of(left);
    const auto right_id = id_of(right);
    if (right.size() < prefix_bytes) {
      list.refuse(key, "joins a piece without the continuing prefix; expected it with the prefix");
    }
    merges.add(left_id, right_id, {rank++, id_of(left + right.substr(prefix_bytes))});
  }
  return merges;
}

// Whether the model can read bytes: then its pieces spell bytes and nothing else.
bool can_read_bytes(const Vocabulary& vocabulary, const BpeModel::Options& options) {
  if (!options.continuing_prefix.empty() || !options.end_suffix.empty() || options.byte_fallback)
    return false;
  // Characters that are left out shift the offsets of those after them by their spelled length.
  if (options.unknown) return true;
  std::string piece;
  for (int byte = 0; byte < 256; ++byte) {
    piece.clear();
    append_utf8(piece, byte_character(static_cast<std::uint8_t>(byte)));
    if (!vocabulary.find(piece)) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<const Model> read_bpe(const ConfigReader& json, WordSpelling spelling) {
  if (json.has("dropout") && json.number("dropout") != 0) {
    json.refuse(
        "dropout",
        "is not supported; expected null or 0: with dropout the same text has other tokens each time");
  }
  auto vocabulary = Vocabulary::read(json);
  BpeModel::Options options{.unknown = std::nullopt,
                            .continuing_prefix = json.text_or("continuing_subword_prefix", ""),
                            .end_suffix = json.text_or("end_of_word_suffix", ""),
                            .fuse_unknown = json.boolean_or("fuse_unk", false),
                            .byte_fallback = json.boolean_or("byte_fallback", false),
                            .ignore_merges = json.boolean_or("ignore_merges", false)};
  if (json.has("unk_token")) options.unknown = json.text("unk_token");
  if (spelling == WordSpelling::bytes && can_read_bytes(vocabulary, options)) options.spelling = spelling;
  auto merges = read_merges(json.array("merges"), vocabulary, options.continuing_prefix.size());
  return std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
}

std::unique_ptr<const Model> make_byte_bpe(Vocabulary vocabulary, MergeTable merges) {
  BpeModel::Options options;
  options.ignore_merges = true;
  options.spelling = WordSpelling::bytes;
  return std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
}

}  // namespace hooked::text
