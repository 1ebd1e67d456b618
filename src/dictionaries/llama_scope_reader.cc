// Llama Scope (hyperparams.json) and its library's later format, Llamascopium (config.json with sae_type).
// Both train on inputs of a mean norm of sqrt(d): that factor is folded into the weights, so that codes are
// those of training.
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dictionaries/config_file.h"
#include "dictionaries/formats.h"
#include "dictionaries/site_names.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/checkpoint/model_files.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

constexpr const char* kHyperparams = "hyperparams.json";
constexpr const char* kFinal = "checkpoints/final.safetensors";
constexpr const char* kScopiumConfig = "config.json";
constexpr std::array kScopiumWeights = {kSaeLensWeights, "checkpoints/pruned.safetensors", kFinal};

/// What inputs are multiplied by, and outputs divided by.
struct Scales {
  double in = 1.0, out = 1.0;
};

double scale_of(double mean_norm, std::int64_t width, const std::string& where) {
  if (std::isfinite(mean_norm) && mean_norm > 0) return std::sqrt(static_cast<double>(width)) / mean_norm;
  throw ConfigError(
      where,
      fmt::format("the mean norm of activations is none; expected a positive number, got {}", mean_norm));
}

void fold(const Scales& scales, DictionaryPlan& plan) {
  if (scales.in == 1.0 && scales.out == 1.0) return;
  auto& weights = plan.weights;
  weights.at("W_enc") = times(weights.at("W_enc"), scales.in);
  weights.at("W_dec") = times(weights.at("W_dec"), 1 / scales.out);
  weights.at("b_dec") = times(weights.at("b_dec"), 1 / scales.out);
  if (weights.contains("W_skip")) weights.at("W_skip") = times(weights.at("W_skip"), scales.in / scales.out);
  plan.config.notes.push_back(
      fmt::format("trained on inputs times sqrt(d) / their mean norm = {:.6g}: that is folded into "
                  "W_enc, W_dec and b_dec; b_enc and codes are those of training",
                  scales.in));
}

/// Norms of decoder rows that pre-activations are multiplied by while the activation decides.
void include_decoder_norms(bool include, DictionaryPlan& plan) {
  if (!include) return;
  DictionaryConfig& config = plan.config;
  if (config.activation == CodeActivation::top_k) config.decoder_norms = DecoderNorms::chosen;
  if (config.activation != CodeActivation::jump_relu) return;
  // h · n > threshold where h > threshold / n; n is that of the stored decoder, before anything is folded
  StoredWeight& threshold = plan.weights.at("threshold");
  const auto shape = threshold.shape;
  threshold =
      changed(std::move(threshold), shape, [W_dec = plan.weights.at("W_dec").read](const at::Tensor& x) {
        const at::Tensor n = at::linalg_vector_norm(W_dec().to(at::kDouble).flatten(1), 2, {1});
        return x.to(at::kDouble) / n;
      });
  config.notes.emplace_back(
      "thresholds were compared with pre-activation times decoder norm: they are divided by the norm");
}

void take_activation(const ConfigReader& reader, std::string_view word, DictionaryConfig& config) {
  if (word == "relu") return;
  if (word == "jumprelu") {
    config.activation = CodeActivation::jump_relu;
    return;
  }
  if (word == "topk") {
    config.activation = CodeActivation::top_k;
    config.rectified = false;
    config.k = reader.count("top_k", kMostInConfig);
    return;
  }
  reader.refuse(
      "act_fn",
      "is no activation that is read: expected relu, jumprelu or topk; with the others a token's codes "
      "depend on the other tokens or layers of a batch: convert it to jumprelu with Llamascopium");
}

void take_points(const std::string& in, const std::string& out, DictionaryConfig& config) {
  config.input = in;
  config.output = out.empty() ? in : out;
  config.transcodes = config.input != config.output;
  config.layer = layer_of_site(config.input);
  config.flattens_heads = config.input.ends_with("hook_z") && !config.transcodes;
}

std::filesystem::path scopium_weights(const std::filesystem::path& folder) {
  for (const char* name : kScopiumWeights) {
    if (is_there(folder / name)) return folder / name;
  }
  throw CheckpointError(path_text(folder),
                        fmt::format("the folder has no weights that are read; expected {}, or {} or {}; "
                                    "save them as safetensors",
                                    kScopiumWeights[0], kScopiumWeights[1], kScopiumWeights[2]));
}

