#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/pickle/pickle_document.h"
#include "io/pickle/plain_value.h"

namespace hooked {

/// The named tensors of a pickle, and the values stored with them.
struct PickledStateDict {
  struct Entry {
    std::string name;
    std::uint64_t tensor;  ///< index into the document's tensors
  };
  std::vector<Entry> entries;  ///< in the pickle's order, each name once
  PlainValue values;           ///< a dict of the values without tensors
  std::vector<std::string> notes;
};

/// Finds the state dict: the top dict, or the dict under its key `model`, `state_dict` or `model_state_dict`.
/// `where` is the file's name for messages. Throws CheckpointError if there is none or more than one, or if a
/// name in it is unfit or appears twice.
PickledStateDict find_state_dict(const PickleDocument& document, std::string_view where);

/// The same for all tensors in the top dict and in dicts inside it. Their names are the keys on the way,
/// texts or integers, with dots between them: `J.0` of {"J": {0: tensor}}.
PickledStateDict find_tensor_paths(const PickleDocument& document, std::string_view where);

}  // namespace hooked
