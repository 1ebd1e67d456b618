#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "io/checkpoint/checkpoint_reader.h"

namespace hooked {

/// How a tensor of a GGUF file lies otherwise than the one of the checkpoint that it was made of.
enum class GgufLayout : std::uint8_t {
  same,
  query_rows,    ///< rotary rows of queries: rows j and j + d_head / 2 of a head stand beside each other
  key_rows,      ///< the same of keys
  side_by_side,  ///< queries, keys and values, each of all heads; they were by group of heads
  split,         ///< queries, keys and values in one that were three
  turned,        ///< a matrix [in, out], turned over
  offset,        ///< a norm's weight, with one added to it
  experts,       ///< one matrix of each expert, all in one tensor
  column,        ///< a matrix of one row, without that axis
  dropped,       ///< a table that models compute
};

/// A module of a GGUF file, and the one of the checkpoint; `.weight` and `.bias` follow both.
struct GgufName {
  std::string_view stored;  ///< behind `blk.N.` where it is one of a block
  std::string_view theirs;  ///< as the family's files name it, without prefix; `{}` is an expert's number
  GgufLayout layout = GgufLayout::same;
};

/// Keys of a family's config that are not what most families call them; an empty one is not in its configs.
struct GgufConfigKeys {
  std::string_view d_mlp = "intermediate_size";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view d_head = "head_dim";
  std::string_view eps = "rms_norm_eps";
};

class GgufModelReader;

/// One `general.architecture` of GGUF files: which family it is, and where its tensors are in the family's
/// terms. A row of the table in gguf_architectures.cc.
struct GgufArchitecture {
  std::string_view name;
  /// A tensor of the first block without which a file belongs to the next row of the name; empty: none.
  std::string_view when = {};
  std::string_view model_type;  ///< of the family
  std::string_view block;       ///< where the family's files have block `{}`
  std::span<const GgufName> ends = {};
  std::span<const std::span<const GgufName>> blocks = {};  ///< in parts
  GgufConfigKeys keys = {};
  bool layer_norm = false;  ///< whether its eps is that of LayerNorms
  bool rotary = true;
  bool partial = false;  ///< whether the family's default turns a part of a head only
  /// What is read of the metadata besides what all have; null: nothing.
  void (*read)(GgufModelReader& reader) = nullptr;
};

/// All of them, by name.
std::span<const GgufArchitecture> gguf_architectures();

/// The row of a GGUF file. Throws CheckpointError for one that names none that is supported.
const GgufArchitecture& gguf_architecture(const CheckpointReader& reader);

}  // namespace hooked
