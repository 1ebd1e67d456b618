#include "hooked/analysis/edge_attribution.h"

#include "hooked/analysis/path_patching.h"
#include "tests/support/tiny_model.h"

namespace hooked::edge_attribution_test {
namespace {

class EdgeAttributionOf : public testing::Test {
 protected:
  HookedTransformer model_ = random_model(two_layer_config());
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);
  ActivationCache from_ = model_.run_with_cache(corrupted_, act::everything).cache;

  SweepOptions sweep() const { return {.from = from_, .into = clean_, .metric = logit_difference(3, 7)}; }
};

TEST_F(EdgeAttributionOf, NamesItsEnds) {
  const Grid edges = edge_attribution(model_, {.sweep = sweep()});
  EXPECT_THAT(edges.axis("writer").labels,
              ElementsAre("embed", "pos_embed", "head 0.0", "head 0.1", "head 0.2", "head 0.3", "mlp 0",
                          "head 1.0", "head 1.1", "head 1.2", "head 1.3", "mlp 1"));
  const auto& readers = edges.axis("reader");
  EXPECT_EQ(readers.labels[4], "head 0.0 k");
  EXPECT_EQ(readers.labels.back(), "logits");
  EXPECT_EQ(*readers.places[5],
            Address(ActivationName{.site = Site::k, .stack = Stack::blocks, .layer = 0}).head(1));
  EXPECT_TRUE(std::isnan(edges.at({2, 0}))) << "a head does not read itself";
  EXPECT_FALSE(std::isnan(edges.at({2, 12})));

  ModelConfig grouped = two_layer_config();
  grouped.n_kv_heads = 2;
  const auto shared = random_model(grouped);
  const Grid of_groups =
      edge_attribution(shared, {.sweep = {.from = PatchSource::zero(), .into = clean_, .metric = logit(3)}});
  EXPECT_EQ(of_groups.axis("reader").labels[4], "kv head 0.0 k");
}

/// A share of an edge's difference is patched along it: a gradient is exact as the share goes to zero.
TEST_F(EdgeAttributionOf, IsTheSlopeOfAPath) {
  const auto here = model_.run_with_cache(clean_, act::everything).cache;
  constexpr double kShare = 1e-4;
  const Grid edges = edge_attribution(model_, {.sweep = sweep()});
  SweepOptions little = sweep();
  little.from = PatchSource::mixture(PatchSource(here), PatchSource(from_), kShare);
  const double unpatched = logit_difference(3, 7).score(model_, clean_).item<double>();
  const std::vector<Address> receivers{act::q(1).head(2), act::v(1).head(0), act::mlp_in(1),
                                       act::resid_post(1)};
  const std::vector<const char*> readers{"head 1.2 q", "head 1.0 v", "mlp 1", "logits"};
  const Grid paths = path_patching(model_, {.senders = {act::z(0).head(1), act::mlp_out(0)},
                                            .receivers = receivers,
                                            .cells = PathCells::each,
                                            .sweep = little});
  for (std::int64_t s = 0; s < 2; ++s) {
    for (std::size_t r = 0; r < readers.size(); ++r) {
      const double slope = (paths.at({s, static_cast<std::int64_t>(r)}) - unpatched) / kShare;
      const double edge = edges.slice("writer", s == 0 ? "head 0.1" : "mlp 0")
                              .slice("reader", readers[r])
                              .values()
                              .item<double>();
      EXPECT_GT(std::abs(slope), 1e-6);
      EXPECT_NEAR(edge, slope, 2e-3 * std::abs(slope) + 1e-7) << readers[r];
    }
  }
}

/// A reader's copy of the stream with what one writer writes in the other run: for each reader and writer of
/// the two-layer model, whose norms are not on the stream itself.
class ByInputs {
 public:
  ByInputs(const HookedTransformer& model, const ActivationCache& here, const ActivationCache& there)
      : model_(model), here_(here), there_(there) {}

  Edit edit(const std::string& writer, const std::string& reader) const {
    const at::Tensor change = written(writer);  // [row, pos, d_model]
    if (reader == "logits") return add(act::resid_post(1), change);
    const auto layer = static_cast<std::int32_t>(reader[reader.find(' ') + 1] - '0');
    if (reader.starts_with("mlp")) return add(act::mlp_in(layer), change);
    const std::int64_t head = reader[reader.find('.') + 1] - '0';
    switch (reader.back()) {
      case 'q':
        return add(act::q_input(layer).head(head), change);
      case 'k':
        return add(act::k_input(layer).head(head), change);
      default:
        return add(act::v_input(layer).head(head), change);
    }
  }

