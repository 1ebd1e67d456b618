#pragma once

#include "hooked/hooks/site.h"

namespace hooked {

/// Whether this is what a block adds to the stream behind its attention: an MLP's output, or what the block
/// reads of tokens.
inline bool is_added_behind_attention(Site site) {
  return site == Site::mlp_out || site == Site::layer_input_out;
}

/// Whether this is what a sublayer adds to the stream.
inline bool is_added_to_stream(Site site) {
  return site == Site::attn_out || site == Site::cross_attn_out || is_added_behind_attention(site);
}

}  // namespace hooked