/// What a point's activations were multiplied by; 1 if the file does not normalise by the data set.
double dataset_scale(const ConfigReader& reader, WeightFile& weights, const std::string& point,
                     std::int64_t width) {
  const std::string norm = reader.text_or("norm_activation", "dataset-wise");
  const std::string name = fmt::format("dataset_average_activation_norm.{}", point);
  const bool stored = weights.has(name);
  weights.ignore(name);
  if (norm != "dataset-wise") return 1.0;
  if (!stored) {
    const auto norms = reader.object_if("dataset_average_activation_norm");
    if (norms && norms->has(point))
      return scale_of(norms->number(point), width, reader.where("dataset_average_activation_norm"));
    throw CheckpointError(
        path_text(weights.path()),
        fmt::format("norm_activation is dataset-wise, but the mean norm is missing; expected the tensor "
                    "'{}', got none",
                    name));
  }
  const StoredWeight mean = weights.take(name);
  if (!mean.shape.empty())
    throw CheckpointError(
        mean.where, fmt::format("a mean norm is a number; expected [], got {}", shape_text(mean.shape)));
  return scale_of(mean.read().to(at::kDouble).item<double>(), width, mean.where);
}

void take_scopium_norm(const ConfigReader& reader, DictionaryConfig& config) {
  const std::string norm = reader.text_or("norm_activation", "dataset-wise");
  if (norm == "inference" || norm == "dataset-wise") return;
  if (norm == "token-wise" && !config.transcodes) {
    config.input_norm = InputNorm::constant_norm;
    return;
  }
  reader.refuse("norm_activation", norm == "batch-wise"
                                       ? "makes codes depend on the other tokens of a batch; expected "
                                         "token-wise, dataset-wise or inference"
                                       : "cannot be undone here; expected dataset-wise or inference, or "
                                         "token-wise of a sparse autoencoder");
}

// Encoder, decoder and biases under the names of either version of the library.
void take_autoencoder(const ConfigReader& reader, WeightFile& weights, DictionaryPlan& plan) {
  const bool old = weights.has("encoder.weight");
  plan.weights.emplace("W_enc", old ? transposed(weights.take("encoder.weight")) : weights.take("W_E"));
  plan.weights.emplace("W_dec", old ? transposed(weights.take("decoder.weight")) : weights.take("W_D"));
  plan.weights.emplace("b_enc", weights.take(old ? "encoder.bias" : "b_E"));
  take_sizes_from_weights(plan);
  if (reader.boolean_or("use_decoder_bias", true)) {
    plan.weights.emplace("b_dec", weights.take(old ? "decoder.bias" : "b_D"));
  } else {
    plan.weights.emplace("b_dec", filled({plan.config.d_out}, 0.0, plan.weights.at("W_dec").dtype));
  }
}

StoredWeight threshold_of(WeightFile& weights) {
  StoredWeight log =
      weights.take_any({"activation_function.log_jumprelu_threshold", "log_jumprelu_threshold"});
  const auto shape = log.shape;
  return changed(std::move(log), shape, [](const at::Tensor& x) { return x.to(at::kDouble).exp(); });
}

void refuse_glu(const ConfigReader& reader, const WeightFile& weights) {
  if (reader.boolean_or("use_glu_encoder", false) || weights.has("W_E_glu"))
    reader.refuse("use_glu_encoder",
                  "is not read: its pre-activations are products of two encoders; expected a plain encoder");
}

/// One for each layer: features of a layer write to it and all layers after it. The decoder is stored by the
/// layer that is written to, and is gathered by the layer that writes.
DictionaryPlans plan_cross_layer(const ConfigReader& reader, WeightFile& weights) {
  const auto ins = reader.texts("hook_points_in");
  const auto outs = reader.texts("hook_points_out");
  const auto layers = static_cast<std::int64_t>(ins.size());
  if (ins.empty() || ins.size() != outs.size())
    reader.refuse("hook_points_in", "does not fit hook_points_out; expected as many points, at least one");
  DictionaryPlans plans;
  std::vector<Scales> scales;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t width = reader.count("d_model", kMostInConfig);
    scales.push_back(
        {dataset_scale(reader, weights, ins[at], width), dataset_scale(reader, weights, outs[at], width)});
  }
  const std::string activation = reader.text_or("act_fn", "relu");
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    DictionaryPlan plan;
    DictionaryConfig& config = plan.config;
    config.format = "Llamascopium";
    take_activation(reader, activation, config);
    take_points(ins[at], outs[at], config);
    config.transcodes = config.crosses_layers = true;
    config.flattens_heads = false;
    config.layer = i;
    take_scopium_norm(reader, config);
    plan.weights.emplace("W_enc", times(weights.take_row("W_E", i), scales[at].in));
    plan.weights.emplace("b_enc", weights.take_row("b_E", i));
    std::vector<StoredWeight> rows;
    for (std::int64_t target = i; target < layers; ++target) {
      rows.push_back(times(weights.take_row(fmt::format("W_D.{}", target), i),
                           1 / scales[static_cast<std::size_t>(target)].out));
      if (rows.back().shape.size() == 2 && rows.back().shape == rows.front().shape) continue;
      throw CheckpointError(rows.back().where,
                            fmt::format("the decoder is not of the form of the others; expected {} for "
                                        "each source layer, got {}",
                                        shape_text(rows.front().shape), shape_text(rows.back().shape)));
    }
    StoredWeight W_dec = rows.front();
    const std::vector<std::int64_t> shape = {W_dec.shape[0], layers - i, W_dec.shape[1]};
    plan.weights.emplace("W_dec", changed(std::move(W_dec), shape, [rows](const at::Tensor&) {
                           std::vector<at::Tensor> read;
                           for (const StoredWeight& row : rows) read.push_back(row.read());
                           return at::stack(read, 1);
                         }));
    plan.weights.emplace("b_dec", times(weights.take(fmt::format("b_D.{}", i)), 1 / scales[at].out));
    take_sizes_from_weights(plan);
    if (config.activation == CodeActivation::jump_relu) {
      const StoredWeight all = threshold_of(weights);
      StoredWeight own = all.shape.size() == 2 ? changed(all, {config.features},
                                                         [i](const at::Tensor& x) { return x.select(0, i); })
                                               : all;
      plan.weights.emplace("threshold", std::move(own));
    }
    include_decoder_norms(reader.boolean_or("sparsity_include_decoder_norm", true), plan);
    plans.members.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace

