#pragma once

namespace hooked {

/// How the matrices of a graph are stored.
enum class Storage {
  fastest,  ///< as products on this processor read them fastest
  plain     ///< as [out, in] tensors with gradients, for training
};

}  // namespace hooked
