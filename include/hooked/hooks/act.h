#pragma once

#include <cstdint>

#include "hooked/core/export.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/site.h"

namespace HOOKED_EXPORT hooked {
/// Words for activations: `act::pattern(5)` is one layer's, `act::pattern` alone is every layer's (as a
/// Selection).
namespace act {

/// A site inside blocks; with a layer it is an address, alone it selects all layers.
struct BlockSite {
  Site site;  ///< the kind of point
  /// Of the stack that predicts: the decoder where there is an encoder. `layer` may be negative: -1 is the
  /// last one.
  Address operator()(std::int32_t layer) const { return in(Stack::none, layer); }
  /// The same in one of the two stacks of an encoder-decoder.
  Address encoder(std::int32_t layer) const { return in(Stack::encoder, layer); }
  /// The same in the decoder, which is what a name without a stack means where there is one.
  Address decoder(std::int32_t layer) const { return in(Stack::decoder, layer); }
  /// The same in the stack of that name.
  Address in(Stack stack, std::int32_t layer) const {
    return Address(ActivationName{.site = site, .stack = stack, .layer = layer});
  }
};

/// A site that each expert of a mixture has; with layer and expert it is an address, alone it selects all.
struct ExpertSite {
  Site site;  ///< the kind of point
  /// `layer` may be negative: -1 is the last one.
  Address operator()(std::int32_t layer, std::int32_t expert) const {
    return Address(ActivationName{.site = site, .layer = layer, .expert = expert});
  }
};

/// A site outside the blocks, which every model has at most once.
struct ModelSite {
  Site site;  ///< the kind of point
  /// Its one address.
  operator Address() const { return Address(ActivationName{.site = site}); }  // NOLINT: it is one address
};

/// Every point the model has but the wide ones.
struct Defaults {};
inline constexpr Defaults defaults;  ///< every point the model has but the wide ones

/// Every point the model has, the wide ones included.
struct Everything {};
inline constexpr Everything everything;  ///< every point the model has, the wide ones included

// What the words of each kind of site are (sites.inc, column `kind`).
namespace kinds {
using entry = ModelSite;
using block = BlockSite;
using expert = ExpertSite;
using cross = BlockSite;
using encoder_exit = ModelSite;
using exit = ModelSite;
}  // namespace kinds

#define HOOKED_SITE(kind, word, ...) inline constexpr kinds::kind word{Site::word};
#define HOOKED_NORM(kind, word, ...)                             \
  inline constexpr kinds::kind word##_scale{Site::word##_scale}; \
  inline constexpr kinds::kind word##_normalized{Site::word##_normalized};
#include "hooked/hooks/sites.inc"

}  // namespace act
}  // namespace hooked
