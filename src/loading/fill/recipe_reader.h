#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// Our tensors out of theirs by checked recipes, read when they are asked for: in blocks from the file where
/// the recipe is a view that allows it (Note [Blocks from the file]). A tensor whose views are not all of
/// that kind (fused heads of a transposed matrix) is read once, whole, and let go after the last that is made
/// of it. Several threads may ask at once.
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
    std::once_flag once;                 ///< that `stored` is looked after
    std::optional<StoredTensor> stored;  ///< from the file from the start, else once it was made
  };
  /// A tensor of the file that is read whole.
  struct Whole {
    std::once_flag once;
    at::Tensor tensor;
    std::size_t uses = 0;  ///< still to come
  };

  at::Tensor make(const TensorRecipe& recipe);

  std::mutex mutex_;  ///< guards the maps, not what is in them
  SourceTensors source_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, Whole> wholes_;
};

}  // namespace hooked
