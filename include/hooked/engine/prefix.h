#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "hooked/core/export.h"
#include "hooked/core/shared.h"

namespace HOOKED_EXPORT hooked {

class KvCache;
struct LoadedModel;

/// Tokens that were run once, for other runs to go on from: the keys and values that every layer made of
/// them, and of an encoder-decoder those of what its encoder read. Frozen and cheap to copy; any number of
/// runs, on any threads, read the same memory. None copies it but what is recorded on a device (docs/gpu.md).
class Prefix {
 public:
  /// Rows. A prefix of one row serves runs of any number of rows.
  std::int64_t batch() const;
  /// Columns: tokens, and padding if there was any.
  std::int64_t length() const;
  /// Bytes of memory that its columns take. Latent attention remembers latents, which are few, in layers
  /// whose keys and values nobody might have changed; docs/generation.md.
  std::int64_t bytes() const;
  /// Its first columns alone, sharing its memory; 0 leaves what an encoder read, for decoders that start anew
  /// (also inside, with `start`). Throws ShapeError when it has fewer, and for 0 without an encoder.
  Prefix first(std::int64_t columns) const;

  /// For the engine.
  Prefix(std::shared_ptr<const LoadedModel> model, std::shared_ptr<const KvCache> columns)
      : model_(std::move(model), "prefix"), columns_(std::move(columns), "prefix") {}
  /// For the engine: the model that ran it, the only one that can go on from it.
  std::shared_ptr<const LoadedModel> model() const { return model_.pointer(); }
  /// For the engine: its keys and values.
  std::shared_ptr<const KvCache> columns() const { return columns_.pointer(); }

 private:
  Shared<const LoadedModel> model_;
  Shared<const KvCache> columns_;
};

}  // namespace hooked
