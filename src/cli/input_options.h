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
  std::string prepend_bos;
};

/// Adds --prepend-bos, --token-types and the inputs --text, --tokens and --tokens-file, which are returned.
OneOf add_input_options(CLI::App& app, InputOptions& options);

/// What a model is run on.
struct Input {
  at::Tensor tokens;          ///< int64 [batch, pos], on the model's device
  at::Tensor attention_mask;  ///< [batch, pos] or undefined: every token is real
  at::Tensor token_types;     ///< int64 [batch, pos] or undefined: all 0

  std::int64_t batch() const { return tokens.size(0); }
  std::int64_t length() const { return tokens.size(1); }
  /// Each row's last real token, int64 [batch] on the CPU.
  at::Tensor last_positions() const;
  Json tokens_json() const;
};

/// Reads the input. Throws ShapeError for rows of unequal length, TokenizerError for text without a
/// tokenizer, CheckpointError and IoError for the file.
Input read_input(const InputOptions& options, const HookedTransformer& model);

/// `1,2,-3` as numbers; `option` names the option in the UsageError for anything else.
std::vector<std::int64_t> parse_integers(std::string_view text, std::string_view option);

}  // namespace hooked::cli
