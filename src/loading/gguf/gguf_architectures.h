#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "io/checkpoint/checkpoint_reader.h"

namespace hooked {

/// How a tensor's layout in a GGUF file differs from the original checkpoint's.
enum class GgufLayout : std::uint8_t {
  same,
  query_rows,    ///< rotary rows of queries: rows j and j + d_head / 2 of a head are neighbours
  key_rows,      ///< the same for keys
  side_by_side,  ///< queries, keys and values, each of all heads; originally by group of heads
  split,         ///< queries, keys and values in one that were three
  turned,        ///< a matrix [in, out], transposed
  offset,        ///< a norm's weight, with one added to it
  experts,       ///< the matrices of all experts in one tensor
  column,        ///< a matrix of one row, without that axis
  dropped,       ///< a table that models compute
};

/// A module of a GGUF file, and that of the checkpoint; `.weight` and `.bias` are appended to both.
struct GgufName {
  std::string_view stored;  ///< after `blk.N.` if it belongs to a block
  std::string_view theirs;  ///< as the family's files name it, without prefix; `{}` is an expert's number
  GgufLayout layout = GgufLayout::same;
};

/// The modules outside blocks, as Llama's files name them.
inline constexpr GgufName kLlamaEnds[] = {
    {"token_embd", "embed_tokens"}, {"output_norm", "norm"}, {"output", "lm_head"}};

/// Keys of a family's config, if they differ from most families'; an empty one is not in its configs.
struct GgufConfigKeys {
  std::string_view d_mlp = "intermediate_size";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view d_head = "head_dim";
  std::string_view eps = "rms_norm_eps";
};

class GgufModelReader;

/// One `general.architecture` of GGUF files: its family, and the places of its tensors in the family's terms.
/// A row of the table in gguf_architectures.cc.
struct GgufArchitecture {
  std::string_view name;
  /// A tensor of the first block; a file without it belongs to the next row of the name; empty: none.
  std::string_view when = {};
  std::string_view model_type;            ///< of the family
  std::string_view block = "layers.{}.";  ///< prefix of block `{}` in the family's files
  std::span<const GgufName> ends = kLlamaEnds;
  std::span<const std::span<const GgufName>> blocks = {};  ///< in parts
  GgufConfigKeys keys = {};
  bool layer_norm = false;  ///< whether its eps is that of LayerNorms
  bool rotary = true;
  bool partial = false;  ///< whether the family rotates only a part of a head by default
  /// Reads the metadata that not all architectures have; null: there are none.
  void (*read)(GgufModelReader& reader) = nullptr;
};

/// All of them, by name.
std::span<const GgufArchitecture> gguf_architectures();

/// The `general.architecture` of a GGUF file, whether it is supported or not; nothing if it is no text.
std::optional<std::string_view> gguf_architecture_name(const CheckpointReader& reader);

/// The row of a GGUF file. Throws CheckpointError unless the file names a supported one.
const GgufArchitecture& gguf_architecture(const CheckpointReader& reader);

}  // namespace hooked
