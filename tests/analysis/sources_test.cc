// What is patched in is stated, must come from this model, and is named; tokens and answers are the run's.

#include "hooked/analysis/ablation.h"
#include "hooked/analysis/attribution.h"
#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/direct_path.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/norm_geometry.h"
#include "hooked/analysis/path_expansion.h"
#include "hooked/analysis/path_patching.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/score_attribution.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::sources_test {
namespace {

class Sources : public testing::Test {
 protected:
  /// Every analysis that patches something in, and the title of its result.
  using Run = std::function<std::string(const SweepOptions&)>;
  std::vector<std::pair<std::string, Run>> analyses() const {
    const auto circuit = Circuit::of_nodes(model_, {"head 0.2", "mlp 1"});
    return {
        {"sweep",
         [this](SweepOptions sweep) {
           sweep.site = act::z;
           sweep.over = {Axis::layer, Axis::head};
           return hooked::sweep(model_, sweep).title();
         }},
        {"preset",
         [this](const SweepOptions& sweep) {
           return hooked::sweep(model_, patching_preset("resid_pre"), sweep).title();
         }},
        {"ablate",
         [this](const SweepOptions& sweep) {
           return ablate(model_, {.sets = {{act::z(0).head(1)}}, .sweep = sweep}).title();
         }},
        {"path_patching",
         [this](const SweepOptions& sweep) {
           return path_patching(model_, {.senders = {act::z(0).head(1)}, .sweep = sweep}).title();
         }},
        {"direct_path",
         [this](const SweepOptions& sweep) { return direct_path(model_, {.sweep = sweep}).title(); }},
        {"attribution_patching",
         [this](SweepOptions sweep) {
           sweep.site = act::z;
           sweep.over = {Axis::layer, Axis::head};
           return attribution_patching(model_, {.sweep = sweep}).title();
         }},
        {"edge_attribution",
         [this](const SweepOptions& sweep) { return edge_attribution(model_, {.sweep = sweep}).title(); }},
        {"node_attribution",
         [this](const SweepOptions& sweep) { return node_attribution(model_, {.sweep = sweep}).title(); }},
        {"run_circuits",
         [this, circuit](const SweepOptions& sweep) {
           return run_circuits(model_, {circuit}, sweep).title();
         }},
        {"judge_circuit", [this, circuit](const SweepOptions& sweep) {
           return judge_circuit(model_, circuit, {.sweep = sweep, .sets = 0}).minimality.title();
         }}};
  }
  SweepOptions from(PatchSource source) const {
    return {.from = std::move(source), .into = corrupted_, .metric = logit_difference(3, 7)};
  }

  HookedTransformer model_ = random_model(two_layer_config());
  /// The same config with other weights.
  HookedTransformer other_ = model_of(random_weights(two_layer_config(), 8), two_layer_config());
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);
  ActivationCache run_ = model_.run_with_cache(clean_, act::everything).cache;
};

TEST_F(Sources, AreSaid) {
  for (const auto& [name, run] : analyses()) {
    SCOPED_TRACE(name);
    EXPECT_THAT(
        text_thrown_by<HookError>([&] { run({.into = corrupted_, .metric = logit_difference(3, 7)}); }),
        AllOf(HasSubstr("nothing says what the patched places become"),
              HasSubstr("a mean, zero or another source; set `from`")));
  }
  const PatchSource half = PatchSource::mixture(PatchSource(), PatchSource::zero(), 0.5);
  EXPECT_THAT(text_thrown_by<HookError>([&] { analyses().front().second(from(half)); }),
              HasSubstr("nothing says what the patched places become"));
}

TEST_F(Sources, AreNamedInTitlesAndFiles) {
  const auto rows = model_.run_with_cache(at::cat({clean_, corrupted_, clean_}), act::everything).cache;
  for (const auto& [name, run] : analyses()) {
    SCOPED_TRACE(name);
    EXPECT_THAT(run(from(PatchSource::zero())), HasSubstr(" with zeros"));
    EXPECT_THAT(run(from(run_)), HasSubstr(" with another run"));
    EXPECT_THAT(run(from(PatchSource::run(run_, "the clean run"))), HasSubstr(" with the clean run"));
    if (name == "direct_path") continue;  // which takes a run
    EXPECT_THAT(run(from(PatchSource::mean(rows, MeanOver::rows))),
                HasSubstr(" with the mean over 3 rows, by position"));
    EXPECT_THAT(run(from(PatchSource::mean(rows, MeanOver::rows_and_positions))),
                HasSubstr(" with the mean over 3 rows and all positions"));
  }
  SweepOptions swept = from(PatchSource::mean(rows, MeanOver::rows));
  swept.site = act::z;
  swept.over = {Axis::layer, Axis::head};
  const SweepReport report = sweep_report(model_, swept);
  EXPECT_EQ(report.source, "the mean over 3 rows, by position");
  EXPECT_EQ(report.grid.title(), "Patching z with the mean over 3 rows, by position");
  const TempFolder folder;
  for (const char* file : {"grid.csv", "grid.json", "grid.safetensors"}) {
    report.grid.save(folder / file);
    EXPECT_EQ(Grid::load(folder / file).title(), report.grid.title()) << file;
  }
}

