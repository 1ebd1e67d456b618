#pragma once

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hooked {

/// The kind of a pickle's value.
enum class PickleKind : std::uint8_t {
  kMark,  ///< on the stack only
  kNone,
  kBool,
  kInteger,
  kReal,
  kText,
  kBytes,
  kTuple,
  kList,
  kDict,
  kGlobal,  ///< an allowed name; never the object of that name
  kStorage,
  kTensor,
};

/// The kind for messages, with its article: `a tuple`.
std::string_view pickle_kind_text(PickleKind kind) noexcept;

/// A value of a pickle: small, and for the larger kinds an index into its document. So copies are cheap, and
/// values that contain each other cost nothing to release.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::uint32_t size = 0;     ///< bytes of a text, elements of a tuple
  std::uint64_t payload = 0;  ///< the number itself, or an index

  std::int64_t integer() const noexcept { return static_cast<std::int64_t>(payload); }
  double real() const noexcept { return std::bit_cast<double>(payload); }
  bool boolean() const noexcept { return payload != 0; }
};

/// A list's elements, or a dict's alternating keys and values.
struct PickledContainer {
  std::vector<PickleValue> items;
  bool ordered = false;  ///< a collections.OrderedDict: it alone may be given attributes
};

/// A storage that the pickle refers to: elements of one dtype in a record of the archive.
struct PickledStorage {
  PickleValue key;  ///< text: the record's name
  at::ScalarType dtype;
  std::int64_t elements;
};

/// A tensor as elements of a storage. Sizes and strides are tuples of integers; all that they address was
/// checked to be inside the storage.
struct PickledTensor {
  std::uint64_t storage;
  std::int64_t offset;  ///< of the first element, in elements
  PickleValue sizes;
  PickleValue strides;
};

/// What a pickle describes.
struct PickleDocument {
  std::string bytes;  ///< the pickle; texts are parts of it
  std::deque<PickleValue> tuples;
  std::deque<PickledContainer> containers;
  std::deque<PickledStorage> storages;
  std::deque<PickledTensor> tensors;
  PickleValue root;

  /// A text's or bytes' content.
  std::string_view text(const PickleValue& value) const {
    return std::string_view(bytes).substr(value.payload, value.size);
  }
  const PickleValue& element(const PickleValue& tuple, std::size_t index) const {
    return tuples[tuple.payload + index];
  }
  /// A list's or dict's items.
  const std::vector<PickleValue>& items(const PickleValue& container) const {
    return containers[container.payload].items;
  }
  /// A tuple of integers.
  std::vector<std::int64_t> integers(const PickleValue& tuple) const {
    std::vector<std::int64_t> values(tuple.size);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(tuple, i).integer();
    return values;
  }
};

/// What the pickle `bytes` (protocol 2 to 5) describes. `where` is the archive's name for messages.
///
/// Only opcodes and globals that describe tensors and plain containers are known; nothing is imported, called
/// or run. Throws CheckpointError with the byte of the pickle and the opcode or global that is refused.
/// Format: Python's Lib/pickletools.py.
PickleDocument read_pickle(std::string bytes, std::string_view where);

/// Throws std::invalid_argument; read_pickle adds where that is.
template <class... Values>
[[noreturn]] void refuse_pickle(fmt::format_string<Values...> form, Values&&... values) {
  throw std::invalid_argument(fmt::format(form, std::forward<Values>(values)...));
}

/// The named tensors of a pickle, and the values stored with them.
struct PickledStateDict {
  struct Entry {
    std::string name;
    std::uint64_t tensor;  ///< index into the document's tensors
  };
  std::vector<Entry> entries;  ///< in the pickle's order, each name once
  /// The top dict's values without tensors, as a JSON object. What JSON does not have is null there (bytes,
  /// numbers that are not finite), and keys other than texts are left out.
  std::string values;
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
