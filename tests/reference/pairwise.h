#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "option_table.h"

namespace hooked::reference {

/// Two values of two options that no valid config has together.
struct RefusedPair {
  std::string first;  ///< `option: value`
  std::string second;
  std::string reason;  ///< the message of `ModelConfig::validate`
};

/// Cases in which every two values of every two options occur together at least once, if a valid config has
/// both.
struct PairwiseCover {
  std::vector<Case> cases;
  std::vector<RefusedPair> refused;
};

/// The covering set, made greedily with a fixed seed: each case starts from a pair that is not yet covered
/// and takes, option by option, the valid value that covers most new pairs.
const PairwiseCover& pairwise_cover();

}  // namespace hooked::reference
