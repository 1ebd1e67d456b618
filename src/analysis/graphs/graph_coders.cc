// The features of attribution graphs: those of transcoders, and neurons.
#include "analysis/graphs/graph_coders.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/work/obstacles.h"
#include "hooked/core/error.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

ActiveFeatures from_first(const at::Tensor& pos, const at::Tensor& features, const at::Tensor& values,
                          std::int64_t first) {
  return {pos + first, features, values};
}

/// A feature whose numbers are not finite would not be active, and the graph would lack it without a word.
void require_finite(const DictionaryWeights& w, const std::string& where) {
  for (const auto& [name, weight] : {std::pair<const char*, at::Tensor>{"W_enc", w.W_enc},
                                     {"b_enc", w.b_enc},
                                     {"W_dec", w.W_dec},
                                     {"b_dec", w.b_dec},
                                     {"W_skip", w.W_skip},
                                     {"b_mag", w.b_mag},
                                     {"b_gate", w.b_gate},
                                     {"r_mag", w.r_mag}}) {
    if (!weight.defined() || std::isfinite(weight.sum(at::kDouble).item<double>())) continue;
    throw ConfigError(where,
                      fmt::format("{} of the transcoder has numbers that are not finite; expected finite "
                                  "ones; the file may be damaged",
                                  name));
  }
}

class TranscoderCoders : public GraphCoders {
 public:
  TranscoderCoders(const HookedTransformer& model, const std::vector<Dictionary>& transcoders)
      : GraphCoders(model.config().n_layers, graph_dtype(model)),
        of_layer_(static_cast<std::size_t>(model.config().n_layers)) {
    // The handle says where they stand, on which device, and refuses what does not fit.
    const bool cross = std::ranges::any_of(
        transcoders, [](const Dictionary& transcoder) { return transcoder.config().crosses_layers; });
    if (cross) {
      for (StandingDictionary& each : model.with_dictionaries(DictionarySet(transcoders)).dictionaries())
        add(std::move(each));
      return;
    }
    for (const Dictionary& transcoder : transcoders)
      add(model.with_dictionary(transcoder).dictionaries().back());
  }

  std::optional<ActivationName> reads(std::int64_t layer) const override {
    return of(layer) ? std::optional(of(layer)->input) : std::nullopt;
  }

  ActiveFeatures active(std::int64_t layer, const ActivationCache& run, std::int64_t first) const override {
    const Dictionary& dictionary = of(layer)->dictionary;
    const at::Tensor x = run[of(layer)->input].select(0, 0).slice(0, first);
    const SparseCodes codes = dictionary.encode_sparse(x);
    const at::Tensor is_active = codes.values.ne(0);
    const at::Tensor pos = at::nonzero(is_active).select(1, 0);
    const at::Tensor key = pos * codes.features + codes.indices.masked_select(is_active);
    const auto [sorted, order] = key.sort();
    return from_first(sorted.floor_divide(codes.features), sorted.remainder(codes.features),
                      codes.values.masked_select(is_active).index_select(0, order).to(dtype()), first);
  }

  ActivationName codes_at(std::int64_t layer) const override { return of(layer)->input; }
  at::Tensor codes_of(std::int64_t layer, const at::Tensor& x) const override {
    return of(layer)->dictionary.encode(x).to(dtype());
  }
  std::int64_t features(std::int64_t layer) const override {
    return of(layer) ? of(layer)->dictionary.config().features : 0;
  }
  at::Tensor encoder(std::int64_t layer, const at::Tensor& features) const override {
    const DictionaryWeights& w = of(layer)->dictionary.weights();
    const at::Tensor rows = w.W_enc.index_select(1, features).t().to(dtype());
    return w.r_mag.defined() ? rows * w.r_mag.index_select(0, features).to(dtype()).exp().unsqueeze(1) : rows;
  }
  at::Tensor encoder_bias(std::int64_t layer, const at::Tensor& features) const override {
    const DictionaryWeights& w = of(layer)->dictionary.weights();
    return (w.r_mag.defined() ? w.b_mag : w.b_enc).index_select(0, features).to(dtype());
  }

  bool writes(std::int64_t source, std::int64_t target) const override {
    if (!of(source)) return false;
    return source == target || (source < target && of(source)->dictionary.config().crosses_layers);
  }
  at::Tensor decoder(std::int64_t source, std::int64_t target, const at::Tensor& features) const override {
    at::Tensor W_dec = of(source)->dictionary.weights().W_dec;
    if (of(source)->dictionary.config().crosses_layers) W_dec = W_dec.select(1, target - source);
    return W_dec.index_select(0, features).to(dtype());
  }
  at::Tensor bias(std::int64_t layer) const override {
    if (!of(layer) || !of(layer)->dictionary.config().adds_decoder_bias) return {};
    return of(layer)->dictionary.weights().b_dec.to(dtype());
  }
  at::Tensor skip(std::int64_t layer) const override {
    if (!of(layer) || !of(layer)->dictionary.config().skips) return {};
    return of(layer)->dictionary.weights().W_skip.to(dtype());
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> all;
    std::vector<std::int64_t> without;
    for (std::int64_t layer = 0; layer < layers(); ++layer) {
      if (!of(layer)) without.push_back(layer);
    }
    if (!without.empty()) {
      all.push_back(fmt::format("{} of {} layers have no transcoder: what their MLPs write is in error nodes",
                                without.size(), layers()));
    }
    return all;
  }

