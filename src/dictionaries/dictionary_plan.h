#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/dictionaries/dictionary.h"

namespace hooked {

// A dictionary's files become a plan: its config, and for each weight how it is read. A plan costs the files'
// headers only, and everything about it is checked before a number is read.

/// A weight that is read when it is wanted.
struct StoredWeight {
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;  ///< as stored
  std::string where;     ///< for messages: its name in the file
  std::function<at::Tensor()> read;
};

/// The same with its two axes exchanged.
StoredWeight transposed(StoredWeight weight);

/// The same after `change`, which gives it that shape.
StoredWeight changed(StoredWeight weight, std::vector<std::int64_t> shape,
                     std::function<at::Tensor(const at::Tensor&)> change);

/// The same times a number, multiplied in float64.
StoredWeight times(StoredWeight weight, double factor);

/// Numbers that are not stored.
StoredWeight filled(std::vector<std::int64_t> shape, double value, at::ScalarType dtype);

/// The tensors of a file: safetensors, torch.save's, or NumPy's .npz, by the ending of its name.
class WeightFile {
 public:
  /// Throws CheckpointError or IoError.
  explicit WeightFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const& noexcept;
  void path() const&& = delete;
  bool has(std::string_view name) const;
  /// Throws CheckpointError if the file has no such tensor.
  StoredWeight take(std::string_view name);
  /// The tensor of the first of these names that the file has. Throws CheckpointError if it has none.
  StoredWeight take_any(const std::vector<std::string_view>& names);
  /// Index `i` of the tensor's first axis, which need not be read whole.
  StoredWeight take_row(std::string_view name, std::int64_t i);
  /// Marks a tensor as read that does not matter.
  void ignore(std::string_view name);
  /// Tensors that were not taken.
  std::vector<std::string> unread() const;
  /// Bytes of its tensors.
  std::uint64_t bytes() const;
  /// Values stored with the tensors of a pickle, a JSON object.
  const std::string& values() const& noexcept;
  void values() const&& = delete;

 private:
  struct Open;
  std::size_t index_of(std::string_view name) const;

  std::shared_ptr<Open> open_;
};

/// One dictionary, before its numbers are read.
struct DictionaryPlan {
  DictionaryConfig config = {};
  std::map<std::string, StoredWeight, std::less<>> weights =
      {};                                         ///< by the names of dictionary_weight_rows()
  bool states_dtype = false;                      ///< config.dtype is that of the files
  std::vector<std::filesystem::path> files = {};  ///< that it is read from
  std::uint64_t stored_bytes = 0;

  /// Adds the files of tensors that nothing has taken to the notes, and the file itself.
  void add_file(const WeightFile& file);
  /// Throws CheckpointError or ConfigError unless the weights are those of the config, by their shapes.
  void check() const;
  /// Reads the numbers, after check().
  Dictionary read(const DictionaryOptions& options) const;
};

/// Dictionaries that are stored together: one, or one for each of several layers.
struct DictionaryPlans {
  std::vector<DictionaryPlan> members = {};
  std::string scan = {};                ///< of a set: its name for the web pages of features
  std::vector<std::string> notes = {};  ///< about all
};

/// The folder or file that a name means: a path, or `org/name[@revision][:path]` in the hub cache.
std::filesystem::path locate_dictionary(std::string_view name);

/// Recognises and plans what is at a path. Throws CheckpointError if it is no dictionary.
DictionaryPlans plan_dictionaries(const std::filesystem::path& path);

/// Whether files that dictionaries have are there, or in folders below.
bool holds_dictionary(const std::filesystem::path& path);

}  // namespace hooked
