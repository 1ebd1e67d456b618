#pragma once

#include <optional>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/dictionaries/dictionary.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/weights/processing.h"

namespace HOOKED_EXPORT hooked {

/// Where a dictionary stands in a model, and what its output is. For designated initialisers.
struct DictionaryPlace {
  /// The activation that it reads; nothing: the one that its files name.
  std::optional<ActivationName> input = {};
  /// The activation whose place its output takes; nothing: the one that its files name, or with `input` and a
  /// sparse autoencoder that one.
  std::optional<ActivationName> output = {};
  /// False: the reconstruction takes the activation's place. True: the activation goes on as it is, plus what
  /// edits of features change in the reconstruction: without such edits the run equals the plain one to the
  /// last bit (to rounding, if the dictionary reads a norm's inside, which is then computed in steps).
  bool with_error = false;
};

/// A dictionary where it stands in a model.
struct StandingDictionary {
  Dictionary dictionary;  ///< on the device of its place
  ActivationName input;   ///< what it reads, by its full name
  ActivationName output;  ///< the activation whose place it takes
  bool with_error;        ///< the activation goes on, plus what edits change
};

/// The steps of weight processing that would change what a dictionary there was fitted to: load its model
/// without them.
///
///     const auto sae = Dictionary::load("sae");
///     const auto model = HookedTransformer::load("gpt2", {.without = steps_that_change(sae)});
///     const auto spliced = model.with_dictionary(sae);
///
/// Throws HookError if nothing says where it stands.
std::vector<ProcessingStep> steps_that_change(const Dictionary& dictionary,
                                              const DictionaryPlace& place = {});

}  // namespace hooked
