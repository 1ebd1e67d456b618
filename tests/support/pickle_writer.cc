#include "tests/support/pickle_writer.h"

namespace hooked {

std::string pickled_bytes_of(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  return bytes;
}

std::string pickled(std::int64_t value) {
  return "\x8A\x08" + pickled_bytes_of(static_cast<std::uint64_t>(value), 8);
}

std::string pickled(std::string_view text) {
  return "X" + pickled_bytes_of(text.size(), 4) + std::string(text);
}

std::string pickled_tuple(const std::vector<std::string>& values) {
  std::string bytes = "(";
  for (const auto& value : values) bytes += value;
  return bytes + "t";
}

std::string pickled_sizes(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> values;
  for (const auto size : sizes) values.push_back(pickled(size));
  return pickled_tuple(values);
}

std::string pickled_global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

std::string pickled_storage(std::string_view type, std::string_view key, const std::string& numel,
                            std::string_view location) {
  return pickled_tuple(
             {pickled("storage"), pickled_global("torch", type), pickled(key), pickled(location), numel}) +
         "Q";
}

std::string pickled_tensor(const std::string& storage, const PickledView& view) {
  return pickled_global("torch._utils", "_rebuild_tensor_v2") +
         pickled_tuple({storage, pickled(view.offset), pickled_sizes(view.sizes), pickled_sizes(view.strides),
                        "\x89", pickled_ordered_dict()}) +
         "R";
}

std::string pickled_dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string bytes = "}(";
  for (const auto& [key, value] : items) bytes += pickled(key) + value;
  return bytes + "u";
}

}  // namespace hooked
