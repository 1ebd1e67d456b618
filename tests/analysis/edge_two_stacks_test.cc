// Edges and paths of an encoder-decoder: within each stack, and from the encoder into cross-attention.

#include "hooked/analysis/circuit.h"
#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/path_patching.h"
#include "tests/support/tiny_model.h"

namespace hooked::edge_two_stacks_test {
namespace {

class EdgesOfTwoStacks : public testing::Test {
 protected:
  // Every number is random, and slopes hardly change over the steps that are taken.
  static HookedTransformer make() {
    const ModelConfig config = two_stack_config(two_layer_config());
    StateDict weights = HookedTransformer::create(config, {.seed = 3}).state_dict();
    auto generator = at::detail::createCPUGenerator(5);
    for (auto& [name, weight] : weights)
      weight = weight + 0.5 * at::rand(weight.sizes(), generator, weight.options()) - 0.2;
    return model_of(weights, config);
  }
  static Input input(std::uint64_t seed) {
    return {random_row(6, 11, seed), {.decoder = {.tokens = random_row(4, 11, seed + 10)}}};
  }

  HookedTransformer model_ = make();
  ActivationCache here_ = model_.run_with_cache(input(1), act::everything).cache;
  ActivationCache there_ = model_.run_with_cache(input(2), act::everything).cache;
  Metric metric_ = logit_difference(3, 7);
  SweepOptions sweep_{.from = there_, .into = input(1), .metric = metric_};
  double unpatched_ = metric_.score(model_, input(1)).item<double>();

