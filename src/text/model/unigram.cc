#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "hooked/core/error.h"
#include "text/model/model.h"
#include "text/strings/best_cut.h"
#include "text/strings/piece_trie.h"

namespace hooked::text {
namespace {

// How far the score of an unknown character is below the worst piece's.
constexpr double kUnknownPenalty = 10.0;

// SentencePiece's unigram language model: the best-scoring segmentation of a word.
class UnigramModel : public Model {
 public:
  struct Options {
    std::optional<std::int64_t> unknown;  // the id of characters that no piece begins with
    bool byte_fallback = false;  // such characters as pieces `<0xEF>`, if the vocabulary has them all
  };
  // `scores[id]` are log-probabilities.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, Options options)
      : Model(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
    auto worst = std::numeric_limits<double>::infinity();
    for (const auto score : scores_) worst = std::min(worst, score);
    unknown_score_ = worst - kUnknownPenalty;
    for (std::int64_t id = 0; id < this->vocabulary().size(); ++id) {
      const auto* piece = this->vocabulary().piece(id);
      if (piece && !piece->empty())
        trie_.add(*piece, static_cast<std::int32_t>(*this->vocabulary().find(*piece)));
    }
    if (options_.byte_fallback) byte_ids_ = byte_piece_ids(this->vocabulary());
  }

  std::string_view kind() const noexcept override { return "Unigram"; }
  std::unique_ptr<WordEncoder> encoder(std::size_t) const override {
    return std::make_unique<Encoder>(*this);
  }
  std::optional<std::int64_t> id_without_spelling() const noexcept override { return options_.unknown; }

 private:
  class Encoder : public WordEncoder {
   public:
    explicit Encoder(const UnigramModel& model) : model_(model) {}

    void encode(std::string_view word, std::vector<WordToken>& tokens) override {
      best_.find(word, model_.trie_, model_.scores_, [&](std::string_view character) {
        if (!model_.options_.unknown) throw UnknownWord(character);
        return std::pair(*model_.options_.unknown, model_.unknown_score_);
      });
      pieces_.clear();
      for (auto end = word.size(); end > 0; end = best_.ending_at(end).begin) {
        const auto& node = best_.ending_at(end);
        // Adjacent unknown characters are one token.
        if (is_unknown(node.id) && !pieces_.empty() && is_unknown(pieces_.back().id)) {
          pieces_.back().span.begin = node.begin;
        } else {
          pieces_.push_back({node.id, {node.begin, end}});
        }
      }
      for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) add(word, *piece, tokens);
    }

   private:
    bool is_unknown(std::int64_t id) const noexcept { return model_.options_.unknown == id; }

    void add(std::string_view word, const WordToken& piece, std::vector<WordToken>& tokens) const {
      const auto text = word.substr(piece.span.begin, piece.span.end - piece.span.begin);
      // Adjacent unknown characters together may be a piece.
      if (const auto id = model_.vocabulary().find(text)) {
        tokens.push_back({*id, piece.span});
        return;
      }
      const auto& bytes = model_.byte_ids_;
      if (!bytes.empty() && std::all_of(text.begin(), text.end(), [&](char byte) {
            return bytes[static_cast<unsigned char>(byte)] >= 0;
          })) {
        for (const auto byte : text) tokens.push_back({bytes[static_cast<unsigned char>(byte)], piece.span});
        return;
      }
      if (!model_.options_.unknown) throw UnknownWord(text);
      tokens.push_back({*model_.options_.unknown, piece.span});
    }

    const UnigramModel& model_;
    BestCut<double> best_;
    std::vector<WordToken> pieces_;
  };

  std::vector<double> scores_;
  Options options_;
  double unknown_score_ = 0;
  PieceTrie trie_;
  std::vector<std::int64_t> byte_ids_;  // [byte], -1 for missing pieces
};

}  // namespace

std::unique_ptr<const Model> read_unigram(const ConfigReader& json, WordSpelling) {
  const auto vocab = json.array("vocab");
  if (vocab.size() > static_cast<std::size_t>(Vocabulary::kIds)) {
    throw TokenizerError(json.where("vocab"),
                         fmt::format("has {} pieces; expected at most {}", vocab.size(), Vocabulary::kIds));
  }
  Vocabulary vocabulary;
  std::vector<double> scores;
  scores.reserve(vocab.size());
  for (std::size_t id = 0; id < vocab.size(); ++id) {
    const auto key = std::to_string(id);
    const auto pair = vocab.array(key);
    if (pair.size() != 2) vocab.refuse(key, "is not a pair; expected [piece, score]");
    const auto score = pair.number("1");
    if (!std::isfinite(score)) pair.refuse("1", "is not finite; expected a log-probability");
    vocabulary.append(pair.text("0"));
    scores.push_back(score);
  }
  UnigramModel::Options options;
  options.byte_fallback = json.boolean_or("byte_fallback", false);
  if (json.has("unk_id")) {
    if (scores.empty()) json.refuse("unk_id", "names a piece of an empty vocabulary; expected null");
    options.unknown = json.count("unk_id", vocabulary.size() - 1);
  }
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), options);
}

}  // namespace hooked::text
