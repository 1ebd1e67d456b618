#include "text/sentencepiece/sentencepiece_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "text/strings/symbol_joiner.h"

namespace hooked::text {
namespace {

using Type = SentencePieceModel::Type;

}  // namespace

void check_pieces(const SentencePieceModel& model, std::string_view where) {
  const auto refuse = [&](std::size_t id, std::string_view why) {
    throw TokenizerError(where,
                         fmt::format("the piece {} (\"{}\") {}", id, printable(model.pieces[id].text), why));
  };
  std::unordered_set<std::string_view> known;
  known.reserve(model.pieces.size());
  std::optional<std::size_t> unknown;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (piece.text.empty()) refuse(id, "is empty; expected its spelling");
    if (piece.text.size() > MergeTable::kLongestPiece) {
      refuse(id,
             fmt::format("has {} bytes; expected at most {}", piece.text.size(), MergeTable::kLongestPiece));
    }
    if (first_invalid_byte(piece.text)) refuse(id, "is not UTF-8; expected text");
    if (!known.insert(piece.text).second) refuse(id, "is there twice; expected pieces that differ");
    if (!std::isfinite(piece.score)) refuse(id, "has a score that is not finite; expected a number");
    if (piece.type == Type::byte && !model.byte_fallback)
      refuse(id, "is a byte, and byte_fallback is not set; expected both or none");
    if (piece.type != Type::unknown) continue;
    if (unknown)
      refuse(id, fmt::format("is unknown like the piece {}; expected one unknown piece", *unknown));
    unknown = id;
  }
  if (!unknown) throw TokenizerError(where, "has no unknown piece; expected one piece of that type");
  if (!model.byte_fallback) return;
  Vocabulary bytes;
  for (const auto& piece : model.pieces) bytes.append(piece.type == Type::byte ? piece.text : "");
  const auto ids = byte_piece_ids(bytes);
  const auto missing = std::find(ids.begin(), ids.end(), -1);
  if (missing != ids.end()) {
    throw TokenizerError(where,
                         fmt::format("has byte_fallback and no piece for the byte 0x{:02X}; expected a piece "
                                     "for each of the 256 bytes",
                                     missing - ids.begin()));
  }
  const auto count = std::count_if(model.pieces.begin(), model.pieces.end(),
                                   [](const auto& piece) { return piece.type == Type::byte; });
  if (count != 256) {
    throw TokenizerError(
        where, fmt::format("has {} pieces of the type of bytes; expected `<0x00>` to `<0xFF>`", count));
  }
}

std::int64_t SentencePieceModel::first_of(Type type) const noexcept {
  const auto found =
      std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) { return piece.type == type; });
  return found == pieces.end() ? -1 : found - pieces.begin();
}

PieceTrie user_defined_pieces(const SentencePieceModel& model) {
  PieceTrie pieces;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == Type::user_defined)
      pieces.add(model.pieces[id].text, static_cast<std::int32_t>(id));
  }
  return pieces;
}

UnknownCharacters::UnknownCharacters(const SentencePieceModel& model, const Vocabulary& vocabulary)
    : unknown_(model.first_of(Type::unknown)) {
  if (model.byte_fallback) bytes_ = byte_piece_ids(vocabulary);
}

void UnknownCharacters::add(std::string_view text, std::size_t begin, std::size_t first,
                            std::vector<WordToken>& tokens) const {
  if (bytes_.empty()) {
    if (tokens.size() > first && tokens.back().id == unknown_) {
      tokens.back().span.end = begin + text.size();
    } else {
      tokens.push_back({unknown_, {begin, begin + text.size()}});
    }
    return;
  }
  for (std::size_t i = 0; i < text.size(); ++i)
    tokens.push_back({bytes_[static_cast<unsigned char>(text[i])], {begin + i, begin + i + 1}});
}

}  // namespace hooked::text
