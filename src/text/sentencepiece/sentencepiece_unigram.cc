#include <algorithm>
#include <limits>
#include <utility>

#include "text/sentencepiece/sentencepiece_model.h"
#include "text/strings/best_cut.h"

namespace hooked::text {
namespace {

using Type = SentencePieceModel::Type;

// How far the score of an unknown character is below the worst piece's.
constexpr float kUnknownCharacterPenalty = 10.0F;

// SentencePiece's unigram model (`unigram::Model::EncodeOptimized`). It differs from that of tokenizer.json
// in the choice between cuts with nearly equal scores: sums are rounded to float.
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
      best_.find(word, model_.trie_, model_.scores_,
                 [&](std::string_view) { return std::pair(model_.unknown_.id(), model_.unknown_score_); });
      pieces_.clear();
      for (auto end = word.size(); end > 0; end = best_.ending_at(end).begin)
        pieces_.push_back({best_.ending_at(end).id, {best_.ending_at(end).begin, end}});
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
    const SentencePieceUnigram& model_;
    BestCut<float> best_;
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