 private:
  at::Tensor written(const std::string& writer) const {
    const auto change = [&](const Address& address) { return there_[address] - here_[address]; };
    if (writer == "embed") return change(act::embed);
    if (writer == "pos_embed") return change(act::pos_embed);
    const auto layer = static_cast<std::int32_t>(writer[writer.find(' ') + 1] - '0');
    if (writer.starts_with("mlp")) return change(act::mlp_out(layer));
    const std::int64_t head = writer[writer.find('.') + 1] - '0';
    return change(act::z(layer).head(head)).matmul(model_.weights().W_O(layer)[head]);
  }

  const HookedTransformer& model_;
  const ActivationCache &here_, &there_;
};

TEST_F(EdgeAttributionOf, ChecksEdgesByPatchingThem) {
  const auto here = model_.run_with_cache(clean_, act::everything).cache;
  const auto zeros = here.in_form([](const at::Tensor& value) { return value * 0.0; });
  for (const bool zero : {false, true}) {  // positions write the same in both runs
    SweepOptions options = sweep();
    if (zero) options.from = PatchSource::zero();
    const ActivationCache& there = zero ? zeros : from_;
    const auto report = edge_attribution_report(model_, {.sweep = options, .check = 40, .seed = 3});
    ASSERT_TRUE(report.check.has_value());
    EXPECT_EQ(report.check->cells.size(), 80u);
    EXPECT_GT(report.check->runs, 40);
    EXPECT_EQ(report.gradient_runs, 1);
    const double unpatched = report.unpatched.at({});
    EXPECT_NEAR(unpatched, logit_difference(3, 7).score(model_, clean_).item<double>(), 1e-10);
    const ByInputs inputs(model_, here, there);
    double largest_effect = 0;
    for (const CheckedCell& cell : report.check->cells) {
      EXPECT_EQ(cell.estimate, report.grid.at(cell.index));
      const RunOptions patched{.edits = {inputs.edit(cell.labels[0], cell.labels[1])}};
      const double score = logit_difference(3, 7).score(model_, clean_, patched).item<double>();
      EXPECT_NEAR(cell.effect, score - unpatched, 1e-10) << cell.labels[0] << " -> " << cell.labels[1];
      largest_effect = std::max(largest_effect, std::abs(cell.effect));
    }
    EXPECT_GT(largest_effect, 1e-3);
    EXPECT_GT(report.check->correlation, 0.3);
    EXPECT_GE(std::abs(report.check->cells[0].estimate), std::abs(report.check->cells[39].estimate));
    EXPECT_FALSE(report.check->cells[39].drawn);
    EXPECT_TRUE(report.check->cells[40].drawn);
  }
}

/// Steps are gradients of a row, and checked edges.
TEST_F(EdgeAttributionOf, IsCountedAndEndedBetweenItsRuns) {
  EdgeAttributionOptions options{
      .sweep = sweep(), .integration = {.over = IntegrateOver::inputs, .steps = 4}, .check = 2};
  std::vector<std::int64_t> told;
  const auto until = [&](std::int64_t last) {
    told.clear();
    options.sweep.progress = [&told, last](const SweepProgress& now) {
      told.push_back(now.done);
      EXPECT_EQ(now.total, 4 + 2 * 2);
      return now.done < last;
    };
    return edge_attribution_report(model_, options);
  };
  const auto whole = until(100);
  EXPECT_TRUE(whole.complete);
  EXPECT_EQ(told.back(), 8);
  const auto begun = until(2);
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(begun.gradient_runs, 2);
  EXPECT_EQ(begun.rows, 0);
  EXPECT_FALSE(begun.complete);
  EXPECT_EQ(begun.grid.values().sizes(), whole.grid.values().sizes());
  EXPECT_TRUE(begun.grid.values().isnan().all().item<bool>());
  const auto checked = until(5);
  EXPECT_TRUE(checked.grid.values().allclose(whole.grid.values(), 0, 0, /*equal_nan=*/true));
  EXPECT_FALSE(checked.complete);
  ASSERT_TRUE(checked.check);
  EXPECT_FALSE(checked.check->complete);
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < checked.check->cells.size(); ++i) {
    const double effect = checked.check->cells[i].effect;
    if (std::isnan(effect)) continue;
    ++reached;
    EXPECT_EQ(effect, whole.check->cells[i].effect);
  }
  EXPECT_EQ(reached, told.back() - 4);
}

