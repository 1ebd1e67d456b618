#include "examples/indirect_object/indirect_object.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "hooked/analysis/metric.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::indirect_object_test {
namespace {

using ioi::indirect_object_pairs;

const std::filesystem::path kRoot = HOOKED_SOURCE_DIR;

/// A random model with a tokenizer.
HookedTransformer with_tokenizer(const TempFolder& folder, const std::string& tokenizer) {
  auto config = two_layer_config();
  config.n_ctx = 64;
  config.d_vocab = Tokenizer::parse(tokenizer).vocab_size();
  config.unembedding = Unembedding{.d_vocab = config.d_vocab};
  HookedTransformer::create(config, {.seed = 1}).save(folder / "model");
  std::ofstream(folder / "model/tokenizer.json") << tokenizer;
  return HookedTransformer::load((folder / "model").string());
}

/// Words that may be one token: the pieces of a vocabulary that are letters after its mark of a space.
std::vector<std::string> words_in(const Json& tokenizer) {
  std::vector<std::string> words;
  const auto add = [&](std::string piece) {
    for (const std::string mark : {"\u0120", "\u2581"}) {
      if (piece.starts_with(mark)) piece.erase(0, mark.size());
    }
    const auto is_letter = [](char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); };
    if (piece.size() > 1 && std::all_of(piece.begin(), piece.end(), is_letter)) words.push_back(piece);
  };
  for (const auto& [key, value] : tokenizer.at("model").at("vocab").items())
    add(value.is_array() ? value[0].get<std::string>() : key);
  return words;
}

void expect_pairs_are_what_they_say(const PromptPairs& pairs) {
  const auto answers = pairs.answers(), against = pairs.against();
  for (std::int64_t row = 0; row < pairs.size(); ++row) {
    const auto& pair = pairs.pairs()[static_cast<std::size_t>(row)];
    SCOPED_TRACE(std::get<std::string>(pair.clean));
    ASSERT_EQ(answers.of_row(row).size(), 1u);
    const auto answer = answers.of_row(row)[0], other = against.of_row(row)[0];
    EXPECT_NE(answer, other);
    for (const bool clean : {true, false}) {
      const auto& tokens = (clean ? pairs.clean() : pairs.corrupted()).tokens;
      const auto& mask = (clean ? pairs.clean() : pairs.corrupted()).attention_mask;
      const auto at = [&](const char* place) {
        const auto position = clean ? pairs.clean_place(place) : pairs.corrupted_place(place);
        const auto column = position.named_columns()[static_cast<std::size_t>(row)];
        EXPECT_TRUE(mask[row][column].item<bool>()) << place;
        return tokens[row][column].item<std::int64_t>();
      };
      const std::set<std::int64_t> names{at("first"), at("second")};
      EXPECT_EQ(names, (std::set<std::int64_t>{answer, other}));
      EXPECT_EQ(at("giver"), clean ? other : answer) << "who gives is not who gets";
    }
  }
}

TEST(IndirectObject, PairsOfTheShippedModel) {
  const auto model = HookedTransformer::load((kRoot / "examples/toy_model").string());
  const auto pairs = indirect_object_pairs(model, {.count = 24, .seed = 5});
  ASSERT_EQ(pairs.size(), 24);
  expect_pairs_are_what_they_say(pairs);
  pairs.require_same_columns("a test");
  EXPECT_EQ(pairs.place_names(), (std::vector<std::string>{"first", "giver", "second"}));
  std::set<std::string> prompts;
  bool first_gives = false, second_gives = false;
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    prompts.insert(std::get<std::string>(pairs.pairs()[static_cast<std::size_t>(i)].clean));
    const auto giver =
        pairs.clean().tokens[i][pairs.clean_place("giver").named_columns()[static_cast<std::size_t>(i)]];
    const auto first =
        pairs.clean().tokens[i][pairs.clean_place("first").named_columns()[static_cast<std::size_t>(i)]];
    (giver.equal(first) ? first_gives : second_gives) = true;
  }
  EXPECT_EQ(prompts.size(), 24u);
  EXPECT_TRUE(first_gives && second_gives) << "the answer is always at the same place";
  // The model was trained to name the person who did not give.
  const auto difference = logit_difference(pairs.answers(), pairs.against());
  EXPECT_GT(difference.score(model, pairs.clean()).gt(0).to(at::kDouble).mean().item<double>(), 0.9);
  EXPECT_LT(difference.score(model, pairs.corrupted()).gt(0).to(at::kDouble).mean().item<double>(), 0.1);

  EXPECT_EQ(indirect_object_pairs(model, {.count = 24, .seed = 5}).pairs(), pairs.pairs());
  EXPECT_NE(indirect_object_pairs(model, {.count = 24, .seed = 6}).pairs(), pairs.pairs());
}

TEST(IndirectObject, PairsOfEveryKindOfTokenizer) {
  // The small vocabularies of the tests hold few first names: any words that are one token will do.
  std::set<std::string> written;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "tests/text/files")) {
    if (entry.path().extension() != ".json" || entry.path().stem() == "texts") continue;
    const auto golden = Json::parse(std::ifstream(entry.path()));
    if (!golden.contains("tokenizer") || !golden.at("tokenizer").is_object()) continue;
    SCOPED_TRACE(entry.path().string());
    const TempFolder folder;
    const auto model = with_tokenizer(folder, golden.at("tokenizer").dump());
    try {
      const auto pairs =
          indirect_object_pairs(model, {.count = 4, .names = words_in(golden.at("tokenizer"))});
      expect_pairs_are_what_they_say(pairs);
      written.insert(entry.path().stem().string());
    } catch (const TokenizerError& error) {
      EXPECT_THAT(error.what(), HasSubstr("expected")) << "one sentence that says what to do";
    }
  }
  // The other vocabularies have no two words as one token each.
  for (const char* kind : {"bert", "gpt2", "llama3", "t5", "word_level"})
    EXPECT_TRUE(written.contains(kind)) << kind;
}

TEST(IndirectObject, SaysWhatIsMissing) {
  const auto model = HookedTransformer::load((kRoot / "examples/toy_model").string());
  EXPECT_THAT(text_thrown_by<TokenizerError>([&] {
                indirect_object_pairs(model, {.names = {"Mary", "Ug"}});
              }),
              AllOf(HasSubstr("1 of 2 names"), HasSubstr("at least 2")));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                indirect_object_pairs(model, {.count = 1000000, .names = {"Mary", "John"}});
              }),
              HasSubstr("of 2 names"));
  EXPECT_THROW(indirect_object_pairs(model, {.count = 0}), ShapeError);
  EXPECT_THROW(indirect_object_pairs(random_model(two_layer_config())), TokenizerError);
}

}  // namespace
}  // namespace hooked::indirect_object_test