bool is_llama_scope(const std::filesystem::path& path) {
  return is_there(path / kHyperparams) && is_there(path / kFinal);
}

DictionaryPlans plan_llama_scope(const std::filesystem::path& path) {
  const std::filesystem::path file = path / kHyperparams;
  const ConfigReader reader = reader_of(read_json_object(file), file);
  DictionaryPlan plan;
  DictionaryConfig& config = plan.config;
  config.format = "Llama Scope";
  take_activation(reader, reader.text_or("act_fn", "jumprelu"), config);
  take_points(reader.text("hook_point_in"), reader.text_or("hook_point_out", ""), config);
  config.model_name = "meta-llama/Llama-3.1-8B";
  config.subtracts_decoder_bias = reader.boolean_or("apply_decoder_bias_to_pre_encoder", false);
  WeightFile weights(path / kFinal);
  refuse_glu(reader, weights);
  take_autoencoder(reader, weights, plan);
  if (config.d_in != reader.count("d_model", kMostInConfig)) {
    reader.refuse("d_model", fmt::format("does not fit the weights; expected {}", config.d_in));
  }
  const ConfigReader norms = reader.object("dataset_average_activation_norm");
  const double in = scale_of(norms.number("in"), config.d_in, norms.where("in"));
  const double out = norms.has("out") ? scale_of(norms.number("out"), config.d_out, norms.where("out")) : in;
  if (config.activation == CodeActivation::jump_relu) {
    plan.weights.emplace("threshold",
                         filled({config.features}, reader.number("jump_relu_threshold") * in, at::kFloat));
    config.notes.emplace_back(
        "one threshold for all features: jump_relu_threshold · sqrt(d) / mean norm of the input");
  }
  include_decoder_norms(reader.boolean_or("sparsity_include_decoder_norm", false), plan);
  fold({in, out}, plan);
  config.metadata = R"({"prepend_bos":true})";
  plan.add_file(weights);
  plan.files.push_back(file);
  return {.members = {std::move(plan)}};
}

bool is_llamascopium(const std::filesystem::path& path) {
  const std::filesystem::path file = path / kScopiumConfig;
  if (!is_there(file) || is_there(path / kHyperparams)) return false;
  try {
    return read_json_object(file).contains("sae_type");
  } catch (const Error&) {
    return false;
  }
}

DictionaryPlans plan_llamascopium(const std::filesystem::path& path) {
  const std::filesystem::path file = path / kScopiumConfig;
  const ConfigReader reader = reader_of(read_json_object(file), file);
  const std::string type = reader.text("sae_type");
  if (type != "sae" && type != "clt" && type != "transcoder") {
    reader.refuse(
        "sae_type",
        type == "crosscoder"
            ? "is not read: a crosscoder reads several activations at once; expected sae, transcoder or clt"
            : "is not read; expected sae, transcoder or clt");
  }
  WeightFile weights(scopium_weights(path));
  refuse_glu(reader, weights);
  DictionaryPlans plans;
  if (type == "clt") {
    plans = plan_cross_layer(reader, weights);
  } else {
    DictionaryPlan plan;
    DictionaryConfig& config = plan.config;
    config.format = "Llamascopium";
    take_activation(reader, reader.text_or("act_fn", "relu"), config);
    const std::string in = reader.text("hook_point_in");
    const std::string out = reader.text_or("hook_point_out", in);
    take_points(in, out, config);
    take_scopium_norm(reader, config);
    take_autoencoder(reader, weights, plan);
    if (config.activation == CodeActivation::jump_relu)
      plan.weights.emplace("threshold", threshold_of(weights));
    include_decoder_norms(reader.boolean_or("sparsity_include_decoder_norm", true), plan);
    fold({dataset_scale(reader, weights, in, config.d_in), dataset_scale(reader, weights, out, config.d_out)},
         plan);
    plans.members.push_back(std::move(plan));
  }
  DictionaryPlan& first = plans.members.front();
  first.add_file(weights);
  first.files.push_back(file);
  return plans;
}

}  // namespace hooked
