#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/part.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/address.h"

/// What happens to the residual stream, in which order. This is the one place that says so: what analyses
/// walk, name and refuse follows from it, and a test checks the module graph against it.
namespace hooked {

/// What may mix the tokens of a block's stream. A block has one of them.
inline constexpr std::array kMixers{Part::attention, Part::short_conv, Part::delta_net};

/// One thing that happens to the residual stream.
struct StreamStep {
  enum class Kind : std::uint8_t {
    show,   ///< nothing: a point shows the stream at this place
    read,   ///< a module reads it
    write,  ///< a module, or an embedding, adds to it
    norm,   ///< the stream itself is normed and continues as the norm's output
    scale,  ///< the stream is multiplied by a number
  };
  Kind kind;
  Stack stack;  ///< whose stream it is
  Part part;    ///< of a read or a write: the module's part; of a norm or a scale: its own
  /// show: the point. read: the point of what is read, if the model has one; at the end of the stream, its
  /// last point. write: the point of what is added. norm: its `normalized`. scale: the point of what is
  /// multiplied.
  ActivationName point;
  /// Norms, by their `normalized`. read: those that the module reads through, its own first; a mixture's
  /// router and experts may have others. write: those between the module and the stream.
  std::vector<ActivationName> through = {};
  std::string_view module = {};  ///< `attn`, `mlp`, `ln1`: how labels begin

  bool in_block() const { return point.scope() == SiteScope::block; }
  /// The block that it is in.
  BlockPlace block() const { return {point.stack, point.layer}; }
  /// Whether a block's sublayer writes, not the embedding.
  bool by_sublayer() const { return kind == Kind::write && in_block() && point.site != Site::resid_pre; }
  /// `attn 3`; with a word between: `attn bias 3`. Outside blocks without the number. Does not tell stacks
  /// apart.
  std::string label(std::string_view between = "") const;
  /// The label of a part of it: `head 3.1`, `cross head 3.1`, `neuron 3.1`.
  std::string part_label(std::string_view kind, std::int64_t number) const;
  /// Whether the sublayer that reads or writes mixes the tokens of its block's stream (kMixers).
  bool mixes_own_tokens() const;
  /// The same, or cross-attention.
  bool mixes_tokens() const { return mixes_own_tokens() || crosses(); }
  bool crosses() const { return part == Part::cross_attention; }
  bool of_mlp() const { return part == Part::dense_mlp || part == Part::mixture; }
  /// Whether it shows the stream within a block: after the block's first point and before its
  /// last.
  bool shows_within_block() const;
  /// Whether the reader comes after the last block: the unembedding, or cross-attention in every layer of a
  /// decoder.
  bool reads_end() const {
    const bool source = stack == Stack::encoder && part == Part::cross_attention;
    return kind == Kind::read && (source || part == Part::unembedding);
  }
  /// Whether attention reads or writes, head by head.
  bool of_heads() const { return part == Part::attention || part == Part::cross_attention; }
  /// For attention: its point, `q` or `cross_q`, from the plain one.
  ActivationName of_attention(Site plain) const;
};

/// The site of cross-attention that corresponds to one of attention: `cross_q` to `q`.
Site cross_site(Site plain);

/// What happens to the stream of a stack, from its embedding to the reader at its end. Stack::none is the
/// stack that predicts.
std::vector<StreamStep> stream_of(const ModelConfig& config, Stack stack = Stack::none);

/// The step of that kind by which such a sublayer of a block reads or writes, as in `step_in(steps, read,
/// &StreamStep::of_mlp, 3)`; null if the block has none.
const StreamStep* step_in(const std::vector<StreamStep>& steps, StreamStep::Kind kind,
                          bool (StreamStep::*which)() const, std::int64_t layer);

/// The last point before a step that shows the stream as it is at that step.
const ActivationName& shown_before(const StreamStep* step);

/// The norm that a head's values are read through, by its `normalized`; `write` is the head's write step.
std::optional<ActivationName> norm_before_values(const ModelConfig& config, const StreamStep& write);

/// What the streams of a model begin with: the points before their first blocks, and the embeddings that
/// write to them. By full names.
std::set<ActivationName> stream_beginnings(const ModelConfig& config);

/// The stacks of a model, the encoder's first.
std::vector<Stack> stacks_of(const ModelConfig& config);

/// The last point that shows the stream: `resid_post`, or the output of the last norm on it.
ActivationName end_of_stream(const ModelConfig& config, Stack stack = Stack::none);

/// One part of a model that writes to a stream: a head, or a module that has no heads.
struct StreamWriter {
  std::string label;  ///< `head 0.3`, `mlp 1`, `encoder mlp 0`
  Address place;      ///< z of the head, or what the module adds
};

/// The parts of all sublayers, in the order in which they write; an encoder's come first. If a stack is
/// given, only its parts.
std::vector<StreamWriter> sublayers(const ModelConfig& config, Stack stack = Stack::none);

/// Where they write, each point once: `z, mlp_out`.
std::string points_of(const std::vector<StreamWriter>& writers);

/// The label of a part in a model: an encoder's parts get a prefix, those of the stack that predicts have the
/// plain labels.
std::string in_stack(const std::string& label, Stack stack);

/// The parts of a write step.
std::vector<StreamWriter> writers_of(const ModelConfig& config, const StreamStep& write);

}  // namespace hooked
