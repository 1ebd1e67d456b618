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

/// Reads the input, with a decoder's start tokens where none are given, on the model's device. Throws
/// ShapeError for rows of unequal length, TokenizerError for text without a tokenizer, CheckpointError and
/// IoError for the file.
Input read_input(const InputOptions& options, const HookedTransformer& model);

/// Rows of ids [batch, pos].
Json rows_json(const at::Tensor& tokens);

/// Adds `tokens`, and `decoder_tokens` where there are.
void add_tokens(const Input& input, Json& json);

/// `1,2,-3` as numbers; `option` names the option in the UsageError for anything else.
std::vector<std::int64_t> parse_integers(std::string_view text, std::string_view option);

}  // namespace hooked::cli
