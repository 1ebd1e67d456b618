#pragma once

#include <span>
#include <string_view>

#include "hooked/engine/hooked_transformer.h"
#include "tests/support/goldens.h"

/// Work that is done on the CPU and on the strict device, and must give the same results.
namespace hooked::device_tests {

/// One model, on the CPU or on the device, and what a golden run read.
struct Subject {
  const HookedTransformer& model;
  const GoldenRun& golden;
  bool eager = false;  ///< generations are computed kernel by kernel

  const ModelConfig& config() const { return model.config(); }
  bool causal() const { return config().direction != AttentionDirection::bidirectional; }
  /// Whether the same tokens can be read again without an encoder: one stack.
  bool one_stack() const { return !config().has_encoder(); }
  bool predicts() const { return config().has_unembedding(); }
  /// The first layer that has attention.
  std::int32_t attending() const {
    std::int32_t layer = 0;
    while (!config().attends(layer)) ++layer;
    return layer;
  }

  /// The device of the model.
  DeviceNames devices() const;
  /// A tensor on the model's device.
  at::Tensor there(const at::Tensor& x) const { return x.defined() ? x.to(model.device()) : x; }
  /// Numbers in the model's dtype that depend only on the seed, on the model's device.
  at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) const;

  /// The golden run's input, on the host.
  Input input() const;
  /// The same on the model's device.
  Input input_there() const;
  /// A run's options: without an unembedding the output is the stream.
  RunOptions options(RunOptions some = {}) const;
};

/// All default points except those of single experts: for the number of tokens of each expert, runs wait.
Selection defaults_without_experts();

/// A run's output and everything that it kept, by name.
NamedTensors all_of(const RunResult& result);

/// One check.
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
std::span<const Check> dictionary_checks();

}  // namespace hooked::device_tests
