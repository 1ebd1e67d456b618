#include "hooked/analysis/circuit.h"

#include <ATen/ops/where.h>

#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/path_patching.h"
#include "hooked/io/file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::circuit_test {
namespace {

class CircuitOf : public testing::Test {
 protected:
  HookedTransformer model_ = random_model(two_layer_config());
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);
  Metric metric_ = logit_difference(3, 7);
  ActivationCache from_ = model_.run_with_cache(corrupted_, act::everything).cache;

  SweepOptions sweep() const { return {.from = from_, .into = clean_, .metric = metric_}; }
  double score(const std::vector<Edit>& edits) const {
    return metric_.score(model_, clean_, {.edits = edits}).item<double>();
  }
  std::vector<CircuitEdge> all_edges() const {
    const Grid edges = edge_attribution(model_, {.sweep = sweep()});
    std::vector<CircuitEdge> all;
    for (std::int64_t w = 0; w < edges.values().size(0); ++w) {
      for (std::int64_t r = 0; r < edges.values().size(1); ++r) {
        if (!std::isnan(edges.at({w, r})))
          all.push_back({edges.axes()[0].labels[static_cast<std::size_t>(w)],
                         edges.axes()[1].labels[static_cast<std::size_t>(r)]});
      }
    }
    return all;
  }
};

TEST_F(CircuitOf, NodesAreRunByAblatingTheOthers) {
  const Circuit some = Circuit::of_nodes(model_, {"mlp 1", "head 0.2", "head 1.1", "head 0.2"});
  EXPECT_THAT(some.nodes(), ElementsAre("head 0.2", "head 1.1", "mlp 1"));
  const Circuit none = Circuit::of_nodes(model_, {});
  std::vector<std::string> names;
  for (const ModelPart& part : model_parts(model_)) names.push_back(part.name);
  EXPECT_EQ(names.size(), 10U);
  const Grid made = run_circuits(model_, {some, none, Circuit::of_nodes(model_, names)}, sweep());
  std::vector<Edit> rest{replace(act::mlp_out(0), from_)}, everything = rest;
  for (std::int64_t head = 0; head < 4; ++head) {
    for (std::int32_t layer = 0; layer < 2; ++layer) {
      everything.push_back(replace(act::z(layer).head(head), from_));
      if (!(layer == 0 && head == 2) && !(layer == 1 && head == 1)) rest.push_back(everything.back());
    }
  }
  everything.push_back(replace(act::mlp_out(1), from_));
  EXPECT_NEAR(made.at({0}), score(rest), 1e-12);
  EXPECT_NEAR(made.at({1}), score(everything), 1e-12);
  EXPECT_NEAR(made.at({2}), score({}), 1e-12);
  EXPECT_GT(std::abs(made.at({0}) - made.at({2})), 1e-4);
}

TEST_F(CircuitOf, AblationTakesSetsAndTheirComplements) {
  const std::vector<Address> set{act::z(0).head(1), act::mlp_out(-1)};
  const Grid made = ablate(
      model_, {.sets = {set, {}}, .sweep = {.from = PatchSource::zero(), .into = clean_, .metric = metric_}});
  EXPECT_NEAR(made.at({0}), score({zero(act::z(0).head(1)), zero(act::mlp_out(1))}), 1e-12);
  EXPECT_NEAR(made.at({1}), score({}), 1e-12);
  const Grid rest = ablate(model_, {.sets = {set, {act::z(0), act::z(1)}},
                                    .complement = true,
                                    .sweep = {.from = PatchSource::mean(from_, MeanOver::rows_and_positions),
                                              .into = clean_,
                                              .metric = metric_}});
  const at::Tensor mlps = from_[act::mlp_out(0)].mean(1, true);
  EXPECT_NEAR(rest.at({1}),
              score({hooked::set(act::mlp_out(0), mlps),
                     hooked::set(act::mlp_out(1), from_[act::mlp_out(1)].mean(1, true))}),
              1e-12);
  EXPECT_THAT(text_thrown_by<HookError>([&] { parts_besides(model_, {act::pattern(0)}); }),
              HasSubstr("not a part of the model"));
  EXPECT_EQ(parts_besides(model_, {act::z(0), act::mlp_out(1)}).size(), 5U);
}

