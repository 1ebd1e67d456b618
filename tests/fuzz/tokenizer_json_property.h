#pragma once

#include <string>
#include <string_view>

#include "core/utf8.h"
#include "hooked/text/tokenizer.h"
#include "tests/fuzz/property.h"
#include "text/unicode/unicode.h"

namespace hooked {

/// What must hold for any bytes taken as a text by any tokenizer: they are refused with a TokenizerError, or
/// their tokens have pieces, cover whole characters of the text, and can be decoded. Returns whether they
/// were accepted; throws std::logic_error where this does not hold.
inline bool encode_property(const Tokenizer& tokenizer, std::string_view text) {
  const bool valid = !first_invalid_byte(text);
  for (const bool special : {false, true}) {
    Encoding encoding;
    if (!accepts<TokenizerError>([&] { encoding = tokenizer.encode(text, {.add_special_tokens = special}); }))
      return false;
    hold(valid, "accepted text that is not UTF-8");
    hold(encoding.ids.size() == encoding.offsets.size() && encoding.ids.size() == encoding.pieces.size(),
         "lists of different lengths");
    const auto on_boundary = [&](std::size_t byte) {
      return byte == text.size() || (static_cast<unsigned char>(text[byte]) & 0xC0) != 0x80;
    };
    for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
      hold(tokenizer.piece(encoding.ids[i]) == encoding.pieces[i], "another piece");
      const auto [begin, end] = encoding.offsets[i];
      hold(begin <= end && end <= text.size(), "an offset outside the text");
      hold(on_boundary(begin) && on_boundary(end), "an offset inside a character");
    }
    hold(!first_invalid_byte(tokenizer.decode(encoding.ids)), "decoded to text that is not UTF-8");
    (void)tokenizer.decode(encoding.ids, {.skip_special_tokens = true});
  }
  return true;
}

/// What must hold for any bytes taken as a tokenizer.json: they are refused with a TokenizerError, or the
/// tokenizer that they describe has the property above. Returns whether they were accepted.
inline bool tokenizer_json_property(std::string_view json) {
  return accepts<TokenizerError>([&] {
    const auto tokenizer = Tokenizer::parse(json);
    for (const std::string_view text : {"", "a", "Hello, world! It's 12345.",
                                        " \n a\u00e9e\u0301 \u4e2d\u6587 \U0001f600", "<s>\u2581##a<0x41>"}) {
      encode_property(tokenizer, text);
    }
  });
}

}  // namespace hooked
