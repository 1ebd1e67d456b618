#pragma once

#include <span>
#include <string_view>

#include "hooked/engine/hooked_transformer.h"
#include "tests/support/goldens.h"

/// What is done on the CPU and on the strict device, and must come to the same.
namespace hooked::device_tests {

/// One model, on the CPU or on the device, and what a golden run read.
struct Subject {
  const HookedTransformer& model;
  const GoldenRun& golden;
  bool eager = false;  ///< generations are computed kernel by kernel

  const ModelConfig& config() const { return model.config(); }
  bool causal() const { return config().direction != AttentionDirection::bidirectional; }
  /// Whether the same tokens can be read again without an encoder's: one stack.
  bool one_stack() const { return !config().has_encoder(); }
  bool predicts() const { return config().has_unembedding(); }
  /// The first layer that has attention.
  std::int32_t attending() const {
    std::int32_t layer = 0;
    while (!config().attends(layer)) ++layer;
    return layer;
  }

  /// Where the model is.
  DeviceNames devices() const;
  /// A tensor where the model is.
  at::Tensor there(const at::Tensor& x) const { return x.defined() ? x.to(model.device()) : x; }
  /// Numbers of the model's dtype that depend on the seed alone, where the model is.
  at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) const;

  /// What the golden run read, given on the host.
  Input input() const;
  /// The same on the model's device.
  Input input_there() const;
  /// A run's options: of a model without unembedding the output is the stream.
  RunOptions options(RunOptions some = {}) const;
};

/// All default points but those of single experts, which tell how many tokens each got: for that runs wait.
Selection defaults_without_experts();

/// A run's output and all that it kept, by name.
NamedTensors all_of(const RunResult& result);

/// One thing that is done.
struct Check {
  std::string_view name;
  bool (*applies)(const Subject& subject);
  NamedTensors (*values)(const Subject& subject);
};

inline bool always(const Subject& /*subject*/) { return true; }

std::span<const Check> run_checks();
std::span<const Check> edit_checks();
std::span<const Check> gradient_checks();
std::span<const Check> generation_checks();
std::span<const Check> model_checks();
std::span<const Check> analysis_checks();
std::span<const Check> reading_checks();

}  // namespace hooked::device_tests
