// What dictionaries write to the stream, feature by feature.
#include "analysis/stream/stream_features.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/stream/stream_graph.h"
#include "core/to_device.h"
#include "engine/standing_dictionaries.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

at::Tensor as_float64(const at::Tensor& value) { return value.to(at::kCPU, at::kDouble); }

/// The number of the dictionary that stands at an activation.
std::optional<std::size_t> dictionary_at(const HookedTransformer& model, const ActivationName& name) {
  const MountedDictionaries& all = mounted_in(model);
  const auto found = std::ranges::find(all, name, &MountedDictionary::writes);
  return found == all.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - all.begin()));
}

/// What a dictionary replaces of an activation: one head, or all heads one after another.
at::Tensor as_written(const at::Tensor& activation, const MountedDictionary& mounted) {
  if (mounted.head) return activation.select(2, *mounted.head);
  return activation.dim() > 3 ? activation.flatten(2) : activation;
}

/// Where features may be within a module: what its last matrix reads.
std::optional<ActivationName> read_last(const StreamStep& write) {
  if (write.of_heads()) return write.of_attention(Site::z);
  if (write.part == Part::dense_mlp) return act::post.in(write.point.stack, write.point.layer).name();
  return std::nullopt;
}

/// How a dictionary's parts are called, and how they get to the stream.
struct WayToStream {
  std::function<std::string(std::string_view what)> label;  ///< `mlp error 1`
  std::function<at::Tensor()> matrix = {};                  ///< [d_written, d_model]; none: the identity
};

/// A dictionary in a run.
class WrittenFeatures {
 public:
  WrittenFeatures(std::size_t number, const RunReading& run, WayToStream way)
      : run_(run),
        way_(std::move(way)),
        standing_(run.model.dictionaries()),
        all_(mounted_in(run.model)),
        mounted_(all_[number]),
        config_(standing_[number].dictionary.config()),
        weights_(standing_[number].dictionary.weights()) {}

  /// All of its parts: features, what the skip connection passes on, the decoder's bias, the error.
  std::vector<Writing> parts();

 private:
  void add_features(std::size_t source, std::vector<Writing>& parts);
  Writing vector_part(std::string_view what, std::optional<Address> place, const at::Tensor& vector) const;
  /// [row, pos] bool: tokens at which the dictionary does nothing; undefined: none.
  at::Tensor passed_over() const;
  /// `values` [row, pos, ..] in the unit of what goes on, and 0 for tokens that are passed over.
  at::Tensor in_place(at::Tensor values) const {
    if (scale_.defined()) values = values * scale_;
    return passed_over_.defined() ? values.masked_fill(passed_over_.unsqueeze(-1), 0.0) : values;
  }

  const RunReading& run_;
  WayToStream way_;
  std::vector<StandingDictionary> standing_;
  const MountedDictionaries& all_;
  const MountedDictionary& mounted_;
  DictionaryConfig config_;
  DictionaryWeights weights_;
  at::Tensor scale_;        // [row, pos, 1], which undoes the norm of the input; undefined: 1
  at::Tensor passed_over_;  // [row, pos] bool; undefined: none
  at::Tensor rest_;         // [row, pos, d_written]: what goes on, without the parts so far
};

at::Tensor WrittenFeatures::passed_over() const {
  if (mounted_.excluded.empty()) return {};
  const auto& tokens = run_.cache.tokens(mounted_.writes.stack);
  if (!tokens || !tokens->ids.defined()) {
    throw HookError(mounted_.writes.to_string(),
                    "the dictionary leaves out some tokens, and the cache does not know its tokens; expected "
                    "the cache of a run from tokens");
  }
  const at::Tensor ids = tokens->ids.to(at::kCPU).gather(1, run_.columns.columns - tokens->first);
  return at::isin(ids, to_device(mounted_.excluded, at::kCPU));
}

