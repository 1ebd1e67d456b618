#include "hooked/analysis/prompt_pairs.h"

#include <fstream>

#include "hooked/analysis/metric.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::prompt_pairs_test {
namespace {

using Columns = std::vector<std::int64_t>;

/// The shipped model, whose tokens are words.
const HookedTransformer& toy_model() {
  static const auto model = HookedTransformer::load(HOOKED_SOURCE_DIR "/examples/toy_model");
  return model;
}

PromptPair short_pair() {
  return {.clean = "When John and Mary went to the shop, John gave a bag to",
          .corrupted = "When John and Mary went to the shop, Mary gave a bag to",
          .answers = {" Mary"},
          .against = {" John"},
          .places = {{"place", {"shop", "shop"}}, {"giver", {-5, -5}}}};
}

PromptPair long_pair() {
  return {.clean = "Then Mary and John went to the shop, and Mary gave a bag to",
          .corrupted = "Then Mary and John went to the shop, and John gave a bag to",
          .answers = {" John"},
          .against = {" Mary"},
          .places = {{"place", {"shop", "shop"}}, {"giver", {-5, -5}}}};
}

std::string word_at(const Input& input, std::int64_t row, std::int64_t column) {
  return toy_model().to_str_tokens(input.tokens[row].narrow(0, column, 1))[0];
}

TEST(PromptPairs, AreBatchesOfTheSameColumns) {
  const PromptPairs pairs(toy_model(), {short_pair(), long_pair()});
  ASSERT_EQ(pairs.size(), 2);
  EXPECT_EQ(pairs.clean().tokens.sizes(), pairs.corrupted().tokens.sizes());
  const auto lengths = pairs.clean().attention_mask.sum(1);
  EXPECT_LT(lengths[0].item<std::int64_t>(), lengths[1].item<std::int64_t>());
  EXPECT_EQ(lengths[1].item<std::int64_t>(), pairs.clean().tokens.size(1));
  EXPECT_FALSE(pairs.clean().attention_mask[0][0].item<bool>()) << "padding is on the left";
  EXPECT_TRUE(pairs.clean().attention_mask[0][-1].item<bool>());
  for (std::int64_t row = 0; row < 2; ++row) {
    const auto alone =
        toy_model().to_tokens(std::get<std::string>(pairs.pairs()[static_cast<std::size_t>(row)].clean));
    EXPECT_TRUE(pairs.clean()
                    .tokens[row]
                    .narrow(0, pairs.clean().tokens.size(1) - alone.size(1), alone.size(1))
                    .equal(alone[0]));
  }
}

TEST(PromptPairs, NamedPlacesAreColumnsOfEachRow) {
  for (const auto side : {PaddingSide::left, PaddingSide::right}) {
    const PromptPairs pairs(toy_model(), {short_pair(), long_pair()}, {.padding_side = side});
    EXPECT_EQ(pairs.place_names(), std::vector<std::string>({"giver", "place"}));
    const auto columns = [&](const Position& place) { return place.columns(2, {.first = 0, .end = 100}); };
    const auto place = columns(pairs.clean_place("place")), giver = columns(pairs.corrupted_place("giver"));
    for (std::int64_t row = 0; row < 2; ++row) {
      EXPECT_THAT(word_at(pairs.clean(), row, place[static_cast<std::size_t>(row)]), HasSubstr("shop"));
      EXPECT_THAT(word_at(pairs.corrupted(), row, giver[static_cast<std::size_t>(row)]),
                  HasSubstr(row == 0 ? "Mary" : "John"));
    }
  }
}

TEST(PromptPairs, ScoresAreThoseOfEachPromptAlone) {
  const PromptPairs pairs(toy_model(), {short_pair(), long_pair()});
  const auto scores = logit_difference(pairs.answers(), pairs.against()).score(toy_model(), pairs.clean());
  const auto at_place = logit(pairs.answers(), pairs.clean_place("place")).score(toy_model(), pairs.clean());
  const auto mary = toy_model().to_token(" Mary"), john = toy_model().to_token(" John");
  for (std::int64_t row = 0; row < 2; ++row) {
    const auto& prompt = std::get<std::string>(pairs.pairs()[static_cast<std::size_t>(row)].clean);
    const auto answer = row == 0 ? mary : john, against = row == 0 ? john : mary;
    EXPECT_NEAR(scores[row].item<double>(),
                logit_difference(answer, against).score(toy_model(), prompt).item<double>(),
                1e-4);  // float32
    const auto words = toy_model().to_str_tokens(toy_model().to_tokens(prompt));
    const auto shop = std::find_if(words.begin(), words.end(),
                                   [](const auto& word) { return word.find("shop") != std::string::npos; });
    EXPECT_NEAR(at_place[row].item<double>(),
                logit(answer, static_cast<std::int64_t>(shop - words.begin()))
                    .score(toy_model(), prompt)
                    .item<double>(),
                1e-4);
  }
}

TEST(PromptPairs, NeedNoTokenizerForIds) {
  const auto model = random_model(two_layer_config());
  const PromptPairs pairs(model,
                          {{.clean = Columns{1, 2, 3}, .corrupted = Columns{1, 2, 4}, .answers = {5, 6}},
                           {.clean = Columns{7}, .corrupted = Columns{8}, .answers = {9}}});
  EXPECT_TRUE(pairs.clean().tokens[0].equal(at::tensor({1, 2, 3}, at::kLong)));
  EXPECT_EQ(pairs.corrupted().tokens[1][2].item<std::int64_t>(), 8);
  EXPECT_EQ(pairs.answers(), Answers::sets_by_row({{5, 6}, {9}}));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { pairs.against(); }),
              AllOf(HasSubstr("[pair 0]"), HasSubstr("against")));
}

