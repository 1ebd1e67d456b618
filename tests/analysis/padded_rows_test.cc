// Reading a padded row gives the same as reading the row alone: every analysis of a run, over a golden
// checkpoint of each family and of each kind of config, raw and processed, padded on either side, in float64.

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/norm_geometry.h"
#include "hooked/analysis/path_expansion.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/score_attribution.h"
#include "tests/support/golden_model.h"

namespace hooked::padded_rows_test {
namespace {

constexpr double kTolerance = 1e-10;  // of the largest number
constexpr std::int64_t kMostTokens = 7;
constexpr std::int64_t kPadding = 2;

/// The first case of each family, and for our own format one for each kind of config.
std::vector<GoldenCase> cases() {
  std::vector<GoldenCase> chosen;
  std::set<std::string> families;
  for (const GoldenCase& golden : golden_cases()) {
    const bool is_first = families.insert(golden.family).second;
    if (is_first || golden.name.starts_with("tl_")) chosen.push_back(golden);
  }
  return chosen;
}

enum class Pad { left, right };

/// What one stack reads: a whole row and a shorter one.
struct Rows {
  at::Tensor whole, shorter;  // [1, pos]

  std::int64_t padding_token;

  Rows(const at::Tensor& recorded, std::int64_t padding) : padding_token(padding) {
    const auto length = std::min(recorded.size(1), kMostTokens);
    whole = recorded.narrow(0, 0, 1).narrow(1, 0, length);
    shorter = recorded.narrow(0, recorded.size(0) - 1, 1).narrow(1, 0, length - kPadding);
  }

  /// Both as a batch, [2, pos], with `padding` next to the shorter one.
  at::Tensor both(const at::Tensor& upper, const at::Tensor& lower, std::int64_t padding, Pad side) const {
    const auto pad = at::full({1, kPadding}, padding, at::kLong);
    return at::cat({upper, side == Pad::left ? at::cat({pad, lower}, 1) : at::cat({lower, pad}, 1)});
  }
  at::Tensor tokens(Pad side) const { return both(whole, shorter, padding_token, side); }
  at::Tensor mask(Pad side) const { return both(at::ones_like(whole), at::ones_like(shorter), 0, side); }
};

/// Everything that is read from a run.
class Readings {
 public:
  struct Reading {
    std::string name;
    Grid grid;
  };

  Readings(const HookedTransformer& model, const Input& input) : model_(model), config_(model.config()) {
    cache_ = model.run_with_cache(input, act::everything, {.output = Output::none}).cache;
    of_the_stream();
    of_logits();
    of_scores();
    of_heads(input.main_tokens(), Stack::none);
    if (config_.has_encoder()) of_heads(input.tokens, Stack::encoder);
  }

  const std::vector<Reading>& all() const { return all_; }
  const std::vector<std::string>& refused() const { return refused_; }

 private:
  void add(std::string name, const std::function<Grid()>& read) {
    try {
      all_.push_back({name, read()});
    } catch (const HookError&) {
      refused_.push_back(std::move(name));
    }
  }

  void of_the_stream() {
    add("parts", [&] { return residual_parts(model_, cache_, {.grain = Grain::neuron, .positions = {}}); });
    add("points", [&] { return accumulated_residual(model_, cache_, {.mid = true, .positions = {}}); });
    if (config_.has_encoder()) {
      add("parts of the encoder", [&] {
        return residual_parts(model_, cache_,
                              {.of = act::resid_post.encoder(-1), .grain = Grain::head, .positions = {}});
      });
    }
  }

  void of_logits() {
    const AttributionOptions by_layer{.answer = 1, .against = 2, .positions = {}};
    auto by_head = by_layer;
    by_head.grain = Grain::head;
    add("logit by layer", [&] { return direct_logit_attribution(model_, cache_, by_layer); });
    add("logit by head", [&] { return direct_logit_attribution(model_, cache_, by_head); });
    for (const auto& pattern : {act::pattern, act::cross_pattern}) {
      add(pattern.site == Site::pattern ? "logit by source" : "logit by source of the encoder", [&] {
        return source_attribution(model_, cache_, {.answer = 1, .pattern = pattern, .positions = {}});
      });
    }
    add("length", [&] { return norm_shares(model_, cache_, by_head).length; });
    add("cosine", [&] { return norm_shares(model_, cache_, by_head).cosine; });
    add("without one", [&] { return leave_one_out(model_, cache_, by_head).exact; });
    add("normed logit", [&] { return normed_logit(model_, cache_, by_layer).terms; });
    add("unnormed", [&] { return unnormed_reading(model_, cache_, {.positions = {}}); });
    add("paths", [&] {
      return path_expansion(model_, cache_, {.answer = 1, .against = 2, .order = 1, .positions = {}});
    });
    add("path", [&] { return path_logits(model_, cache_, {}, {.positions = {}}); });
    const LogitLensOptions lens{.positions = {}, .tokens = {1, 2}, .top_k = 1, .mid = true};
    add("lens", [&] { return logit_lens(model_, cache_, lens).probabilities; });
    auto of_parts = lens;
    of_parts.parts = Grain::layer;
    add("lens of parts", [&] { return logit_lens(model_, cache_, of_parts).logits; });
  }

