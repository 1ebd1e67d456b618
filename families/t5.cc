// T5 1.0 and 1.1 (Raffel et al. 2020; gated MLPs: Shazeer 2020), both stacks or the encoder alone.
#include "families/shared/t5_layout.h"

namespace hooked::families::t5 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_t5_config(hf, "relu");
  read_t5_output_scale(hf, c);
  return t5_stacks(hf, c);
}

}  // namespace

extern const Family kFamily = t5_family("t5", read);

}  // namespace hooked::families::t5