TEST_F(EdgeAttributionOf, RowsAreTheirOwn) {
  const at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[1].slice(0, 0, 2) = 0;
  const Input into{at::cat({clean_, random_row(6, 11, 3)}), {.attention_mask = mask}};
  const Input other{at::cat({corrupted_, random_row(6, 11, 4)}), {.attention_mask = mask}};
  for (const std::int64_t tokens : {1, 1024}) {
    const Grid both =
        edge_attribution(model_, {.sweep = {.from = model_.run_with_cache(other, act::defaults).cache,
                                            .into = into,
                                            .metric = logit_difference(Answers::by_row({3, 4}), 7),
                                            .tokens_per_run = tokens}});
    const at::Tensor first = edge_attribution(model_, {.sweep = sweep()}).values();
    EXPECT_LE(largest_number(both.slice("row", 0).values() - first), 1e-12 * largest_number(first));
    const auto real = [](const Input& input) { return input.tokens.narrow(0, 1, 1).narrow(1, 2, 4); };
    const at::Tensor second =
        edge_attribution(model_, {.sweep = {.from = model_.run_with_cache(real(other), act::defaults).cache,
                                            .into = real(into),
                                            .metric = logit_difference(4, 7)}})
            .values();
    EXPECT_LE(largest_number(both.slice("row", 1).values() - second), 1e-12 * largest_number(second));
  }
}

TEST_F(EdgeAttributionOf, HoldsEditsInsideOfParts) {
  SweepOptions edited = sweep();
  edited.edits = {scale(act::pattern(1).head(2), 0.5), zero(act::z(0).head(3))};
  const Grid edges = edge_attribution(model_, {.sweep = edited});
  AttributionPatchingOptions nodes{.sweep = edited};
  nodes.sweep.table = {{act::z(0).head(1)}, {act::z(0).head(3)}, {act::mlp_out(0)}};
  const at::Tensor expected = attribution_patching(model_, nodes).values();
  const at::Tensor summed = edges.values().nan_to_num(0.0).sum(1);
  EXPECT_NEAR(summed[3].item<double>(), expected[0].item<double>(), 1e-10);
  EXPECT_NEAR(summed[5].item<double>(), expected[1].item<double>(), 1e-10);
  EXPECT_NEAR(summed[6].item<double>(), expected[2].item<double>(), 1e-10);
  EXPECT_GT(largest_number(edges.values() - edge_attribution(model_, {.sweep = sweep()}).values()), 1e-4);
}

/// Edits at all the places where edges may be asked for: of what heads read, of what is written, inside of
/// parts, of some rows, columns and heads.
std::vector<Edit> standing_edits() {
  return {scale(act::q(1), 0.5),
          scale(act::k(0), -0.5),
          scale(act::v(1).head(2), 2.0),
          set(act::q(0).pos(3), 0.3),
          set(act::k(1), 0.2),
          scale(act::v(0).row(0).pos(AxisIndex::Range{1, 4}), 0.25),
          scale(act::q(1).row(1).head(3), 3.0),
          scale(act::z(0).head(1), 2.0),
          scale(act::mlp_out(0), 2.0),
          scale(act::embed, 1.5),
          scale(act::post(1).pos(-1), 0.5)};
}

/// A writer's change acts only along its edges, also in an edited model: the
/// edges of a writer add up to its node's score.
TEST_F(EdgeAttributionOf, OfAnEditedModelAddUpToNodes) {
  const at::Tensor clean = at::cat({clean_, random_row(6, 11, 3)}),
                   other = at::cat({corrupted_, random_row(6, 11, 4)});
  const auto expect_sums = [&](const HookedTransformer& model, const std::vector<Edit>& edits,
                               const char* what) {
    const auto from = model.run(other, {.edits = edits, .capture = act::everything}).cache;
    SweepOptions edited{.from = from, .into = clean, .metric = logit_difference(3, 7), .edits = edits};
    const at::Tensor summed =
        edge_attribution(model, {.sweep = edited}).values().nan_to_num(0.0).sum(2);  // [row, writer]
    edited.table = {{act::embed},        {act::z(0).head(0)}, {act::z(0).head(1)}, {act::z(0).head(2)},
                    {act::z(0).head(3)}, {act::mlp_out(0)},   {act::z(1).head(2)}, {act::mlp_out(1)}};
    const at::Tensor nodes = attribution_patching(model, {.sweep = edited}).values();
    const std::vector<std::int64_t> writers{0, 2, 3, 4, 5, 6, 9, 11};
    for (std::size_t i = 0; i < writers.size(); ++i) {
      for (std::int64_t row = 0; row < 2; ++row)
        EXPECT_NEAR(summed[row][writers[i]].item<double>(),
                    nodes[row][static_cast<std::int64_t>(i)].item<double>(), 1e-10)
            << what << ", writer " << writers[i];
    }
  };
  const std::vector<Edit> edits = standing_edits();
  for (const Edit& edit : edits) expect_sums(model_, {edit}, edit.target.indices.to_string().c_str());
  expect_sums(model_, edits, "all of them");
  HookedTransformer hooked = model_;
  const auto scoped = hooked.hook(act::q(1), [](const at::Tensor& q) { return q * q; });
  expect_sums(hooked, {scale(act::q(1), 0.5)}, "a hook and an edit");
}

