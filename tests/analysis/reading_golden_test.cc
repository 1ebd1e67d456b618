// Parts of the stream, its points, norms and attributions against what the methods of TransformerLens's
// ActivationCache returned in float64 (tests/golden/README.md).

#include "analysis/stream/frozen_norm.h"
#include "hooked/analysis/attribution.h"
#include "hooked/analysis/residual.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/analysis_goldens.h"
#include "tests/support/compare.h"
#include "tests/support/test.h"

namespace hooked::reading_golden_test {
namespace {

constexpr double kTolerance = 1e-9;  // of the largest number

/// A call of one of TransformerLens's methods.
struct Call {
  std::string method;
  Json arguments;
};

std::vector<Call> read_calls() {
  std::vector<Call> all;
  const Json index = analysis_index("reading");
  for (const Json& row : index.at("calls"))
    all.push_back({row.at("method").get<std::string>(), row.at("arguments")});
  return all;
}

/// Every call; its result has its number for a name.
const std::vector<Call>& calls() {
  static const std::vector<Call> all = read_calls();
  return all;
}

/// The labels that a call returned, or none.
std::vector<std::string> labels_of(const AnalysedModel& model, std::size_t number) {
  const Json& labels = model.row.at("labels");
  const auto found = labels.find(std::to_string(number));
  return found == labels.end() ? std::vector<std::string>() : found->get<std::vector<std::string>>();
}

/// Whether the index says why nothing was recorded for a call.
bool is_absent(const AnalysedWeights& weights, std::size_t number) {
  return std::ranges::any_of(weights.model.row.at("absent"), [&](const Json& row) {
    return row.at("file") == weights.processed && row.at("call") == number && !row.at("reason").empty();
  });
}

/// Places on a dimension that a slice of TransformerLens means; one number drops it.
at::Tensor sliced(const at::Tensor& x, const Json& slice, std::int64_t dimension) {
  if (slice.is_number()) return x.select(dimension, slice.get<std::int64_t>());
  if (slice.is_object())
    return x.index_select(dimension,
                          at::tensor(slice.at("list").get<std::vector<std::int64_t>>(), at::kLong));
  return x.slice(dimension, slice[0].get<std::int64_t>(), slice[1].get<std::int64_t>());
}

/// Our number for each of their labels: parts by layer and by neuron, points of the stream.
class Reader {
 public:
  explicit Reader(const AnalysedWeights& weights)
      : model_(weights.load()),
        tensors_(weights.model.read(weights.processed)),
        cache_(model_
                   .run_with_cache({tensors_.at("tokens").tensor(),
                                    {.attention_mask = tensors_.at("attention_mask").tensor()}},
                                   act::everything)
                   .cache) {}

  const RecordedTensors& recorded() const { return tensors_; }

  /// Which numbers of a result of `like`'s sizes belong to padding, by the recorded mask.
  at::Tensor padding(const std::string& method, const Json& arguments, const at::Tensor& like) const {
    // [row, pos], after the parts if there are any, cut as the result is.
    const auto mask = tensors_.at("attention_mask").tensor().eq(0);
    if (method == "stack_activation" && arguments.at("activation") == "pattern") {
      // [layer, row, head, query, key]: a query or a key
      const auto either = mask.unsqueeze(2).logical_or(mask.unsqueeze(1));  // [row, query, key]
      return either.unsqueeze(1).unsqueeze(0).expand_as(like);
    }
    const std::int64_t parts = method == "get_neuron_results" ? 0 : 1;
    const auto cut = method == "stack_activation" ? mask : with_slices(mask, arguments, 0);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(like.dim()), 1);
    for (std::int64_t i = 0; i < cut.dim(); ++i) sizes[static_cast<std::size_t>(parts + i)] = cut.size(i);
    return cut.reshape(sizes).expand_as(like);
  }

  std::int64_t n_layers() const { return model_.config().n_layers; }

