#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "hooked/text/tokenizer.h"

namespace hooked {

/// A token that is looked for in the raw text, before it is cut into words.
struct AddedToken {
  std::int64_t id;
  std::string content;
  bool special;     ///< left out when decoding skips special tokens
  bool normalized;  ///< looked for only in what the others left over
};

/// The added tokens of a tokenizer.
class AddedTokens {
 public:
  void add(AddedToken token);

  bool special(std::int64_t id) const noexcept { return special_.contains(id); }

  /// A part of a text: an added token, or (id -1) what lies between two.
  struct Part {
    TextSpan span;
    std::int64_t id = -1;
  };

  /// Cuts `text` at the added tokens in it: the leftmost first, the longest of those that begin at one place.
  std::vector<Part> split(std::string_view text) const;

 private:
  using ByFirstByte = std::array<std::vector<AddedToken>, 256>;  // each list longest first

  static void split_span(std::string_view text, TextSpan span, const ByFirstByte& tokens,
                         std::vector<Part>& parts);

  ByFirstByte raw_;
  ByFirstByte normalized_;
  std::unordered_set<std::int64_t> special_;
};

}  // namespace hooked
