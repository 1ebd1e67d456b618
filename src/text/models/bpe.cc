#include "text/models/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "text/byte_characters.h"
#include "text/models/byte_pieces.h"
#include "text/models/symbol_joiner.h"
#include "text/models/unknown_word.h"
#include "text/models/word_cache.h"
#include "text/unicode.h"

namespace hooked {
namespace {

// Words from this length on are not worth remembering.
constexpr std::size_t kLongWord = 256;
constexpr std::size_t kCharacters = 0x10000;
constexpr std::size_t kLongestWord = std::size_t{1} << 31;

}  // namespace

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
      if (const auto known = cache_.find(word); !known.empty()) return append(known, tokens);
    }
    if (word.size() > kLongestWord) {
      throw TokenizerError(
          "text", fmt::format("has a word of {} bytes; expected at most {}", word.size(), kLongestWord));
    }
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
    append(symbols_, tokens);
  }

 private:
  static void append(std::span<const Symbol> symbols, std::vector<WordToken>& tokens) {
    std::size_t begin = 0;
    for (const auto& symbol : symbols) {
      tokens.push_back({symbol.id, {begin, begin + symbol.bytes}});
      begin += symbol.bytes;
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
        const auto id = c < kCharacters
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

  // Adds a character, spelled so in the vocabulary (-1: not there), that takes so many bytes of the word.
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
      // These go before unknown characters that still wait: the tokenizers package does so.
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
  std::size_t unknown_bytes_ = 0;  // of unknown characters that are no symbol yet
  std::string spelled_;
};

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges, Options options)
    : Model(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  const auto& pieces = this->vocabulary();
  if (options_.unknown) unknown_ = pieces.find(*options_.unknown);
  if (options_.byte_fallback) byte_fallback_ = byte_piece_ids(pieces);
  const bool bytes = options_.spelling == WordSpelling::bytes;
  character_ids_.assign(bytes ? 256 : kCharacters, -1);
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
      if (first->code_point < kCharacters) character_ids_[first->code_point] = number;
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

}  // namespace hooked
