#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/utf8.h"
#include "hooked/core/error.h"

namespace hooked {

/// Throws std::logic_error unless `condition` holds: a property is broken.
inline void hold(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

/// What must hold for the text of any error: it is one line of UTF-8 that says something.
inline void hold_sentence(std::string_view text) {
  hold(!text.empty() && text != "[] ", "an error without a text");
  hold(!first_invalid_byte(text), "a message that is not UTF-8");
  const auto controls = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  hold(std::ranges::none_of(text, controls), "a message with control characters");
}

/// Whether `read` takes its input. It may refuse it with a `Refusal` whose text is a sentence; what else it
/// throws leaves this function.
template <class Refusal = Error, class Read>
bool accepts(const Read& read) {
  try {
    read();
    return true;
  } catch (const Refusal& error) {
    hold_sentence(error.what());
    return false;
  }
}

/// The input without its first byte, which chooses one of `count`.
struct Chosen {
  std::size_t number;
  std::string_view bytes;
};
inline Chosen chosen(std::string_view input, std::size_t count) {
  if (input.empty()) return {0, {}};
  return {static_cast<unsigned char>(input.front()) % count, input.substr(1)};
}

}  // namespace hooked