  /// What a call returns, [.., row, pos, ..] as recorded, padding NaN. `labels` are theirs.
  at::Tensor result(const std::string& method, const Json& arguments,
                    const std::vector<std::string>& labels) const {
    if (method == "stack_activation") return activation(arguments);
    if (method == "get_neuron_results") return with_slices(neurons_of_layer(arguments), arguments, 0);
    if (method == "logit_attrs") return with_slices(attributed(arguments), arguments, 1);
    if (method == "apply_ln_to_stack") return with_slices(normed(arguments), arguments, 1);
    return with_slices(
        method == "accumulated_resid" ? points(arguments, labels) : parts(method, arguments, labels),
        arguments, 1);
  }

 private:
  static bool is(const Json& arguments, const char* name) { return arguments.value(name, false); }

  /// The layer before which a call stops; n_layers for the end.
  std::int64_t layer_of(const Json& arguments) const {
    const auto found = arguments.find("layer");
    return found == arguments.end() || found->is_null() ? n_layers() : found->get<std::int64_t>();
  }

  Address stream(const Json& arguments) const {
    const auto layer = static_cast<std::int32_t>(layer_of(arguments));
    if (layer == n_layers()) return act::resid_post(layer - 1);
    if (!is(arguments, "mlp_input")) return act::resid_pre(layer);
    return model_.config().has_mlp() ? act::resid_mid(layer) : act::resid_post(layer);
  }
  Address norm_scale(const Json& arguments) const {
    const auto layer = static_cast<std::int32_t>(layer_of(arguments));
    if (layer == n_layers()) return act::ln_final_scale;
    return is(arguments, "mlp_input") ? act::ln2_scale(layer) : act::ln1_scale(layer);
  }
  at::Tensor through_norm(const at::Tensor& stack, const Json& arguments, NormScale scale) const {
    const auto as_grid = [&] {
      GridAxis place{.name = "place", .labels = {}}, width{.name = "d_model", .labels = {}};
      for (std::int64_t i = 0; i < stack.size(0); ++i) place.labels.push_back(std::to_string(i));
      for (std::int64_t i = 0; i < stack.size(3); ++i) width.labels.push_back(std::to_string(i));
      const auto like = accumulated_residual(model_, cache_, {.positions = {}});
      return Grid(stack, {place, like.axis("row"), like.axis("pos"), width}, {.title = "", .unit = ""});
    };
    return normed_stack(model_, cache_, as_grid(), {.norm = {norm_scale(arguments), scale}, .positions = {}})
        .values();
  }
  /// Their recomputed norm at the end has the final norm's weight and bias, which norms of ours leave out.
  at::Tensor recomputed(const at::Tensor& stack) const {
    auto made = through_norm(stack, Json::object(), NormScale::own);
    if (model_.config().norm_folded) return made;
    const auto weights = model_.weights().ln_final();
    made = made * weights.w;
    return weights.b.defined() ? made + weights.b : made;
  }

  at::Tensor with_slices(at::Tensor x, const Json& arguments, std::int64_t row) const {
    // Positions first: their dimension is the one after the rows.
    if (const auto slice = arguments.find("pos_slice"); slice != arguments.end())
      x = sliced(x, *slice, row + 1);
    if (const auto slice = arguments.find("batch_slice"); slice != arguments.end())
      x = sliced(x, *slice, row);
    return x;
  }

  at::Tensor activation(const Json& arguments) const {
    std::vector<at::Tensor> layers;
    for (std::int64_t layer = 0; layer < layer_of(arguments); ++layer) {
      const auto name = arguments.at("activation").get<std::string>();
      layers.push_back(cache_[Address(name + std::to_string(layer))]);
    }
    return at::stack(layers);
  }

  at::Tensor neurons_of_layer(const Json& arguments) const {
    const auto layer = static_cast<std::int32_t>(layer_of(arguments));
    const auto grid = residual_parts(
        model_, cache_,
        {.of = act::mlp_out(layer), .grain = Grain::neuron, .along = along(arguments), .positions = {}});
    auto neurons = grid.values()
                       .narrow(1, 0, size_of(Axis::d_mlp, model_.config(), layer))
                       .movedim(1, 2);  // [row, pos, neuron, ..]
    if (const auto slice = arguments.find("neuron_slice"); slice != arguments.end())
      return sliced(neurons, *slice, 2);
    return neurons;
  }

