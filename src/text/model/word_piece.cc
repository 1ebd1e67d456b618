#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "text/model/model.h"
#include "text/strings/piece_trie.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

// BERT's model: a word is cut from the left into the longest pieces that the vocabulary has.
class WordPieceModel : public Model {
 public:
  struct Options {
    std::string unknown;            // the piece for a word that cannot be cut
    std::string continuing_prefix;  // prefix of all pieces of a word but the first: `##`
    std::size_t longest_word;       // in characters; longer words are unknown
  };
  WordPieceModel(Vocabulary vocabulary, Options options)
      : Model(std::move(vocabulary)),
        options_(std::move(options)),
        unknown_(this->vocabulary().find(options_.unknown)) {
    for (std::int64_t id = 0; id < this->vocabulary().size(); ++id) {
      const auto* piece = this->vocabulary().piece(id);
      if (piece && !piece->empty()) trie_.add(*piece, static_cast<std::int32_t>(id));
    }
    continuing_ = trie_.walk(options_.continuing_prefix);
  }

  std::string_view kind() const noexcept override { return "WordPiece"; }
  std::unique_ptr<WordEncoder> encoder(std::size_t) const override {
    return std::make_unique<Encoder>(*this);
  }

 private:
  class Encoder : public WordEncoder {
   public:
    explicit Encoder(const WordPieceModel& model) : model_(model) {}

    void encode(std::string_view word, std::vector<WordToken>& tokens) override {
      if (model_.cut(word, tokens)) return;
      if (!model_.unknown_) throw UnknownWord(word);
      tokens.push_back({*model_.unknown_, {0, word.size()}});
    }

   private:
    const WordPieceModel& model_;
  };

  // Appends the tokens of a word. If it cannot be cut, leaves `tokens` unchanged and returns false.
  bool cut(std::string_view word, std::vector<WordToken>& tokens) const {
    if (count_characters(word) > options_.longest_word) return false;
    const auto before = tokens.size();
    for (std::size_t begin = 0; begin < word.size();) {
      std::size_t length = 0;
      std::int32_t id = 0;
      const auto longest = [&](std::size_t bytes, std::int32_t value) {
        length = bytes;
        id = value;
      };
      if (begin == 0) {
        trie_.for_each_prefix(word, longest);
      } else if (continuing_) {
        trie_.for_each_prefix(word.substr(begin), longest, *continuing_);
      }
      if (length == 0) {
        tokens.resize(before);
        return false;
      }
      tokens.push_back({id, {begin, begin + length}});
      begin += length;
    }
    return true;
  }

  Options options_;
  std::optional<std::int64_t> unknown_;
  PieceTrie trie_;
  std::optional<PieceTrie::Node> continuing_;  // the node of the prefix
};

}  // namespace

std::unique_ptr<const Model> read_word_piece(const ConfigReader& json, WordSpelling) {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  return std::make_unique<WordPieceModel>(
      Vocabulary::read(json),
      WordPieceModel::Options{
          .unknown = json.text("unk_token"),
          .continuing_prefix = json.text("continuing_subword_prefix"),
          .longest_word = static_cast<std::size_t>(json.count("max_input_chars_per_word", kMost))});
}

}  // namespace hooked::text
