#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/pickle/pickle_document.h"

namespace hooked {

/// Builds what a pickle may describe, and refuses everything else. Nothing is imported or called: a name is
/// looked up in a fixed list, and "calling" one of the few allowed names fills in a row of the document.
///
/// All members throw std::invalid_argument with the plain reason.
class PickleBuilder {
 public:
  /// Rows are added to `document`, which must outlive the builder and hold the pickle's bytes.
  explicit PickleBuilder(PickleDocument& document) : document_(document) {}

  /// The global `module.name`, if it is an allowed one.
  PickleValue global(std::string_view module, std::string_view name) const;

  PickleValue tuple(std::span<const PickleValue> elements);
  PickleValue empty_list();
  PickleValue empty_dict();
  void append(const PickleValue& list, std::span<const PickleValue> values);

  /// `items` are alternating keys and values.
  void set_items(const PickleValue& dict, std::span<const PickleValue> items);

  /// The result of the allowed `function` for the tuple `arguments`.
  PickleValue call(const PickleValue& function, const PickleValue& arguments);

  /// The storage that a persistent id, which is a tuple, refers to.
  PickleValue storage(const PickleValue& id);

  /// Attributes for an object: only the `_metadata` that torch.nn.Module.state_dict adds, which is ignored.
  void set_state(const PickleValue& object, const PickleValue& state) const;

  /// Counts `bytes` of memory; throws above ZipCheckpointLimits::kBuiltBytes.
  void charge(std::uint64_t bytes);

 private:
  PickleValue container(PickleKind kind);
  PickleValue tensor(const PickleValue& arguments);
  PickleValue parameter(const PickleValue& arguments) const;
  void check_inside(const PickledStorage& storage, const PickledTensor& tensor) const;
  std::string described(const PickleValue& value) const;
  [[noreturn]] void refuse_argument(std::string_view what, std::string_view wanted,
                                    const PickleValue& got) const;

  PickleDocument& document_;
  std::uint64_t built_bytes_ = 0;
};

}  // namespace hooked
