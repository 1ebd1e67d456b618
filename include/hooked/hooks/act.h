#pragma once

#include <cstdint>

#include "hooked/core/export.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/site.h"

namespace HOOKED_EXPORT hooked {
/// Words for activations: `act::pattern(5)` is that of one layer, `act::pattern` alone is that of every layer
/// (as a Selection).
namespace act {

/// A site inside blocks; with a layer it is an address, without one it selects all layers.
struct BlockSite {
  Site site;  ///< the kind of point
  /// In the stack that predicts: the decoder if there is an encoder. `layer` may be negative: -1 is the last
  /// layer.
  Address operator()(std::int32_t layer) const { return in(Stack::none, layer); }
  /// The same in one of the two stacks of an encoder-decoder.
  Address encoder(std::int32_t layer) const { return in(Stack::encoder, layer); }
  /// The same in the decoder, which is what a name without a stack means if there is one.
  Address decoder(std::int32_t layer) const { return in(Stack::decoder, layer); }
  /// The same in the stack of that name.
  Address in(Stack stack, std::int32_t layer) const {
    return Address(ActivationName{.site = site, .stack = stack, .layer = layer});
  }
};

/// A site of each expert of a mixture; with layer and expert it is an address, without them it selects all.
struct ExpertSite {
  Site site;  ///< the kind of point
  /// `layer` may be negative: -1 is the last layer.
  Address operator()(std::int32_t layer, std::int32_t expert) const {
    return Address(ActivationName{.site = site, .layer = layer, .expert = expert});
  }
};

/// A site outside the blocks: a model has at most one point of it.
struct ModelSite {
  Site site;  ///< the kind of point
  /// Its one address.
  operator Address() const { return Address(ActivationName{.site = site}); }  // NOLINT: it is one address
};

/// A site inside dictionaries; with the activation that a dictionary stands at it is an address, without one
/// it selects those of all dictionaries: `act::sae_acts_post(act::resid_post(3))`.
struct DictionarySite {
  Site site;  ///< the kind of point
  /// Throws HookError for a place with indices, and for a point that is inside a dictionary itself.
  Address operator()(const Address& place) const;
};

/// Every point of the model except the wide ones.
struct Defaults {};
inline constexpr Defaults defaults;  ///< every point of the model except the wide ones

/// Every point of the model, including the wide ones.
struct Everything {};
inline constexpr Everything everything;  ///< every point of the model, including the wide ones

// The types of the words, by kind of site (sites.inc, column `kind`).
namespace kinds {
using entry = ModelSite;
using block = BlockSite;
using expert = ExpertSite;
using cross = BlockSite;
using encoder_exit = ModelSite;
using exit = ModelSite;
using dictionary = DictionarySite;
}  // namespace kinds

#define HOOKED_SITE(kind, word, ...) inline constexpr kinds::kind word{Site::word};
#define HOOKED_NORM(kind, word, ...)                             \
  inline constexpr kinds::kind word##_scale{Site::word##_scale}; \
  inline constexpr kinds::kind word##_normalized{Site::word##_normalized};
#include "hooked/hooks/sites.inc"

}  // namespace act
}  // namespace hooked
