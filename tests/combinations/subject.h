#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hooked/engine/hooked_transformer.h"
#include "tests/combinations/combination.h"
#include "tests/combinations/oracle.h"

/// A combination's model and inputs, for the engine and for the oracle.
namespace hooked::combinations {

AxisIndex index_of(const Places& places);
AxisIndices indices_of(const Where& where);
/// The block in one layer; for a point outside blocks `layer` has no meaning.
Address address_of(const Where& where, std::int64_t layer);
EditTarget target_of(const Where& where);

/// Rows in the engine's form: [row, columns] from the column `first` to `end`, with random tokens for
/// padding, and the mask if any.
struct Batch {
  at::Tensor tokens, mask;
};

class Subject {
 public:
  explicit Subject(const Combination& combination);

  const Combination& combination() const { return combination_; }
  const HookedTransformer& model() const { return model_; }
  const Oracle& oracle() const { return oracle_; }
  const ModelConfig& config() const { return oracle_.config(); }
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<Row>& other_rows() const { return other_rows_; }
  /// Runs of the other rows without changes.
  const std::vector<reference::PlainRun>& other_runs() const { return other_runs_; }

  /// The combination's changes in a row.
  std::vector<reference::Change> changes_of(const Row& row) const;
  /// The oracle's run of each row with all changes.
  const std::vector<reference::PlainRun>& runs() const;

  Batch batch(const std::vector<Row>& rows, std::int64_t first, std::int64_t end) const;
  /// Whole rows: all columns from the embedding on.
  Input whole(const std::vector<Row>& rows) const;

  /// The combination's changes that are given in one way, in the engine's form.
  std::vector<Edit> edits(const std::vector<Change>& changes) const;
  std::vector<Hook> hooks(const std::vector<Change>& changes, Said said) const;
  /// A handle on the model with the attached hooks, which last as long as the handle does.
  struct Attached {
    HookedTransformer model;
    std::vector<HookHandle> handles;
  };
  Attached attached(const std::vector<Change>& changes) const;

 private:
  Edit edit_of(const Change& change) const;

  Combination combination_;
  HookedTransformer model_;
  Oracle oracle_;
  std::vector<Row> rows_, other_rows_;
  std::vector<reference::PlainRun> other_runs_;
  mutable std::vector<reference::PlainRun> runs_;
};

}  // namespace hooked::combinations
