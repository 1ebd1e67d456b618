#include "families/shared/fairseq_layout.h"

namespace hooked {

void add_fairseq_blocks(Recipes& r, const AddNorm& add_norm) {
  const auto norm = [&](std::string_view ours, std::string_view theirs) {
    add_norm ? add_norm(ours, theirs) : r.norm(ours, theirs);
  };
  r.each_block("layers.{}.", [&](std::int64_t) {
    norm("ln1", "self_attn_layer_norm");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    r.attention_out("self_attn.out_proj");
    norm("ln2", "final_layer_norm");
    r.mlp_in("fc1");
    r.mlp_out("fc2");
  });
}

}  // namespace hooked