/// Latents read the stream through a norm that may be on the stream: each part passes it only once.
TEST_F(EdgeAttributionOf, ThroughLatentsAddUpToNodes) {
  for (const NormPlace place : {NormPlace::pre, NormPlace::post, NormPlace::stream}) {
    ModelConfig config = two_layer_config();
    config.norm = config.final_norm = NormKind::rms_norm;
    config.positions = RotaryPositions{.dim = 2, .adjacent_pairs = true, .at_end = true};
    config.norm_place = place;
    if (place != NormPlace::pre) config.final_norm = NormKind::none;
    config.latent = Latents{.d_kv = 5, .d_query = 7, .d_shared_key = 2, .d_value = 3, .eps = 1e-3};
    const auto model = random_model(config);
    SweepOptions options{.from = model.run_with_cache(corrupted_, act::everything).cache,
                         .into = clean_,
                         .metric = logit_difference(3, 7)};
    const Grid edges = edge_attribution(model, {.sweep = options});
    const at::Tensor summed = edges.values().nan_to_num(0.0).sum(1);  // [writer]
    for (const auto& writer : edges.axis("writer").places) options.table.push_back({*writer});
    const at::Tensor nodes = attribution_patching(model, {.sweep = options}).values();
    EXPECT_GT(largest_number(nodes), 1e-3);
    EXPECT_LT(largest_number(summed - nodes), 1e-10);
  }
}

/// The limit of `of` for many steps: the midpoint rule's error falls with the square of the steps, so
/// that two numbers of steps give the remainder (Richardson).
double with_ever_more_steps(const std::function<double(const Integration&)>& of) {
  const double few = of({.over = IntegrateOver::inputs, .steps = 32});
  const double many = of({.over = IntegrateOver::inputs, .steps = 64});
  EXPECT_NEAR(many, few, 1e-2 * std::abs(many) + 1e-4);
  return (4 * many - few) / 3;
}

/// Integrated over inputs the edges of the embeddings add up to what changes between the edited runs.
TEST_F(EdgeAttributionOf, IntegrationOfAnEditedModelIsComplete) {
  for (const Edit& edit : standing_edits()) {
    if (edit.target.indices.find(Axis::batch) != nullptr) continue;  // of another row
    const std::vector<Edit> edits{edit};
    const auto from = model_.run(corrupted_, {.edits = edits, .capture = act::everything}).cache;
    const SweepOptions edited{.from = from, .into = clean_, .metric = logit_difference(3, 7), .edits = edits};
    const auto scored = [&](const at::Tensor& tokens) {
      return edited.metric.front().score(model_, tokens, {.edits = edits}).item<double>();
    };
    const double whole = scored(corrupted_) - scored(clean_);
    const double edges = with_ever_more_steps([&](const Integration& integration) {
      const at::Tensor all = edge_attribution(model_, {.sweep = edited, .integration = integration}).values();
      return all.slice(0, 0, 2).nansum().item<double>();
    });
    EXPECT_NEAR(edges, whole, 1e-6 * std::abs(whole) + 1e-9);
    AttributionPatchingOptions nodes{.sweep = edited};
    for (const auto& table : {std::vector<std::vector<Address>>{{act::resid_pre(0)}},
                              std::vector<std::vector<Address>>{{act::embed, act::pos_embed}}}) {
      nodes.sweep.table = table;
      const double patched = with_ever_more_steps([&](const Integration& integration) {
        nodes.integration = integration;
        return attribution_patching(model_, nodes).values().item<double>();
      });
      EXPECT_NEAR(patched, whole, 1e-6 * std::abs(whole) + 1e-9);
    }
  }
}

