#include "cli/input_options.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <system_error>

#include "cli/command.h"
#include "engine/id_list.h"
#include "engine/loaded_model.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/safetensors.h"

namespace hooked::cli {
namespace {

at::Tensor row_tensor(const std::vector<std::int64_t>& ids) {
  return at::tensor(ids, at::TensorOptions(at::kLong)).unsqueeze(0);
}

at::Tensor tokens_of_text(const InputOptions& options, const HookedTransformer& model) {
  TextOptions text;
  if (!options.prepend_bos.empty()) text.prepend_bos = options.prepend_bos == "yes";
  return model.to_tokens(*options.text, text).to(at::kCPU);
}

at::Tensor ids_of_rows(const std::vector<std::string>& texts, std::string_view option) {
  std::vector<at::Tensor> rows;
  for (const auto& text : texts) {
    const auto ids = parse_integers(text, option);
    if (!rows.empty() && static_cast<std::int64_t>(ids.size()) != rows.front().size(1)) {
      throw ShapeError(
          option, fmt::format("the rows of a batch have unequal lengths; expected {} ids in row {} as in "
                              "row 0, got {}; pad them in a --tokens-file with an attention_mask",
                              rows.front().size(1), rows.size(), ids.size()));
    }
    rows.push_back(row_tensor(ids));
  }
  return at::cat(rows);
}

Input input_of_file(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file.find("tokens")) {
    std::vector<std::string> names;
    for (const auto& tensor : file.tensors()) names.push_back(printable(tensor.name));
    if (names.size() > 8) names.resize(8);
    throw CheckpointError(
        path, fmt::format("has no tensor 'tokens'; expected int64 [batch, pos] under that name, got {}",
                          names.empty() ? "no tensors" : fmt::format("{}", fmt::join(names, ", "))));
  }
  Input input{file.read("tokens"), {}, {}};
  if (input.tokens.scalar_type() != at::kLong || input.tokens.dim() != 2) {
    throw ShapeError(fmt::format("{}: tokens", path),
                     fmt::format("is {} {}; expected int64 [batch, pos]",
                                 dtype_text(input.tokens.scalar_type()), shape_text(input.tokens.sizes())));
  }
  if (file.find("token_type_ids")) input.token_types = file.read("token_type_ids");
  if (!file.find("attention_mask")) return input;
  input.attention_mask = file.read("attention_mask");
  if (input.attention_mask.sizes() != input.tokens.sizes()) {
    throw ShapeError(fmt::format("{}: attention_mask", path),
                     fmt::format("is {}; expected the shape of tokens, {}",
                                 shape_text(input.attention_mask.sizes()), shape_text(input.tokens.sizes())));
  }
  return input;
}

}  // namespace

std::vector<std::int64_t> parse_integers(std::string_view text, std::string_view option) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    auto part = text.substr(begin, end - begin);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    std::int64_t number = 0;
    const auto [rest, code] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (code != std::errc() || rest != part.data() + part.size()) {
      throw UsageError(
          fmt::format("{}: '{}' is no {}; expected whole numbers separated by commas, such as 1,2,3", option,
                      printable(part), code == std::errc::result_out_of_range ? "64-bit number" : "number"));
    }
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

OneOf add_input_options(CLI::App& app, InputOptions& options) {
  static constexpr auto* kGroup = "Input, one of";
  auto* text = app.add_option("--text", options.text, "text, for models with a tokenizer");
  auto* tokens = app.add_option("--tokens", options.token_rows,
                                "token ids such as 1,2,3; repeat for the rows of a batch");
  auto* file =
      app.add_option("--tokens-file", options.tokens_file,
                     "safetensors file with `tokens` int64 [batch, pos] and, if wanted, `attention_mask` and "
                     "`token_type_ids`");
  text->option_text("T")->group(kGroup);
  tokens->option_text("IDS")->group(kGroup)->allow_extra_args(false);
  file->option_text("F")->group(kGroup);
  app.add_option("--prepend-bos", options.prepend_bos,
                 "yes or no: whether text gets a BOS token, or an encoder's special tokens (default: as the "
                 "model wants)")
      ->option_text("yes|no")
      ->check(CLI::IsMember({"yes", "no"}));
  app.add_option("--token-types", options.token_type_rows,
                 "types of the tokens such as 0,0,1, for models with token types; repeat for the rows of a "
                 "batch (default: all 0)")
      ->option_text("TYPES")
      ->allow_extra_args(false);
  return {text, tokens, file};
}

Input read_input(const InputOptions& options, const HookedTransformer& model) {
  Input input;
  if (options.text) {
    input.tokens = tokens_of_text(options, model);
  } else if (!options.tokens_file.empty()) {
    input = input_of_file(options.tokens_file);
  } else {
    input.tokens = ids_of_rows(options.token_rows, "--tokens");
  }
  if (!options.token_type_rows.empty()) {
    if (input.token_types.defined()) {
      throw UsageError("--token-types: the tokens file has token_type_ids; expected one of the two");
    }
    input.token_types = ids_of_rows(options.token_type_rows, "--token-types");
  }
  if (input.tokens.numel() == 0) {
    throw ShapeError("tokens", fmt::format("the input has no tokens; expected at least one, got shape {}",
                                           shape_text(input.tokens.sizes())));
  }
  const auto device = model.loaded()->device;
  input.tokens = input.tokens.to(device);
  if (input.attention_mask.defined()) input.attention_mask = input.attention_mask.to(device);
  return input;
}

at::Tensor Input::last_positions() const {
  const auto options = at::TensorOptions(at::kLong);
  if (!attention_mask.defined()) return at::full({batch()}, length() - 1, options);
  const auto columns = at::arange(length(), options).unsqueeze(0);
  return (attention_mask.to(at::kCPU).ne(0).to(at::kLong) * columns).amax(1);
}

Json Input::tokens_json() const {
  auto rows = Json::array();
  for (std::int64_t row = 0; row < batch(); ++row) rows.push_back(id_list(tokens[row]));
  return rows;
}

}  // namespace hooked::cli