  /// The three runs of path patching, each run separately from its tokens.
  double by_hand(const Address& sender, const Address& receiver) const {
    RunOptions second{.output = Output::none};
    for (const ActivationName& name : model_.names()) {
      if (name.site == Site::z || name.site == Site::cross_z || name.site == Site::mlp_out)
        second.edits.push_back(replace(Address(name), here_));
    }
    second.edits.push_back(replace(sender, there_));  // the last edit of a block counts
    second.capture = Selection(Address(receiver.name()));
    const ActivationCache seen = model_.run(input(1), second).cache;
    return metric_.score(model_, input(1), {.edits = {replace(receiver, seen)}}).item<double>();
  }
};

const std::vector<Address>& senders() {
  static const std::vector<Address> kSenders{
      act::embed,        act::z.encoder(0).head(1), act::mlp_out.encoder(1),
      act::resid_pre(0), act::z(0).head(2),         act::cross_z(0).head(3),
      act::mlp_out(0),   act::resid_pre.encoder(0), act::attn_out.encoder(0)};
  return kSenders;
}

const std::vector<Address>& receivers() {
  static const std::vector<Address> kReceivers{
      act::q.encoder(1).head(0), act::k.encoder(1).head(1), act::mlp_in.encoder(1), act::cross_k(0).head(1),
      act::cross_v(1).head(0),   act::cross_q(1).head(2),   act::v(1).head(1),      act::mlp_in(1),
      act::resid_post(1)};
  return kReceivers;
}

TEST_F(EdgesOfTwoStacks, PathsAreWhatThreeRunsMake) {
  const Grid paths = path_patching(
      model_, {.senders = senders(), .receivers = receivers(), .cells = PathCells::each, .sweep = sweep_});
  std::int64_t changed = 0;
  for (std::size_t s = 0; s < senders().size(); ++s) {
    for (std::size_t r = 0; r < receivers().size(); ++r) {
      const double expected = by_hand(senders()[s], receivers()[r]);
      const double made = paths.at({static_cast<std::int64_t>(s), static_cast<std::int64_t>(r)});
      const std::string path = senders()[s].to_string() + " -> " + receivers()[r].to_string();
      // If the three runs change nothing at all, no path exists.
      EXPECT_EQ(std::isnan(made), std::abs(expected - unpatched_) < 1e-13) << path;
      EXPECT_NEAR(std::isnan(made) ? unpatched_ : made, expected, 1e-10) << path;
      changed += std::abs(expected - unpatched_) > 1e-6 ? 1 : 0;
    }
  }
  EXPECT_GE(changed, 30) << "paths that changed nothing";
}

TEST_F(EdgesOfTwoStacks, NamesBothStreams) {
  const Grid edges = edge_attribution(model_, {.sweep = sweep_});
  const auto number = [&](const char* axis, const char* label) {
    const auto& labels = edges.axis(axis).labels;
    return std::find(labels.begin(), labels.end(), label) - labels.begin();
  };
  const auto is_edge = [&](const char* writer, const char* reader) {
    return !std::isnan(edges.at({number("writer", writer), number("reader", reader)}));
  };
  EXPECT_EQ(edges.axis("writer").labels.front(), "encoder embed");
  EXPECT_TRUE(is_edge("encoder head 0.1", "encoder head 1.0 q"));
  EXPECT_TRUE(is_edge("encoder embed", "cross kv head 0.1 k"));
  EXPECT_TRUE(is_edge("encoder mlp 1", "cross kv head 1.0 v"));
  EXPECT_FALSE(is_edge("encoder head 0.1", "head 1.0 q")) << "only cross-attention reads the encoder";
  EXPECT_FALSE(is_edge("encoder head 0.1", "cross head 1.0 q"));
  EXPECT_FALSE(is_edge("embed", "cross kv head 0.1 k"));
  EXPECT_TRUE(is_edge("embed", "cross head 0.0 q"));
  EXPECT_TRUE(is_edge("cross head 0.3", "mlp 0"));
  EXPECT_FALSE(is_edge("cross head 0.3", "cross head 0.2 q"));
  EXPECT_TRUE(is_edge("cross head 0.3", "logits"));
}

/// A share of an edge's difference is patched along it: a gradient is exact as the share goes to zero.
TEST_F(EdgesOfTwoStacks, AreTheSlopesOfTheirPaths) {
  constexpr double kShare = 1e-4;
  const Grid edges = edge_attribution(model_, {.sweep = sweep_});
  SweepOptions little = sweep_;
  little.from = PatchSource::mixture(PatchSource(here_), PatchSource(there_), kShare);
  const auto& writers = edges.axis("writer");
  const auto& readers = edges.axis("reader");
  std::vector<Address> ends;
  for (const auto& place : readers.places) ends.push_back(*place);
  std::int64_t compared = 0;
  for (std::size_t w = 0; w < writers.labels.size(); w += 3) {
    const Grid paths = path_patching(model_, {.senders = {*writers.places[w]},
                                              .receivers = ends,
                                              .cells = PathCells::each_receiver,
                                              .sweep = little});
    for (std::size_t r = 0; r < ends.size(); ++r) {
      const double edge = edges.at({static_cast<std::int64_t>(w), static_cast<std::int64_t>(r)});
      const double patched = paths.at({static_cast<std::int64_t>(r)});
      EXPECT_EQ(std::isnan(edge), std::isnan(patched)) << writers.labels[w] << " -> " << readers.labels[r];
      const double slope = ((std::isnan(patched) ? unpatched_ : patched) - unpatched_) / kShare;
      EXPECT_NEAR(std::isnan(edge) ? 0.0 : edge, slope, 5e-3 * std::abs(slope) + 1e-6)
          << writers.labels[w] << " -> " << readers.labels[r];
      compared += std::isnan(edge) ? 0 : 1;
    }
  }
  EXPECT_GT(compared, 60);
}

TEST_F(EdgesOfTwoStacks, OfEachPositionAddUp) {
  const Grid whole = edge_attribution(model_, {.sweep = sweep_});
  const Grid each = edge_attribution(model_, {.sweep = sweep_, .by_position = true});
  ASSERT_EQ(each.values().size(2), 6) << "the encoder reads six tokens, the decoder four";
  const at::Tensor sums = each.values().nansum(2);
  EXPECT_LE(largest_number(sums - whole.values().nan_to_num(0.0)), 1e-12 * largest_number(sums));
  const auto last = each.slice("reader", "logits").slice("pos", "5").values();
  EXPECT_TRUE(last.isnan().all().item<bool>()) << "the decoder has no such column";
}

TEST_F(EdgesOfTwoStacks, AreCheckedByPatching) {
  const auto report = edge_attribution_report(model_, {.sweep = sweep_, .check = 8});
  ASSERT_EQ(report.check->cells.size(), 16u);
  for (const CheckedCell& cell : report.check->cells) {
    const auto& writer = report.grid.axis("writer").places[static_cast<std::size_t>(cell.index[0])];
    const auto& reader = report.grid.axis("reader").places[static_cast<std::size_t>(cell.index[1])];
    EXPECT_NEAR(cell.effect, by_hand(*writer, *reader) - unpatched_, 1e-10);
  }
}

TEST_F(EdgesOfTwoStacks, CircuitsGoThroughTheBoundary) {
  const Grid edges = edge_attribution(model_, {.sweep = sweep_});
  const Circuit circuit = choose_circuit(model_, edges, {.count = 60, .greedy = true});
  EXPECT_GT(circuit.size(), 10);
  EXPECT_TRUE(std::any_of(circuit.edges().begin(), circuit.edges().end(), [](const CircuitEdge& edge) {
    return edge.writer.starts_with("encoder") && edge.reader.starts_with("cross");
  }));
  const Circuit by_hand =
      Circuit::of_edges(model_, {{"encoder embed", "cross kv head 1.0 v"}, {"cross head 1.1", "logits"}});
  EXPECT_EQ(by_hand.pruned(model_), by_hand);
  EXPECT_EQ(
      Circuit::of_edges(model_, {{"encoder embed", "cross kv head 1.0 v"}, {"cross head 1.3", "logits"}})
          .pruned(model_)
          .size(),
      0)
      << "heads 0 and 1 share these values, head 3 has others";
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                Circuit::of_edges(model_, {{"encoder embed", "logits"}});
              }),
              HasSubstr("expected one after it"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { run_circuits(model_, {circuit}, sweep_); }),
              HasSubstr("not a sum of edges"));
}

}  // namespace
}  // namespace hooked::edge_two_stacks_test