  void of_scores() {
    // The last layer of each kind.
    std::vector<ActivationName> last;
    for (const auto& name : model_.names()) {
      if (name.site != Site::attn_scores && name.site != Site::cross_attn_scores) continue;
      const auto same = std::ranges::find_if(last, [&](const ActivationName& other) {
        return other.site == name.site && other.stack == name.stack;
      });
      if (same == last.end()) {
        last.push_back(name);
      } else {
        *same = name;
      }
    }
    for (const auto& name : last) {
      add(name.to_string(), [&] {
        return score_attribution(model_, cache_,
                                 {.scores = Address(name).head(1), .queries = {}, .keys = {}});
      });
    }
  }

  void of_heads(const at::Tensor& tokens, Stack stack) {
    for (const auto& row : head_score_rows()) {
      // A row may have no repetition; a share says nothing about that.
      HeadScoreOptions options{.tokens = tokens, .rows = HeadRows::each, .stack = stack};
      if (row.kind == HeadScoreKind::ids) options.measure = HeadMeasure::mul;
      add(std::string(row.name), [&] { return head_scores(cache_, row.score, options); });
      if (!config_.has_encoder() || !row.crosses || stack == Stack::encoder) continue;
      options.site = act::cross_pattern;
      add("cross " + std::string(row.name), [&] { return head_scores(cache_, row.score, options); });
    }
  }

  const HookedTransformer& model_;
  const ModelConfig& config_;
  ActivationCache cache_;
  std::vector<Reading> all_;
  std::vector<std::string> refused_;
};

class PaddedRows : public testing::TestWithParam<GoldenCase> {
 protected:
  void expect_rows_alone(bool processed) {
    const auto& golden = GetParam();
    const auto recorded = read_golden(golden);
    const auto model = load_golden(golden, processing_if(processed));
    const bool two_stacks = model.config().has_encoder();
    const std::int64_t padding = padding_token(golden).value_or(2);
    const Rows read(recorded.tokens, padding),
        written(two_stacks ? recorded.decoder_tokens : recorded.tokens, padding);
    const auto input = [&](const at::Tensor& tokens, const at::Tensor& decoder) {
      return two_stacks ? Input(tokens, {.decoder = {.tokens = decoder}}) : Input(tokens);
    };
    const Readings whole(model, input(read.whole, written.whole)),
        shorter(model, input(read.shorter, written.shorter));
    for (const Pad side : {Pad::left, Pad::right}) {
      auto padded = input(read.tokens(side), written.tokens(side));
      padded.attention_mask = read.mask(side);
      if (two_stacks) padded.decoder.attention_mask = written.mask(side);
      SCOPED_TRACE(std::string(processed ? "processed" : "raw") + (side == Pad::left ? ", left" : ", right"));
      const Readings both(model, padded);
      EXPECT_EQ(both.refused(), whole.refused());
      ASSERT_EQ(both.all().size(), whole.all().size());
      EXPECT_GE(both.all().size(), 4U);
      for (std::size_t i = 0; i < both.all().size(); ++i) {
        expect_same(both.all()[i], 0, whole.all()[i].grid, 0);
        expect_same(both.all()[i], 1, shorter.all()[i].grid, side == Pad::left ? kPadding : 0);
      }
    }
  }

 private:
  /// Row `row` of a batch's grid, whose tokens begin at column `first`, and a grid of that row alone.
  static void expect_same(const Readings::Reading& both, std::int64_t row, const Grid& alone,
                          std::int64_t first) {
    auto values = both.grid.values();
    for (std::size_t axis = 0; axis < both.grid.axes().size(); ++axis) {
      const auto dim = static_cast<std::int64_t>(axis);
      const auto& name = both.grid.axes()[axis].name;
      if (name == "row") values = values.narrow(dim, row, 1);
      if (name == "pos" || name == "query" || name == "key")
        values = values.narrow(dim, first, alone.values().size(dim));
    }
    ASSERT_EQ(values.sizes(), alone.values().sizes()) << both.name;
    EXPECT_TRUE(values.isnan().equal(alone.values().isnan())) << both.name;
    EXPECT_LE(largest_number(values - alone.values()),
              kTolerance * std::max(1.0, largest_number(alone.values())))
        << both.name << " of row " << row;
  }
};

TEST_P(PaddedRows, AreTheRowsAlone) { expect_rows_alone(false); }

TEST_P(PaddedRows, AreTheRowsAloneWhenProcessed) { expect_rows_alone(true); }

INSTANTIATE_TEST_SUITE_P(Golden, PaddedRows, testing::ValuesIn(cases()), golden_test_name);

}  // namespace
}  // namespace hooked::padded_rows_test