/// With every edge cut, everything reads what it reads in the other run; one cut edge is a path.
TEST_F(CircuitOf, EdgesCarryWhatTheirWritersHaveElsewhere) {
  const std::vector<CircuitEdge> all = all_edges();
  EXPECT_EQ(all.size(), 2U * 27 + 4 * 15 + 14 + 4 * 2 + 1) << "embeddings, heads and MLP of each layer";
  const std::vector<std::pair<CircuitEdge, Address>> cut{{{"head 0.1", "head 1.2 q"}, act::q(1).head(2)},
                                                         {{"head 0.3", "head 1.0 k"}, act::k(1).head(0)},
                                                         {{"mlp 0", "head 1.2 v"}, act::v(1).head(2)},
                                                         {{"head 1.1", "mlp 1"}, act::mlp_in(1)},
                                                         {{"head 0.2", "logits"}, act::resid_post(1)}};
  std::vector<Circuit> circuits{Circuit::of_edges(model_, all), Circuit::of_edges(model_, {})};
  for (const auto& [edge, receiver] : cut) {
    std::vector<CircuitEdge> rest = all;
    std::erase(rest, edge);
    ASSERT_EQ(rest.size() + 1, all.size());
    circuits.push_back(Circuit::of_edges(model_, rest));
  }
  const Grid made = run_circuits(model_, circuits, sweep());
  EXPECT_NEAR(made.at({0}), score({}), 1e-10);
  EXPECT_NEAR(made.at({1}), metric_.score(model_, corrupted_).item<double>(), 1e-10);
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const auto& [edge, receiver] = cut[i];
    const bool mlp = edge.writer == "mlp 0";
    const std::int32_t layer = edge.writer[5] - '0';
    const Address sender = mlp ? Address(act::mlp_out(0)) : act::z(layer).head(edge.writer[7] - '0');
    const Grid path = path_patching(model_, {.senders = {sender}, .receivers = {receiver}, .sweep = sweep()});
    EXPECT_NEAR(made.at({static_cast<std::int64_t>(i) + 2}), path.values().item<double>(), 1e-10)
        << edge.writer;
    EXPECT_GT(std::abs(path.values().item<double>() - score({})), 1e-6);
  }
}

TEST_F(CircuitOf, IsChosenByScores) {
  const Grid nodes = node_attribution(model_, {.sweep = sweep()});
  ASSERT_EQ(nodes.axes()[0].name, "node");
  const auto largest = nodes.largest(3, LargestBy::size);
  const Circuit three = choose_circuit(model_, nodes, {.count = 3});
  EXPECT_EQ(three.size(), 3);
  for (const GridCell& cell : largest) EXPECT_THAT(three.nodes(), testing::Contains(cell.labels[0]));
  EXPECT_EQ(choose_circuit(model_, nodes, {.threshold = std::abs(largest[1].value)}).size(), 2);
  EXPECT_EQ(choose_circuit(model_, nodes, {.count = 0}).size(), 0);
  const auto positive = nodes.values().gt(0).sum().item<std::int64_t>();
  EXPECT_EQ(choose_circuit(model_, nodes, {.count = 10, .by_size = false}).size(), positive);
  const auto text = [&](const CircuitChoice& choice) {
    return text_thrown_by<HookError>([&] { choose_circuit(model_, nodes, choice); });
  };
  EXPECT_THAT(text({}), HasSubstr("expected one of the two"));
  EXPECT_THAT(text({.count = 2, .threshold = 1.0}), HasSubstr("expected one of the two"));
  EXPECT_THAT(text({.count = 2, .greedy = true}), HasSubstr("expected scores of edges"));
  const Grid neurons(at::ones({2}, at::kDouble), {{"neuron", {"0", "1"}}}, {.title = "t", .unit = ""});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { choose_circuit(model_, neurons, {.count = 1}); }),
              HasSubstr("got [neuron]"));
}

