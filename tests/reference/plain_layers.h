#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "hooked/core/model_config.h"
#include "plain_model.h"

/// The parts of the plain model: each is a formula of a paper, written as loops.
namespace hooked::reference {

using Weights = std::map<std::string, Array>;

/// The values of a run at its points, after the changes there.
class Points {
 public:
  explicit Points(Change change = nullptr) : change_(std::move(change)) {}
  /// Records the value at a point after the change there, and returns it: what comes after reads that.
  Array keep(const std::string& name, Array value);
  /// Records a value that nothing reads again. Throws std::invalid_argument if the change there alters it.
  void note(const std::string& name, Array value);
  /// Notes that some choice was between equals.
  void leave_undecided() { undecided_ = true; }
  bool undecided() const { return undecided_; }
  /// All of them by name.
  const std::map<std::string, Array>& values() const { return values_; }

 private:
  Change change_;
  std::map<std::string, Array> values_;
  bool undecided_ = false;
};

/// What a decoder reads from its encoder.
struct Encoded {
  Array output;                         ///< [batch, pos, d_model], normed
  std::vector<std::vector<bool>> real;  ///< [batch][pos], false for padding
};

/// The keys and values of an attention, in the form in which queries meet them.
struct MadeKeys {
  Array keys, values;  ///< [batch, pos, kv_head, d_head]
};

/// What every block of one stack reads.
struct Sequence {
  std::string stack = "blocks";  ///< the prefix of its blocks' names
  AttentionDirection direction = AttentionDirection::causal;
  const Encoded* encoded = nullptr;                  ///< of a decoder that has an encoder
  std::vector<std::vector<bool>> real;               ///< [batch][pos], false for padding
  std::vector<std::vector<std::int64_t>> positions;  ///< [batch][pos], counted over real tokens from 0
  Array pos_embed;                                   ///< [batch, pos, d_model]; empty without W_pos
  Tokens tokens = {};                                ///< [batch][pos]
  Array embedding = {};                              ///< [batch, pos, d_model], of the tokens alone
  /// The last layer so far with keys of its own, with a window and without (Gemma 4).
  std::map<bool, MadeKeys>* made = nullptr;
};

/// A sum of two arrays of one shape.
Array sum(const Array& a, const Array& b);

/// x W + b over the last axis of `x`: W is [in, out]; an empty `b` is zero.
Array linear(const Array& x, const Array& weight, const Array& bias);

/// The parts of a norm. Missing weights (empty arrays) mean w = 1 and b = 0.
struct Norm {
  NormKind kind = NormKind::none;
  double eps = 0.0;
  bool offset = false;     ///< the stored weight means 1 + w
  Array w;                 ///< [width]
  Array b;                 ///< [width]
  std::int64_t heads = 0;  ///< in the last axis, if one norm spans them; else 0
};

/// Norms over the last axis (Ba et al. 2016; Zhang and Sennrich 2019), and records `name.hook_scale` [..., 1]
/// and `name.hook_normalized` [..., width]. A norm of kind none returns its input and records nothing.
Array apply_norm(const Norm& norm, const Array& x, const std::string& name, Points& points);

/// The activation function of one value; solu, which looks at all neurons, and xielu are not here.
double activate(Activation activation, double x);

/// The activation over the last axis.
Array activate_all(Activation activation, const Array& x);

/// xIELU (Huang and Schlag 2024) with the numbers stored under `name`.
Array xielu_all(const Weights& weights, const std::string& name, const Array& x);

/// The gate branch, clipped to the config's limit if it has one.
Array held(const ModelConfig& config, Array gate);

/// The activated gate times the up branch, which is clipped to the limit and may have 1 added.
Array product(const ModelConfig& config, Array activated, const Array& up);

/// Angle per position of every rotated pair [rotary_dim / 2] in a layer for a row of `row_length` tokens, and
/// the factor on cos and sin.
struct RotaryTable {
  std::vector<double> radians_per_position;
  double amplitude = 1.0;
};
RotaryTable rotary_table(const ModelConfig& config, std::int64_t layer, std::int64_t row_length);

/// Rotates the leading or the last dimensions of `x` [batch, pos, heads, d_head] (Su et al. 2021).
Array rotate(const Array& x, const ModelConfig& config, std::int64_t layer, const Sequence& sequence);

/// Attention of block `layer` on what it reads [batch, pos, d_model] (after ln1), without the output norm.
Array attention(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& x,
                const Sequence& sequence, Points& points);

/// The short convolution of block `layer` on what it reads [batch, pos, d_model] (after ln1), without the
/// output norm. It does not see padding.
Array short_convolution(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& x,
                        const Sequence& sequence, Points& points);

/// The gated delta net of block `layer`, the same.
Array delta_net(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& x,
                const Sequence& sequence, Points& points);

/// Attention of the decoder's block `layer` on what it reads [batch, pos, d_model] (after ln2) to the
/// encoder's output (Vaswani et al. 2017, section 3.2.3). Distances have no part in it.
Array cross_attention(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& x,
                      const Encoded& encoded, Points& points);

/// The MLP of this name (`blocks.3.mlp.`) on what it reads [batch, pos, d_model], without the output norm.
Array mlp(const ModelConfig& config, const Weights& weights, const std::string& name, const Array& x,
          Points& points);

/// The mixture of experts of block `layer` on the stream and on the output of the block's norm [batch,
/// pos, d_model], without the output norm. Padding goes to no expert.
Array mixture(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& stream,
              const Array& normed, const Sequence& sequence, Points& points);

/// `weights[name]`, or an empty array.
Array weight_or_empty(const Weights& weights, const std::string& name);

/// The norm of this name: its kind and the weights it has.
Norm norm_of(const ModelConfig& config, const Weights& weights, NormKind kind, const std::string& name);

}  // namespace hooked::reference
