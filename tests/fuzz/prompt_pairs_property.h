#pragma once

#include <array>
#include <string_view>

#include "hooked/analysis/prompt_pairs.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"

namespace hooked {

/// What must hold for any bytes as a file of prompt pairs, JSON lines or a table as the first byte says: they
/// are refused with an Error, or the pairs are the same when they are written and read again. Returns whether
/// they were accepted; throws std::logic_error where this does not hold.
inline bool prompt_pairs_property(std::string_view input) {
  constexpr std::array kFiles = {"pairs.jsonl", "pairs.csv"};
  const auto [number, bytes] = chosen(input, kFiles.size());
  const auto file = put(kFiles.at(number), bytes);
  return accepts([&] {
    const auto pairs = read_prompt_pairs(file);
    hold(!pairs.empty(), "no pairs");
    write_prompt_pairs(scratch() / "written.jsonl", pairs, Overwrite::any);
    hold(read_prompt_pairs(scratch() / "written.jsonl") == pairs, "pairs that change");
  });
}

}  // namespace hooked
