#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "families/family.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// Builds our tensors from theirs by checked recipes, on demand: in blocks from the file if the recipe is a
/// view that allows it (Note [Blocks from the file]). A tensor with a view that does not allow it (fused
/// heads of a transposed matrix) is read once, whole, and released after its last use. Several threads may
/// ask at once.
class RecipeReader {
 public:
  /// Does not read anything yet.
  RecipeReader(SourceTensors source, const std::vector<TensorRecipe>& recipes);

  /// The tensor of our name, or nothing if no recipe makes it. It may still be used after `done`.
  std::optional<StoredTensor> find(const std::string& target);

  /// The codes of the tensor of our name, if it is stored in codes and its recipe keeps them:
  /// `outputs_first` gives a tensor of its shape as coded_rows takes it. Call it before `find`.
  std::optional<CodedRows> find_codes(const std::string& target, const RecipeOfRows& outputs_first);

  /// Releases what was kept for `target`, which must not be asked for again.
  void done(const std::string& target);

 private:
  struct Entry {
    TensorRecipe recipe;
    bool reads_whole = false;            ///< its sources are among `wholes_` until it is made
    std::once_flag once;                 ///< for setting `stored`
    std::optional<StoredTensor> stored;  ///< from the file at the start, else once it was computed
  };
  /// A tensor of the file that is read whole.
  struct Whole {
    std::once_flag once;
    at::Tensor tensor;
    std::size_t uses = 0;  ///< remaining
  };

  at::Tensor make(const TensorRecipe& recipe);
  /// One use less of the sources that are read whole.
  void release(const TensorRecipe& recipe);

  std::mutex mutex_;  ///< guards the maps, not their contents
  SourceTensors source_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, Whole> wholes_;
};

}  // namespace hooked
