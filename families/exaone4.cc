// EXAONE 4 (LG AI Research 2025): OLMo 2 with norms of each query and key; full layers have no positions.
#include "families/shared/exaone_windows.h"
#include "families/shared/olmo2_layout.h"

namespace hooked::families::exaone4 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_olmo2_config(hf, QkNorm::per_head, /*n_kv_heads=*/32);
  read_exaone_windows(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("exaone4", read, olmo2_recipes);

}  // namespace hooked::families::exaone4