  at::Tensor along(const Json& arguments) const {
    const auto found = arguments.find("project");
    if (found == arguments.end()) return {};
    const auto& directions = tensors_.at("directions").tensor();
    return found->get<int>() == 2 ? directions : directions[0];
  }

  at::Tensor points(const Json& arguments, const std::vector<std::string>& labels) const {
    const auto grid =
        accumulated_residual(model_, cache_, {.until = stream(arguments), .mid = true, .positions = {}});
    std::vector<at::Tensor> rows;
    for (const auto& label : labels) {
      const auto end = label.find('_');
      const auto ours = label == "final_post" ? "resid_post " + std::to_string(n_layers() - 1)
                                              : "resid_" + label.substr(end + 1) + " " + label.substr(0, end);
      rows.push_back(grid.slice("point", ours).values());
    }
    const auto stack = at::stack(rows);
    if (!is(arguments, "apply_ln")) return stack;
    return layer_of(arguments) == n_layers() ? recomputed(stack)
                                             : through_norm(stack, arguments, NormScale::of_run);
  }

  /// [part, row, pos, ..] by their labels.
  at::Tensor parts(const std::string& method, const Json& arguments,
                   const std::vector<std::string>& labels) const {
    Address of = stream(arguments);
    if (is(arguments, "apply_ln")) of = stream_norm_at(model_, norm_scale(arguments).name()).normalized;
    const auto read = [&](Grain grain) {
      return residual_parts(model_, cache_,
                            {.of = of, .grain = grain, .along = along(arguments), .positions = {}});
    };
    const auto by_layer = read(Grain::layer), by_neuron = read(Grain::neuron);
    std::vector<at::Tensor> rows;
    const auto take = [&](const Grid& grid, const std::string& label) {
      rows.push_back(grid.slice("part", label).values());
    };
    for (const auto& label : labels) {
      const auto number = [&](std::size_t begin, char end) {
        return label.substr(begin, label.find(end, begin) - begin);
      };
      if (label == "embed" || label == "pos_embed") {
        take(by_layer, label);
      } else if (label.ends_with("_attn_out")) {
        take(by_layer, "attn " + number(0, '_'));
      } else if (label.ends_with("_mlp_out")) {
        take(by_layer, "mlp " + number(0, '_'));
      } else if (label.starts_with('L') && label.find('H') != std::string::npos) {
        take(by_neuron, "head " + number(1, 'H') + "." + label.substr(label.find('H') + 1));
      } else if (label.starts_with('L')) {
        take(by_neuron, "neuron " + number(1, 'N') + "." + label.substr(label.find('N') + 1));
      } else if (label == "bias") {
        at::Tensor sum;
        const bool all = !arguments.contains("expand_neurons");
        for (const auto& part : by_neuron.axis("part").labels) {
          if (!part.starts_with("attn bias") && !(all && part.starts_with("mlp bias"))) continue;
          const auto value = by_neuron.slice("part", part).values();
          sum = sum.defined() ? sum + value : value;
        }
        rows.push_back(sum);
      } else {
        EXPECT_EQ(label, "remainder") << method;
        rows.push_back(by_layer.values().sum(1) -
                       (rows.empty() ? at::zeros_like(by_layer.values().sum(1)) : at::stack(rows).sum(0)));
      }
    }
    return at::stack(rows);
  }

  /// Their stack: embeddings, attention and MLPs, [part, row, pos, d_model].
  at::Tensor stack() const {
    const auto grid = residual_parts(model_, cache_, {.positions = {}});
    return grid.values().narrow(1, 0, grid.values().size(1) - 1).transpose(0, 1);  // without the remainder
  }