 private:
  const std::optional<StandingDictionary>& of(std::int64_t layer) const {
    return of_layer_.at(static_cast<std::size_t>(layer));
  }

  void add(StandingDictionary standing) {
    const DictionaryConfig& config = standing.dictionary.config();
    const std::string where = standing.output.to_string();
    if (standing.output.site != Site::mlp_out || standing.input.layer != standing.output.layer ||
        standing.input.stack != standing.output.stack) {
      throw HookError(where,
                      "graphs have transcoders in the place of MLPs; expected one that writes to "
                      "hook_mlp_out and reads an activation of the same layer");
    }
    const bool linear = config.activation != CodeActivation::matching_pursuit &&
                        config.input_norm == InputNorm::none && !config.head &&
                        config.decoder_norms != DecoderNorms::scaled && !config.subtracts_decoder_bias;
    if (!linear) {
      throw ConfigError(where,
                        "the transcoder's features do not read a direction of its input (its input is normed "
                        "or shifted, or features are chosen one after another); expected another kind");
    }
    require_finite(standing.dictionary.weights(), where);
    auto& place = of_layer_.at(static_cast<std::size_t>(standing.output.layer));
    if (place)
      throw HookError(where, "there are two transcoders in this layer; expected at most one for each layer");
    place = std::move(standing);
  }

  std::vector<std::optional<StandingDictionary>> of_layer_;
};

class NeuronCoders : public GraphCoders {
 public:
  explicit NeuronCoders(const HookedTransformer& model)
      : GraphCoders(model.config().n_layers, graph_dtype(model)), model_(model), weights_(model.weights()) {}

  std::optional<ActivationName> reads(std::int64_t layer) const override {
    return name(layer, Site::mlp_input);
  }
  std::vector<ActivationName> needs() const override {
    std::vector<ActivationName> all;
    for (std::int64_t layer = 0; layer < layers(); ++layer) all.push_back(name(layer, Site::post));
    return all;
  }
  ActiveFeatures active(std::int64_t layer, const ActivationCache& run, std::int64_t first) const override {
    const at::Tensor post = run[name(layer, Site::post)].select(0, 0).slice(0, first);
    const at::Tensor where = at::nonzero(post);
    return from_first(where.select(1, 0), where.select(1, 1), post.masked_select(post.ne(0)).to(dtype()),
                      first);
  }
  ActivationName codes_at(std::int64_t layer) const override { return name(layer, Site::post); }
  at::Tensor codes_of(std::int64_t, const at::Tensor& x) const override { return x.to(dtype()); }
  std::int64_t features(std::int64_t) const override { return model_.config().d_mlp; }
  at::Tensor encoder(std::int64_t layer, const at::Tensor& features) const override {
    return weights_.W_in(layer).index_select(1, features).t().to(dtype());
  }
  at::Tensor encoder_bias(std::int64_t layer, const at::Tensor& features) const override {
    return weights_.b_in(layer).index_select(0, features).to(dtype());
  }
  at::Tensor decoder(std::int64_t source, std::int64_t, const at::Tensor& features) const override {
    return weights_.W_out(source).index_select(0, features).to(dtype());
  }
  at::Tensor bias(std::int64_t layer) const override { return weights_.b_out(layer).to(dtype()); }
  bool has_errors() const override { return false; }

 private:
  ActivationName name(std::int64_t layer, Site site) const {
    return {.site = site, .stack = model_.config().main_stack(), .layer = static_cast<std::int32_t>(layer)};
  }

  const HookedTransformer model_;
  const WeightView weights_;
};

}  // namespace

at::ScalarType graph_dtype(const HookedTransformer& model) {
  return c10::promoteTypes(model.dtype(), at::kFloat);
}

std::unique_ptr<GraphCoders> graph_coders(const HookedTransformer& model, const GraphFeatures& features) {
  require_free_of(model.config(), kGraph, obstacles::kGraphs);
  if (!model.config().has_unembedding() || !model.config().has_mlp()) {
    throw HookError(kGraph,
                    "graphs lead through MLPs to logits; expected a model with MLPs and an unembedding");
  }
  if (features.are_neurons()) {
    require_free_of(model.config(), "neurons of an attribution graph", obstacles::kPlainNeurons);
    return std::make_unique<NeuronCoders>(model);
  }
  if (!model.dictionaries().empty()) {
    throw HookError(kGraph,
                    "the model has dictionaries of its own; expected the model without them, and the "
                    "transcoders of the graph");
  }
  return std::make_unique<TranscoderCoders>(model, features.transcoders());
}

}  // namespace hooked
