#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/dictionaries/dictionary.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// What stands in the place of the MLPs of a graph: transcoders, or the neurons themselves.
class GraphFeatures {
 public:
  /// Transcoders, each at the MLP whose output it writes: at most one for each layer. Those that cross layers
  /// write to their own layer and to all after it. The output of a layer without one is an error node.
  GraphFeatures(std::vector<Dictionary> transcoders);  // NOLINT: a list of transcoders is such a thing
  /// The neurons of plain MLPs: the graph is exact, without errors. A neuron's value is its activation, what
  /// leads into it makes its pre-activation.
  static GraphFeatures neurons();

  /// Whether features are neurons.
  bool are_neurons() const noexcept { return neurons_; }
  /// The transcoders; none for neurons.
  const std::vector<Dictionary>& transcoders() const& noexcept { return transcoders_; }
  /// The same of a temporary, as a copy.
  std::vector<Dictionary> transcoders() const&& { return transcoders_; }

 private:
  std::vector<Dictionary> transcoders_;
  bool neurons_ = false;
};

/// What a node of a graph is.
enum class GraphNodeKind : std::uint8_t {
  feature,  ///< of a transcoder, or a neuron
  error,    ///< what the reconstruction of an MLP's output misses at a position
  token,    ///< the embedding of a token
  logit,    ///< a logit at the last position, or another direction there
};

/// A node of a graph.
struct GraphNode {
  GraphNodeKind kind = GraphNodeKind::feature;  ///< what it is
  std::int64_t layer = -1;                      ///< of a feature or an error
  std::int64_t pos = 0;                         ///< the column of the prompt
  /// The number of a feature in its layer; of a token and a logit its id, for other directions the size of
  /// the vocabulary plus their number; of an error -1.
  std::int64_t id = -1;
  double value = 0;       ///< a feature's activation; a logit's weight, its probability
  std::string text = {};  ///< of a token or a logit
  /// Of a pruned graph: the share of all influence that the nodes with as much influence or more have.
  std::optional<double> influence = {};

  bool operator==(const GraphNode&) const = default;
};

/// The direct effects of features, errors and tokens on one another and on logits, for one prompt (Ameisen et
/// al. 2025). Nodes are in the order features (by layer, position and number), errors (by layer and
/// position), tokens, logits. A feature's or logit's incoming edges and its constant add up to its
/// pre-activation, if all active features are in the graph.
struct AttributionGraph {
  std::vector<GraphNode> nodes;  ///< features, errors, tokens, logits
  std::int64_t features = 0;     ///< how many of the nodes are features
  std::int64_t errors = 0;       ///< how many are errors
  std::int64_t tokens = 0;       ///< how many are tokens
  std::int64_t logits = 0;       ///< how many are logits

  /// [target, source], on the CPU: targets are features, then logits; sources are features, errors, tokens.
  at::Tensor edges;
  /// [target]: what the biases of the model and of the transcoders, and MLPs at excluded positions, add to a
  /// target. Undefined for a graph that was loaded.
  at::Tensor constants;
  /// [target]: the pre-activation in the run. Of a logit: minus the mean of all. Undefined as constants.
  at::Tensor preactivations;

  std::string prompt = {};                      ///< as a text
  std::vector<std::string> prompt_tokens = {};  ///< each token of it
  std::int64_t layers = 0;                      ///< of the model
  std::int64_t vocabulary = 0;                  ///< its size
  /// Features that were active; those that are not in the graph are in no node.
  std::int64_t active = 0;
  std::int64_t excluded_positions = 0;  ///< the first positions, at which MLPs have no nodes
  std::vector<std::string> notes = {};  ///< what a reader of the graph should know

  /// The row of `edges` of a node that is a target: of a feature or a logit. Throws ShapeError for others.
  std::int64_t row_of(std::int64_t node) const;
  /// The column of `edges` of a node that is a source: any but a logit. Throws ShapeError for others.
  std::int64_t column_of(std::int64_t node) const;
  /// The node of a row.
  std::int64_t target(std::int64_t row) const { return row < features ? row : row + errors + tokens; }
  /// The effect of `source` on `target`, two nodes. Throws ShapeError as row_of() and column_of().
  double edge(std::int64_t source, std::int64_t target) const;
};

/// Another target than logits: a direction at the unembedding's input.
struct GraphDirection {
  std::string text;      ///< its name
  at::Tensor direction;  ///< [d_model]
  double weight = 1;     ///< as the probability of a logit
};

/// How a graph is made. For designated initialisers.
struct AttributionGraphOptions {
  /// Logits are the most probable ones, until their probabilities reach this sum ...
  double desired_probability = 0.95;
  std::int64_t max_logits = 10;  ///< ... but at most these
  /// Or these tokens, each with its probability.
  std::vector<std::int64_t> logit_tokens = {};
  /// Or in addition to these tokens other directions.
  std::vector<GraphDirection> directions = {};

  /// At most this many features, the strongest that are reached; nothing: all that are active.
  std::optional<std::int64_t> max_features = {};
  /// After this many more features they are ranked anew by what is known of their influence.
  std::int64_t rank_every = 2048;
  std::int64_t batch = 256;  ///< features whose edges are computed at a time, at most; fewer as memory allows
  /// The bytes that the graph may need in addition to the model; more is refused before anything is computed.
  std::uint64_t memory = std::uint64_t{16} << 30;
  /// MLPs at this many first positions have no nodes, because what they write there is that of no other
  /// position; they are a part of the constants.
  std::int64_t excluded_positions = 1;
  /// Called after each batch; false ends the work with a graph of what is known by then.
  std::function<bool(const SweepProgress&)> watch = nullptr;
};

/// The attribution graph of a prompt: one row of tokens, or a text.
///
/// With attention patterns, the scales of norms and the gates of heads held at their values in the run, and
/// features and errors in the place of the MLPs, the model is linear. The edge from a source to a target is
/// what the source writes, along all paths that pass no other MLP, times the direction that the target reads.
///
/// Throws HookError for a model that this does not make linear, for transcoders that do not write to MLPs,
/// for several rows and for a run with hooks or dictionaries on the handle; ConfigError for a transcoder that
/// was fitted to a model that is processed otherwise, or whose pre-activations are not linear in what it
/// reads; MemoryError if the estimate is above the bound; ShapeError for targets that do not fit.
AttributionGraph attribute_graph(const HookedTransformer& model, const GraphFeatures& features,
                                 const Input& input, const AttributionGraphOptions& options = {});

}  // namespace hooked
