#pragma once

#include "loading/storage/code_matrix.h"
#include "loading/storage/stored_parts.h"

namespace hooked {

/// How much less than they are zero points are stored, where the config says that all stand for the middle of
/// the numbers. Both versions of GPTQ's format are published under either's name, and the middle tells which
/// one a file has. Throws CheckpointError where it has neither.
int stored_less(const CodeMatrix& zeros, const StoredParts& parts, const QuantisedStorage& storage);

/// Throws CheckpointError where there are zero points other than 0 in a file whose config says that numbers
/// are symmetric.
void refuse_zero_points(const StoredParts& parts, const QuantisedStorage& storage);

}  // namespace hooked
