// Hunyuan (Tencent 2025): Llama with norms of queries and keys after rotary.
#include "families/shared/hunyuan_config.h"

namespace hooked::families::hunyuan_v1_dense {
namespace {

ModelConfig read(HfConfig& hf) { return read_hunyuan_config(hf); }

}  // namespace

extern const Family kFamily = llama_family("hunyuan_v1_dense", read, hunyuan_recipes);

}  // namespace hooked::families::hunyuan_v1_dense
