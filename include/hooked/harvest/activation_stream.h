#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/harvest/corpus.h"
#include "hooked/harvest/harvest_options.h"

namespace HOOKED_EXPORT hooked {

/// Activations of tokens, a row each, with what each row belongs to. On the host.
struct ActivationRows {
  /// By full names, each [row, …]: the axes of the activation without batch and positions.
  std::map<std::string, at::Tensor> activations = {};
  at::Tensor tokens = {};     ///< [row] int32: the token at whose position the row was computed
  at::Tensor documents = {};  ///< [row] int64: CorpusDocument::number
  /// [row] int64: the token's place in its document, from 0; -1 for a token that was put there.
  at::Tensor offsets = {};
  at::Tensor positions = {};  ///< [row] int32: the token's place in its context
  at::Tensor contexts = {};   ///< [row] int32: the number of its context in its unit

  /// The number of rows.
  std::int64_t rows() const { return tokens.defined() ? tokens.size(0) : 0; }
};

/// The activations of a corpus, run by run, without a disk:
///
///     ActivationStream stream(model, Corpus::open("corpus.jsonl"), {.names = act::resid_post(5)});
///     while (auto rows = stream.next()) train(rows->activations.at("blocks.5.hook_resid_post"));
///
/// The rows are those that harvest() writes, in the same order. Documents of the next unit are read and
/// encoded while the model runs.
class ActivationStream {
 public:
  /// Throws HookError for names that the model does not have, or that have no row for each token; what
  /// opening the corpus throws; TokenizerError for texts without a tokenizer; ConfigError for options that
  /// contradict.
  ActivationStream(const HookedTransformer& model, const Corpus& corpus, const HarvestOptions& options);
  ActivationStream(ActivationStream&&) noexcept;
  ActivationStream& operator=(ActivationStream&&) noexcept;
  ~ActivationStream();

  /// The rows of the next run that keeps any; nothing after the last one. Throws what a run and reading the
  /// corpus throw.
  std::optional<ActivationRows> next();

  /// Tokens that the model has read.
  std::int64_t tokens() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hooked
