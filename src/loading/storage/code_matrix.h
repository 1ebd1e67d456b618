#pragma once

#include <cstdint>
#include <vector>

#include "loading/storage/stored_parts.h"

namespace hooked {

/// How integers of a few bits are laid out in a tensor.
enum class CodeLayout : std::uint8_t {
  down,       ///< words [word, column]: consecutive numbers of a column, from the lowest bit on
  along,      ///< words [row, word]: the same for rows
  along_awq,  ///< likewise, four bits each; of eight numbers, those of even columns are first
  bytes,      ///< [row, column], a signed byte each
};

/// A matrix of integers that are read from a tensor by rows.
struct CodeMatrix {
  NamedTensor stored;
  std::int64_t rows, columns;
  int bits;
  CodeLayout layout;
  int added = 0;  ///< to each number of words, modulo 2^bits

  /// The shape and dtype of the tensor that contains them.
  std::vector<std::int64_t> stored_shape() const;
  std::string_view stored_dtype() const;

  /// The numbers of rows `first` to `first + count`, row by row.
  std::vector<std::int32_t> rows_of(std::int64_t first, std::int64_t count) const;
};

/// How much is subtracted from zero points when they are stored, if the config says that all equal the middle
/// of the numbers. Both versions of GPTQ's format are published under either's name, and the middle tells
/// which version a file has. Throws CheckpointError if it matches neither.
int stored_less(const CodeMatrix& zeros, const StoredParts& parts, const QuantisedStorage& storage);

/// Throws CheckpointError for zero points other than 0 in a file whose config says that numbers are
/// symmetric.
void refuse_zero_points(const StoredParts& parts, const QuantisedStorage& storage);

}  // namespace hooked
