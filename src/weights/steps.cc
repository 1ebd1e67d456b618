#include "weights/steps.h"

namespace hooked::weights {

const std::array<StepDefinition, kProcessingSteps.size()>& step_table() {
  static const std::array table = {fold_ln_step(), center_writing_weights_step(), center_unembed_step(),
                                   fold_value_biases_step(), refactor_attention_step()};
  return table;
}

}  // namespace hooked::weights
