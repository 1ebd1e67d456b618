#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hooked {

/// One row of tests/golden/families/index.json: a checkpoint as transformers saves it, and what it computes.
struct FamilyGolden {
  std::string name;
  std::string model_type;
  std::string oracle;                 ///< `transformers 5.23.0`
  std::vector<std::string> compared;  ///< kinds of points: `hook_z`, `logits`, `greedy`

  std::filesystem::path folder() const;
};

/// Every golden checkpoint, by name.
const std::vector<FamilyGolden>& family_goldens();

struct FamilyRun {
  at::Tensor tokens;          ///< [batch, pos] int64
  at::Tensor token_types;     ///< [batch, pos] int64; undefined: all 0
  at::Tensor attention_mask;  ///< [batch, pos]; undefined: every token is real
  at::Tensor decoder_tokens;  ///< [batch, pos] int64 of encoder-decoders, which `logits` and `greedy` are of
  at::Tensor logits;          ///< [batch, pos, vocab] float64; undefined for a model without unembedding
  at::Tensor greedy;          ///< [1, pos] row 0 and its greedy continuation; may be undefined
  std::map<std::string, at::Tensor> activations;  ///< float64, by name
};

FamilyRun read_family_golden(const FamilyGolden& golden);

void PrintTo(const FamilyGolden& golden, std::ostream* out);

}  // namespace hooked
