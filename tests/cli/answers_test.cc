// Answers by text, and values of other models.
#include "hooked/analysis/answers.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hooked/analysis/prompt_pairs.h"
#include "hooked/analysis/spelling.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/error.h"
#include "options/command.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/running_program.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/thrown_by.h"

namespace hooked::answers_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

/// A byte-level vocabulary in which `a` and ` a` are tokens 1 and 5, `b` and ` b` 2 and 6, and ` c` is
/// two tokens.
class AnswersTest : public CliTest {
 protected:
  AnswersTest() {
    write("model/tokenizer.json", R"({"version": "1.0", "added_tokens": [], "normalizer": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
      "post_processor": null, "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "merges": ["Ġ a", "Ġ b"], "vocab":
        {"d": 0, "a": 1, "b": 2, "c": 3, "Ġ": 4, "Ġa": 5, "Ġb": 6, "e": 7, "f": 8, "g": 9, "h": 10}}})");
  }
  Words exact(const Words& more) const {
    Words words = more;
    words.insert(words.begin() + 1, model());
    words.insert(words.end(), {"--dtype", "float64"});
    return words;
  }
  HookedTransformer in_float64() const { return HookedTransformer::load(model(), {.dtype = at::kDouble}); }
  /// The logits after the last of these ids.
  at::Tensor logits(const std::vector<std::int64_t>& ids) const {
    return in_float64()(at::tensor(ids, at::kLong).unsqueeze(0))[0][-1];
  }
  static std::int64_t rank(const at::Tensor& logits, std::int64_t id) {
    return logits.gt(logits[id]).sum().item<std::int64_t>();
  }
};

