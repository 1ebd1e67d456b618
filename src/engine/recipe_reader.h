#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/weight_source.h"
#include "families/family.h"
#include "weights/stored_tensor.h"

namespace hooked {

// Note [Blocks from the file]
// What a recipe makes is often a view of one tensor of the file, whole or a run of its rows, with its axes in
// another order. Run on a meta tensor, the recipe says so by strides and offset, and then any block of ours
// is one stretch of the file: nothing of the tensor need be held. A tensor whose views are not all of that
// kind (fused heads of a transposed matrix) is read once, whole, and let go after the last that is made of
// it.

/// Our tensors out of theirs by checked recipes, read when they are asked for.
class RecipeReader {
 public:
  /// Keeps a reference to `source`. Reads nothing yet.
  RecipeReader(WeightSource& source, const std::vector<TensorRecipe>& recipes);

  /// The tensor of our name, or nothing where no recipe makes it. It may be used after `done`.
  std::optional<weights::StoredTensor> find(const std::string& target);

  /// Lets go of what was held for `target`, which will not be asked for again.
  void done(const std::string& target);

 private:
  struct Entry {
    TensorRecipe recipe;
    std::optional<weights::StoredTensor> stored;  ///< from the file from the start, else once it was made
  };

  at::Tensor make(const TensorRecipe& recipe);

  WeightSource& source_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::size_t> uses_;  ///< of tensors that are read whole, still to come
  std::map<std::string, at::Tensor> open_;
};

/// Their tensor of that name as it is, in blocks where the source can.
weights::StoredTensor stored_tensor(WeightSource& source, const std::string& name);

}  // namespace hooked
