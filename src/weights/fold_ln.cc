#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sum.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "hooked/core/tensor_text.h"
#include "weights/steps.h"

namespace hooked::weights {
namespace {

// Note [Folding norms]
// A norm's output is n ⊙ w + β, with n the normalised stream, so a reader computes (n ⊙ w + β) W + b = n (w ⊙
// W) + (b + β W): the gain scales W's input axis and the bias moves into b, which is created if the reader
// had none. A LayerNorm's n has mean zero, so W may lose its mean over the input axis as well; then W reads
// only directions that n can have. An RMSNorm's n has a mean, and its readers keep theirs. ln1_post,
// ln2_post, the norms after experts and a shared expert, and those of q and k, of latents, of the embedding
// and of the masked-LM head stay: they are not read by a linear map alone (or their input axis is not the
// reader's, or the reader is tied).
//
// Note [Gated MLP with its bias after the product]
// TransformerLens's native files have (act(x W_gate) ⊙ (x W_in) + b_in) W_out + b_out. β W_in belongs inside
// the up branch, where b_in is not. W_out reads the sum directly (a gated MLP has no norm over its neurons),
// so b_in W_out is a constant that b_out can take; then b_in and b_gate are free to be inside.

bool has_bias(NormKind kind, const ModelConfig& config) {
  return kind == NormKind::layer_norm && config.norm_bias;
}

/// A norm that folds: its place and kind, and the factor on its output before it is read.
struct FoldedNorm {
  std::string place;
  NormKind kind;
  double output_scale = 1.0;
};

/// The weights of a norm in float64.
struct NormValues {
  at::Tensor gain;   ///< [d_model] or [d_mlp]
  at::Tensor shift;  ///< the same; undefined without
};

/// The norm before the input of a weight, or nothing if there is none or it stays.
std::optional<FoldedNorm> norm_before(const WeightRow& row, const WeightPart& part,
                                      const ModelConfig& config) {
  const bool decoder = config.has_encoder() && part && part->stack == Stack::decoder;
  const auto final_norm = [&](double scale) -> std::optional<FoldedNorm> {
    if (config.final_norm == NormKind::none) return std::nullopt;
    return FoldedNorm{std::string(final_norm_path(config.main_stack())), config.final_norm, scale};
  };
  const auto norm_before_mlp = [&]() -> std::optional<FoldedNorm> {
    if (!part || !config.norms_inputs(part->layer)) return std::nullopt;
    if (decoder) return FoldedNorm{"ln3", config.norm};
    return FoldedNorm{config.layout == BlockLayout::parallel_one_norm ? "ln1" : "ln2", config.norm};
  };
  switch (row.reads) {
    case WeightInput::nothing:
      return std::nullopt;
    case WeightInput::attention_input:
      if (!part || !config.reads_through_ln1(part->layer)) return std::nullopt;
      return FoldedNorm{"ln1", config.norm};
    case WeightInput::cross_input:
      return FoldedNorm{"ln2", config.norm};
    case WeightInput::router_input:
      if (config.experts->own_norms) return FoldedNorm{"mlp.router_ln", config.norm};
      return norm_before_mlp();
    case WeightInput::expert_input:
      if (config.experts->own_norms) return FoldedNorm{"mlp.experts_ln", config.norm};
      return norm_before_mlp();
    case WeightInput::mlp_input:
      return norm_before_mlp();
    case WeightInput::neurons:
      if (!config.mlp_norm) return std::nullopt;
      return FoldedNorm{"mlp.ln", NormKind::layer_norm};
    case WeightInput::encoder_output:
      return FoldedNorm{std::string(final_norm_path(Stack::encoder)), config.norm};
    case WeightInput::final_stream:
      return final_norm(1.0);
    case WeightInput::unembed_input:
      if (config.has_mlm_head()) return std::nullopt;
      return final_norm(config.unembedding->in_scale);
  }
  return std::nullopt;
}

/// The bias that belongs to a matrix: `attn.b_Q` for `attn.W_Q`, `mlp.W_gate.bias` for `mlp.W_gate.weight`.
std::string bias_of(std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  if (weight.ends_with(kWeight))
    return std::string(weight.substr(0, weight.size() - kWeight.size())) + ".bias";
  std::string bias(weight);
  bias[bias.rfind('.') + 1] = 'b';
  return bias;
}

/// The factor of a norm, from its weight as stored.
at::Tensor gain_of(const at::Tensor& stored, const std::string& place, const ModelConfig& before) {
  const bool offset = before.norm_offset && find_weight_row(place + ".w")->kind == WeightKind::gain;
  return offset ? stored + 1.0 : stored;
}

NormValues read_norm(WorkingWeights& weights, const FoldedNorm& norm, const ModelConfig& before) {
  NormValues read{.gain = gain_of(weights.get(norm.place + ".w"), norm.place, before), .shift = {}};
  if (has_bias(norm.kind, before)) read.shift = weights.get(norm.place + ".b") * norm.output_scale;
  return read;
}

/// The axis of a matrix that the norm before it runs along.
Axis input_of(const WeightRow& row) {
  return row.reads == WeightInput::neurons ? Axis::d_mlp : Axis::d_model;
}

/// Folds a norm's weights into the matrix `name` that reads it, and into that matrix's bias, which exists.
void fold_into(const WeightRow& row, const std::string& name, const NormValues& norm, bool centers,
               WorkingWeights& weights) {
  const Axis input = input_of(row);
  if (norm.shift.defined()) {
    const std::string bias = bias_of(name);
    weights.set(bias, weights.get(bias) + weights.now(name).weighted_sum({input}, norm.shift));
  }
  weights.changing(name).scale(input, norm.gain);
  if (centers) weights.changing(name).center(input);
}

bool mlp_biases_appear(const ModelConfig& before) {
  return before.some_dense_mlp() && !before.mlp_bias &&
         (has_bias(before.norm, before) || (before.mlp_norm && before.norm_bias));
}

/// Whether b_in moves before the product. See Note [Gated MLP with its bias after the product].
bool moves_bias_inside(const ModelConfig& before) {
  return before.mlp == MlpKind::gated && before.gated_bias_after_product && has_bias(before.norm, before) &&
         before.mlp_bias;
}

void move_bias_inside(WorkingWeights& block) {
  const at::Tensor out = block.now("mlp.W_out").weighted_sum({Axis::d_mlp}, block.get("mlp.b_in"));
  block.set("mlp.b_out", block.get("mlp.b_out") + out);
  block.set("mlp.b_in", block.zeros("mlp.b_in"));
}

void update(ModelConfig& config);

void fold_part(WorkingWeights& part, const ModelConfig& before) {
  ModelConfig after = before;
  update(after);
  const WeightPart& place = part.part();
  if (place && moves_bias_inside(before)) move_bias_inside(part);
  if (!place && before.tied_unembedding() && !after.tied_unembedding()) untie(part, before);
  // New biases, and those that files may lack, start as zeros.
  for_each_weight(after, place, [&](const WeightRow& row, const std::string& name) {
    const bool may_be_absent = row.optional() || !row.there(before, place);
    if (row.is_bias() && may_be_absent && !part.has(name)) part.set(name, part.zeros(name));
  });
  std::map<std::string, NormValues> norms;  // by place
  for_each_weight(after, place, [&](const WeightRow& row, const std::string& name) {
    const auto norm = norm_before(row, place, before);
    if (!norm) return;
    NormValues& read = norms[norm->place];
    if (!read.gain.defined()) read = read_norm(part, *norm, before);
    fold_into(row, name, read, norm->kind == NormKind::layer_norm, part);
  });
  // The weights of the norms, which no processed model has.
  for_each_weight(before, place, [&](const WeightRow& row, const std::string& name) {
    if (!row.there(after, place)) part.erase(name);
  });
}

std::optional<Obstacle> obstacle(const ModelConfig& config) {
  using enum Obstacle::Kind;
  if (config.norm == NormKind::none) return Obstacle{nothing_to_do, "the model has no norms"};
  if (config.norm_folded) return Obstacle{nothing_to_do, "the norms have no weights to fold"};
  if (config.norm_place == NormPlace::post) {
    return Obstacle{would_change,
                    "norms after the sublayers write to the stream itself, so no weight can absorb them"};
  }
  if (config.norm_place == NormPlace::stream) {
    return Obstacle{would_change, "the stream itself is normed, so no weight can absorb the norms"};
  }
  if (config.norm_place == NormPlace::output && config.pre_norm_layers.empty()) {
    return Obstacle{would_change,
                    "norms on the sublayers' outputs write to the stream, so no weight can absorb them"};
  }
  if (!config.has_unembedding() && config.final_norm != NormKind::none) {
    return Obstacle{would_change,
                    "the model ends with its final norm, so no weight reads it and can absorb it"};
  }
  if (config.delta_net && has_bias(config.norm, config)) {
    return Obstacle{would_change, "gated delta nets have no biases that could take those of the norms"};
  }
  if (config.experts && config.experts->weighted_inputs && has_bias(config.norm, config)) {
    return Obstacle{would_change,
                    "experts read the norms' biases times the weights of their tokens, which no bias of "
                    "theirs knows"};
  }
  if (config.shortformer()) {
    return Obstacle{would_change,
                    "shortformer positions are added between ln1 and the weights that would absorb it"};
  }
  return std::nullopt;
}

/// Whether some norm has a weight that may be stored as an offset.
bool has_gains(const ModelConfig& config) {
  return std::ranges::any_of(weight_parts(config), [&](const WeightPart& part) {
    return std::ranges::any_of(weight_table(), [&](const WeightRow& row) {
      return row.kind == WeightKind::gain && row.in_block() == part.has_value() && row.there(config, part);
    });
  });
}

/// The largest and the smallest factor that is not zero.
struct Extremes {
  std::int64_t largest, smallest;  ///< where they are
  double most, least;              ///< how large
};

Extremes extremes_of(const at::Tensor& gain) {
  const at::Tensor sizes = gain.abs();
  const at::Tensor counted = sizes.masked_fill(sizes == 0, std::numeric_limits<double>::infinity());
  const auto largest = sizes.argmax().item<std::int64_t>(), smallest = counted.argmin().item<std::int64_t>();
  return {largest, smallest, sizes[largest].item<double>(), counted[smallest].item<double>()};
}

/// Why a norm's own numbers forbid folding it.
std::optional<std::string> norm_risk(const StoredNumbers& numbers, const WeightPart& part,
                                     const std::string& name) {
  const std::string full = numbers.name_of(part, name);
  const auto weight = numbers.find(part, name);
  if (!weight) return std::nullopt;
  const at::Tensor values = weight->values();
  if (const std::string where = not_finite(values); !where.empty())
    return fmt::format("{} holds {}", full, where);
  if (find_weight_row(name)->kind != WeightKind::shift) return std::nullopt;
  const at::Tensor gain = numbers.values(part, name.substr(0, name.rfind('.')) + ".w");
  const double shift = values.abs().max().item<double>(), spread = gain.abs().max().item<double>();
  const at::ScalarType kept = numbers.kept_dtype(weight->stored_dtype());
  if (shift <= std::max(1.0, spread) * largest_shift(kept)) return std::nullopt;
  return fmt::format("{} reaches {:.2g}, next to which {} loses what the norm multiplies by at most {:.2g}",
                     full, shift, dtype_text(kept), spread);
}

/// What the readers of one norm have to absorb.
struct Gain {
  at::Tensor values;
  Extremes extremes;
};

/// Why a matrix cannot absorb the gain of the norm before it: its dtype cannot represent such numbers, or has
/// too few digits for them.
std::optional<std::string> reader_risk(const StoredNumbers& numbers, const WeightPart& part,
                                       const std::string& name, const Gain& norm) {
  const auto& [gain, extremes] = norm;
  const bool moderate = extremes.most < 0x1p20 && extremes.least > 0x1p-20;
  // Only float16 is too narrow for moderate factors. Large mixtures have thousands of matrices to look up.
  if (moderate && numbers.kept_dtype(at::kHalf) != at::kHalf) return std::nullopt;
  const WeightRow& row = *find_weight_row(name);
  const auto weight = numbers.find(part, name);
  if (!weight || (moderate && numbers.kept_dtype(weight->stored_dtype()) != at::kHalf)) return std::nullopt;
  const Axis input = input_of(row);
  const Sample sample = *numbers.sample(part, name, input, {extremes.largest, extremes.smallest});
  const std::int64_t dimension = *row.axes.find(input);
  std::vector<std::int64_t> sizes(row.axes.size(), 1);
  sizes[static_cast<std::size_t>(dimension)] = -1;
  const at::Tensor factors = sample.dimension == dimension ? gain.index_select(0, sample.places) : gain;
  const at::Tensor exact = sample.values * factors.reshape(sizes);
  const at::ScalarType kept = numbers.kept_dtype(weight->stored_dtype());
  const at::Tensor rounded = exact.to(kept).to(at::kDouble);
  const bool overflows = (sample.values.isfinite() & rounded.isfinite().logical_not()).any().item<bool>();
  const at::Tensor lost = (rounded - exact).abs().sum(), size = exact.abs().sum();
  const bool vanishes = (lost > size * 2 * epsilon_of(kept)).item<bool>();
  if (!overflows && !vanishes) return std::nullopt;
  return fmt::format("the norm's weights, from {:.2g} to {:.2g}, would take {} out of the range of {}",
                     extremes.least, extremes.most, numbers.name_of(part, name), dtype_text(kept));
}

std::optional<std::string> risk(const StoredNumbers& numbers, const WeightPart& part,
                                const ModelConfig& before) {
  ModelConfig after = before;
  update(after);
  std::optional<std::string> found;
  for_each_weight(before, part, [&](const WeightRow& row, const std::string& name) {
    const bool folds = !row.there(after, part);
    if (!found && folds) found = norm_risk(numbers, part, name);
  });
  std::map<std::string, Gain> gains;  // by the norm's place
  for_each_weight(after, part, [&](const WeightRow& row, const std::string& name) {
    if (found) return;
    const auto norm = norm_before(row, part, before);
    if (!norm) return;
    auto gain = gains.find(norm->place);
    if (gain == gains.end()) {
      const at::Tensor values = gain_of(numbers.values(part, norm->place + ".w"), norm->place, before);
      gain = gains.emplace(norm->place, Gain{values, extremes_of(values)}).first;
    }
    found = reader_risk(numbers, part, name, gain->second);
  });
  return found;
}

void update(ModelConfig& config) {
  const ModelConfig before = config;
  if (has_bias(before.norm, before)) config.qkv_bias = true;
  if (mlp_biases_appear(before)) config.mlp_bias = true;
  if (before.short_conv && has_bias(before.norm, before)) config.short_conv->bias = true;
  if (before.experts && has_bias(before.norm, before)) {
    config.experts->router_bias = config.experts->bias = true;
    config.experts->shared_gate_bias = before.experts->shared_gate;
  }
  if (before.mlp == MlpKind::gated && before.gated_bias_after_product && has_bias(before.norm, before)) {
    config.gated_bias_after_product = false;
  }
  if (before.unembedding && !before.unembedding->mlm_head) {
    if (has_bias(before.final_norm, before)) config.unembedding->bias = true;
    if (before.final_norm != NormKind::none) config.unembedding->tied = false;
  }
  config.norm_folded = true;
  // Norms that stay keep their stored form; if none stays, nothing is stored as an offset any more.
  config.norm_offset = before.norm_offset && has_gains(config);
}

}  // namespace

StepDefinition fold_ln_step() {
  return {.step = ProcessingStep::fold_ln,
          .obstacle = obstacle,
          .risk = risk,
          .apply = fold_part,
          .update = update};
}

}  // namespace hooked::weights
