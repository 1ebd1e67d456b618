#include "io/pickle/plain_value.h"

#include <array>

namespace hooked {

std::optional<double> PlainValue::real() const noexcept {
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return copy<double>();
}

const PlainValue* PlainValue::find(std::string_view key) const noexcept {
  if (dict() == nullptr) return nullptr;
  for (const auto& [entry_key, value] : *dict()) {
    if (entry_key.text() != nullptr && *entry_key.text() == key) return &value;
  }
  return nullptr;
}

std::string_view PlainValue::kind() const noexcept {
  // In the order of the variant's alternatives.
  static constexpr std::array<std::string_view, 8> kKinds = {
      "None", "a bool", "an integer", "a real number", "a text", "bytes", "a list", "a dict"};
  return kKinds[value_.index()];
}

}  // namespace hooked
