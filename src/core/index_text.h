#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace hooked {

/// Places on an axis as addresses and the command line spell them: `6`, `-1`, `2:5`, `:4`, `1+3`, `last`.
struct IndexText {
  enum class Kind : std::uint8_t { one, range, list, last };

  Kind kind = Kind::range;
  std::vector<std::int64_t> numbers = {};                                ///< one, or those of a list
  std::optional<std::int64_t> begin = std::nullopt, end = std::nullopt;  ///< of a range; absent: left open

  /// The places as an AxisIndex, a type of a higher room.
  template <typename Index>
  Index as() const {
    switch (kind) {
      case Kind::one:
        return numbers.front();
      case Kind::range:
        return typename Index::Range{begin, end};
      case Kind::list:
        return numbers;
      case Kind::last:
        break;
    }
    return typename Index::Last{};
  }
};

/// What the command line calls every position.
inline constexpr std::string_view kAllPositions = "all";

/// What the sentence of an error says about their form.
inline constexpr std::string_view kIndexForms = "i, i:j, i+j+... or last";

/// The places that `text` spells; nothing if it spells none.
std::optional<IndexText> read_index(std::string_view text);

}  // namespace hooked
