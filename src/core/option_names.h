#pragma once

#include <array>
#include <string_view>

namespace hooked {

// Names that configs and command lines spell out. They are kept apart from what they name so that a command
// line can be read without LibTorch.

/// The dtypes that weights may have.
inline constexpr std::array<std::string_view, 4> kFloatDtypeNames = {"float32", "float64", "bfloat16",
                                                                     "float16"};

/// The steps of weight processing, in the order of kProcessingSteps.
inline constexpr std::array<std::string_view, 5> kProcessingStepNames = {
    "fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases",
    "refactor_factored_attn_matrices"};

}  // namespace hooked