/// Edges with scores written by hand: unconnected edges are pruned, and the greedy search skips them.
TEST_F(CircuitOf, IsPrunedAndSearched) {
  const Grid blank = edge_attribution(model_, {.sweep = sweep()});
  const auto scored = [&](const std::vector<std::pair<CircuitEdge, double>>& some) {
    at::Tensor values = at::where(blank.values().isnan(), blank.values(), 0.0).clone();
    for (const auto& [edge, value] : some) {
      const auto number = [&](std::size_t axis, const std::string& name) {
        const auto& labels = blank.axes()[axis].labels;
        return std::find(labels.begin(), labels.end(), name) - labels.begin();
      };
      values[number(0, edge.writer)][number(1, edge.reader)] = value;
    }
    return Grid(values, blank.axes(), {.title = "scores", .unit = ""});
  };
  const Grid scores = scored({{{"embed", "head 0.1 v"}, 5},
                              {{"head 0.1", "mlp 1"}, 4},
                              {{"mlp 1", "logits"}, 3},
                              {{"head 0.2", "head 1.3 q"}, -9},  // nothing feeds it, nobody reads it
                              {{"head 1.3", "logits"}, 1},
                              {{"embed", "mlp 0"}, 2}});
  const Circuit chosen = choose_circuit(model_, scores, {.threshold = 1.5});
  EXPECT_THAT(chosen.edges(), ElementsAre(CircuitEdge{"embed", "head 0.1 v"},
                                          CircuitEdge{"head 0.1", "mlp 1"}, CircuitEdge{"mlp 1", "logits"}));
  EXPECT_THAT(chosen.nodes(), ElementsAre("head 0.1", "mlp 1"));
  const Circuit greedy = choose_circuit(model_, scores, {.count = 3, .greedy = true});
  EXPECT_EQ(greedy, chosen) << "from the logits back: mlp 1, head 0.1, embed";
  EXPECT_EQ(Circuit::of_edges(model_, {{"embed", "head 0.1 v"}}).pruned(model_).size(), 0);
  EXPECT_EQ(chosen.pruned(model_), chosen);
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                Circuit::of_edges(model_, {{"mlp 1", "head 0.0 q"}});
              }),
              HasSubstr("comes before the writer"));
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                Circuit::of_edges(model_, {{"head 0.1", "hed 1.0 q"}});
              }),
              HasSubstr("'head 1.0 q'"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { Circuit::of_nodes(model_, {"head 2.1"}); }),
              HasSubstr("the nearest is"));
}

