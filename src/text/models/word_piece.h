#pragma once

#include <optional>
#include <string>

#include "text/model.h"
#include "text/piece_trie.h"

namespace hooked {

/// BERT's model: a word is cut from the left into the longest pieces that the vocabulary has.
class WordPieceModel : public Model {
 public:
  struct Options {
    std::string unknown = "[UNK]";         ///< what a word is that cannot be cut
    std::string continuing_prefix = "##";  ///< how pieces behind the first are spelled
    std::size_t longest_word = 100;        ///< in characters; longer words are unknown
  };
  WordPieceModel(Vocabulary vocabulary, Options options);

  std::unique_ptr<WordEncoder> encoder(std::size_t text_bytes) const override;

  /// Appends the tokens of a word, or leaves `tokens` as they were and returns false when it has none.
  bool cut(std::string_view word, std::vector<WordToken>& tokens) const;

  std::optional<std::int64_t> unknown() const noexcept { return unknown_; }

 private:
  Options options_;
  std::optional<std::int64_t> unknown_;
  PieceTrie trie_;
  std::optional<PieceTrie::Node> continuing_;  // where the prefix leads to
};

}  // namespace hooked
