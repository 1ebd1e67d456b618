#pragma once

#include <cstdint>
#include <vector>

namespace hooked {

/// ALiBi slopes (Press et al. 2022) [head] as BLOOM and Falcon compute them: a head count that is not a power
/// of two takes the slopes of the power below, then every second slope of the power above.
std::vector<double> appended_alibi_slopes(std::int64_t n_heads);

/// The slopes [head] as MPT computes them: from the next power of two, first every second one, then the
/// others.
std::vector<double> halved_alibi_slopes(std::int64_t n_heads);

}  // namespace hooked
