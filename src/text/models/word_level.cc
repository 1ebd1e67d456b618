#include "text/models/word_level.h"

#include "text/models/unknown_word.h"

namespace hooked {
namespace {

class WordLevelEncoder : public WordEncoder {
 public:
  explicit WordLevelEncoder(const WordLevelModel& model) : model_(model) {}

  void encode(std::string_view word, std::vector<WordToken>& tokens) override {
    const auto known = model_.vocabulary().find(word);
    if (!known && !model_.unknown()) throw UnknownWord(word);
    tokens.push_back({known ? *known : *model_.unknown(), {0, word.size()}});
  }

 private:
  const WordLevelModel& model_;
};

}  // namespace

std::unique_ptr<WordEncoder> WordLevelModel::encoder(std::size_t) const {
  return std::make_unique<WordLevelEncoder>(*this);
}

}  // namespace hooked
