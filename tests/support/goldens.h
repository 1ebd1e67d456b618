#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/state_dict.h"
#include "tests/support/compare.h"

namespace hooked {

/// The logit difference whose gradients an oracle recorded.
struct GoldenMetric {
  std::int64_t answer;
  std::int64_t against;
  std::int64_t row;
  std::int64_t position;
};

/// One row of tests/golden/index.json: a model folder and what an outside oracle computed with it.
struct GoldenCase {
  std::string name;
  std::string family;                                  ///< the model_type by which the folder is read
  std::string oracle;                                  ///< `transformers 5.23.0`
  std::optional<std::vector<std::string>> processing;  ///< the steps that made golden_processed.safetensors
  std::optional<GoldenMetric> gradients;
  std::map<std::string, std::string> exceptions;  ///< points that were not recorded, by glob, with the reason

  std::filesystem::path folder() const;
  /// Whether the folder is in the native format, not a family's.
  bool native() const { return family == "hooked_transformer"; }
};

/// Every golden case, in the order of the index.
const std::vector<GoldenCase>& golden_cases();

/// The token that a case's padding, and no real token, must be: transformers counts positions by it, whatever
/// the mask says. None for families whose positions it counts differently.
std::optional<std::int64_t> padding_token(const GoldenCase& golden);

/// `made` of the same shape as `recorded`, with the padding token of such a case where `recorded` has it, and
/// nowhere else. Undefined stays undefined.
at::Tensor with_padding_of(const GoldenCase& golden, const at::Tensor& recorded, const at::Tensor& made);

/// The case of this name; throws std::out_of_range if it does not exist.
const GoldenCase& golden_case(const std::string& name);

/// What an oracle recorded, read from one of a case's files.
struct GoldenRun {
  at::Tensor tokens;          ///< [batch, pos] int64
  at::Tensor attention_mask;  ///< [batch, pos], undefined where nothing is padding
  at::Tensor token_types;     ///< [batch, pos] int64, or undefined
  at::Tensor decoder_tokens;  ///< [batch, pos] int64 of encoder-decoders, read by `logits` and `greedy`
  at::Tensor greedy;          ///< [1, pos] row 0 and its greedy continuation, or undefined
  /// Activations and `logits`, float64; no logits for a model without unembedding, whose output may be stored
  /// as `residual`.
  RecordedTensors outputs;

  bool has_logits() const { return outputs.contains("logits"); }
};

/// Reads `golden`, `golden_processed` or `gradients` of a case; the inputs are always those of `golden`.
GoldenRun read_golden(const GoldenCase& golden, const std::string& file = "golden");

/// Without the points that goldens do not hold: no module of transformers returns `mlp.hook_in` in every
/// family. The plain model of tests/reference and the engine are compared there on configs of their own.
inline NamedTensors held_in_goldens(NamedTensors points) {
  std::erase_if(points, [](const auto& point) { return point.first.ends_with(".mlp.hook_in"); });
  return points;
}

/// Every tensor of a safetensors file.
NamedTensors read_tensors(const std::filesystem::path& path);

/// The config of a native case.
ModelConfig native_config(const GoldenCase& golden);

/// The weights of a native case, in their stored dtype.
StateDict native_weights(const GoldenCase& golden);

/// For gtest: case names as test names.
std::string golden_test_name(const testing::TestParamInfo<GoldenCase>& info);
void PrintTo(const GoldenCase& golden, std::ostream* out);

}  // namespace hooked
