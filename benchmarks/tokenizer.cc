// How long does it take to turn a text into tokens? Prints the seconds of the fastest of five runs, and
// writes the ids as JSON, so that benchmarks/compare_tokenizer_speed.py can compare both with another
// tokenizer's.
//
//   bench_tokenizer TOKENIZER TEXT IDS.json
#include "hooked/text/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <limits>

#include "hooked/io/file.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: bench_tokenizer TOKENIZER TEXT IDS.json\n");
    return 2;
  }
  try {
    const auto tokenizer = hooked::Tokenizer::load(argv[1]);
    const auto text = hooked::read_text_file(argv[2], std::uint64_t{1} << 32);
    hooked::Encoding encoding;
    auto best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 5; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      encoding = tokenizer.encode(text);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    hooked::write_file(argv[3], fmt::format("[{}]", fmt::join(encoding.ids, ",")));
    fmt::print("{:.6f}\n", best);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
