#include "text/tokenizer/sentencepiece_rules.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "hooked/core/error.h"

namespace hooked::text {

Tokenizer::Rules sentencepiece_rules(const SentencePieceModel& model, std::vector<AddedToken> added,
                                     std::string_view where) {
  if (model.pieces.size() > static_cast<std::size_t>(Vocabulary::kIds)) {
    throw TokenizerError(
        where, fmt::format("has {} pieces; expected at most {}", model.pieces.size(), Vocabulary::kIds));
  }
  check_pieces(model, where);
  Vocabulary vocabulary;
  for (const auto& piece : model.pieces) vocabulary.append(piece.text);
  Tokenizer::Rules rules;
  try {
    rules.normalizer = make_sentencepiece_normalizer(model);
    rules.model = model.kind == SentencePieceModel::Kind::bpe
                      ? make_sentencepiece_bpe(model, std::move(vocabulary))
                      : make_sentencepiece_unigram(model, std::move(vocabulary));
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(where, reason.what());
  }
  rules.decoder = make_sentencepiece_decoder(model);
  rules.added = AddedTokens(std::move(added), {});
  return rules;
}

}  // namespace hooked::text
