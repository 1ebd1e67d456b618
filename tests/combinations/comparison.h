#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hooked/analysis/position.h"
#include "tests/combinations/combination.h"
#include "tests/combinations/subject.h"

namespace hooked::combinations {

/// The result of a comparison: a difference, the table row that says why it was refused, or neither.
struct Outcome {
  std::int64_t numbers = 0;     ///< that were compared
  std::string refused = {};     ///< why
  std::string difference = {};  ///< what differs
};

/// Compares and notes the first difference.
class Comparison {
 public:
  /// Numbers of float64 that were computed in another order: their difference relative to the largest.
  static constexpr double kTolerance = 1e-8;

  /// NaN in `expected` is not compared.
  void expect(const std::string& what, const at::Tensor& got, const Array& expected,
              double tolerance = kTolerance);
  /// One number; NaN must be NaN.
  void expect_number(const std::string& what, double got, double expected, double tolerance = kTolerance);
  /// Counts numbers that were compared elsewhere.
  void count(std::int64_t numbers) { outcome_.numbers += numbers; }
  /// Notes what differs in words.
  void differs(const std::string& what);

  const Outcome& outcome() const { return outcome_; }

 private:
  Outcome outcome_;
};

/// The columns in a cache for each row, in their order.
using Held = std::vector<std::vector<std::int64_t>>;

/// What an address reads from the rows' runs: the block without the axes of single places. NaN where a row
/// has no token.
Array block_of(const Where& where, const ActivationName& name, const std::vector<Row>& rows,
               const std::vector<reference::PlainRun>& runs, const Held& held);

/// Every column of each row.
Held all_columns(const std::vector<Row>& rows, std::int64_t first = 0);

/// The columns [first, end) of each row's [pos, width] array as in the batch, NaN for padding:
/// [row, column, width].
Array by_columns(const std::vector<Row>& rows, const std::vector<Array>& values,
                 const std::vector<std::int64_t>& columns);

/// The comparison of a combination, whatever its consumer.
Outcome compared(const Combination& combination);

/// The columns in the cache of a combination.
Held held_columns(const Combination& c, const std::vector<Row>& rows);

/// The place of these rows that is this number of tokens before the last of each, or at the first.
Position named_place(std::int64_t back, const std::vector<Row>& rows);

/// The engine's cache of a combination's run.
ActivationCache cache_of_run(const Subject& subject, const Selection& capture);

// One for each consumer.
void compare_run(const Subject& subject, Comparison& comparison);  // read, edit and file
void compare_sweep(const Subject& subject, Comparison& comparison);
void compare_estimates(const Subject& subject, Comparison& comparison);
void compare_gradients(const Subject& subject, Comparison& comparison);
void compare_readings(const Subject& subject, Comparison& comparison);  // attribution, lens, head scores
void compare_edges(const Subject& subject, Comparison& comparison);
void compare_circuits(const Subject& subject, Comparison& comparison);
void compare_generation(const Subject& subject, Comparison& comparison);

}  // namespace hooked::combinations
