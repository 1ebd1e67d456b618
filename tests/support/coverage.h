#pragma once

#include <string>
#include <vector>

namespace hooked {

/// Which tests cover one value of one option.
struct ValueCoverage {
  std::string option;
  std::string value;
  std::vector<std::string> goldens;  ///< cases of an outside oracle, transformers' first
  std::size_t pairwise = 0;          ///< configs that are compared with the plain model
  std::string no_oracle;             ///< why the golden is missing, or empty
};

/// One row per value of the option table, in its order.
std::vector<ValueCoverage> option_coverage();

/// docs/coverage.md.
std::string coverage_document();

}  // namespace hooked
