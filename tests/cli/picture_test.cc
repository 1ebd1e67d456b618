// What the pictures of all commands show, and what they say.
#include "cli/picture.h"

#include <string>

#include "tests/cli/cli_fixture.h"

namespace hooked::picture_test {
namespace {

using Words = std::vector<std::string>;

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++found;
  return found;
}

class PictureTest : public CliTest {
 protected:
  PictureTest() { write_tokenizer(); }

  /// The picture that a command of a pair of prompts draws; its file is removed.
  std::string drawn(const std::string& command, const Words& more) const {
    Words words{command,    model(), "--clean",   "w2 w3 w4", "--corrupted", "w5 w3 w4",
                "--answer", "w6",    "--against", "w7",       "--out",       path("drawn.svg")};
    words.insert(words.end(), more.begin(), more.end());
    succeed(words);
    std::string picture = read("drawn.svg");
    std::filesystem::remove(path("drawn.svg"));
    return picture;
  }
  /// Its cells with a number: each has a title, as has the page.
  static std::size_t cells(const std::string& picture) { return count(picture, "<title>") - 1; }
};

TEST_F(PictureTest, OfASweepSaysWhatItIsOf) {
  const std::string picture = drawn("patch", {"--sweep", "resid_pre"});
  for (const char* words :
       {"model: Patching resid_pre with the clean run", "logit difference, corrupted run 0, clean run 1",
        "clean “w2 w3 w4”, corrupted “w5 w3 w4”, “w6” against “w7”", ">0 &lt;bos&gt;<", ">1 w5<"})
    EXPECT_NE(picture.find(words), std::string::npos) << words << " in\n" << picture;
  const std::string scores = drawn("patch", {"--sweep", "resid_pre", "--scores"});
  EXPECT_EQ(scores.find("corrupted run 0"), std::string::npos);
  EXPECT_NE(scores.find("logit difference · clean “w2 w3 w4”"), std::string::npos);

  write("two.jsonl",
        R"({"clean": [1,2,3], "corrupted": [1,5,3], "answers": 6, "against": 7}
{"clean": [1,8,3], "corrupted": [1,9,3], "answers": 6, "against": 7}
)");
  succeed({"patch", model(), "--pairs", path("two.jsonl"), "--sweep", "resid_pre", "--out", path("two.svg")});
  EXPECT_NE(read("two.svg").find("2 pairs of two.jsonl, 6 against 7"), std::string::npos);
}

TEST_F(PictureTest, OfALongPromptHasItsBeginning) {
  std::string clean = "w2", corrupted = "w3";
  for (int i = 0; i < 6; ++i) clean += " w1234567890", corrupted += " w1234567890";
  succeed({"patch", model(), "--clean", clean, "--corrupted", corrupted, "--answer", "w6", "--sweep",
           "resid_pre", "--out", path("long.svg")});
  EXPECT_NE(read("long.svg")
                .find("“" + clean.substr(0, 60) + "…”, corrupted “" + corrupted.substr(0, 60) + "…”, “w6”"),
            std::string::npos);
}

/// Nothing can be rescaled where the clean and the corrupted run score the same.
TEST_F(PictureTest, OfASweepWithoutAScaleHasItsScores) {
  const std::string picture = drawn("patch", {"--sweep", "resid_pre", "--position", "0"});
  EXPECT_EQ(picture.find("corrupted run 0"), std::string::npos);
  EXPECT_GT(cells(picture), 0u);
}

TEST_F(PictureTest, LeavesWhatDoesNotExistEmpty) {
  const auto has_no_crosses = [](const std::string& picture) {
    EXPECT_EQ(picture.find("NaN"), std::string::npos);
  };
  // Four tokens: ten keys that are not after their query, in each of six heads.
  for (const Words& how : {Words{}, Words{"--scores"}, Words{"--noising"}, Words{"--noising", "--scores"}}) {
    Words words{"--sweep", "attn_head_pattern_dest_src_pos"};
    words.insert(words.end(), how.begin(), how.end());
    const std::string pattern = drawn("patch", words);
    EXPECT_EQ(cells(pattern), 60u);
    has_no_crosses(pattern);
  }
  // From one head of the first layer into the three heads of the second.
  const std::string paths = drawn("patch", {"--sweep", "direct_path_q", "--source", "0.1"});
  EXPECT_EQ(cells(paths), 3u);
  has_no_crosses(paths);
  const std::string edges = drawn("circuits", {"--edges"});
  EXPECT_GT(cells(edges), 30u);
  has_no_crosses(edges);
  succeed({"weights", model(), "--composition", "v", "--out", path("composition.svg")});
  EXPECT_EQ(cells(read("composition.svg")), 9u) << "three heads to three later ones";
  has_no_crosses(read("composition.svg"));
}

TEST_F(PictureTest, OfNodesIsATableOfLayers) {
  const std::string picture = drawn("circuits", {});
  EXPECT_EQ(cells(picture), 8u);
  for (const char* place : {">layer 1, head 2: ", ">layer 0, head mlp: "})
    EXPECT_EQ(count(picture, place), 1u) << place;
  EXPECT_NE(picture.find("corrupted “w5 w3 w4”, “w6” against “w7”"), std::string::npos);
  succeed({"circuits", model(), "--clean", "w2 w3", "--corrupted", "w5 w3", "--answer", "w6", "--out",
           path("scores.csv")});
  EXPECT_EQ(Grid::load(path("scores.csv")).axes()[0].name, "node") << "data are as they are chosen from";
}

/// Every command that draws names the model, and what it was run on and asked for.
TEST_F(PictureTest, OfEveryCommandHasACaption) {
  const auto says = [&](Words words, const Words& wanted) {
    words.insert(words.begin() + 1, model());
    words.insert(words.end(), {"--out", path("one.svg")});
    EXPECT_EQ(hooked(words).exit_code, 0);
    const std::string picture = read("one.svg");
    for (const std::string& what : wanted)
      EXPECT_NE(picture.find(what), std::string::npos) << words.front() << ": " << what;
    std::filesystem::remove(path("one.svg"));
  };
  const Words text{"--text", "w2 w3 w4"};
  const auto with = [&](const Words& more) {
    Words words{more.front(), text[0], text[1]};
    words.insert(words.end(), more.begin() + 1, more.end());
    return words;
  };
  says(with({"lens", "--answer", "w6"}), {">model: Logit lens", " · “w2 w3 w4”, “w6”<"});
  says(with({"attribute", "--answer", "w6", "--against", "w7"}),
       {">model: Direct logit attribution", " · “w2 w3 w4”, “w6” against “w7”<"});
  says({"attribute", "--tokens", "1,2,3", "--answer-token", "6"}, {">model: ", " · 1 2 3, 6<"});
  says({"attribute", "--tokens", "1,2", "--tokens", "1,3", "--answer-token", "6"},
       {" · 2 rows of 2 tokens, 6<"});
  says(with({"heads", "--score", "entropy"}), {">model: ", " · “w2 w3 w4”<"});
  says({"heads", "--score", "entropy", "--text", "w2", "--text", "w3"}, {" · 2 texts<"});
  says({"heads", "--score", "induction", "--half", "3", "--rows", "2"},
       {">model: ", " · 2 rows of 3 random tokens, repeated once<"});
  says(with({"heads", "--pattern", "1.2"}), {">model: ", " · “w2 w3 w4”<"});
  says({"weights", "--composition", "q"}, {">model: "});
  succeed({"lens", model(), "--text", "w2 w3", "--answer", "w6", "--out", path("lens.csv")});
  EXPECT_EQ(Grid::load(path("lens.csv")).title().find("model"), std::string::npos) << "data have no caption";
}

/// Parts without a layer have rows of their own in a last column; no number is lost.
TEST_F(PictureTest, OfPartsIsATableOfLayers) {
  const Words words{"attribute", model(), "--text", "w2 w3 w4", "--answer", "w6", "--grain", "head", "--out"};
  const auto saved = [&](const std::string& name) {
    Words all = words;
    all.push_back(path(name));
    EXPECT_EQ(hooked(all).exit_code, 0);
    return path(name);
  };
  const Grid parts = Grid::load(saved("parts.csv"));
  const std::string picture = read((saved("parts.svg"), "parts.svg"));
  EXPECT_EQ(cells(picture), parts.axis("part").labels.size());
  for (const char* place : {"layer 1, head 2: ", "layer 0, head mlp: ", "layer embed, head all: "})
    EXPECT_EQ(count(picture, place), 1u) << place;
}

/// A title is not cut to the width of a panel with few columns.
TEST_F(PictureTest, ANarrowPanelHasItsWholeTitle) {
  const std::string picture = drawn(
      "patch", {"--sweep", "resid_pre", "--positions", "1", "--metric", "logit_difference,probability"});
  EXPECT_NE(picture.find(">metric logit difference<"), std::string::npos);
}

TEST_F(PictureTest, ScoresAreAskedForOnlyOfPictures) {
  const Words words{"patch",    model(), "--clean", "w2 w3",     "--corrupted", "w5 w3",
                    "--answer", "w6",    "--sweep", "resid_pre", "--scores"};
  expect_failure(words, 2, "--out");
  Words data = words, both = words;
  data.insert(data.end(), {"--out", path("x.csv")});
  expect_failure(data, 2, "--scores is of pictures");
  both.insert(both.end(), {"--out", path("x.svg"), "--rescaled"});
  expect_failure(both, 2, "--rescaled");
}

}  // namespace
}  // namespace hooked::picture_test
