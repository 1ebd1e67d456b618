#include "text/model/model.h"

#include <fmt/format.h>

#include <algorithm>

namespace hooked::text {
namespace {

// Every word is one token. Without an unknown token, words outside the vocabulary are errors.
class WordLevelModel : public Model {
 public:
  WordLevelModel(Vocabulary vocabulary, std::optional<std::int64_t> unknown)
      : Model(std::move(vocabulary)), unknown_(unknown) {}

  static std::unique_ptr<const Model> read(const ConfigReader& json, WordSpelling) {
    auto vocabulary = Vocabulary::read(json);
    // A file may name an unknown token that its vocabulary lacks; that counts as none.
    std::optional<std::int64_t> unknown;
    if (json.has("unk_token")) unknown = vocabulary.find(json.text("unk_token"));
    return std::make_unique<WordLevelModel>(std::move(vocabulary), unknown);
  }

  std::string_view kind() const noexcept override { return "WordLevel"; }
  std::unique_ptr<WordEncoder> encoder(std::size_t) const override {
    return std::make_unique<Encoder>(*this);
  }

 private:
  class Encoder : public WordEncoder {
   public:
    explicit Encoder(const WordLevelModel& model) : model_(model) {}

    void encode(std::string_view word, std::vector<WordToken>& tokens) override {
      const auto known = model_.vocabulary().find(word);
      if (!known && !model_.unknown_) throw UnknownWord(word);
      tokens.push_back({known ? *known : *model_.unknown_, {0, word.size()}});
    }

   private:
    const WordLevelModel& model_;
  };

  std::optional<std::int64_t> unknown_;
};

using ModelReader = std::unique_ptr<const Model> (*)(const ConfigReader&, WordSpelling);

constexpr Named<ModelReader> kModels[] = {
    {"BPE", read_bpe},
    {"WordPiece", read_word_piece},
    {"WordLevel", WordLevelModel::read},
    {"Unigram", read_unigram},
};

// Old files do not name the model's type: it follows from the members.
ModelReader reader_of(const ConfigReader& json) {
  if (!json.has("type")) {
    if (json.has("merges")) return read_bpe;
    if (json.has("max_input_chars_per_word")) return read_word_piece;
    if (json.holds_list("vocab")) return read_unigram;
  }
  return json.one_of("type", kModels);
}

}  // namespace

std::unique_ptr<const Model> read_model(const ConfigReader& json, WordSpelling spelling) {
  return reader_of(json)(json, spelling);
}

std::vector<std::int64_t> byte_piece_ids(const Vocabulary& vocabulary) {
  std::vector<std::int64_t> ids;
  ids.reserve(256);
  for (int byte = 0; byte < 256; ++byte)
    ids.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  return ids;
}

}  // namespace hooked::text
