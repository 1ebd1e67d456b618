// What a temporary returns outlives it, and a moved-from object says so when it is used.

#include "hooked/analysis/circuit.h"
#include "hooked/analysis/factored_matrix.h"
#include "hooked/analysis/prompt_pairs.h"
#include "hooked/analysis/sweep.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::analysis_temporaries_test {
namespace {

Grid grid() {
  return Grid(
      at::arange(6, at::kDouble).view({2, 3}),
      {{"a layer with a long name", {"0", "1"}}, {"head", {"0", "1", "2"}}},
      {.title = "a title that is longer than a small string", .unit = "a unit that is as long as that"});
}

FactoredMatrix matrix() { return {at::ones({3, 2}), at::ones({2, 4})}; }

class AnalysisTemporaries : public testing::Test {
 protected:
  PromptPairs pairs() const {
    return PromptPairs(model_, {{.clean = std::vector<std::int64_t>{1, 2, 3},
                                 .corrupted = std::vector<std::int64_t>{1, 4, 3},
                                 .answers = {5},
                                 .against = {6}}});
  }
  Circuit circuit() const {
    return Circuit::of_edges(model_, {{.writer = "head 0.1", .reader = "head 1.3 q"}});
  }
  BoundMetric bound() const { return logit_difference(5, 6).on(model_, tokens_); }

