#include "families/shared/fairseq_layout.h"

namespace hooked {

void add_fairseq_attention(Recipes& r) {
  r.queries("self_attn.q_proj");
  r.keys("self_attn.k_proj");
  r.values("self_attn.v_proj");
  r.attention_out("self_attn.out_proj");
}

void add_fairseq_mlp(Recipes& r) {
  r.mlp_in("fc1");
  r.mlp_out("fc2");
}

}  // namespace hooked
