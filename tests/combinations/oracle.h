#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooked/core/state_dict.h"
#include "hooked/hooks/activation_name.h"
#include "tests/combinations/combination.h"
#include "tests/reference/plain_model.h"

/// The results of a combination by the plain model: each row alone, unpadded, from its first token to its
/// last.
namespace hooked::combinations {

using reference::Array;

/// The absolute places that an index means on an axis of that size, in its order. `last` is that place.
std::vector<std::int64_t> resolved(const Places& places, std::int64_t size, std::int64_t last = 0);

/// One row of a batch.
struct Row {
  std::int64_t index = 0;                        ///< in the batch
  std::vector<std::int64_t> tokens = {};         ///< without padding
  std::vector<std::int64_t> columns = {};        ///< the batch's column of each
  std::int64_t first_changed = 0;                ///< changes hold from this column on
  std::optional<std::int64_t> end_changed = {};  ///< up to this column
  std::int64_t first_layer = 0;                  ///< and from this layer on
  std::optional<std::int64_t> end_layer = {};    ///< up to this one, and not after the blocks
  bool enters = true;                            ///< whether they hold before the blocks
  std::int64_t batch = 1;                        ///< rows of the batch
  std::int64_t width = 0;                        ///< columns of the batch, those of a prefix included

  std::optional<std::int64_t> last_column = {};  ///< what `last` means; nothing: the last of `columns`

  std::int64_t last() const { return last_column.value_or(columns.back()); }
  /// The column of a named place: that many tokens before the last, or the first.
  std::int64_t named(std::int64_t back) const {
    return columns.at(static_cast<std::size_t>(std::max<std::int64_t>(std::ssize(columns) - 1 - back, 0)));
  }
  /// The place of a batch column in the row, or -1.
  std::int64_t place_of(std::int64_t column) const;
};

/// Rows with random tokens; `seed` says which.
std::vector<Row> make_rows(const ModelConfig& config, const Combination& c, std::uint64_t seed);

/// Whether the run of a row reaches a point.
bool reached(const Row& row, const ActivationName& name);

/// Whether an element of the value at a point of a row belongs to a block. `index` counts within the row.
class Block {
 public:
  Block(const Where& where, Site site, const Row& row, const std::vector<std::int64_t>& shape);
  bool holds(const std::vector<std::int64_t>& index) const;

 private:
  std::vector<std::vector<bool>> held_;  // by dimension and place
};

/// Calls a function with the index of each element and the element.
void for_each(Array& array, const std::function<void(const std::vector<std::int64_t>&, double&)>& function);

/// Experts of a run have equal weights, so which of them is chosen is undefined.
struct Undecided {};

class Oracle {
 public:
  Oracle(ModelConfig config, StateDict weights) : config_(std::move(config)), weights_(std::move(weights)) {}

  const ModelConfig& config() const { return config_; }

  /// A run of one row, with these functions called in turn at every point. Throws Undecided.
  reference::PlainRun run(const Row& row, const std::vector<reference::Change>& changes = {}) const;

  /// The effect of a change in a row. `other` is the run of the same row of the other tokens.
  reference::Change change_of(const Change& change, const Row& row, const reference::PlainRun& other) const;

  /// All changes of a run in the order in which they are made: hooks, attached ones first, then edits.
  std::vector<reference::Change> changes_of(const std::vector<Change>& changes, const Row& row,
                                            const reference::PlainRun& other) const;

 private:
  ModelConfig config_;
  StateDict weights_;
};

/// The numbers along which project_out projects, for a width.
std::vector<double> direction_of(std::int64_t width);

}  // namespace hooked::combinations