TEST(PromptPairs, ThatCannotBeAlignedAreNamed) {
  auto unequal = short_pair();
  unequal.corrupted = "When Mary went to the shop, Mary gave a bag to";
  const auto aligned = [&](const PromptPair& pair) { return PromptPairs(toy_model(), {short_pair(), pair}); };
  const PromptPairs at_places = aligned(unequal);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { at_places.require_same_columns("a sweep over pos"); }),
              AllOf(HasSubstr("[pair 1] a sweep over pos"), HasSubstr("named places")));
  EXPECT_NO_THROW(PromptPairs(toy_model(), {short_pair()}).require_same_columns("a sweep"));
  unequal.places.clear();
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { aligned(unequal); }),
              AllOf(HasSubstr("[pair 1]"), HasSubstr("cannot be aligned"), HasSubstr("(15), got 13"),
                    HasSubstr("from token 2 on the clean one has ")));
  const auto of_ids = [](std::vector<std::int64_t> clean, std::vector<std::int64_t> corrupted) {
    const auto model = random_model(two_layer_config());
    return text_thrown_by<ShapeError>(
        [&] { PromptPairs(model, {{.clean = std::move(clean), .corrupted = std::move(corrupted)}}); });
  };
  EXPECT_THAT(of_ids({1, 2, 3, 4}, {1, 5, 6, 3, 4}),
              HasSubstr("from token 1 on the clean one has [2] where the corrupted one has [5, 6];"));
  EXPECT_THAT(of_ids({1, 1}, {1, 1, 1}),
              HasSubstr("from token 2 on the clean one has nothing where the corrupted one has [1];"));
}

