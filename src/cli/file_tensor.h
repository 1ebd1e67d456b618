#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace hooked::cli {

/// Tensors that the values of edits name.
struct TensorSource {
  const HookedTransformer& model;  ///< that runs
  const std::string& from_model;   ///< other model whose values files may have; empty: none
};

/// What FILE#KEY names.
struct FileTensor {
  at::Tensor value;                      ///< in the file's dtype
  std::optional<ActivationCache> cache;  ///< with only this activation, if it is a whole one of a saved cache
  bool is_block = false;                 ///< KEY has indices, so that the value is a block of an activation
};

/// Reads FILE#KEY. KEY is a tensor's name; or an activation by its full name or shorthand, with or without
/// indices: `resid_post2[pos=3,batch=0]`. A tensor of exactly that name comes first. Throws CheckpointError
/// for a tensor that is not there, HookError for indices that do not fit and for a file of a model other than
/// the one that runs or `from_model`.
FileTensor read_file_tensor(std::string_view file, std::string_view key, const TensorSource& source);

/// `value` in another dtype, rounded if need be; floating-point numbers are never made integers. Throws
/// HookError about `where` for a finite number beyond the range of `dtype`.
at::Tensor in_dtype(const at::Tensor& value, at::ScalarType dtype, std::string_view where);

}  // namespace hooked::cli
