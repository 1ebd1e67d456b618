#include "text/models/word_piece.h"

#include <utility>

#include "text/models/unknown_word.h"
#include "text/unicode.h"

namespace hooked {
namespace {

class WordPieceEncoder : public WordEncoder {
 public:
  explicit WordPieceEncoder(const WordPieceModel& model) : model_(model) {}

  void encode(std::string_view word, std::vector<WordToken>& tokens) override {
    if (model_.cut(word, tokens)) return;
    if (!model_.unknown()) throw UnknownWord(word);
    tokens.push_back({*model_.unknown(), {0, word.size()}});
  }

 private:
  const WordPieceModel& model_;
};

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary vocabulary, Options options)
    : Model(std::move(vocabulary)),
      options_(std::move(options)),
      unknown_(this->vocabulary().find(options_.unknown)) {
  for (std::int64_t id = 0; id < this->vocabulary().size(); ++id) {
    const auto* piece = this->vocabulary().piece(id);
    if (piece && !piece->empty()) trie_.add(*piece, static_cast<std::int32_t>(id));
  }
  continuing_ = trie_.walk(options_.continuing_prefix);
}

std::unique_ptr<WordEncoder> WordPieceModel::encoder(std::size_t) const {
  return std::make_unique<WordPieceEncoder>(*this);
}

bool WordPieceModel::cut(std::string_view word, std::vector<WordToken>& tokens) const {
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

}  // namespace hooked
