#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/harvest/corpus.h"
#include "hooked/harvest/harvest_options.h"
#include "hooked/text/tokenizer.h"

namespace hooked {

/// ContextOptions for one model and corpus, with everything that they leave open decided.
struct ContextRules {
  std::int64_t length;
  bool packed;
  /// ContextOptions::kNone: no token.
  std::int64_t begin_context, begin_document, separator;
  std::optional<Tokenizer> tokenizer;  ///< of a corpus of texts
  EncodeOptions encode;
  TokensAround around;  ///< of a text that is not packed

  /// Throws TokenizerError for texts without a tokenizer, ConfigError for options that contradict.
  static ContextRules of(const HookedTransformer& model, const Corpus& corpus, const ContextOptions& options);
};

/// The contexts of a unit, one after another.
struct Contexts {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> documents;  ///< of each token
  std::vector<std::int64_t> offsets;    ///< in the document; -1 for a token that was put there
  std::vector<std::size_t> ends;        ///< of each context, one past its last token

  std::size_t begin(std::size_t context) const { return context == 0 ? 0 : ends[context - 1]; }
  std::size_t length(std::size_t context) const { return ends[context] - begin(context); }
};

/// Encodes documents and makes contexts of them. Throws TokenizerError, and CheckpointError for a text in a
/// corpus of ids.
Contexts contexts_of(const std::vector<CorpusDocument>& documents, const ContextRules& rules);

/// RowOptions for one model.
class RowRules {
 public:
  /// Throws TokenizerError for special tokens without a tokenizer, ConfigError for options that no row can
  /// pass.
  RowRules(const HookedTransformer& model, const RowOptions& options, std::int64_t context_length);

  /// The indices, in Contexts::tokens, of the tokens whose activations are kept.
  std::vector<std::int64_t> kept(const Contexts& contexts) const;

 private:
  bool keeps(std::int64_t token, std::int64_t document, std::int64_t offset) const;

  RowOptions options_;
  std::vector<std::int64_t> excluded_;  // sorted
  std::uint64_t below_ = 0;             // a row is kept if its draw is below; all are if share is 1
};

}  // namespace hooked
