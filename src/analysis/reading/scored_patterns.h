#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "hooked/analysis/heads.h"

namespace hooked {

/// Some neighbouring queries.
struct QueryRange {
  std::int64_t begin, end;

  /// Their positions, int64 [query, 1].
  at::Tensor places() const;
};

/// The attention patterns of a run that heads are scored by, and which of their queries and keys count, some
/// queries at a time: for a long text nothing of size [query, key] is held whole. Masks are on the CPU.
struct ScoredPatterns {
  struct Layer {
    ActivationName name;  ///< its full name
    bool kept;            ///< whether the cache has it
  };

  /// Throws what head_scores() throws about the cache and the options, naming `where`.
  ScoredPatterns(const ActivationCache& cache, const HeadScoreOptions& options, std::string_view where);

  std::int64_t rows() const { return queries.size(0); }
  /// Bool [row, query, key]: both tokens are real, and the key is not excluded.
  at::Tensor counted(const QueryRange& some) const;
  /// Bool [row, query, key] for real tokens: the key is excluded. Undefined: none is.
  at::Tensor excluded(const QueryRange& some) const;
  /// int64 [1, key].
  at::Tensor key_places() const;
  /// Bool [row, key]: each row's first real token.
  at::Tensor first_keys() const;
  /// int64 [row, pos]: what the stack read, from `given`, or if that is undefined from the cache; -1 for
  /// padding, which no token equals. Throws ShapeError.
  at::Tensor tokens(const ActivationCache& cache, const at::Tensor& given) const;

  std::vector<Layer> layers;
  std::int64_t heads = 0;
  c10::Device device = at::kCPU;  ///< of the patterns
  at::ScalarType dtype = at::kFloat;
  bool crosses = false;  ///< queries and keys are from two texts
  at::Tensor queries;    ///< bool [row, query]: real tokens
  at::Tensor keys;       ///< bool [row, key]

 private:
  at::Tensor real(const QueryRange& some) const;  // bool [row, query, key]

  bool excludes_bos_, excludes_current_;
  std::string_view where_;
  Stack stack_;
};

}  // namespace hooked