TEST(PromptPairs, PlacesAndAnswersMustBeThere) {
  const auto refusal = [&](const auto& change) {
    auto pair = short_pair();
    change(pair);
    return text_thrown_by<Error>([&] { PromptPairs(toy_model(), {short_pair(), pair}); });
  };
  EXPECT_THAT(
      refusal([](PromptPair& p) {
        p.places["x"] = {"John", "John"};
      }),
      AllOf(HasSubstr("[pair 1] place 'x' of the clean prompt"), HasSubstr("occurs at the tokens 2, 10")));
  EXPECT_THAT(refusal([](PromptPair& p) {
                p.places["x"] = {"Paris", "Paris"};
              }),
              AllOf(HasSubstr("no token is 'Paris'"), HasSubstr("Mary")));
  EXPECT_THAT(refusal([](PromptPair& p) {
                p.places["x"] = {3, 15};
              }),
              AllOf(HasSubstr("corrupted prompt"), HasSubstr("expected -15 to 14")));
  EXPECT_THAT(refusal([](PromptPair& p) { p.answers = {" Mary gave"}; }), HasSubstr("[pair 1: "));
  EXPECT_THAT(refusal([](PromptPair& p) { p.answers = {std::int64_t{1} << 40}; }),
              HasSubstr("outside the vocabulary"));
  EXPECT_THAT(refusal([](PromptPair& p) { p.clean = Columns{}; }),
              HasSubstr("the clean prompt has no tokens"));
  const PromptPairs pairs(toy_model(), {short_pair()});
  EXPECT_THAT(
      text_thrown_by<ShapeError>([&] { pairs.clean_place("verb"); }),
      AllOf(HasSubstr("no place 'verb'"), HasSubstr("expected one that every pair has: giver, place")));
  auto without = short_pair();
  without.places.clear();
  const PromptPairs bare(toy_model(), {without});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { bare.clean_place("verb"); }),
              HasSubstr("expected a column such as 3 or -1, or `last`, as no place is in every pair"));
  EXPECT_THROW(PromptPairs(toy_model(), {}), ShapeError);
}

TEST(PromptPairs, HaveNoAnswersWhereThereAreNoLogits) {
  auto config = two_layer_config();
  config.unembedding.reset();
  const auto model = random_model(config);
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                PromptPairs(model, {{.clean = Columns{1, 2}, .corrupted = Columns{1, 3}, .answers = {5}}});
              }),
              HasSubstr("this model has no unembedding and so no logits of an answer"));
}

class PromptPairFile : public testing::Test {
 protected:
  std::filesystem::path write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::string refusal(const char* name, const std::string& text) const {
    return text_thrown_by<CheckpointError>([&] { read_prompt_pairs(write(name, text)); });
  }

  TempFolder folder_;
};

TEST_F(PromptPairFile, JsonLinesAreReadAndWritten) {
  const auto pairs = read_prompt_pairs(write(
      "pairs.jsonl",
      R"({"clean": "a b", "corrupted": [1, 2], "answers": " x", "against": [" y", 7], "places": {"one": -1, "two": "b", "three": {"clean": 0, "corrupted": "a"}}})"
      "\n\n"
      R"({"clean": [3], "corrupted": [4]})"));
  const std::vector<PromptPair> expected = {
      {.clean = "a b",
       .corrupted = Columns{1, 2},
       .answers = {" x"},
       .against = {" y", std::int64_t{7}},
       .places = {{"one", {-1, -1}}, {"two", {"b", "b"}}, {"three", {0, "a"}}}},
      {.clean = Columns{3}, .corrupted = Columns{4}}};
  EXPECT_TRUE(pairs == expected);
  write_prompt_pairs(folder_ / "again.jsonl", pairs);
  EXPECT_TRUE(read_prompt_pairs(folder_ / "again.jsonl") == expected);
}

TEST_F(PromptPairFile, TablesAreRead) {
  const auto pairs = read_prompt_pairs(
      write("pairs.csv",
            "clean,corrupted_tokens,answers,against_tokens,place:one,clean_place:two,corrupted_place:two\r\n"
            "\"a, b\",1 2, x| z,7,-1,b,0\r\n"
            "c,3,,,,,\r\n"));
  const std::vector<PromptPair> expected = {{.clean = "a, b",
                                             .corrupted = Columns{1, 2},
                                             .answers = {" x", " z"},
                                             .against = {std::int64_t{7}},
                                             .places = {{"one", {-1, -1}}, {"two", {"b", 0}}}},
                                            {.clean = "c", .corrupted = Columns{3}}};
  EXPECT_TRUE(pairs == expected);
}

