#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/shared.h"
#include "hooked/harvest/activation_stream.h"
#include "hooked/io/provenance.h"

namespace HOOKED_EXPORT hooked {

/// An activation that a store keeps.
struct StoredActivation {
  std::string name;                 ///< its full name
  std::vector<std::string> axes;    ///< `row`, and the activation's own
  std::vector<std::int64_t> shape;  ///< of one row
  at::ScalarType dtype;             ///< on disk
};

/// How minibatches are drawn from a store. For designated initialisers.
struct MinibatchOptions {
  std::int64_t rows = 4096;             ///< of a minibatch; the last one of a pass may have fewer
  std::vector<std::string> names = {};  ///< activations to read; empty: all
  std::uint64_t seed = 0;               ///< of the order
  /// The number of rows that are mixed at a time. Shards come in a random order into a buffer of this size,
  /// from which rows are drawn at random; the more, the closer to a shuffle of all. 0: in the order of the
  /// corpus.
  std::int64_t mixing_rows = 1 << 18;
  std::int64_t passes = 1;  ///< over the store; each in another order
  bool drop_last = false;   ///< leave out a last minibatch with fewer rows
};

/// Minibatches of a store, in a random order. A shard is read while the caller works on the rows before.
class Minibatches {
 public:
  Minibatches(Minibatches&&) noexcept;
  Minibatches& operator=(Minibatches&&) noexcept;
  ~Minibatches();

  /// The next minibatch; nothing after the last one. Throws what reading throws.
  std::optional<ActivationRows> next();

  struct State;
  explicit Minibatches(std::unique_ptr<State> state);  ///< for ActivationStore::minibatches

 private:
  std::unique_ptr<State> state_;
};

/// Activations of a corpus on disk, as harvest() writes them. Opening reads the manifest and looks at the
/// headers of the shards; rows are read when they are asked for. Reading is const and may happen in several
/// threads at once.
class ActivationStore {
 public:
  /// Opens a store, also one that is not complete: its units so far. Throws IoError if there is none,
  /// CheckpointError for a manifest that is damaged, of a newer format, or that does not fit its shards.
  static ActivationStore open(const std::filesystem::path& folder);

  std::int64_t rows() const;                          ///< of all units that are there
  std::vector<StoredActivation> activations() const;  ///< in the order of the table of sites
  Provenance provenance() const;                      ///< the model, its processing, and the edits
  bool complete() const;                              ///< whether all units of the corpus are there

  /// The rows [begin, end). Throws ShapeError for rows that it does not have, HookError for a name.
  ActivationRows read(std::int64_t begin, std::int64_t end, const std::vector<std::string>& names = {}) const;
  /// Rows by their numbers, int64 [row], in that order. The shards are mapped, and only these rows' pages are
  /// read.
  ActivationRows rows_at(const at::Tensor& numbers, const std::vector<std::string>& names = {}) const;
  /// All rows in a random order, minibatch by minibatch. Throws HookError, ConfigError.
  Minibatches minibatches(const MinibatchOptions& options = {}) const;

  struct Content;

 private:
  explicit ActivationStore(std::shared_ptr<const Content> content);

  Shared<const Content> content_;
};

}  // namespace hooked