TEST_F(AnswersTest, RunSaysWhereTheyRank) {
  const auto result = hooked(exact({"run", "--text", "c b", "--answer", " a", "--answer", "c", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const at::Tensor after = logits({3, 6});
  const Json answers = result.json()["rows"][0]["answers"];
  ASSERT_EQ(answers.size(), 2);
  for (const auto& [place, id, text] : {std::tuple{0, 5, " a"}, {1, 3, "c"}}) {
    const Json& answer = answers[static_cast<std::size_t>(place)];
    EXPECT_EQ(answer["id"], id);
    EXPECT_EQ(answer["token"], text);
    EXPECT_EQ(answer["rank"], rank(after, id));
    EXPECT_NEAR(answer["logit"].get<double>(), after[id].item<double>(), 1e-9);
    EXPECT_NEAR(answer["probability"].get<double>(), at::softmax(after, -1)[id].item<double>(), 1e-9);
  }
  const auto shown = hooked(exact({"run", "--text", "c b", "--answer-token", "5", "--top-k", "1"}));
  EXPECT_THAT(shown.out, HasSubstr("answer ' a' (5): rank " + std::to_string(rank(after, 5))));
  EXPECT_THAT(shown.out, Not(HasSubstr("\n     1  ")));
  EXPECT_EQ(shown.error, "") << "an id has one spelling";
  expect_failure(exact({"run", "--tokens", "1,2", "--answer-token", "11"}), 1, "expected 0 to 10");
  expect_failure(exact({"run", "--text", "c b", "--answer", "a b"}), 1,
                 "[a b] this text is not one token; expected exactly one, got 2: 'a' (1), ' b' (6)");
}

/// The vocabulary has a piece `a` with its blank, `Ġa`, and `c` only without one.
TEST_F(AnswersTest, OfSeveralTokensNameTheSpellingThatIsOne) {
  const auto hints = [&](const Words& words, const std::string& hint) {
    const auto result = hooked(exact(words));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.error, HasSubstr(hint));
  };
  const std::string with_blank = "did you mean ' a', which is token 5?";
  const std::string without =
      "expected exactly one, got 2: ' ' (4), 'c' (3); did you mean 'c', which is token 3?";
  hints({"run", "--text", "c b", "--answer", " c"}, without);
  hints({"attribute", "--text", "c b", "--answer", " c"}, without);
  hints({"lens", "--text", "c b", "--answer", "a", "--answer", " c"}, without);
  hints({"cache", "--text", "c b", "--out", path("c.safetensors"), "--gradients", "--answer", " c",
         "--against", "a"},
        without);
  for (const char* command : {"patch", "circuits"}) {
    Words words{command, "--clean", "c b", "--corrupted", "a b", "--answer", "  a"};
    if (words.front() == "patch") words.insert(words.end(), {"--sweep", "resid_pre"});
    hints(words, with_blank);
  }
  write("pairs.jsonl", R"({"clean": "c b", "corrupted": "a b", "answers": "  a", "against": "c"})");
  hints({"patch", "--pairs", path("pairs.jsonl"), "--sweep", "resid_pre"}, with_blank);
  const auto model = in_float64();
  EXPECT_THAT(text_thrown_by<TokenizerError>([&] { Answers("  a").in(model); }), HasSubstr(with_blank));
  EXPECT_THAT(text_thrown_by<TokenizerError>([&] { model.to_token("a b"); }), Not(HasSubstr("did you mean")));
}

TEST_F(AnswersTest, OfTwoSpellingsHaveANote) {
  const auto note_on = [](const at::Tensor& at) {
    return fmt::format("'a' is token 1, of rank {}; ' a' is token 5, of rank {}", rank(at, 1), rank(at, 5));
  };
  const at::Tensor after = logits({3, 6});
  const std::string note = note_on(after);
  random_autoencoder("blocks.0.hook_resid_post", config().d_model).save(path("sae"));
  const Words text{"--text", "c b", "--answer", "a"}, against{"--against", "c"};
  const Words pair{"--clean", "c b", "--corrupted", "c a", "--answer", "a", "--against", "c"};
  const Words sae{"--dictionary", path("sae"), "--with-error", "--no-processing"};
  const std::vector<std::pair<std::string, std::vector<Words>>> calls{
      {"run", {text}},
      {"lens", {text}},
      {"attribute", {text, against}},
      {"attribute", {{"--text", "c b", "--answer", "c", "--against", "a"}}},
      {"cache", {text, against, {"--gradients", "--out", path("c.safetensors")}}},
      {"patch", {pair, {"--sweep", "resid_pre", "--noising"}}},
      {"circuits", {pair}},
      {"sae", {text, sae, {"--ablate", "3"}}},
      {"sae", {text, sae, {"--clamp", "3=0.5"}}},
      {"graph", {text, {"--neurons", "--no-processing"}}},
      {"report", {text, {"--out", path("r.html")}}},
      {"report", {{"--text", "c b", "--answer", "c", "--against", "a", "--out", path("s.html")}}},
  };
  std::set<std::string> called;
  for (const auto& [command, options] : calls) {
    Words words{command};
    for (const Words& more : options) words.insert(words.end(), more.begin(), more.end());
    const auto result = hooked(exact(words));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_THAT(result.error, HasSubstr(note)) << command;
    called.insert(command);
  }
  for (const auto& command : cli::commands()) {
    const std::string name(command.name);
    const std::string help = succeed({name, "--help"}).out;
    const std::string in_one_line = std::regex_replace(help, std::regex("\\s+"), " ");
    EXPECT_EQ(in_one_line.find("repeatable; repeat"), std::string::npos) << help;
    const bool asks = help.find("\n  --answer ") != std::string::npos;
    EXPECT_EQ(asks, called.contains(name)) << name << ": every command with --answer is called above";
  }
  write("pairs.jsonl", R"({"clean": "c b", "corrupted": "c a", "answers": "c", "against": "h"}
{"clean": "c b", "corrupted": "c a", "answers": "a", "against": "h"}
)");
  EXPECT_THAT(hooked(exact({"patch", "--pairs", path("pairs.jsonl"), "--sweep", "resid_pre"})).error,
              HasSubstr(note_on(logits({3, 5}))))
      << "in the run that is patched";
  const auto quiet = hooked(exact({"run", "--text", "c b", "--answer", "c"}));
  EXPECT_EQ(quiet.error, "") << "' c' is two tokens";
  // With its leading space an answer has a note if the other spelling is likelier.
  for (const auto& [text, own, other] : {std::tuple{" a", 5, 1}, {" b", 6, 2}}) {
    const auto result = hooked(exact({"run", "--text", "c b", "--answer", text}));
    EXPECT_EQ(result.error.empty(), rank(after, own) <= rank(after, other)) << result.error;
  }
}

/// `Ġ` is token 4: of a text that ends in a blank, the last one.
TEST_F(AnswersTest, ABlankAtTheEndHasANote) {
  const auto error = [&](const Words& words) {
    const auto result = hooked(exact(words));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.error;
  };
  const std::string why =
      " in a blank that is a token of its own (4): a word that follows has its blank in front, so leave this "
      "one out\n";
  EXPECT_EQ(error({"run", "--text", "c b "}), "note: the text ends" + why);
  EXPECT_EQ(error({"run", "--text", "c b  "}), "note: the text ends" + why);
  EXPECT_EQ(error({"generate", "--text", "c ", "--max-new-tokens", "1"}), "note: the text ends" + why);
  EXPECT_EQ(error({"lens", "--text", "c ", "--text", "b ", "--text", "c"}), "note: 2 of 3 texts end" + why);
  EXPECT_EQ(
      error({"patch", "--clean", "c b", "--corrupted", "c ", "--answer-token", "5", "--sweep", "resid_pre"}),
      "note: 1 of 2 texts ends" + why);
  EXPECT_EQ(
      error({"report", "--text", "c b", "--corrupted", "c ", "--answer-token", "5", "--out", path("b.html")}),
      "note: the text ends" + why);
  EXPECT_EQ(error({"run", "--text", "c b"}), "");
  EXPECT_EQ(error({"run", "--tokens", "3,6,4"}), "") << "ids are what was asked for";
  // In a vocabulary of characters, words come after a blank.
  std::string characters = read("model/tokenizer.json");
  const std::string merges = R"("merges": ["Ġ a", "Ġ b"])";
  characters.replace(characters.find(merges), merges.size(), R"("merges": [])");
  write("model/tokenizer.json", characters);
  EXPECT_EQ(error({"run", "--text", "c b "}), "");
}

/// The note stands between the run and the attribution: while nobody reads it, the program waits there. What
/// is done first are biases of 0; a table of them would be empty.
TEST_F(AnswersTest, AnAttributionThatIsEndedHasNoEmptyTables) {
  const std::string notes = path("notes");
  ASSERT_EQ(::mkfifo(notes.c_str(), 0600), 0);
  const std::string filler(RunningProgram::kPipeBytes, ' ');
  const Words words =
      exact({"attribute", "--text", "c b", "--text", "c a", "--answer", "a", "--grain", "neuron"});
  std::string text;
  for (useconds_t wait = 250'000; text.empty() && wait <= 16'000'000; wait *= 2) {
    const int reader = ::open(notes.c_str(), O_RDONLY | O_NONBLOCK), writer = ::open(notes.c_str(), O_WRONLY);
    ::fcntl(reader, F_SETPIPE_SZ, RunningProgram::kPipeBytes);
    ASSERT_EQ(::write(writer, filler.data(), filler.size()), static_cast<ssize_t>(filler.size()));
    RunningProgram program(words, notes);
    ASSERT_TRUE(program.wait_for_guard());
    ::usleep(wait);  // if it still runs the model, nothing is kept
    program.interrupt();
    ::usleep(100'000);
    std::string read(filler.size(), '\0');
    ASSERT_EQ(::read(reader, read.data(), read.size()), static_cast<ssize_t>(read.size()));
    text = program.read();
    program.wait();
    ::close(reader);
    ::close(writer);
  }
  EXPECT_TRUE(std::regex_match(text, std::regex("\nended early: 1 of [0-9]+ modules\n"))) << text;
}

/// In C++ as on the command line: a metric knows the texts of its answers, and a report has the notes.
TEST_F(AnswersTest, OfMetricsKeepTheTextsForNotes) {
  const auto model = in_float64();
  const Input input = model.to_tokens("c b");
  const at::Tensor after = logits({3, 6});
  const auto note = [](const at::Tensor& at, int own, int other) {
    const char* text = own == 1 ? "a" : "b";
    return fmt::format(
        "the answer '{0}' is token {1}, of rank {2}; ' {0}' is token {3}, of rank {4}: a word "
        "that follows another one has a blank in front",
        text, own, rank(at, own), other, rank(at, other));
  };
  EXPECT_EQ(spelling_notes(model, input, logit_difference("a", "c")), Words{note(after, 1, 5)});
  EXPECT_EQ(spelling_notes(model, input, {hooked::rank("b"), logit_difference("a", "b")}),
            (Words{note(after, 2, 6), note(after, 1, 5)}));
  EXPECT_EQ(spelling_notes(model, input, logit_difference(1, 3)), Words{}) << "ids have one spelling";
  EXPECT_EQ(spelling_notes(model, input, loss()), Words{});
  // An answer of another row, at another position and in an edited run.
  const Input two = at::tensor({3, 6, 2, 3, 5, 4}, at::kLong).view({2, 3});
  const Edits edits = zero("blocks.0.hook_attn_out");
  const at::Tensor edited = model.run(two, {.edits = edits}).logits()[1][1];
  EXPECT_EQ(spelling_notes(model, two, probability(Answers::texts_by_row({"c", "a"}), 1), {.edits = edits}),
            Words{note(edited, 1, 5)});

  const auto resolved = Answers::texts_by_row({"c", "a", "c"}).in(model);
  EXPECT_EQ(resolved, Answers::by_row({3, 1, 3}));
  using Texts = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(resolved.texts(), (Texts{{"c", 0}, {"a", 1}}));
  EXPECT_EQ(resolved.of_rows({1, 1, 0}).texts(), (Texts{{"a", 0}, {"c", 2}}));
  EXPECT_EQ(Answers::any_of({1, 2}).texts(), Texts{});
  EXPECT_THROW(Answers::sets_by_row({{1}, {2}}, {{"a"}}), ShapeError);

  const PromptPairs pairs(model, {{.clean = "c b", .corrupted = "c a", .answers = {"a"}, .against = {"c"}}});
  SweepOptions sweep{.site = act::resid_pre,
                     .over = {Axis::layer},
                     .from = model.run_with_cache(pairs.corrupted()).cache,
                     .into = pairs.clean(),
                     .metric = logit_difference(pairs.answers(), pairs.against())};
  EXPECT_EQ(sweep_report(model, sweep).notes, Words{note(after, 1, 5)});
  sweep.metric = logit_difference(5, 3);
  EXPECT_EQ(sweep_report(model, sweep).notes, Words{});
}

TEST_F(AnswersTest, PositionsOfPaddingAreRefused) {
  save_safetensors(path("rows.safetensors"),
                   {{"tokens", at::tensor({3, 6, 5, 3, 6, 0}, at::kLong).view({2, 3})},
                    {"attention_mask", at::tensor({1, 1, 1, 1, 1, 0}, at::kLong).view({2, 3})}});
  const Words rows{"--tokens-file", path("rows.safetensors")};
  const auto with = [&](Words words) {
    words.insert(words.end(), rows.begin(), rows.end());
    return exact(words);
  };
  for (const char* position : {"-1", "2"})
    expect_failure(with({"run", "--positions", position}), 1, "padding");
  EXPECT_EQ(hooked(with({"run", "--positions", "1", "--json"})).json()["rows"].size(), 2);
  expect_failure(with({"run", "--edit", "blocks.1.hook_resid_post[pos=-1] zero"}), 1,
                 "position -1 is padding in row 1, whose last token is at 1");
  EXPECT_EQ(hooked(with({"run", "--edit", "blocks.1.hook_resid_post[pos=last] zero"})).exit_code, 0);
}

TEST_F(AnswersTest, ValuesOfAnotherModelAreMeantOrRefused) {
  HookedTransformer::create(config(), {.seed = 2, .initializer_range = 0.5}).save(folder_ / "other");
  const std::string file = path("other.safetensors");
  ASSERT_EQ(
      hooked({"cache", path("other"), "--tokens", "1,2,3", "--out", file, "--dtype", "float64"}).exit_code,
      0);
  for (const char* operation : {"replace", "set", "add"}) {
    const std::string edit =
        std::string("blocks.1.hook_resid_post ") + operation + " " + file + "#blocks.1.hook_resid_post";
    expect_failure(exact({"run", "--tokens", "1,2,3", "--edit", edit}), 1, "another model");
    expect_failure(exact({"run", "--tokens", "1,2,3", "--edit", edit, "--from-model", "gpt2"}), 1,
                   "--from-model");
    const auto fingerprint =
        HookedTransformer::load(path("other"), {.dtype = at::kDouble}).identity()->fingerprint;
    for (const std::string& name : {path("other"), fingerprint.substr(0, 8)})
      EXPECT_EQ(hooked(exact({"run", "--tokens", "1,2,3", "--edit", edit, "--from-model", name})).error, "");
  }
  ASSERT_EQ(hooked(exact({"cache", "--tokens", "1,2,3", "--out", path("own.safetensors")})).exit_code, 0);
  succeed(
      exact({"run", "--tokens", "1,2,3", "--edit",
             "blocks.1.hook_resid_post replace " + path("own.safetensors") + "#blocks.1.hook_resid_post"}));
  EXPECT_THAT(succeed({"show", file}).out, HasSubstr("fingerprint"));
}

}  // namespace
}  // namespace hooked::answers_test
