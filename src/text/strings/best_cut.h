#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/strings/piece_trie.h"
#include "text/unicode/unicode.h"

namespace hooked::text {

/// Of all ways to cut a word into pieces, the one with the highest sum of scores (Viterbi; Kudo 2018,
/// https://arxiv.org/abs/1804.10959), sums rounded to `Score`. Linear in the word's length.
template <class Score>
class BestCut {
 public:
  /// The last piece of the best way to cut the word up to a byte.
  struct Node {
    std::int64_t id = 0;
    Score score = 0;
    std::size_t begin = kNowhere;
  };

  /// `scores` by the values of `trie`. For a character that is not a piece, `unknown(character)` gives an id
  /// and a score instead.
  template <class Unknown>
  void find(std::string_view word, const PieceTrie& trie, const std::vector<Score>& scores,
            const Unknown& unknown) {
    best_.assign(word.size() + 1, Node{});
    for (std::size_t begin = 0; begin < word.size();) {
      const Score score = best_[begin].score;
      const auto character = first_char(word.substr(begin))->bytes;
      const auto offer = [&](std::size_t length, std::int64_t id, Score piece_score) {
        auto& node = best_[begin + length];
        const Score sum = piece_score + score;
        if (node.begin == kNowhere || sum > node.score) node = {id, sum, begin};
      };
      bool character_known = false;
      trie.for_each_prefix(word.substr(begin), [&](std::size_t length, std::int32_t id) {
        offer(length, id, scores[static_cast<std::size_t>(id)]);
        character_known |= length == character;
      });
      if (!character_known) {
        const std::pair<std::int64_t, Score> given = unknown(word.substr(begin, character));
        offer(character, given.first, given.second);
      }
      begin += character;
    }
  }

  /// The piece that ends at byte `end` of the word.
  const Node& ending_at(std::size_t end) const { return best_[end]; }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  std::vector<Node> best_;  // [byte of the word]
};

}  // namespace hooked::text