Writing WrittenFeatures::vector_part(std::string_view what, std::optional<Address> place,
                                     const at::Tensor& vector) const {
  Writing part{.labels = {way_.label(what)},
               .places = {std::move(place)},
               .values = [value = vector.unsqueeze(2)] { return value; }};
  if (way_.matrix) part.matrix = [matrix = way_.matrix] { return matrix().unsqueeze(0); };
  return part;
}

void WrittenFeatures::add_features(std::size_t source, std::vector<Writing>& parts) {
  const std::size_t number = mounted_.sources[source];
  const Address point(all_[number].inside(Site::sae_acts_post));
  at::Tensor codes = read_columns(run_.cache, point, run_.columns).to(at::kCPU);  // [row, pos, feature]
  at::Tensor fires = codes.ne(0);
  // A token that is padding lists nothing.
  if (run_.columns.real.defined()) fires = fires.logical_and(run_.columns.real.unsqueeze(-1));
  if (passed_over_.defined()) fires = fires.logical_and(passed_over_.logical_not().unsqueeze(-1));
  const at::Tensor listed = at::nonzero(fires.flatten(0, 1).any(0)).flatten();
  if (listed.size(0) == 0) return;
  const Dictionary& dictionary = standing_[number].dictionary;
  at::Tensor W_dec = dictionary.weights().W_dec;
  const at::Tensor own = listed.to(W_dec.device());
  if (dictionary.config().crosses_layers)
    W_dec = W_dec.select(1, static_cast<std::int64_t>(mounted_.sources.size() - 1 - source));
  at::Tensor directions = as_float64(W_dec.index_select(0, own));
  if (dictionary.config().decoder_norms == DecoderNorms::scaled)
    directions = directions / as_float64(dictionary.decoder_norms().index_select(0, own)).unsqueeze(1);
  codes = in_place(codes.index_select(2, listed).to(at::kDouble));
  rest_ = rest_ - codes.matmul(directions);
  Writing features{.labels = {},
                   .places = {},
                   .values = [codes] { return codes.unsqueeze(3); },
                   .matrix =
                       [directions, matrix = way_.matrix] {
                         return (matrix ? directions.matmul(matrix()) : directions).unsqueeze(1);
                       }};
  const std::string label = way_.label("feature");
  const bool numbered = label.back() >= '0' && label.back() <= '9';
  const auto* feature = listed.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < listed.size(0); ++i) {
    std::string name = fmt::format("{}{}{}", label, numbered ? '.' : ' ', feature[i]);
    if (number != mounted_.sources.back()) name += fmt::format(" of layer {}", all_[number].writes.layer);
    features.labels.push_back(std::move(name));
    features.places.emplace_back(point.feature(feature[i]));
  }
  parts.push_back(std::move(features));
}

std::vector<Writing> WrittenFeatures::parts() {
  const Address output(mounted_.inside(Site::sae_output));
  const at::Tensor x = as_written(run_(mounted_.writes), mounted_);
  // Without the error term, what the model computed does not say what goes on.
  rest_ = mounted_.with_error && !run_.cache.contains(output.name()) ? x : run_(output);
  passed_over_ = passed_over();
  const bool norms = !config_.transcodes && (config_.input_norm == InputNorm::layer_norm ||
                                             config_.input_norm == InputNorm::constant_norm);
  const at::Tensor input = norms || config_.skips ? run_(mounted_.inside(Site::sae_input)) : at::Tensor();
  // What an output is made of beside its reconstruction: means that are given back.
  at::Tensor bias = mounted_.coder->output_of(at::zeros_like(x), input, x);
  if (norms) scale_ = (mounted_.coder->output_of(at::ones_like(x), input, x) - bias).slice(-1, 0, 1);
  std::vector<Writing> parts;
  for (std::size_t source = 0; source < mounted_.sources.size(); ++source) add_features(source, parts);
  if (config_.skips) {
    const at::Tensor skipped = in_place(input.matmul(as_float64(weights_.W_skip).t()));
    rest_ = rest_ - skipped;
    parts.push_back(vector_part("skip", std::nullopt, skipped));
  }
  if (passed_over_.defined()) bias = bias.masked_fill(passed_over_.unsqueeze(-1), 0.0);
  if (config_.adds_decoder_bias) bias = bias + in_place(as_float64(weights_.b_dec).expand_as(bias));
  rest_ = rest_ - bias;
  parts.push_back(vector_part("decoder bias", std::nullopt, bias));
  parts.push_back(vector_part("error", Address(mounted_.inside(Site::sae_error)), rest_));
  return parts;
}

}  // namespace

