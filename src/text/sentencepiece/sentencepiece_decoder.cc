#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/utf8.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/strings/pattern.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

using Type = SentencePieceModel::Type;

constexpr std::string_view kNoCharacter = "\uFFFD";

// SentencePiece's decoding: blanks for its symbol, none for the dummy prefix, bytes joined to characters.
// Each byte that is not part of a character becomes U+FFFD.
class SentencePieceDecoder : public Decoder {
 public:
  explicit SentencePieceDecoder(const SentencePieceModel& model)
      : drops_first_blank_(model.add_dummy_prefix || model.remove_extra_whitespaces),
        drops_all_blanks_(model.remove_extra_whitespaces),
        unknown_(model.pieces[static_cast<std::size_t>(model.first_of(Type::unknown))].text),
        unknown_surface_(model.unk_surface) {
    if (!model.byte_fallback) return;
    for (const auto& piece : model.pieces) {
      if (piece.type != Type::byte) continue;
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      bytes_.emplace(piece.text,
                     static_cast<char>(kDigits.find(piece.text[3]) * 16 + kDigits.find(piece.text[4])));
    }
  }

  TokenTexts apply(TokenTexts in) const override {
    std::string all;
    std::string run;  // of bytes that are not characters yet
    bool at_beginning = true;
    bool blank_dropped = false;
    for (const auto& text : in.texts) {
      if (const auto byte = bytes_.find(text); byte != bytes_.end()) {
        run += byte->second;
        continue;
      }
      append_characters(all, std::exchange(run, {}));
      if (blank_dropped || !all.empty()) at_beginning = false;
      std::string_view piece = text;
      blank_dropped = false;
      if (piece == unknown_) {
        all += unknown_surface_;
        continue;
      }
      if (at_beginning && drops_first_blank_ && piece.starts_with(kSpaceSymbol)) {
        piece.remove_prefix(kSpaceSymbol.size());
        blank_dropped = !drops_all_blanks_;
      }
      all += replace_each(piece, kSpaceSymbol, " ");
    }
    if (in.end != End::closed) run.resize(run.size() - unfinished_bytes(run));
    append_characters(all, run);
    return {{std::move(all)}, in.end == End::closed ? End::closed : End::growing};
  }

  std::string bytes_of(std::string text) const override {
    if (const auto byte = bytes_.find(text); byte != bytes_.end()) return std::string(1, byte->second);
    if (text == unknown_) return unknown_surface_;
    return replace_each(text, kSpaceSymbol, " ");
  }

 private:
  static void append_characters(std::string& text, std::string_view bytes) {
    while (!bytes.empty()) {
      const auto length = utf8_length(bytes);
      text.append(length > 0 ? bytes.substr(0, length) : kNoCharacter);
      bytes.remove_prefix(std::max<std::size_t>(length, 1));
    }
  }

  bool drops_first_blank_;
  bool drops_all_blanks_;
  std::string unknown_;
  std::string unknown_surface_;
  std::unordered_map<std::string, char, TextHash, std::equal_to<>> bytes_;  // by spelling
};

}  // namespace

std::unique_ptr<const Decoder> make_sentencepiece_decoder(const SentencePieceModel& model) {
  return std::make_unique<SentencePieceDecoder>(model);
}

}  // namespace hooked::text