  at::Tensor normed(const Json& arguments) const {
    if (is(arguments, "recompute_ln")) return recomputed(stack());
    return through_norm(stack(), arguments, NormScale::of_run);
  }

  /// [part, row, pos] in logits.
  at::Tensor attributed(const Json& arguments) const {
    const auto kind = arguments.at("tokens").get<std::string>();
    const auto length = tensors_.at("tokens").tensor().size(1);
    const auto answers = [&](const char* name, std::int64_t column) {
      const auto& tokens = tensors_.at(name).tensor();  // [row, pos]
      if (kind == "int") return Answers(tokens[0][0].item<std::int64_t>());
      const auto of_rows = tokens.select(1, kind == "batch" ? 0 : column).contiguous();
      return Answers::by_row(
          {of_rows.data_ptr<std::int64_t>(), of_rows.data_ptr<std::int64_t>() + of_rows.numel()});
    };
    std::vector<at::Tensor> columns;
    for (std::int64_t column = 0; column < length; ++column) {
      AttributionOptions options{.answer = answers("answer", column), .positions = {}};
      if (is(arguments, "incorrect")) options.against = answers("against", column);
      const auto grid = direct_logit_attribution(
          model_, cache_, residual_parts(model_, cache_, {.positions = {}}), options);  // [row, part, pos]
      columns.push_back(grid.values().select(2, column));
    }
    const auto all = at::stack(columns, 2);
    return all.narrow(1, 0, all.size(1) - 1).transpose(0, 1);  // without the remainder
  }

  HookedTransformer model_;
  RecordedTensors tensors_;
  ActivationCache cache_;
};

class ReadingGoldenFile : public testing::TestWithParam<AnalysedWeights> {};

TEST_P(ReadingGoldenFile, EqualsWhatTransformerLensReturns) {
  const Reader reader(GetParam());
  std::size_t compared = 0;
  for (std::size_t number = 0; number < calls().size(); ++number) {
    const auto& call = calls()[number];
    const auto recorded = reader.recorded().find(std::to_string(number));
    if (recorded == reader.recorded().end()) continue;  // the index says why
    SCOPED_TRACE(call.method + " " + call.arguments.dump());
    const auto& theirs = recorded->second;
    if (std::ranges::count(theirs.sizes(), 0) > 0) continue;
    const auto ours = reader.result(call.method, call.arguments, labels_of(GetParam().model, number));
    ASSERT_EQ(ours.sizes(), theirs.sizes());
    // Padding: NaN of ours (whole activations have numbers there), anything of theirs.
    const auto padding = reader.padding(call.method, call.arguments, ours);
    if (call.method == "stack_activation") {
      EXPECT_FALSE(ours.isnan().any().item<bool>());
    } else {
      EXPECT_TRUE(ours.isnan().equal(padding)) << "NaN marks padding, and nothing else";
    }
    EXPECT_GT(ours.masked_fill(padding, 0.0).abs().max().item<double>(), 0);
    EXPECT_TRUE(agrees(recorded->first, ours, theirs, {.tolerance = kTolerance, .left_out = padding}));
    ++compared;
  }
  EXPECT_GT(compared, 50u);
}

INSTANTIATE_TEST_SUITE_P(All, ReadingGoldenFile, testing::ValuesIn(analysed_weights("reading")),
                         [](const auto& info) { return info.param.name(); });

TEST(ReadingGoldens, EveryCallIsRecordedOrSaysWhyNot) {
  for (const AnalysedWeights& weights : analysed_weights("reading")) {
    const auto tensors = weights.model.read(weights.processed);
    std::set<std::string> known{"tokens", "attention_mask", "answer", "against", "directions"};
    for (std::size_t number = 0; number < calls().size(); ++number) {
      EXPECT_NE(tensors.contains(std::to_string(number)), is_absent(weights, number))
          << weights.name() << ' ' << number;
      known.insert(std::to_string(number));
    }
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(known.contains(name)) << name;
  }
}

}  // namespace
}  // namespace hooked::reading_golden_test
