#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hooked {

// Pieces of pickles, to be joined with +. Each leaves one value on the stack unless it says otherwise.

/// A pickle of protocol 2 of one value.
inline std::string pickle_of(std::string_view value) { return "\x80\x02" + std::string(value) + "."; }

std::string pickled_bytes_of(std::uint64_t value, int width);

/// Any int64, as LONG1.
std::string pickled(std::int64_t value);

/// A text.
std::string pickled(std::string_view text);
inline std::string pickled(const char* text) { return pickled(std::string_view(text)); }

/// A tuple of already pickled values.
std::string pickled_tuple(const std::vector<std::string>& values);

/// A tuple of integers.
std::string pickled_sizes(const std::vector<std::int64_t>& sizes);

/// A global, in the form of protocol 2.
std::string pickled_global(std::string_view module, std::string_view name);

inline std::string pickled_ordered_dict() { return pickled_global("collections", "OrderedDict") + ")R"; }

/// A storage's reference; `numel` is a pickled value.
std::string pickled_storage(std::string_view type, std::string_view key, const std::string& numel,
                            std::string_view location = "cpu");

/// How a tensor is laid out in its storage.
struct PickledView {
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

/// A tensor over a pickled storage.
std::string pickled_tensor(const std::string& storage, const PickledView& view);

/// A dict of texts and pickled values.
std::string pickled_dict(const std::vector<std::pair<std::string, std::string>>& items);

}  // namespace hooked
