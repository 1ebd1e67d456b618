#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"
#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// One vector in each row of a run: an activation, or one head of it, at a position.
struct VectorPlace {
  Address place;         ///< with the index of a head
  std::size_t position;  ///< its number among the positions
};

/// The vectors of some activations at some positions, read from runs a few rows at a time.
class VectorPlaces {
 public:
  /// Of the points that `of` selects, at these positions of `rows` rows. Throws HookError in the name of
  /// `where` for an activation that has no vectors [row, pos, d] or [row, pos, head, d], and ShapeError
  /// without a position.
  VectorPlaces(const ModelConfig& config, const Selection& of, std::vector<Position> positions,
               std::int64_t rows, std::string_view where);

  /// In the order of a grid's cells: by point, then position.
  const std::vector<VectorPlace>& all() const& noexcept { return all_; }
  std::size_t size() const noexcept { return all_.size(); }
  std::int64_t rows() const noexcept { return rows_; }
  /// The size of the vectors at a place.
  std::int64_t width(std::size_t place) const;
  std::string position_label(std::size_t place) const { return positions_[all_[place].position].label(); }
  /// The axes [layer or point, pos] of a number for each place.
  std::vector<GridAxis> axes() const;
  /// Their sizes.
  std::vector<std::int64_t> shape() const;
  /// The activations of the places from the `begin`-th to before the `end`-th.
  Selection activations(std::size_t begin, std::size_t end) const;

  /// What a run of the rows from `first_row` on has at a place, [row, d] float64 on the CPU. Throws
  /// ShapeError for a number that is not finite.
  at::Tensor read(const ActivationCache& cache, std::size_t place, std::int64_t first_row,
                  std::int64_t count) const;

 private:
  std::string where_;
  ModelConfig config_;
  std::vector<Position> positions_;
  std::int64_t rows_;
  std::vector<Address> points_;  // with heads
  std::vector<VectorPlace> all_;
};

}  // namespace hooked
