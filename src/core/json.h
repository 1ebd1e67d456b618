#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_type.h"

namespace hooked {

/// What a JSON document may be, depending on the kind of file that contains it.
struct JsonLimits {
  std::size_t bytes = 1 << 20;
  std::size_t depth = 64;  ///< arrays and objects open at once; the reader's recursion depth
  /// The path of the one object whose keys may repeat, `{"model", "vocab"}`; an empty path is the whole
  /// document. The parsed object has all of its members, in the file's order.
  std::optional<std::vector<std::string_view>> repeating{};
};

/// Parses one JSON value. Refuses, with the byte position: more bytes or depth than allowed, text that is not
/// valid UTF-8, a byte order mark, duplicate keys (but see `repeating`), unfinished input and anything after
/// the value. Time is n log n, memory a small multiple of the text. Throws std::invalid_argument with the
/// plain reason; the caller turns it into an Error class of its own.
Json parse_json(std::string_view text, const JsonLimits& limits);

/// The key under which transformers has written numbers that are not finite since December 2025:
/// `{"__float__": "Infinity"}`.
inline constexpr const char* kNotFiniteKey = "__float__";

/// Like parse_json, for files that Python's json module writes: `NaN`, `Infinity` and `-Infinity` are values,
/// too. They become the form above, so that a document survives being written again, and so that code that
/// reads a number there refuses it. Throws std::invalid_argument.
Json parse_python_json(std::string_view text, const JsonLimits& limits);

/// The word of a value in that form, else nothing.
std::optional<std::string> not_finite(const Json& value);

/// A value in one line. Bytes of texts that are not valid UTF-8 are replaced by U+FFFD.
std::string json_text(const Json& value);

/// `text` with control characters and bytes that are not UTF-8 escaped, cut to a readable length, for use in
/// messages.
std::string printable(std::string_view text);

/// The kind of a JSON value, with its article: `an integer`, `a string`.
std::string_view json_kind(const Json& value) noexcept;

}  // namespace hooked