/// An edit of the first stream is in force once, and what is patched comes after it.
TEST_F(EdgeAttributionOf, IntegrationComesAfterEditsOfTheFirstStream) {
  const std::vector<Edit> edits{scale(act::resid_pre(0), 0.5)};
  const auto from = model_.run(corrupted_, {.edits = edits, .capture = act::everything}).cache;
  const auto scored = [&](const at::Tensor& tokens) {
    return logit_difference(3, 7).score(model_, tokens, {.edits = edits}).item<double>();
  };
  AttributionPatchingOptions nodes{.sweep = {.table = {{act::resid_pre(0)}},
                                             .from = from,
                                             .into = clean_,
                                             .metric = logit_difference(3, 7),
                                             .edits = edits}};
  const double whole = scored(corrupted_) - scored(clean_);
  const double patched = with_ever_more_steps([&](const Integration& integration) {
    nodes.integration = integration;
    return attribution_patching(model_, nodes).values().item<double>();
  });
  EXPECT_NEAR(patched, whole, 1e-6 * std::abs(whole) + 1e-9);
}

TEST_F(EdgeAttributionOf, ADivergenceOfTheRunFromItselfHasNoSlope) {
  const at::Tensor reference = logits_at(model_, clean_);
  for (const Metric& metric : {kl_divergence(reference), js_divergence(reference)}) {
    SweepOptions options = sweep();
    options.metric = metric;
    const auto text = [&](const Integration& integration) {
      return text_thrown_by<HookError>(
          [&] { edge_attribution(model_, {.sweep = options, .integration = integration}); });
    };
    EXPECT_THAT(text({}), HasSubstr("the least that there is"));
    EXPECT_THAT(text({.over = IntegrateOver::inputs, .steps = 1, .rule = StepRule::left}),
                HasSubstr("the least"));
    AttributionPatchingOptions nodes{.sweep = options};
    nodes.sweep.table = {{act::z(0)}};
    EXPECT_THAT(text_thrown_by<HookError>([&] { attribution_patching(model_, nodes); }),
                HasSubstr("--steps"));
    // On the way to the other run the slope is not zero: the embeddings' edges add up to the other run's
    // divergence.
    const double edges = with_ever_more_steps([&](const Integration& integration) {
      const at::Tensor all =
          edge_attribution(model_, {.sweep = options, .integration = integration}).values();
      return all.slice(0, 0, 2).nansum().item<double>();
    });
    const double whole = metric.score(model_, corrupted_).item<double>();
    EXPECT_NEAR(edges, whole, 1e-5 * whole);
  }
  // From another run it has one.
  SweepOptions other = sweep();
  other.metric = kl_divergence(logits_at(model_, corrupted_));
  EXPECT_GT(largest_number(edge_attribution(model_, {.sweep = other}).values()), 1e-4);
}

TEST_F(EdgeAttributionOf, RefusesWhatItDoesNotCarry) {
  const auto text = [&](const EdgeAttributionOptions& options) {
    return text_thrown_by<HookError>([&] { edge_attribution(model_, options); });
  };
  EdgeAttributionOptions options{.sweep = sweep()};
  options.sweep.edits = {zero(act::resid_mid(0))};
  EXPECT_THAT(text(options), HasSubstr("carried from writers to readers"));
  options.sweep.edits = {scale(act::ln1_scale(1), 2.0)};
  EXPECT_THAT(text(options), HasSubstr("carried from writers to readers"));
  options.sweep = sweep();
  options.sweep.metric = {logit(3), logit(4)};
  EXPECT_THAT(text(options), HasSubstr("expected one metric, got 2"));
  options.sweep = sweep();
  options.sweep.site = act::z;
  EXPECT_THAT(text(options), HasSubstr("neither `site`"));
  options = {.sweep = sweep(), .integration = {.over = IntegrateOver::activations}};
  EXPECT_THAT(text(options), HasSubstr("not an activation to integrate over"));
  options = {.sweep = sweep(), .by_position = true, .check = 2};
  EXPECT_THAT(text(options), HasSubstr("expected `by_position` or `check`"));
  options = {.sweep = sweep(), .check = -1};
  EXPECT_THAT(text(options), HasSubstr("check is -1"));
}

}  // namespace
}  // namespace hooked::edge_attribution_test
