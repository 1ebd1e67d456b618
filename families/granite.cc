// Granite 3 (Granite Team 2024): Llama with multipliers on embedding, sublayers, scores and logits.
#include "families/shared/granite_layout.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_llama_config(hf);
  read_llama_biases(hf, c);
  const double residual = read_granite_multipliers(hf, c);
  read_rope(hf, c);
  return hf.finish(std::move(c),
                   [residual](const ModelConfig& config) { return scaled_llama_recipes(config, residual); });
}

}  // namespace

extern const Family kGraniteFamily = llama_family("granite", read);

}  // namespace hooked
