#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "hooked/core/export.h"
#include "hooked/core/shared.h"

namespace HOOKED_EXPORT hooked {

class KvCache;
struct LoadedModel;

/// Tokens that were run once, for other runs to continue from: their KV cache (keys and values of every
/// layer) and, in an encoder-decoder, that of what its encoder read. Frozen and cheap to copy; any number of
/// runs, on any threads, read the same memory. Only recorded runs on a device copy it (docs/gpu.md).
class Prefix {
 public:
  /// Rows. A prefix of one row serves runs of any number of rows.
  std::int64_t batch() const;
  /// Columns: tokens, and padding if there was any.
  std::int64_t length() const;
  /// Bytes of memory that its columns take. Latent attention keeps latents, which are smaller, in layers
  /// where nobody may have changed keys and values; docs/generation.md.
  std::int64_t bytes() const;
  /// Its first columns only, sharing its memory; 0 leaves what an encoder read, for decoders that start anew
  /// (also from a layer, with `start`). Throws ShapeError if it has fewer, and for 0 without an encoder.
  Prefix first(std::int64_t columns) const;

  /// For the engine.
  Prefix(std::shared_ptr<const LoadedModel> model, std::shared_ptr<const KvCache> columns)
      : model_(std::move(model), "prefix"), columns_(std::move(columns), "prefix") {}
  /// For the engine: the model that ran it, the only one that can continue from it.
  std::shared_ptr<const LoadedModel> model() const { return model_.pointer(); }
  /// For the engine: its keys and values.
  std::shared_ptr<const KvCache> columns() const { return columns_.pointer(); }

 private:
  Shared<const LoadedModel> model_;
  Shared<const KvCache> columns_;
};

}  // namespace hooked