bool has_features(const HookedTransformer& model, const StreamStep& step) {
  using Kind = StreamStep::Kind;
  if (step.kind == Kind::read || step.kind == Kind::norm) return false;
  if (dictionary_at(model, step.point)) return true;
  const auto inside = step.kind == Kind::write ? read_last(step) : std::nullopt;
  return inside && dictionary_at(model, *inside);
}

std::optional<std::vector<Writing>> features_shown(const StreamStep& step, const RunReading& run) {
  if (step.kind != StreamStep::Kind::show && step.kind != StreamStep::Kind::scale) return std::nullopt;
  const auto number = dictionary_at(run.model, step.point);
  if (!number) return std::nullopt;
  const auto label = [point = step.point](std::string_view what) {
    const std::string named = fmt::format("{} {}", row(point.site).word, what);
    return point.layer < 0 ? named : fmt::format("{} {}", named, point.layer);
  };
  return WrittenFeatures(*number, run, {.label = label}).parts();
}

std::optional<FeaturesWritten> features_written(const StreamStep& write, const RunReading& run) {
  const auto label = [write](std::string_view what) { return write.label(what); };
  if (const auto number = dictionary_at(run.model, write.point))
    return FeaturesWritten{WrittenFeatures(*number, run, {.label = label}).parts(), false};
  const auto inside = read_last(write);
  const auto number = inside ? dictionary_at(run.model, *inside) : std::nullopt;
  if (!number) return std::nullopt;
  const auto layer = write.point.layer;
  const WeightView weights = weights_around(run.model, *inside);
  const auto all = [weights, layer, heads = write.of_heads()] {
    return as_float64(heads ? weights.W_O(layer).flatten(0, 1) : weights.W_out(layer));
  };
  const auto head = mounted_in(run.model)[*number].head;
  const auto own = [weights, layer, head] { return as_float64(weights.W_O(layer).select(0, *head)); };
  FeaturesWritten made{
      WrittenFeatures(*number, run, {.label = label, .matrix = head ? std::function(own) : all}).parts(),
      true};
  if (head) {
    at::Tensor others = run(*inside).clone();
    others.select(2, *head).zero_();
    made.parts.push_back({.labels = {write.label("other heads")},
                          .places = {std::nullopt},
                          .values = [x = others.flatten(2).unsqueeze(2)] { return x; },
                          .matrix = [all] { return all().unsqueeze(0); }});
  }
  const at::Tensor bias = write.of_heads() ? weights.b_O(layer) : weights.b_out(layer);
  made.parts.push_back(constant_part(write.label("bias"), as_float64(bias), run));
  return made;
}

at::Tensor gone_on(const ActivationName& name, const RunReading& run) {
  const auto number = dictionary_at(run.model, name);
  const at::Tensor x = run(name);
  if (!number) return x;
  const MountedDictionary& mounted = mounted_in(run.model)[*number];
  const Address output(mounted.inside(Site::sae_output));
  if (!run.cache.contains(output.name())) return x;
  if (!mounted.head) return run(output).view(x.sizes());
  const at::Tensor changed = x.clone();
  changed.select(2, *mounted.head).copy_(run(output));
  return changed;
}

}  // namespace hooked
