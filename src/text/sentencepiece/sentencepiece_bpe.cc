#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "text/sentencepiece/sentencepiece_model.h"
#include "text/strings/symbol_joiner.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

using Type = SentencePieceModel::Type;

// A character that is in no piece; no pair with it is a piece.
constexpr std::int32_t kUnknownSymbol = std::numeric_limits<std::int32_t>::max();

// SentencePiece's byte-pair encoding: neighbours are joined wherever that makes a piece, the piece with the
// highest score first. User-defined pieces are never joined; unused pieces are split again.
class SentencePieceBpe : public Model {
 public:
  SentencePieceBpe(const SentencePieceModel& model, Vocabulary vocabulary);

  std::string_view kind() const noexcept override { return "BPE"; }
  std::unique_ptr<WordEncoder> encoder(std::size_t) const override;

 private:
  friend class SentencePieceBpeEncoder;

  // The joiner's symbols are ids of pieces, and numbers after the last id for characters that occur in pieces
  // but are not pieces themselves.
  std::int32_t symbol_of(char32_t character) const {
    const auto found = characters_.find(character);
    return found == characters_.end() ? kUnknownSymbol : found->second;
  }
  bool is_piece(std::int32_t symbol) const noexcept { return symbol < vocabulary().size(); }

  UnknownCharacters unknown_;
  PieceTrie user_defined_;
  std::unordered_map<char32_t, std::int32_t> characters_;
  std::vector<std::uint32_t> symbol_bytes_;  // [symbol]
  std::vector<bool> unused_;                 // [id]; empty where all pieces are used
  MergeTable merges_;
};

SentencePieceBpe::SentencePieceBpe(const SentencePieceModel& model, Vocabulary vocabulary)
    : Model(std::move(vocabulary)),
      unknown_(model, this->vocabulary()),
      user_defined_(user_defined_pieces(model)) {
  std::unordered_map<std::string_view, std::int32_t> symbols;
  std::vector<float> scores;
  std::size_t splits = 0;
  const auto joined = [](Type type) { return type == Type::normal || type == Type::unused; };
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    symbol_bytes_.push_back(static_cast<std::uint32_t>(piece.text.size()));
    if (!joined(piece.type)) continue;
    symbols.emplace(piece.text, static_cast<std::int32_t>(id));
    scores.push_back(piece.score);
    splits += count_characters(piece.text) - 1;
    if (piece.type != Type::unused) continue;
    unused_.resize(model.pieces.size(), false);
    unused_[id] = true;
  }
  for (const auto& piece : model.pieces) {
    if (!joined(piece.type)) continue;
    for_each_character(piece.text, [&](char32_t c, std::string_view bytes) {
      const auto [place, is_new] =
          symbols.try_emplace(bytes, static_cast<std::int32_t>(symbol_bytes_.size()));
      if (is_new) symbol_bytes_.push_back(static_cast<std::uint32_t>(bytes.size()));
      characters_.try_emplace(c, place->second);
    });
  }
  // Pieces with equal scores have one rank: the leftmost is joined first.
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  merges_ = MergeTable(splits);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const std::string_view piece = model.pieces[id].text;
    if (!joined(model.pieces[id].type)) continue;
    const auto rank =
        std::lower_bound(scores.begin(), scores.end(), model.pieces[id].score, std::greater<>()) -
        scores.begin();
    merges_.add_splits(piece, {static_cast<std::uint32_t>(rank), static_cast<std::int32_t>(id)},
                       [&](std::string_view part) {
                         const auto symbol = symbols.find(part);
                         return symbol == symbols.end() ? -1 : symbol->second;
                       });
  }
}

class SentencePieceBpeEncoder : public WordEncoder {
 public:
  explicit SentencePieceBpeEncoder(const SentencePieceBpe& model)
      : model_(model), joiner_(model.merges_, watch_unused(model)) {}

  void encode(std::string_view word, std::vector<WordToken>& tokens) override {
    SymbolJoiner::require_joinable(word);
    spell(word);
    parts_.clear();
    joiner_.join(symbols_);
    const auto first = tokens.size();
    std::size_t begin = 0;
    for (const auto& symbol : symbols_) {
      add(word, symbol.id, {begin, begin + symbol.bytes}, first, tokens);
      begin += symbol.bytes;
    }
  }

 private:
  using Parts = std::pair<std::int32_t, std::int32_t>;

  SymbolJoiner::Watch watch_unused(const SentencePieceBpe& model) {
    if (model.unused_.empty()) return {};
    return [this](std::int32_t left, std::int32_t right, const MergeTable::Merge& merge) {
      if (model_.unused_[static_cast<std::size_t>(merge.id)]) parts_[merge.id] = {left, right};
    };
  }

  // Splits the word into its user-defined pieces and the characters between them.
  void spell(std::string_view word) {
    symbols_.clear();
    for (std::size_t at = 0; at < word.size();) {
      std::size_t length = 0;
      std::int32_t symbol = kUnknownSymbol;
      model_.user_defined_.for_each_prefix(word.substr(at), [&](std::size_t bytes, std::int32_t id) {
        length = bytes;
        symbol = id;
      });
      if (length == 0) {
        const auto character = first_char(word.substr(at));
        length = character->bytes;
        symbol = model_.symbol_of(character->code_point);
      }
      symbols_.push_back({symbol, static_cast<std::uint32_t>(length)});
      at += length;
    }
  }

  // Splits unused pieces again, at most as deep as a piece is long.
  void add(std::string_view word, std::int32_t symbol, TextSpan span, std::size_t first,
           std::vector<WordToken>& tokens) const {
    if (!model_.is_piece(symbol)) {
      model_.unknown_.add(word.substr(span.begin, span.end - span.begin), span.begin, first, tokens);
      return;
    }
    const auto parts = parts_.find(symbol);
    if (parts == parts_.end()) {
      tokens.push_back({symbol, span});
      return;
    }
    const auto [left, right] = parts->second;
    const auto middle = span.begin + model_.symbol_bytes_[static_cast<std::size_t>(left)];
    add(word, left, {span.begin, middle}, first, tokens);
    add(word, right, {middle, span.end}, first, tokens);
  }

  const SentencePieceBpe& model_;
  SymbolJoiner joiner_;
  std::vector<Symbol> symbols_;
  std::unordered_map<std::int32_t, Parts> parts_;  // of unused pieces: what they were last joined from
};

std::unique_ptr<WordEncoder> SentencePieceBpe::encoder(std::size_t) const {
  return std::make_unique<SentencePieceBpeEncoder>(*this);
}

}  // namespace

std::unique_ptr<const Model> make_sentencepiece_bpe(const SentencePieceModel& model, Vocabulary vocabulary) {
  return std::make_unique<SentencePieceBpe>(model, std::move(vocabulary));
}

}  // namespace hooked::text
