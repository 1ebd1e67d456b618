#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "hooked/analysis/heads.h"

namespace hooked {

/// One row's attention by one head, as a score sees it, in plain loops: the oracle of head_scores().
struct AttentionByHand {
  at::Tensor pattern;               ///< [query, key] float64
  std::vector<std::int64_t> reals;  ///< columns of real tokens, in their order
  bool exclude_bos = false;
  bool exclude_current_token = false;

  double attention(std::int64_t q, std::int64_t k) const { return pattern[q][k].item<double>(); }
  bool excludes(std::int64_t q, std::int64_t k) const {
    return (exclude_bos && k == reals.front()) || (exclude_current_token && k == q);
  }

  /// `wanted(q, k)`: how much of the key counts.
  double score(HeadMeasure measure, const std::function<double(std::int64_t, std::int64_t)>& wanted) const {
    double found = 0, looking = 0, all = 0, difference = 0;
    for (const auto q : reals) {
      bool any = false;
      double given = 1;
      for (const auto k : reals) {
        if (excludes(q, k)) {
          given -= attention(q, k);
          continue;
        }
        any = any || wanted(q, k) != 0;
        found += attention(q, k) * wanted(q, k);
        all += attention(q, k);
        difference += std::abs(attention(q, k) - wanted(q, k));
      }
      if (any) looking += given;
    }
    if (measure == HeadMeasure::mul) return found / all;
    if (measure == HeadMeasure::abs) return 1 - difference / static_cast<double>(reals.size());
    return looking == 0 ? std::numeric_limits<double>::quiet_NaN() : found / looking;
  }

  /// The mean over queries of a number computed from their attention, as shares of what is not excluded.
  double mean(const std::function<double(std::int64_t q, std::int64_t k, double share)>& number) const {
    double sum = 0, queries = 0;
    for (const auto q : reals) {
      double total = 0;
      for (const auto k : reals) total += excludes(q, k) ? 0 : attention(q, k);
      if (total == 0) continue;
      queries += 1;
      for (const auto k : reals) {
        if (!excludes(q, k)) sum += number(q, k, attention(q, k) / total);
      }
    }
    return sum / queries;
  }
};

}  // namespace hooked
