#pragma once

#include "loading/storage/code_matrix.h"
#include "loading/storage/stored_parts.h"

namespace hooked {

/// How much is subtracted from zero points when they are stored, if the config says that all equal the middle
/// of the numbers. Both versions of GPTQ's format are published under either's name, and the middle tells
/// which version a file has. Throws CheckpointError if it matches neither.
int stored_less(const CodeMatrix& zeros, const StoredParts& parts, const QuantisedStorage& storage);

/// Throws CheckpointError for zero points other than 0 in a file whose config says that numbers are
/// symmetric.
void refuse_zero_points(const StoredParts& parts, const QuantisedStorage& storage);

}  // namespace hooked
