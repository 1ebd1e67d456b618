#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help.h"
#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"

namespace CLI {
class App;
}

namespace hooked::cli {

/// Options of commands that run a model on something.
struct InputOptions {
  std::optional<std::string> text;
  std::vector<std::string> token_rows;
  std::string tokens_file;
  std::vector<std::string> token_type_rows;
  std::vector<std::string> decoder_token_rows;
  std::string prepend_bos;
};

/// Adds --prepend-bos, --token-types, --decoder-tokens and the inputs --text, --tokens and --tokens-file,
/// which are returned.
OneOf add_input_options(CLI::App& app, InputOptions& options);

/// What a model is run on.
struct Input {
  at::Tensor tokens;                  ///< int64 [batch, pos], on the model's device
  at::Tensor attention_mask;          ///< [batch, pos] or undefined: every token is real
  at::Tensor token_types;             ///< int64 [batch, pos] or undefined: all 0
  at::Tensor decoder_tokens;          ///< of encoder-decoders, as `tokens`; else undefined
  at::Tensor decoder_attention_mask;  ///< [batch, pos] of those, or undefined

  /// What the blocks that predict read: the tokens, or the decoder's.
  const at::Tensor& main_tokens() const { return decoder_tokens.defined() ? decoder_tokens : tokens; }
  const at::Tensor& main_mask() const {
    return decoder_tokens.defined() ? decoder_attention_mask : attention_mask;
  }
  std::int64_t batch() const { return tokens.size(0); }
  /// Columns of the main tokens.
  std::int64_t length() const { return main_tokens().size(1); }
  /// A run of the model on it, with everything else at its default.
  RunOptions run_options() const;
  /// Each row's last real column of the main tokens, int64 [batch] on the CPU.
  at::Tensor last_positions() const;
  /// The same of what is given as `tokens`, which an encoder reads where there is one.
  at::Tensor last_source_positions() const;
  Json tokens_json() const;
  /// Adds `tokens`, and `decoder_tokens` where there are.
  void add_tokens_to(Json& json) const;
};

/// Reads the input. Throws ShapeError for rows of unequal length, TokenizerError for text without a
/// tokenizer, CheckpointError and IoError for the file.
Input read_input(const InputOptions& options, const HookedTransformer& model);

/// `1,2,-3` as numbers; `option` names the option in the UsageError for anything else.
std::vector<std::int64_t> parse_integers(std::string_view text, std::string_view option);

}  // namespace hooked::cli
