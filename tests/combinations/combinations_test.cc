// Combinations drawn at random, each compared with single, unpadded, whole runs of the plain model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "tests/combinations/comparison.h"

namespace hooked::combinations {
namespace {

/// How many a run draws by default, and the default seed: about a minute.
constexpr std::int64_t kDrawn = 5000;
constexpr std::uint64_t kSeed = 1;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Tally {
  std::int64_t compared = 0, refused = 0, numbers = 0;
};

class Instrument {
 public:
  explicit Instrument(std::uint64_t seed) : seed_(seed) {}

  void run(std::int64_t number) {
    const Combination c = draw(seed_ * 1000003 + static_cast<std::uint64_t>(number));
    const Outcome outcome = compared(c);
    Tally& tally = tallies_[c.consumer];
    if (outcome.difference.empty()) {
      tally.compared += outcome.refused.empty() && outcome.numbers > 0 ? 1 : 0;
      tally.refused += outcome.refused.empty() ? 0 : 1;
      tally.numbers += outcome.numbers;
      if (!outcome.refused.empty()) ++refusals_[outcome.refused];
      return;
    }
    report(c, outcome, number);
  }

  void print() const {
    fmt::print("{:<14}{:>10}{:>10}{:>12}\n", "consumer", "compared", "refused", "numbers");
    for (const auto& [consumer, tally] : tallies_) {
      fmt::print("{:<14}{:>10}{:>10}{:>12}\n", consumer_name(consumer), tally.compared, tally.refused,
                 tally.numbers);
      EXPECT_GT(tally.compared, 0) << consumer_name(consumer) << " was only refused";
    }
    for (const auto& [because, count] : refusals_) fmt::print("{:>6} refused: {}\n", count, because);
  }

  bool enough() const { return failures_ >= kMostFailures; }

 private:
  static constexpr int kMostFailures = 12;

  /// The kind of a failure: its words without numbers and without the text in brackets.
  static std::string kind(const Combination& c, const std::string& difference) {
    std::string words(consumer_name(c.consumer));
    int depth = 0;
    for (const char letter : difference.substr(0, 200)) {
      depth += letter == '[' ? 1 : letter == ']' ? -1 : 0;
      const bool counts = std::isalpha(static_cast<unsigned char>(letter)) != 0 && depth == 0;
      if (counts && words.size() < 110) words += letter;
    }
    return words;
  }

  void report(Combination c, Outcome outcome, std::int64_t number) {
    bool simpler = true;
    while (simpler) {
      simpler = false;
      for (const Combination& less : shrunk(c)) {
        Outcome of_less;
        try {
          of_less = compared(less);
        } catch (const std::exception&) {
          continue;
        }
        const bool refused = outcome.difference.starts_with("refused");
        if (of_less.difference.empty() || of_less.difference.starts_with("refused") != refused) continue;
        if (refused && kind(less, of_less.difference) != kind(c, outcome.difference)) continue;
        c = less;
        outcome = of_less;
        simpler = true;
        break;
      }
    }
    ++failed_;
    if (!kinds_.insert(kind(c, outcome.difference)).second) return;
    ++failures_;
    ADD_FAILURE() << outcome.difference << "\n"
                  << describe(c) << "\nnumber " << number << " of seed " << seed_;
  }

  std::uint64_t seed_;
  std::map<Consumer, Tally> tallies_;
  std::map<std::string, std::int64_t> refusals_;
  std::set<std::string> kinds_;
  int failures_ = 0;
  std::int64_t failed_ = 0;
};

TEST(Combinations, EqualWholeUnpaddedRuns) {
  const std::string minutes = variable("HOOKED_COMBINATIONS_MINUTES"),
                    seed = variable("HOOKED_COMBINATIONS_SEED"),
                    only = variable("HOOKED_COMBINATIONS_NUMBER");
  Instrument instrument(seed.empty() ? kSeed : std::stoull(seed));
  if (!only.empty()) return instrument.run(std::stoll(only));
  const auto begin = std::chrono::steady_clock::now();
  const auto time_is_left = [&] {
    const std::chrono::duration<double, std::ratio<60>> passed = std::chrono::steady_clock::now() - begin;
    return passed.count() < std::stod(minutes);
  };
  for (std::int64_t number = 0; minutes.empty() ? number < kDrawn : time_is_left(); ++number) {
    instrument.run(number);
    if (instrument.enough()) break;
  }
  instrument.print();
}

}  // namespace
}  // namespace hooked::combinations