TEST_F(CircuitOf, IsReadAsItWasSaved) {
  const TempFolder folder;
  const auto file = folder.path() / "circuit.json";
  for (const Circuit& circuit :
       {Circuit::of_nodes(model_, {"head 0.1", "mlp 1"}), Circuit::of_nodes(model_, {}),
        Circuit::of_edges(model_, {{"embed", "mlp 0"}, {"mlp 0", "logits"}})}) {
    circuit.save(file);
    EXPECT_EQ(Circuit::load(model_, file), circuit);
  }
  const auto refusal = [&](std::string_view text) {
    write_file(file, text);
    return text_thrown_by<CheckpointError>([&] { Circuit::load(model_, file); });
  };
  const std::string head = R"({"format": "hooked circuit 1", )";
  EXPECT_THAT(refusal(""), HasSubstr("a saved circuit"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("not an object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("format"));
  EXPECT_THAT(refusal(R"({"format": "hooked circuit 2", "kind": "nodes", "nodes": []})"),
              HasSubstr("expected 'hooked circuit 1'"));
  EXPECT_THAT(refusal(head + R"("kind": "paths"})"), HasSubstr("kind"));
  EXPECT_THAT(refusal(head + R"("kind": "nodes"})"), HasSubstr("nodes"));
  EXPECT_THAT(refusal(head + R"("kind": "nodes", "nodes": [3]})"), HasSubstr("nodes"));
  EXPECT_THAT(refusal(head + R"("kind": "nodes", "nodes": [], "edges": []})"), HasSubstr("edges"));
  EXPECT_THAT(refusal(head + R"("kind": "nodes", "nodes": ["head 7.0"]})"), HasSubstr("another model"));
  EXPECT_THAT(refusal(head + R"("kind": "edges", "edges": [["embed", "mlp 0", "logits"]]})"),
              HasSubstr("got 3"));
  EXPECT_THAT(refusal(head + R"("kind": "edges", "edges": [["logits", "embed"]]})"),
              HasSubstr("another model"));
  EXPECT_THROW(Circuit::load(model_, folder.path() / "none.json"), IoError);
}

TEST_F(CircuitOf, ReplacesCircuitsAndNothingOfOthers) {
  const TempFolder folder;
  const auto file = folder / "circuit.json";
  const Circuit circuit = Circuit::of_nodes(model_, {"head 0.1"});
  for (int i = 0; i < 2; ++i) circuit.save(file);
  // A grid is one of our files, but not a circuit.
  for (const std::string& text : {std::string("{}"), std::string(), std::string(R"({"format": "mine"})"),
                                  Grid(at::ones({1}, at::kDouble), {{"a", {"0"}}}, {}).to_json()}) {
    write_file(file, text);
    EXPECT_THAT(text_thrown_by<IoError>([&] { circuit.save(file); }),
                HasSubstr("not a circuit written by hooked"));
    EXPECT_EQ(read_text_file(file, 1 << 20), text);
  }
  circuit.save(file, Overwrite::any);
  EXPECT_EQ(Circuit::load(model_, file), circuit);
  EXPECT_THAT(text_thrown_by<IoError>([&] { circuit.save(folder / "circuit.txt", Overwrite::any); }),
              HasSubstr("expected a name that ends in .json"));
}

TEST_F(CircuitOf, IsJudgedByRuns) {
  const Circuit circuit = Circuit::of_nodes(model_, {"head 0.1", "mlp 0", "mlp 1"});
  const auto judged = judge_circuit(model_, circuit, {.sweep = sweep(), .sets = 200});
  const auto kept = [&](const std::vector<std::string>& names) {
    return run_circuits(model_, {Circuit::of_nodes(model_, names)}, sweep()).values().item<double>();
  };
  const double whole = score({}), none = kept({}), alone = kept(circuit.nodes());
  EXPECT_NEAR(judged.whole, whole, 1e-12);
  EXPECT_NEAR(judged.none, none, 1e-12);
  EXPECT_NEAR(judged.faithfulness, (alone - none) / (whole - none), 1e-10);
  EXPECT_NEAR(judged.minimality.at({1}), (alone - kept({"head 0.1", "mlp 1"})) / (whole - none), 1e-10);
  EXPECT_EQ(judged.minimality.axes()[0].labels, circuit.nodes());
  std::vector<std::string> rest;
  for (const ModelPart& part : model_parts(model_)) {
    if (std::find(circuit.nodes().begin(), circuit.nodes().end(), part.name) == circuit.nodes().end())
      rest.push_back(part.name);
  }
  EXPECT_NEAR(judged.completeness, (whole - kept(rest)) / (whole - none), 1e-10);
  // Three nodes have seven nonempty subsets.
  double farthest = 0;
  for (int bits = 1; bits < 8; ++bits) {
    std::vector<std::string> left, others = rest;
    for (std::size_t i = 0; i < 3; ++i) {
      if (((bits >> i) & 1) == 0) {
        left.push_back(circuit.nodes()[i]);
        others.push_back(circuit.nodes()[i]);
      }
    }
    farthest = std::max(farthest, std::abs(kept(left) - kept(others)) / std::abs(whole - none));
  }
  EXPECT_NEAR(judged.incompleteness, farthest, 1e-10);
  EXPECT_TRUE(judged.all_others);
  EXPECT_EQ(judged.others.values().size(0), 119) << "all sets of 3 of 10 but the circuit";
  const auto better = judged.others.slice("measure", "faithfulness")
                          .values()
                          .ge(judged.faithfulness)
                          .sum()
                          .item<std::int64_t>();
  EXPECT_NEAR(judged.more_faithful, static_cast<double>(better) / 119, 1e-12);
  EXPECT_TRUE(judged.complete);

  const auto drawn = judge_circuit(model_, circuit, {.sweep = sweep(), .sets = 7, .seed = 5});
  EXPECT_FALSE(drawn.all_others);
  EXPECT_EQ(drawn.others.values().size(0), 7);
  EXPECT_TRUE(drawn.others.values().equal(
      judge_circuit(model_, circuit, {.sweep = sweep(), .sets = 7, .seed = 5}).others.values()));
  EXPECT_FALSE(drawn.others.values().equal(
      judge_circuit(model_, circuit, {.sweep = sweep(), .sets = 7, .seed = 6}).others.values()));
}

TEST_F(CircuitOf, EdgesAreJudgedLikewise) {
  const Circuit circuit = choose_circuit(model_, edge_attribution(model_, {.sweep = sweep()}), {.count = 20});
  const auto judged = judge_circuit(model_, circuit, {.sweep = sweep(), .sets = 3});
  const double whole = score({}), none = metric_.score(model_, corrupted_).item<double>();
  EXPECT_NEAR(judged.none, none, 1e-10);
  const double alone = run_circuits(model_, {circuit}, sweep()).values().item<double>();
  EXPECT_NEAR(judged.faithfulness, (alone - none) / (whole - none), 1e-10);
  EXPECT_EQ(judged.others.values().size(0), 3);
  SweepOptions ended = sweep();
  ended.progress = [](const SweepProgress& progress) { return progress.done < 2; };
  const auto partial = judge_circuit(model_, circuit, {.sweep = ended, .sets = 3});
  EXPECT_FALSE(partial.complete);
  EXPECT_NEAR(partial.faithfulness, judged.faithfulness, 1e-10);
  EXPECT_TRUE(std::isnan(partial.completeness));
}

/// The edited model is the model: with all edges it is the clean run under the edits, with none the corrupted
/// one.
TEST_F(CircuitOf, EdgesOfAnEditedModelLieBetweenItsRuns) {
  const std::vector<CircuitEdge> all = all_edges();
  const at::Tensor vector = random_model(two_layer_config()).weights().W_O(0)[0][0];  // [d_model]
  const std::vector<std::vector<Edit>> cases{
      {scale(act::z(0).head(1), 2.0)},
      {scale(act::mlp_out(0), 2.0)},
      {scale(act::embed, 1.5)},
      {project_out(act::mlp_out(1), vector)},
      {set(act::z(1).head(2).pos(AxisIndex::Last{}), 0.3)},
      {scale(act::q(1), 0.5), scale(act::z(0).row(0).pos(2), 3.0), scale(act::z(0).head(0), -1.0)}};
  for (const std::vector<Edit>& edits : cases) {
    SweepOptions edited = sweep();
    edited.edits = edits;
    edited.from = model_.run(corrupted_, {.edits = edits, .capture = act::everything}).cache;
    const Grid made =
        run_circuits(model_, {Circuit::of_edges(model_, all), Circuit::of_edges(model_, {})}, edited);
    EXPECT_NEAR(made.at({0}), score(edits), 1e-10);
    EXPECT_NEAR(made.at({1}), metric_.score(model_, corrupted_, {.edits = edits}).item<double>(), 1e-10);
    EXPECT_GT(std::abs(made.at({0}) - score({})), 1e-4) << "the edit does something";
    // Without one edge it is a path of the edited model.
    std::vector<CircuitEdge> rest = all;
    std::erase(rest, CircuitEdge{"head 0.1", "head 1.2 q"});
    const Grid path = path_patching(
        model_, {.senders = {act::z(0).head(1)}, .receivers = {act::q(1).head(2)}, .sweep = edited});
    EXPECT_NEAR(run_circuits(model_, {Circuit::of_edges(model_, rest)}, edited).at({0}),
                path.values().item<double>(), 1e-10);
  }
  SweepOptions between = sweep();
  between.edits = {scale(act::attn_out(0), 2.0)};
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { run_circuits(model_, {Circuit::of_edges(model_, all)}, between); }),
      HasSubstr("carried from writers to readers"));
}

/// If the clean run equals the corrupted one, a share of their difference is undefined.
TEST_F(CircuitOf, IsNotJudgedWhereNothingLiesBetweenTheRuns) {
  for (const CircuitKind kind : {CircuitKind::nodes, CircuitKind::edges}) {
    SweepOptions same = sweep();
    same.from = model_.run_with_cache(clean_, act::everything).cache;
    const Circuit circuit = kind == CircuitKind::nodes
                                ? Circuit::of_nodes(model_, {"head 0.1", "mlp 1"})
                                : Circuit::of_edges(model_, {{"embed", "mlp 0"}, {"mlp 0", "logits"}});
    // A divergence from itself is only rounding, and so is everything judged by it.
    for (const Metric& metric : {same.metric.front(), kl_divergence(logits_at(model_, clean_))}) {
      same.metric = metric;
      const auto judged = judge_circuit(model_, circuit, {.sweep = same, .sets = 5});
      EXPECT_NEAR(judged.whole, judged.none, 1e-10);
      for (const double share :
           {judged.faithfulness, judged.completeness, judged.incompleteness, judged.more_faithful})
        EXPECT_TRUE(std::isnan(share));
      EXPECT_TRUE(judged.minimality.values().isnan().all().item<bool>());
      EXPECT_TRUE(judged.others.values().isnan().all().item<bool>());
    }
  }
}

TEST_F(CircuitOf, RefusesEdgesThatAreNoSums) {
  ModelConfig config = two_layer_config();
  config.norm_place = NormPlace::both;
  config.norm = config.final_norm = NormKind::rms_norm;
  const auto model = random_model(config);
  const Circuit circuit = Circuit::of_edges(model, {{"embed", "logits"}});
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                run_circuits(model, {circuit},
                             {.from = PatchSource::zero(), .into = clean_, .metric = metric_});
              }),
              HasSubstr("not a sum of edges"));
}

}  // namespace
}  // namespace hooked::circuit_test
