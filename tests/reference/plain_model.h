#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "array.h"
#include "hooked/core/model_config.h"
#include "hooked/core/state_dict.h"

/// A transformer written down a second time, as plain loops over doubles: no LibTorch operator, no site
/// table, no shortcut. It is the specification that the engine is compared with, so it shares nothing with it
/// but the config and the weights' names.
namespace hooked::reference {

using Tokens = std::vector<std::vector<std::int64_t>>;  ///< [batch][pos]
using Mask = std::vector<std::vector<std::int64_t>>;    ///< [batch][pos], 1 for real tokens and 0 for padding

/// Changes the value that was computed at the point of that name. Everything after it reads the new one.
using Change = std::function<void(const std::string& name, Array& value)>;

/// Optional inputs in addition to the tokens.
struct Beside {
  std::optional<Mask> mask = std::nullopt;
  std::optional<Tokens> types = std::nullopt;  ///< [batch][pos] below token_types; absent: all 0
  /// [batch][pos] tokens of an encoder-decoder's decoder; absent: its start token in each row.
  std::optional<Tokens> decoder = std::nullopt;
  std::optional<Mask> decoder_mask = std::nullopt;  ///< of the decoder's tokens
  /// Called at every point, in the order of the forward pass. The plain model cannot change the copies that
  /// each head reads, relative biases, states of delta nets and the inside of mixtures; a
  /// function that tries to causes an std::invalid_argument.
  Change change = nullptr;
};

/// The results of one run.
struct PlainRun {
  Array residual;  ///< [batch, pos, d_model], the final norm's output if the model ends with it; or empty
  Array logits;    ///< [batch, pos, vocab], the decoder's if it has one, after any soft cap; or empty
  std::map<std::string, Array> activations;  ///< every point of the model, wide ones included, by name
  bool undecided =
      false;  ///< whether a token's last expert has the router's weight of one that is not chosen
};

/// The forward pass. Throws std::invalid_argument when a weight is missing, left over or of another shape, or
/// when the tokens are not a rectangle of ids below d_vocab, or when nothing says what a decoder reads.
PlainRun forward(const ModelConfig& config, const StateDict& weights, const Tokens& tokens,
                 const Beside& beside = {});

/// log softmax over the last axis: log-probabilities [batch, pos, vocab] in nats.
Array log_probabilities(const Array& logits);

}  // namespace hooked::reference
