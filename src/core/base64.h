#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hooked {

/// Standard base64 with padding (RFC 4648, section 4).
std::string encode_base64(std::string_view bytes);

/// The bytes that such a text encodes, or nothing for any other text.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace hooked
