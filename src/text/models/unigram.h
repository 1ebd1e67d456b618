#pragma once

#include <optional>
#include <vector>

#include "text/model.h"
#include "text/piece_trie.h"

namespace hooked {

/// SentencePiece's unigram language model: of all ways to cut a word, the one with the highest sum of scores
/// (Viterbi; Kudo 2018, https://arxiv.org/abs/1804.10959). Linear in the word's length.
class UnigramModel : public Model {
 public:
  struct Options {
    std::optional<std::int64_t> unknown;  ///< the id of characters that no piece begins with
    bool byte_fallback = false;           ///< such characters as pieces `<0xEF>`, where all are there
  };
  /// `scores[id]` are log-probabilities.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, Options options);

  std::unique_ptr<WordEncoder> encoder(std::size_t text_bytes) const override;
  std::optional<std::int64_t> id_without_spelling() const noexcept override { return options_.unknown; }

 private:
  friend class UnigramEncoder;

  std::vector<double> scores_;
  Options options_;
  double unknown_score_ = 0;
  PieceTrie trie_;
  std::vector<std::int64_t> byte_ids_;  // [byte], -1 where there is no piece
};

}  // namespace hooked
