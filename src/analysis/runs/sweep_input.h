#pragma once

#include <cstdint>
#include <string_view>

#include "analysis/runs/source_reader.h"
#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// What a sweep patches, or another analysis runs, row by row.
class SweepInput {
 public:
  /// Throws ShapeError for tokens of another form, HookError for an input that goes on from something, in the
  /// name of `where`.
  SweepInput(const HookedTransformer& model, const Input& into, std::string_view where = "sweep");

  /// All rows, [row, pos].
  const Input& all() const noexcept { return all_; }
  std::int64_t rows() const { return all_.batch(); }
  SweptRow row(std::int64_t number) const { return {number, rows()}; }

  /// One row, [1, pos]; perhaps without the padding behind its last token.
  Input of_row(std::int64_t row, bool with_padding_behind) const;
  /// Rows from the `begin`-th to before the `end`-th, [row, pos].
  Input of_rows(std::int64_t begin, std::int64_t end) const;
  /// The columns of the rows in the stack that predicts, or of what an encoder reads.
  TokenColumns columns(bool of_encoder) const;

 private:
  Input all_;
};

}  // namespace hooked
