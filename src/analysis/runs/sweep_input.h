#pragma once

#include <cstdint>
#include <string_view>

#include "analysis/runs/source_reader.h"
#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// The input of a sweep, or of another analysis that runs row by row.
class SweepInput {
 public:
  /// Throws, in the name of `where`, ShapeError for tokens of another form and HookError for an input that
  /// continues from something.
  SweepInput(const HookedTransformer& model, const Input& into, std::string_view where = "sweep");

  /// All rows, [row, pos].
  const Input& all() const noexcept { return all_; }
  std::int64_t rows() const { return all_.batch(); }
  SweptRow row(std::int64_t number) const { return {number, rows()}; }

  /// One row, [1, pos]; optionally without the padding after its last token.
  Input of_row(std::int64_t row, bool with_padding_behind) const;
  /// Rows from the `begin`-th to before the `end`-th, [row, pos].
  Input of_rows(std::int64_t begin, std::int64_t end) const;
  /// The columns of the rows in the stack that predicts, or in the encoder's input.
  TokenColumns columns(bool of_encoder) const;

 private:
  Input all_;
};

}  // namespace hooked
