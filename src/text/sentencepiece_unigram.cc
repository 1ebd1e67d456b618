#include <algorithm>
#include <limits>
#include <utility>

#include "text/sentencepiece_model.h"
#include "text/unicode.h"

namespace hooked::text {
namespace {

using Type = SentencePieceModel::Type;

// How much worse than the worst piece an unknown character is.
constexpr float kUnknownCharacterPenalty = 10.0F;

// SentencePiece's unigram model (`unigram::Model::EncodeOptimized`). It differs from that of tokenizer.json
// in what decides between cuts that are nearly as good: sums are rounded to float.
class SentencePieceUnigram : public Model {
 public:
  SentencePieceUnigram(const SentencePieceModel& model, Vocabulary vocabulary)
      : Model(std::move(vocabulary)), unknown_(model, this->vocabulary()) {
    auto worst = std::numeric_limits<float>::max();
    auto best = std::numeric_limits<float>::min();
    for (const auto& piece : model.pieces) {
      if (piece.type != Type::normal) continue;
      worst = std::min(worst, piece.score);
      best = std::max(best, piece.score);
    }
    unknown_score_ = worst - kUnknownCharacterPenalty;
    scores_.reserve(model.pieces.size());
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
      const auto& [text, score, type] = model.pieces[id];
      // User-defined pieces score so high that they always win.
      scores_.push_back(type == Type::user_defined ? static_cast<float>(text.size()) * best - 0.1F : score);
      if (type == Type::normal || type == Type::user_defined) trie_.add(text, static_cast<std::int32_t>(id));
    }
  }

  std::string_view kind() const noexcept override { return "Unigram"; }
  std::unique_ptr<WordEncoder> encoder(std::size_t) const override {
    return std::make_unique<Encoder>(*this);
  }

 private:
  class Encoder : public WordEncoder {
   public:
    explicit Encoder(const SentencePieceUnigram& model) : model_(model) {}

    void encode(std::string_view word, std::vector<WordToken>& tokens) override {
      find_best_cut(word);
      pieces_.clear();
      for (auto end = word.size(); end > 0; end = best_[end].begin)
        pieces_.push_back({best_[end].id, {best_[end].begin, end}});
      const auto first = tokens.size();
      for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
        const auto [begin, end] = piece->span;
        if (piece->id == model_.unknown_.id()) {
          model_.unknown_.add(word.substr(begin, end - begin), begin, first, tokens);
        } else {
          tokens.push_back(*piece);
        }
      }
    }

   private:
    static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

    // The best way to cut the word up to a byte: its last piece.
    struct Node {
      std::int64_t id = 0;
      float score = 0;
      std::size_t begin = kNowhere;
    };

    void find_best_cut(std::string_view word) {
      best_.assign(word.size() + 1, Node{});
      for (std::size_t begin = 0; begin < word.size();) {
        const auto score = best_[begin].score;
        const auto character = first_char(word.substr(begin))->bytes;
        const auto offer = [&](std::size_t length, std::int64_t id, float sum) {
          auto& node = best_[begin + length];
          if (node.begin == kNowhere || sum > node.score) node = {id, sum, begin};
        };
        bool character_known = false;
        model_.trie_.for_each_prefix(word.substr(begin), [&](std::size_t length, std::int32_t id) {
          offer(length, id, model_.scores_[static_cast<std::size_t>(id)] + score);
          character_known |= length == character;
        });
        if (!character_known) offer(character, model_.unknown_.id(), model_.unknown_score_ + score);
        begin += character;
      }
    }

    const SentencePieceUnigram& model_;
    std::vector<Node> best_;  // [byte of the word]
    std::vector<WordToken> pieces_;
  };

  UnknownCharacters unknown_;
  std::vector<float> scores_;  // [id]
  float unknown_score_ = 0;
  PieceTrie trie_;
};

}  // namespace

std::unique_ptr<const Model> make_sentencepiece_unigram(const SentencePieceModel& model,
                                                        Vocabulary vocabulary) {
  return std::make_unique<SentencePieceUnigram>(model, std::move(vocabulary));
}

}  // namespace hooked::text