TEST_F(Sources, AreOfTheModel) {
  const auto there = other_.run_with_cache(clean_, act::everything).cache;
  for (const auto& [name, run] : analyses()) {
    SCOPED_TRACE(name);
    for (const PatchSource& source :
         {PatchSource(there), PatchSource::mean(there, MeanOver::rows), PatchSource::resampled(there, 1),
          PatchSource::mixture(run_, there, 0.5)}) {
      if (name == "direct_path" && source.description() != "another run") continue;
      EXPECT_THAT(text_thrown_by<HookError>([&] { run(from(source)); }),
                  AllOf(HasSubstr("another model"), HasSubstr(model_.identity()->fingerprint.substr(0, 8)),
                        HasSubstr(other_.identity()->fingerprint.substr(0, 8))));
    }
    EXPECT_NO_THROW(run(from(there.assigned_to(model_))));
  }
}

/// Assigned values of another model are the values that are patched in.
TEST_F(Sources, OfAnotherModelMayBeMeant) {
  const auto there = other_.run_with_cache(clean_, act::everything).cache;
  SweepOptions swept = from(there.assigned_to(model_));
  swept.site = act::z;
  swept.over = {Axis::layer, Axis::head};
  EXPECT_NEAR(sweep(model_, swept).at({1, 2}),
              logit_difference(3, 7)
                  .score(model_, corrupted_, {.edits = {set(act::z(1).head(2), there[act::z(1).head(2)])}})
                  .item<double>(),
              1e-10);
}

TEST_F(Sources, ReplicasAreOfTheModelToo) {
  SweepOptions swept = from(run_);
  swept.site = act::z;
  swept.over = {Axis::layer, Axis::head};
  swept.replicas = {other_};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, swept); }),
              HasSubstr("the replica on cpu is another model"));
}

TEST_F(Sources, AnAnswerIsSaid) {
  EXPECT_THAT(text_thrown_by<HookError>([&] { direct_logit_attribution(model_, run_, {}); }),
              HasSubstr("no answer is given"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { source_attribution(model_, run_, {}); }),
              HasSubstr("no answer is given"));
}

TEST_F(Sources, EditsThatStandInASweepSelectSomething) {
  SweepOptions swept = from(run_);
  swept.site = act::z;
  swept.over = {Axis::layer, Axis::head};
  swept.edits = {zero(EditTarget{Selection::matching([](const ActivationName&) { return false; }), {}})};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, swept); }), HasSubstr("matches no activation"));
  const auto there = other_.run_with_cache(clean_, act::everything).cache;
  swept.edits = {replace(act::mlp_out(0), there)};
  EXPECT_THAT(text_thrown_by<HookError>([&] { sweep(model_, swept); }), HasSubstr("another model"));
}

TEST_F(Sources, ReadingsRefuseCachesOfAnotherModel) {
  const auto there = other_.run_with_cache(clean_, act::everything).cache;
  ModelConfig wide = two_layer_config();
  wide.d_model = 24;
  const auto wider = random_model(wide).run_with_cache(clean_, act::everything).cache;
  using Reading = std::function<void(const ActivationCache&)>;
  const AttributionOptions answer{.answer = 3};
  const Grid stack = residual_parts(model_, run_, {});
  for (const auto& [name, read] : std::vector<std::pair<std::string, Reading>>{
           {"logit_lens", [&](const ActivationCache& cache) { logit_lens(model_, cache); }},
           {"attribution",
            [&](const ActivationCache& cache) { direct_logit_attribution(model_, cache, answer); }},
           {"of a stack",
            [&](const ActivationCache& cache) { direct_logit_attribution(model_, cache, stack, answer); }},
           {"sources",
            [&](const ActivationCache& cache) { source_attribution(model_, cache, {.answer = 3}); }},
           {"parts", [&](const ActivationCache& cache) { residual_parts(model_, cache, {}); }},
           {"accumulated", [&](const ActivationCache& cache) { accumulated_residual(model_, cache, {}); }},
           {"norms", [&](const ActivationCache& cache) { normed_logit(model_, cache, {.answer = 3}); }},
           {"scores", [&](const ActivationCache& cache) {
              score_attribution(model_, cache, {.scores = act::attn_scores(1).head(2)});
            }}}) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(read(run_));
    EXPECT_THAT(text_thrown_by<HookError>([&] { read(there); }), HasSubstr("another model"));
    EXPECT_THAT(text_thrown_by<HookError>([&] { read(wider); }), HasSubstr("another model"));
    EXPECT_NO_THROW(read(there.assigned_to(model_)));
  }
}

TEST_F(Sources, HeadsAreScoredByTheRunsOwnTokens) {
  const auto scored = [&](const at::Tensor& tokens) {
    return head_scores(run_, HeadScore::duplicate_token, {.tokens = tokens});
  };
  at::Tensor repeats = clean_.clone();
  repeats[0][5] = repeats[0][1];
  const auto cache = model_.run_with_cache(repeats, act::pattern).cache;
  const Grid own = head_scores(cache, HeadScore::duplicate_token);
  EXPECT_TRUE(
      own.values().equal(head_scores(cache, HeadScore::duplicate_token, {.tokens = repeats}).values()));
  const std::string text = text_thrown_by<ShapeError>([&] { scored(corrupted_); });
  EXPECT_THAT(text, HasSubstr("of another prompt than the cache"));
  EXPECT_THAT(
      text_thrown_by<ShapeError>([&] { head_scores(cache, HeadScore::duplicate_token, {.tokens = clean_}); }),
      HasSubstr("in row 0 at position 5"));
}

}  // namespace
}  // namespace hooked::sources_test