TEST_F(PromptPairFile, ThoseOfEveryEditorAreReadAlike) {
  const std::string mark = "\xEF\xBB\xBF";
  const auto table = read_prompt_pairs(write("plain.csv", "clean,corrupted\na,b\nc,d\n"));
  EXPECT_EQ(table.size(), 2u);
  for (const auto* end : {"", "\n", "\n\n", "\r\n", "\r\n\r\n"})
    EXPECT_TRUE(read_prompt_pairs(write("p.csv", mark + "clean,corrupted\r\na,b\r\nc,d" + end)) == table)
        << end;
  const std::string one = R"({"clean": "a", "corrupted": "b"})", two = R"({"clean": "c", "corrupted": "d"})";
  for (const auto* end : {"", "\r\n", "\n\n"})
    EXPECT_TRUE(read_prompt_pairs(write("p.jsonl", mark + one + "\r\n" + two + end)) == table) << end;
}

TEST_F(PromptPairFile, AnotherNameIsRefusedWithThoseThatAreRead) {
  const auto refusal = [&](const char* name) {
    return text_thrown_by<IoError>([&] { read_prompt_pairs(folder_ / name); });
  };
  EXPECT_THAT(refusal("absent"),
              HasSubstr("there is no such file; expected pairs of prompts in a file whose name "
                        "ends in .jsonl or .csv, got no ending"));
  write("pairs.txt", "");
  EXPECT_THAT(refusal("pairs.txt"),
              HasSubstr("the name does not say how the file is read; expected pairs of "
                        "prompts in a file whose name ends in .jsonl or .csv, got '.txt'"));
}

TEST_F(PromptPairFile, WhatIsNotKnownIsRefusedWithItsLine) {
  EXPECT_THAT(refusal("p.jsonl", "{\"clean\": \"a\", \"corrupted\": \"b\"}\n{\"clean\": \"a\"}"),
              HasSubstr("line 2: 'corrupted' is missing"));
  EXPECT_THAT(refusal("p.jsonl", R"({"clean": "a", "corrupted": "b", "answer": "c"})"),
              AllOf(HasSubstr("'answer' is not known"), HasSubstr("nearest is 'answers'")));
  EXPECT_THAT(refusal("p.jsonl", R"({"clean": 3, "corrupted": "b"})"), HasSubstr("clean is an integer"));
  EXPECT_THAT(refusal("p.jsonl", R"({"clean": "a", "corrupted": "b", "answers": [1.5]})"),
              HasSubstr("answers is"));
  EXPECT_THAT(refusal("p.jsonl", R"({"clean": "a", "corrupted": "b", "places": {"x": {"clean": 1}}})"),
              HasSubstr("lacks a side"));
  EXPECT_THAT(refusal("p.jsonl", "{"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("p.jsonl", "\n"), HasSubstr("no pair"));
  EXPECT_THAT(refusal("p.csv", "clean,corupted\na,b\n"), HasSubstr("'corrupted' and 'corrupted_tokens'"));
  EXPECT_THAT(refusal("p.csv", "clean,corrupted,plaec:x\na,b,1\n"), HasSubstr("'plaec:x' is not known"));
  EXPECT_THAT(refusal("p.csv", "clean,corrupted,clean_place:x\na,b,1\n"),
              HasSubstr("'corrupted_place:x' as well"));
  EXPECT_THAT(refusal("p.csv", "clean,corrupted_tokens\na,1 x\n"), HasSubstr("line 2: 'x' is not an id"));
  EXPECT_THROW(read_prompt_pairs(folder_ / "p.txt"), IoError);
}

TEST_F(PromptPairFile, AFileThatIsThereIsReplacedOnlyWhenAnyMayBe) {
  const auto file = folder_ / "mine.jsonl";
  write_prompt_pairs(file, {short_pair()});
  EXPECT_THAT(text_thrown_by<IoError>([&] {
                write_prompt_pairs(file, {short_pair(), short_pair()});
              }),
              HasSubstr("does not say who wrote it"));
  EXPECT_EQ(read_prompt_pairs(file).size(), 1u);
  write_prompt_pairs(file, {short_pair(), short_pair()}, Overwrite::any);
  EXPECT_EQ(read_prompt_pairs(file).size(), 2u);
  EXPECT_THAT(text_thrown_by<IoError>([&] { write_prompt_pairs(folder_ / "p.csv", {short_pair()}); }),
              HasSubstr("expected a name that ends in .jsonl"));
}

}  // namespace
}  // namespace hooked::prompt_pairs_test
