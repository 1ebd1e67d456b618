#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "families/family.h"
#include "io/source_tensor.h"

namespace hooked {

/// Our tensors out of theirs by checked recipes, read when they are asked for: in blocks from the file where
/// the recipe is a view that allows it (Note [Blocks from the file]). A tensor whose views are not all of
/// that kind (fused heads of a transposed matrix) is read once, whole, and let go after the last that is made
/// of it.
class RecipeReader {
 public:
  /// Reads nothing yet.
  RecipeReader(SourceTensors source, const std::vector<TensorRecipe>& recipes);

  /// The tensor of our name, or nothing where no recipe makes it. It may be used after `done`.
  std::optional<StoredTensor> find(const std::string& target);

  /// Lets go of what was held for `target`, which will not be asked for again.
  void done(const std::string& target);

 private:
  struct Entry {
    TensorRecipe recipe;
    std::optional<StoredTensor> stored;  ///< from the file from the start, else once it was made
  };

  at::Tensor make(const TensorRecipe& recipe);

  SourceTensors source_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::size_t> uses_;  ///< of tensors that are read whole, still to come
  std::map<std::string, at::Tensor> open_;
};

}  // namespace hooked
