#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hooked {

/// A value without tensors that a checkpoint stores with its tensors: None, a bool, an integer, a real
/// number, text, bytes, a list (also for a tuple), or a dict in its order. Copies are deep.
class PlainValue {
 public:
  using List = std::vector<PlainValue>;
  using Dict = std::vector<std::pair<PlainValue, PlainValue>>;

  /// Bytes, distinct from text.
  struct Bytes {
    std::string value;
  };

  /// None.
  PlainValue() = default;
  explicit PlainValue(bool value) : value_(value) {}
  explicit PlainValue(std::int64_t value) : value_(value) {}
  explicit PlainValue(double value) : value_(value) {}
  explicit PlainValue(std::string value) : value_(std::move(value)) {}
  explicit PlainValue(Bytes value) : value_(std::move(value)) {}
  explicit PlainValue(List value) : value_(std::move(value)) {}
  explicit PlainValue(Dict value) : value_(std::move(value)) {}

  bool is_none() const noexcept { return std::holds_alternative<std::monostate>(value_); }

  // Each is empty (or null) if the value is of another kind.
  std::optional<bool> boolean() const noexcept { return copy<bool>(); }
  std::optional<std::int64_t> integer() const noexcept { return copy<std::int64_t>(); }

  /// A real number; an integer counts as one.
  std::optional<double> real() const noexcept;

  const std::string* text() const noexcept { return std::get_if<std::string>(&value_); }
  const Bytes* bytes() const noexcept { return std::get_if<Bytes>(&value_); }
  const List* list() const noexcept { return std::get_if<List>(&value_); }
  const Dict* dict() const noexcept { return std::get_if<Dict>(&value_); }

  /// What a dict holds under the text `key`; null when it is absent or this is not a dict.
  const PlainValue* find(std::string_view key) const noexcept;

  /// The kind for messages, with its article: `an integer`, `a dict`, `None`.
  std::string_view kind() const noexcept;

 private:
  template <class T>
  std::optional<T> copy() const noexcept {
    const auto* value = std::get_if<T>(&value_);
    return value == nullptr ? std::nullopt : std::optional<T>(*value);
  }

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Bytes, List, Dict> value_;
};

}  // namespace hooked
