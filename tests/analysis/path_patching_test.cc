#include "hooked/analysis/path_patching.h"

#include "hooked/analysis/metric.h"
#include "tests/support/tiny_model.h"

namespace hooked::path_patching_test {
namespace {

ModelConfig three_layer_paths() {
  ModelConfig config = two_layer_config();
  config.n_layers = 3;
  return config;
}

struct PathModelCase {
  const char* name;
  ModelConfig config;
};

std::vector<PathModelCase> path_models() {
  ModelConfig grouped = three_layer_paths(), both = three_layer_paths(), parallel = three_layer_paths(),
              post = three_layer_paths(), bare = three_layer_paths();
  grouped.norm = grouped.final_norm = both.norm = both.final_norm = NormKind::rms_norm;
  grouped.n_kv_heads = 2;
  both.norm_place = NormPlace::both;
  parallel.layout = BlockLayout::parallel_two_norms;
  post.norm_place = NormPlace::post;
  post.final_norm = NormKind::none;
  bare.mlp = MlpKind::none;
  bare.d_mlp = 0;
  return {{"layer_norm", three_layer_paths()},
          {"grouped_rms", grouped},
          {"both_norms", both},
          {"parallel", parallel},
          {"post_norm", post},
          {"attention_only", bare}};
}

/// The three runs of path patching, each run separately from its tokens: receivers are whole activations or
/// one head of them.
double by_hand(const HookedTransformer& model, const at::Tensor& clean, const at::Tensor& corrupted,
               const PathPatchingOptions& options, const Metric& metric) {
  const auto there = model.run_with_cache(clean, act::everything, {.output = Output::none}).cache;
  const auto here = model.run_with_cache(corrupted, act::everything, {.output = Output::none}).cache;
  RunOptions second{.output = Output::none};
  for (std::int32_t layer = 0; layer < model.config().n_layers; ++layer) {
    second.edits.push_back(replace(act::z(layer), here));
    if (model.config().has_mlp() && options.through == PathThrough::nothing)
      second.edits.push_back(replace(act::mlp_out(layer), here));
  }
  // After what holds the others: the last edit of a block counts.
  for (const Address& sender : options.senders) second.edits.push_back(replace(sender, there));
  for (const Address& receiver : options.receivers)
    second.capture = second.capture | Selection(Address(receiver.name()));
  const auto seen = model.run(corrupted, second).cache;
  RunOptions third;
  for (const Address& receiver : options.receivers) third.edits.push_back(replace(receiver, seen));
  return metric.score(model, corrupted, third).item<double>();
}

class PathPatchingOf : public testing::TestWithParam<PathModelCase> {};

TEST_P(PathPatchingOf, IsWhatThreeRunsMake) {
  const auto model = random_model(GetParam().config);
  const at::Tensor clean = random_row(6, 11, 1), corrupted = random_row(6, 11, 2);
  const bool mlps = model.config().has_mlp();
  const Metric metric = logit_difference(3, 7);
  const std::vector<Address> senders{act::z(0).head(1), act::z(1).head(3),
                                     mlps ? Address(act::mlp_out(0)) : Address(act::z(0).head(0)),
                                     act::resid_pre(0), act::attn_out(1)};
  std::vector<Address> receivers{act::q(2).head(1), act::k(1).head(0), act::v(2).head(1), act::resid_post(2)};
  if (model.config().norm_place == NormPlace::post) receivers.back() = act::normalized_resid_post(2);
  if (mlps) receivers.push_back(act::mlp_in(1));
  const double unpatched = metric.score(model, corrupted).item<double>();
  for (const PathThrough through : {PathThrough::nothing, PathThrough::mlps}) {
    PathPatchingOptions options{
        .senders = senders,
        .receivers = receivers,
        .through = through,
        .cells = PathCells::each,
        .sweep = {
            .from = model.run_with_cache(clean, act::everything).cache, .into = corrupted, .metric = metric}};
    const Grid each = path_patching(model, options);
    ASSERT_EQ(each.values().sizes(), at::IntArrayRef({5, static_cast<std::int64_t>(receivers.size())}));
    EXPECT_EQ(each.axes()[0].name, "sender");
    double largest = 0;
    for (std::size_t s = 0; s < senders.size(); ++s) {
      for (std::size_t r = 0; r < receivers.size(); ++r) {
        PathPatchingOptions one = options;
        one.senders = {senders[s]};
        one.receivers = {receivers[r]};
        const double expected = by_hand(model, clean, corrupted, one, metric);
        const double made =
            each.values()[static_cast<std::int64_t>(s)][static_cast<std::int64_t>(r)].item<double>();
        const std::string path = senders[s].to_string() + " -> " + receivers[r].to_string();
        // If the three runs change nothing at all, no path exists.
        EXPECT_EQ(std::isnan(made), std::abs(expected - unpatched) < 1e-13) << path;
        if (std::isnan(made)) continue;
        EXPECT_NEAR(made, expected, 1e-10) << path;
        largest = std::max(largest, std::abs(expected - unpatched));
      }
    }
    EXPECT_GT(largest, 1e-3) << "no path changed anything";
    for (const PathCells cells : {PathCells::whole, PathCells::each_sender, PathCells::each_receiver}) {
      options.cells = cells;
      const Grid some = path_patching(model, options);
      PathPatchingOptions first = options;
      if (cells == PathCells::each_sender) first.senders = {senders.front()};
      if (cells == PathCells::each_receiver) first.receivers = {receivers.front()};
      EXPECT_NEAR(some.values().flatten()[0].item<double>(), by_hand(model, clean, corrupted, first, metric),
                  1e-10);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PathPatchingOf, testing::ValuesIn(path_models()), named);

/// What a head sends to the logits directly is a vector that is added to the end of the stream.
TEST(PathPatching, DirectPathsToTheLogitsAreSums) {
  const auto model = random_model(three_layer_paths());
  const at::Tensor clean = random_row(6, 11, 1), corrupted = random_row(6, 11, 2);
  const auto there = model.run_with_cache(clean, act::z).cache,
             here = model.run_with_cache(corrupted, act::z).cache;
  const Metric metric = logit_difference(3, 7);
  const Grid heads = path_patching(
      model,
      {.cells = PathCells::each_sender,
       .sweep = {
           .from = model.run_with_cache(clean, act::everything).cache, .into = corrupted, .metric = metric}});
  ASSERT_EQ(heads.values().numel(), 15) << "every head and every MLP";
  for (std::int32_t layer = 0; layer < 3; ++layer) {
    const Address head = act::z(layer).head(2);
    const at::Tensor added = (there[head] - here[head]).matmul(model.weights().W_O(layer)[2]);
    const double expected =
        metric.score(model, corrupted, {.edits = {add(act::resid_post(2), added)}}).item<double>();
    const std::string name = "head " + std::to_string(layer) + ".2";
    EXPECT_NEAR(heads.slice("sender", name).values().item<double>(), expected, 1e-10);
  }
}

// The names of edges, which are short enough for a table.
TEST(PathPatching, NamesEndsAsEdgesAreNamed) {
  ModelConfig config = three_layer_paths();
  const auto labels_of = [&](const std::vector<Address>& senders, const std::vector<Address>& receivers) {
    const auto model = random_model(config);
    const at::Tensor prompt = random_row(6, 11, 1);
    const Grid paths =
        path_patching(model, {.senders = senders,
                              .receivers = receivers,
                              .cells = PathCells::each,
                              .sweep = {.from = PatchSource::zero(), .into = prompt, .metric = logit(3)}});
    std::vector<std::string> labels = paths.axis("sender").labels;
    for (const std::string& label : paths.axis("receiver").labels) labels.push_back(label);
    EXPECT_EQ(paths.axis("sender").places[0]->name().site, senders[0].name().site);
    return labels;
  };
  EXPECT_THAT(labels_of({act::z(0).head(1), act::z(0), act::mlp_out(0), act::resid_pre(0), act::attn_out(0)},
                        {act::q(1).head(3), act::k(1), act::mlp_in(2), act::resid_post(-1)}),
              testing::ElementsAre("head 0.1", "z 0", "mlp 0", "resid_pre 0", "attn_out 0", "head 1.3 q",
                                   "k 1", "mlp 2", "logits"));
  config.n_kv_heads = 2;
  EXPECT_THAT(labels_of({act::z(0).head(-1)}, {act::v(1).head(1), act::q(1).head(1)}),
              testing::ElementsAre("head 0.3", "kv head 1.1 v", "head 1.1 q"));
}

/// Senders at some places only, which may be elsewhere in the run that values come from.
TEST(PathPatching, SendersHavePlaces) {
  const auto model = random_model(three_layer_paths());
  const at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[1].slice(0, 0, 2) = 0;
  const Input clean{at::cat({random_row(6, 11, 1), random_row(6, 11, 3)}), {.attention_mask = mask}};
  const Input corrupted{at::cat({random_row(6, 11, 2), random_row(6, 11, 4)}), {.attention_mask = mask}};
  const Position name("name", {1, 3}), other("other", {2, 4});
  const Metric metric = logit_difference(3, 7);
  const auto there = model.run_with_cache(clean, act::everything).cache;
  const PathPatchingOptions options{.senders = {act::z(0).head(1)},
                                    .receivers = {act::v(1).head(2)},
                                    .positions = {SweptPlace(name, other)},
                                    .sweep = {.from = there, .into = corrupted, .metric = metric}};
  const Grid made = path_patching(model, options);
  ASSERT_EQ(made.values().sizes(), at::IntArrayRef({2}));
  const auto here = model.run_with_cache(corrupted, act::everything).cache;
  for (std::int64_t row = 0; row < 2; ++row) {
    const std::int64_t at = row == 0 ? 1 : 3, from = row == 0 ? 2 : 4;
    const at::Tensor change =
        there[act::z(0).head(1).row(row).pos(from)] - here[act::z(0).head(1).row(row).pos(at)];
    const at::Tensor stream = here[act::resid_pre(1)].clone();
    stream[row][at] += change.matmul(model.weights().W_O(0)[1]);
    // The MLP of the first layer is unchanged, so this is all that the later head sees.
    const auto seen = model
                          .run(Input::start_at_layer(1, stream, {.attention_mask = mask}),
                               {.capture = act::v(1), .output = Output::none})
                          .cache;
    const auto edits = std::vector<Edit>{replace(act::v(1).head(2), seen)};
    EXPECT_NEAR(made.at({row}), metric.score(model, corrupted, {.edits = edits})[row].item<double>(), 1e-10);
  }
  EXPECT_GT(std::abs(made.at({1}) - metric.score(model, corrupted)[1].item<double>()), 1e-6);
}

TEST(PathPatching, RefusesWhatHasNoPaths) {
  const auto model = random_model(three_layer_paths());
  const at::Tensor row = random_row(5, 11, 1);
  PathPatchingOptions options{
      .senders = {act::pattern(0)},
      .sweep = {.from = model.run_with_cache(row).cache, .into = row, .metric = logit(3)}};
  const auto text = [&] { return text_thrown_by<HookError>([&] { path_patching(model, options); }); };
  EXPECT_THAT(text(), HasSubstr("writes nothing to a stream"));
  options.senders = {act::z(0).head(4)};
  EXPECT_THAT(text(), HasSubstr("there is no head 4; expected -4 to 3"));
  options.senders = {act::mlp_out(0).pos(2)};
  EXPECT_THAT(text(), HasSubstr("the place of a sender is a whole activation; expected no index"));
  options.senders = {act::z(0).pos(2)};
  EXPECT_THAT(text(), HasSubstr("expected [head=...] or no index"));
  options.senders = {act::q(0).head(2)};
  EXPECT_THAT(text(), HasSubstr("writes nothing to a stream")) << "the site comes before its head";
  options.senders = {act::z(0)};
  options.receivers = {act::pattern(1)};
  EXPECT_THAT(text(), HasSubstr("does not read a stream"));
  options.receivers = {act::z(1).head(0)};
  EXPECT_THAT(text(), HasSubstr("does not read a stream"));
  options.senders = {act::z(1)};
  for (const Address& receiver : std::vector<Address>{act::q(0), act::q(1), act::mlp_in(0)}) {
    options.receivers = {receiver};
    EXPECT_THAT(text(), HasSubstr("no path leads from this sender to a receiver")) << receiver.to_string();
  }
  options.receivers = {act::q(2), act::v(1).head(2)};
  EXPECT_THAT(text(), HasSubstr("no path leads from a sender to this receiver"));
  EXPECT_THAT(text(), HasSubstr("blocks.1.attn.hook_v[kv_head=2]"));
  options.senders = {act::z(0), act::mlp_out(2)};
  EXPECT_THAT(text(), HasSubstr("blocks.2.hook_mlp_out"));
  options.senders.clear();
  options.receivers = {act::q(0)};
  EXPECT_THAT(text(), HasSubstr("no path leads from a sender to this receiver"))
      << "no head is before layer 0";
  options.receivers.clear();
  options.sweep.site = act::z;
  EXPECT_THAT(text(), HasSubstr("neither `site`"));
}

}  // namespace
}  // namespace hooked::path_patching_test