  const HookedTransformer model_ = random_model(two_layer_config());
  const at::Tensor tokens_ = random_row(5, 11, 3);
};

TEST_F(AnalysisTemporaries, OfGrids) {
  const auto& values = grid().values();
  const auto& title = grid().title();
  const auto& unit = grid().unit();
  const auto& axis = grid().axis("head");
  const auto& axes = grid().axes();
  EXPECT_TRUE(at::equal(values, grid().values()));
  EXPECT_EQ(title, "a title that is longer than a small string");
  EXPECT_EQ(unit, "a unit that is as long as that");
  EXPECT_EQ(axis.labels.size(), 3u);
  EXPECT_EQ(axes.size(), 2u);
  std::string names;
  for (const GridAxis& each : grid().axes()) names += each.name + ";";
  EXPECT_EQ(names, "a layer with a long name;head;");
}

TEST_F(AnalysisTemporaries, OfWhatSweepsAreMadeOf) {
  const auto& clean = pairs().clean();
  const auto& corrupted = pairs().corrupted();
  const auto& answers = pairs().answers().of_row(0);
  const auto& name = logit_difference(5, 6).name();
  const auto& definition = logit_difference(5, 6).definition();
  const auto& source = PatchSource::mixture(PatchSource::zero(), PatchSource::value(1), 0.5).description();
  EXPECT_EQ(clean.length(), 3);
  EXPECT_EQ(corrupted.length(), 3);
  EXPECT_EQ(answers, std::vector<std::int64_t>{5});
  EXPECT_EQ(name, definition.name);
  EXPECT_EQ(source, "0.5 of zeros and 0.5 of 1");
  const auto& columns = bound().logit_positions();
  const auto& ids = bound().logit_tokens();
  const auto& metric = bound().metric();
  EXPECT_EQ(columns, std::vector<std::int64_t>{4});
  EXPECT_EQ(ids, (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(metric.name(), name);
  std::vector<PromptPair> written;
  for (const PromptPair& pair : pairs().pairs()) written.push_back(pair);
  EXPECT_EQ(written, pairs().pairs());
}

TEST_F(AnalysisTemporaries, OfCircuitsAndMatrices) {
  std::vector<std::string> nodes;
  for (const std::string& node : circuit().nodes()) nodes.push_back(node);
  EXPECT_EQ(nodes, (std::vector<std::string>{"head 0.1", "head 1.3"}));
  const auto& edges = circuit().edges();
  EXPECT_EQ(edges.size(), 1u);
  const auto& a = matrix().A();
  const auto& b = matrix().B();
  EXPECT_TRUE(at::equal(a, at::ones({3, 2})));
  EXPECT_TRUE(at::equal(b, at::ones({2, 4})));
}

TEST_F(AnalysisTemporaries, AGridThatWasMovedFrom) {
  const TempFolder folder;
  Grid from = grid();
  const Grid to = std::move(from);
  expect_moved_from("grid",
                    {[&] { from.values(); }, [&] { from.at({}); }, [&] { from.largest(1); },
                     [&] { from.rescaled(0, 1, "share"); }, [&] { from.rescaled(from, from, "share"); },
                     [&] { from.to_csv(); }, [&] { from.to_json(); },
                     [&] { from.save(folder.path() / "grid.csv"); }, [&] { (void)(from - from); }});
  EXPECT_EQ(to.at({1, 2}), 5.0);
}

TEST_F(AnalysisTemporaries, AMetricThatWasMovedFrom) {
  Metric from = logit_difference(5, 6);
  const Metric to = std::move(from);
  BoundMetric from_bound = to.on(model_, tokens_);
  const BoundMetric to_bound = std::move(from_bound);
  expect_moved_from(
      "metric",
      {[&] { from.name(); }, [&] { from.definition(); }, [&] { from.on(model_, tokens_); },
       [&] { from.score(model_, tokens_); }, [&] { (void)LogitMetric(from); }, [&] { from_bound.needs(); },
       [&] { from_bound(model_.run(tokens_)); }, [&] { scores(model_, tokens_, from); }});
  EXPECT_TRUE(at::equal(to.score(model_, tokens_), to_bound(model_.run(tokens_, to_bound.needs()))));
}

TEST_F(AnalysisTemporaries, SourcesAndAnswersThatWereMovedFrom) {
  PatchSource from = PatchSource::zero();
  const PatchSource to = std::move(from);
  expect_moved_from(
      "patch source",
      {[&] { PatchSource::mixture(from, to, 0.5); }, [&] { PatchSource::mixture(to, from, 0.5); },
       [&] {
         sweep(model_,
               {.site = act::z, .over = {Axis::layer}, .from = from, .into = tokens_, .metric = logit(5)});
       }});
  for (Answers from_answers : {Answers(5), Answers::by_row({5, 6})}) {
    const Answers to_answers = std::move(from_answers);
    expect_moved_from("answer", {[&] { from_answers.of_row(0); }});
    EXPECT_EQ(to_answers.of_row(0), std::vector<std::int64_t>{5});
  }
}

TEST_F(AnalysisTemporaries, AnswersOfARowThatIsNotThere) {
  const Answers answers = Answers::by_row({5, 6});
  for (const std::int64_t row : {-1, 2}) {
    EXPECT_NE(text_thrown_by<ShapeError>([&] { answers.of_row(row); }).find("expected 0 to 1"),
              std::string::npos);
  }
  EXPECT_EQ(Answers(5).of_row(7), std::vector<std::int64_t>{5}) << "one answer is that of every row";
}

TEST_F(AnalysisTemporaries, PairsAndMatricesThatWereMovedFrom) {
  PromptPairs from = pairs();
  const PromptPairs to = std::move(from);
  EXPECT_EQ(from.size(), 0);
  EXPECT_THROW(model_.run(from.clean()), Error);
  EXPECT_THROW(from.answers(), Error);
  EXPECT_THROW(from.clean_place("subject"), Error);
  EXPECT_TRUE(from.place_names().empty());
  EXPECT_EQ(to.size(), 1);
  FactoredMatrix from_matrix = matrix();
  const FactoredMatrix to_matrix = std::move(from_matrix);
  expect_moved_from("matrix",
                    {[&] { from_matrix.A(); }, [&] { from_matrix.AB(); }, [&] { from_matrix.norm(); },
                     [&] { from_matrix.sizes(); }, [&] { from_matrix.svd(); }, [&] { (void)from_matrix[0]; },
                     [&] { from_matrix.row(0); }, [&] { from_matrix.t(); }});
  EXPECT_TRUE(to_matrix.AB().defined());
}

}  // namespace
}  // namespace hooked::analysis_temporaries_test
