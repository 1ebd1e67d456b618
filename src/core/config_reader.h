#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json_type.h"

namespace hooked {

/// Makes the error that a reader throws at a place in its file.
using MakeError = std::exception_ptr (*)(std::string_view where, std::string_view what);

template <class SomeError>
std::exception_ptr make_error(std::string_view where, std::string_view what) {
  return std::make_exception_ptr(SomeError(where, what));
}

/// One row of a table that maps words of a file to values: `{"NFC", read_nfc}`.
template <class Value>
struct Named {
  std::string_view name;
  Value value;
};

/// Typed getters over one JSON object. They put the JSON path into every error and remember what was read.
/// For config.json, tokenizer.json and the like.
///
/// A getter of a required field throws ConfigError if it is absent or null; an `_or` getter returns its
/// fallback instead. All throw if the value has another type (`"12"` and `12.0` are not integers) or is out
/// of range. `Error::where()` of every error is `file: path.of.the.field`. A cheap handle: child readers
/// share the document and its record of read keys. Not for concurrent use by several threads.
class ConfigReader {
 public:
  /// Parses `text`: an object, at most 1 MiB, nested at most 64 deep, without duplicate keys.
  /// `where` names the file in errors. Throws ConfigError.
  ConfigReader(std::string_view text, std::string_view where);

  /// Reads `document`, an object that was parsed from the file `where`. Its errors are of the class that
  /// `error` makes: where ConfigError is mentioned below, read that class.
  ConfigReader(Json document, std::string_view where, MakeError error);

  bool has(std::string_view key) const;  ///< present and not null; marks the key as read
  bool is_null(
      std::string_view key) const;  ///< present and null, for fields where null is a value; marks it as read
  /// Absent, or a value that means no in any type: null, false, 0, an empty list or object. Marks it as read.
  bool is_unset(std::string_view key) const;
  bool holds_object(std::string_view key) const;  ///< present and an object; marks nothing as read
  bool holds_list(std::string_view key) const;    ///< present and a list; marks nothing as read
  bool holds_text(std::string_view key) const;    ///< present and a string; marks nothing as read

  std::int64_t integer(std::string_view key) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback) const;
  std::int64_t count(std::string_view key, std::int64_t most) const;  ///< an integer from 0 to `most`
  std::uint64_t natural(std::string_view key) const;                  ///< an integer from 0 to 2^64 - 1
  double number(std::string_view key) const;
  double number_or(std::string_view key, double fallback) const;
  bool boolean(std::string_view key) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view fallback) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<bool> booleans(std::string_view key) const;

  /// The members of the object below `key`, all of them integers, in document order. The names live as long
  /// as the document. For large objects, as the other getters search for their key.
  std::vector<std::pair<std::string_view, std::int64_t>> named_integers(std::string_view key) const;

  /// The value that the text at `key` means, by a table of Named rows. Throws ConfigError that lists the
  /// names if it is none of them.
  template <class Value, std::size_t count>
  const Value& one_of(std::string_view key, const Named<Value> (&table)[count]) const {
    std::vector<std::string_view> names;
    for (const auto& row : table) names.push_back(row.name);
    return table[choice(key, names)].value;
  }

  /// A required / optional object below `key`; its errors say `key.inner`.
  ConfigReader object(std::string_view key) const;
  std::optional<ConfigReader> object_if(std::string_view key) const;

  /// The array below `key`, read like an object whose keys are "0", "1" and so on; its errors say `key[1]`.
  ConfigReader array(std::string_view key) const;

  /// The elements of the array below `key`, all of them objects; their errors say `key[1].inner`.
  std::vector<ConfigReader> objects(std::string_view key) const;

  /// The first of `keys` that is present and not null, for fields with several names; the first one if none
  /// is. Marks nothing as read.
  std::string_view first_of(std::initializer_list<std::string_view> keys) const;

  /// Marks a key as read without looking at its value (for known fields that do not matter here).
  void ignore(std::initializer_list<std::string_view> keys) const;

  /// The number of members of this object, or of elements of this array.
  std::size_t size() const;

  /// The keys of this object, in document order.
  std::vector<std::string> keys() const;

  /// Keys of this object that nothing has read yet, as dotted paths below it in document order. An object
  /// without a child reader counts as one key.
  std::vector<std::string> unread() const;

  /// Throws ConfigError if this object has a key that was not read (for groups in which unknown keys change
  /// the function: rope scaling, quantisation, attention).
  void refuse_unread() const;

  /// How errors name `key`: `file: path.of.the.key`; without a key, this object.
  std::string where(std::string_view key) const;
  std::string where() const;

  /// Throws ConfigError at `key`: `what` continues the sentence after the value that was found
  /// (`reader.refuse("act_fn", "is not a valid activation; expected ...")`).
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;

 private:
  struct Document;
  class Place;
  ConfigReader(std::shared_ptr<Document> document, const Json& value, std::string path);

  const Json* find(std::string_view key) const;     // the value, or null when absent; marks it as read
  const Json& require(std::string_view key) const;  // the value; throws when absent or null
  std::size_t choice(std::string_view key, std::span<const std::string_view> names) const;
  Place place(std::string_view key) const;

  std::shared_ptr<Document> document_;
  const Json* value_;  // an object or an array
  std::string path_;
};

}  // namespace hooked
