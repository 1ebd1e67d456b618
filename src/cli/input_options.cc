#include "cli/input_options.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/text_notes.h"
#include "core/text_lines.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/dictionaries/dictionary.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "options/command.h"

namespace hooked::cli {
namespace {

// Nothing if the command line does not say it.
std::optional<WeightProcessing> processing(const ModelOptions& options) {
  if (options.no_processing) return WeightProcessing::none();
  if (options.process.empty()) return std::nullopt;
  std::vector<ProcessingStep> steps;
  for (const auto& name : options.process) steps.push_back(parse_processing_step(name));
  return WeightProcessing::only(steps);
}

constexpr std::uint64_t kTextFileBytes = std::uint64_t{64} << 20;
constexpr std::string_view kStandardInput = "-";

at::Tensor row_tensor(const std::vector<std::int64_t>& ids) {
  return at::tensor(ids, at::TensorOptions(at::kLong)).unsqueeze(0);
}

std::string bytes_of_standard_input() { return std::string(std::istreambuf_iterator<char>(std::cin), {}); }

// The lines of a file, or of standard input, one row each.
std::vector<std::string> lines_of(const std::string& file) {
  const bool from_shell = file == kStandardInput;
  const std::string where = from_shell ? "standard input" : file;
  std::vector<std::string> lines =
      lines_of_bytes(from_shell ? bytes_of_standard_input() : read_text_file(file, kTextFileBytes), where);
  if (lines.empty())
    throw UsageError(fmt::format("--text-file: {} is empty; expected a text in each line", where));
  return lines;
}

GivenInput input_of_texts(std::vector<std::string> texts, const InputOptions& options,
                          const HookedTransformer& model) {
  TextOptions how;
  how.prepend_bos = prepend_bos_of(options.prepend_bos);
  if (options.chat.chat) {
    texts = chat_texts(std::move(texts), options.chat, model.tokenizer());
    how.prepend_bos = PrependBos::nothing;  // the template writes the tokens around a text
  }
  Json around = around_json(model, how.prepend_bos);
  note_around(model, how.prepend_bos);
  if (!options.chat.chat) note_blank_at_end(model, texts);
  if (texts.size() == 1)
    return {model.to_tokens(texts.front(), how).to(at::kCPU), std::move(texts), std::move(around)};
  Input batch = model.to_token_batch(texts, how);
  batch.tokens = batch.tokens.to(at::kCPU);
  batch.attention_mask = batch.attention_mask.to(at::kCPU);
  return {std::move(batch), std::move(texts), std::move(around)};
}

at::Tensor tensor_of_rows(const std::vector<IntegerList>& rows_of_ids, std::string_view option) {
  std::vector<at::Tensor> rows;
  for (const auto& ids : rows_of_ids) {
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

// The mask of that name for `tokens`, or an undefined tensor.
at::Tensor mask_in(const SafetensorsFile& file, const char* name, const at::Tensor& tokens) {
  if (!file.find(name)) return {};
  const at::Tensor mask = file.read(name);
  if (mask.sizes() != tokens.sizes()) {
    throw ShapeError(fmt::format("{}: {}", file.path().string(), name),
                     fmt::format("is {}; expected the shape of its tokens, {}", shape_text(mask.sizes()),
                                 shape_text(tokens.sizes())));
  }
  return mask;
}

at::Tensor tokens_in(const SafetensorsFile& file, const char* name) {
  const at::Tensor tokens = file.read(name);
  if (tokens.scalar_type() != at::kLong || tokens.dim() != 2) {
    throw ShapeError(fmt::format("{}: {}", file.path().string(), name),
                     fmt::format("is {} {}; expected int64 [batch, pos]", dtype_text(tokens.scalar_type()),
                                 shape_text(tokens.sizes())));
  }
  return tokens;
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
  Input input(tokens_in(file, "tokens"));
  if (file.find("token_type_ids")) input.token_types = file.read("token_type_ids");
  input.attention_mask = mask_in(file, "attention_mask", input.tokens);
  if (!file.find("decoder_tokens")) return input;
  input.decoder.tokens = tokens_in(file, "decoder_tokens");
  input.decoder.attention_mask = mask_in(file, "decoder_attention_mask", input.decoder.tokens);
  return input;
}

GivenInput given_input(const InputOptions& options, const HookedTransformer& model) {
  if (!options.text_file.empty()) return input_of_texts(lines_of(options.text_file), options, model);
  if (!options.texts.empty()) {
    std::vector<std::string> texts = options.texts;
    if (std::ranges::count(texts, kStandardInput) > 1)
      throw UsageError("--text: standard input is read once; expected '-' at most once");
    for (std::string& text : texts) text = text_or_standard_input(text);
    return input_of_texts(std::move(texts), options, model);
  }
  if (!options.tokens_file.empty()) return {input_of_file(options.tokens_file), {}, {}};
  return {tensor_of_rows(options.token_rows, "--tokens"), {}, {}};
}

TokenColumns columns_of(const Input& input) {
  TokenColumns columns{.first = 0, .end = input.length()};
  if (input.main_mask().defined()) columns.mask = input.main_mask().ne(0).to(at::kCPU);
  return columns;
}

// Without --decoder-tokens, the config must name the decoder's start token.
void require_decoder_start(const Input& input, const ModelConfig& config) {
  if (!config.has_encoder() || input.decoder.tokens.defined() || config.encoder->decoder_start_token) return;
  throw UsageError(
      "--decoder-tokens: this model's config names no token that its decoder starts with; expected its "
      "tokens");
}

}  // namespace

LoadOptions load_options(const ModelOptions& options) {
  LoadOptions load;
  load.device = options.device;
  if (!options.dtype.empty()) load.dtype = parse_float_dtype(options.dtype);
  load.processing = processing(options);
  load.weights = options.weights == "stored" ? WeightStorage::stored : WeightStorage::expanded;
  return load;
}

namespace {

// The activation that a text names, if it names one.
std::optional<ActivationName> place_named(std::string_view text) {
  if (const auto full = ActivationName::try_parse(text)) return full;
  try {
    return from_shorthand(text);
  } catch (const HookError&) {
    return std::nullopt;
  }
}

// `FOLDER[@ACTIVATION]`; an `@` before anything else belongs to the folder, as in `org/name@revision`.
GivenDictionary given_dictionary(const std::string& text, bool with_error) {
  const auto at = text.rfind('@');
  const auto place =
      at == std::string::npos ? std::nullopt : place_named(std::string_view(text).substr(at + 1));
  const std::string folder = place ? text.substr(0, at) : text;
  if (describe_dictionary(folder).members.size() == 1)
    return {{Dictionary::load(folder)}, {.input = place, .with_error = with_error}};
  if (place) {
    throw UsageError(
        fmt::format("--dictionary: '{}' has a dictionary for each of several layers, which say where "
                    "they stand; expected no activation after it",
                    folder));
  }
  return {DictionarySet::load(folder).members(), {.with_error = with_error}};
}

// The steps that would change what the dictionaries were fitted to, which a note names.
std::vector<ProcessingStep> steps_left_out(const std::vector<GivenDictionary>& dictionaries) {
  std::vector<ProcessingStep> steps;
  for (const auto& [members, place] : dictionaries) {
    for (const Dictionary& dictionary : members) {
      for (const ProcessingStep step : steps_that_change(dictionary, place)) {
        if (std::ranges::find(steps, step) == steps.end()) steps.push_back(step);
      }
    }
  }
  if (!steps.empty()) {
    std::vector<std::string_view> names;
    std::ranges::transform(steps, std::back_inserter(names), processing_step_name);
    print_notes({fmt::format("left out, because the dictionary was fitted to activations without it: {}",
                             fmt::join(names, ", "))});
  }
  return steps;
}

}  // namespace

std::vector<GivenDictionary> read_dictionaries(const ModelOptions& options) {
  std::vector<GivenDictionary> dictionaries;
  std::vector<std::string> notes;
  for (const std::string& text : options.dictionaries) {
    dictionaries.push_back(given_dictionary(text, options.with_error));
    for (const Dictionary& member : dictionaries.back().members) {
      for (const std::string& note : member.config().notes) {
        const std::string line = fmt::format("[{}] {}", printable(text), note);
        if (std::ranges::find(notes, line) == notes.end()) notes.push_back(line);
      }
    }
  }
  print_notes(notes);
  return dictionaries;
}

HookedTransformer load_model_for(const std::vector<GivenDictionary>& dictionaries,
                                 const ModelOptions& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  ProgressBar bar("loading");
  LoadOptions load = load_options(options);
  if (!load.processing && load.weights == WeightStorage::expanded)
    load.without = steps_left_out(dictionaries);
  load.progress = bar.progress();
  return HookedTransformer::load(options.model, load);
}

HookedTransformer load_model(const ModelOptions& options) {
  return load_model(read_dictionaries(options), options);
}

HookedTransformer load_model(const std::vector<GivenDictionary>& dictionaries, const ModelOptions& options) {
  HookedTransformer model = load_model_for(dictionaries, options);
  for (const auto& [members, place] : dictionaries) {
    model = members.size() == 1 ? model.with_dictionary(members.front(), place)
                                : model.with_dictionaries(DictionarySet(members), place.with_error);
  }
  return model;
}

PrependBos prepend_bos_of(std::string_view choice) {
  if (choice.empty()) return PrependBos::by_default;
  if (choice == "file") return PrependBos::file;
  return choice == "yes" ? PrependBos::yes : PrependBos::no;
}

std::vector<std::string> chat_texts(std::vector<std::string> texts, const ChatTextOptions& options,
                                    const Tokenizer& tokenizer) {
  if (!options.chat) return texts;
  for (std::string& text : texts) {
    std::vector<ChatMessage> messages;
    if (options.system) messages.push_back({"system", *options.system});
    messages.push_back({"user", std::move(text)});
    text = tokenizer.chat_text(messages, {.add_generation_prompt = true});
  }
  return texts;
}

GivenInput read_input(const InputOptions& options, const HookedTransformer& model) {
  GivenInput given = given_input(options, model);
  Input& input = given.input;
  if (!options.token_type_rows.empty()) {
    if (input.token_types.defined()) {
      throw UsageError("--token-types: the tokens file has token_type_ids; expected one of the two");
    }
    input.token_types = tensor_of_rows(options.token_type_rows, "--token-types");
  }
  if (!options.decoder_token_rows.empty()) {
    if (input.decoder.tokens.defined()) {
      throw UsageError("--decoder-tokens: the tokens file has decoder_tokens; expected one of the two");
    }
    input.decoder.tokens = tensor_of_rows(options.decoder_token_rows, "--decoder-tokens");
  }
  require_decoder_start(input, model.config());
  input = input.with_decoder_start(model.config());
  if (input.tokens.numel() == 0) {
    throw ShapeError("tokens", fmt::format("the input has no tokens; expected at least one, got shape {}",
                                           shape_text(input.tokens.sizes())));
  }
  const auto device = model.device();
  input.tokens = input.tokens.to(device);
  for (at::Tensor* tensor : {&input.attention_mask, &input.decoder.tokens, &input.decoder.attention_mask}) {
    if (tensor->defined()) *tensor = tensor->to(device);
  }
  return given;
}

std::vector<std::int64_t> ids_of_choice(const TokenChoice& choice, const HookedTransformer& model) {
  std::vector<std::int64_t> ids = choice.ids;
  for (const std::string& text : choice.texts) ids.push_back(model.to_token(text));
  return ids;
}

std::string text_or_standard_input(const std::string& text) {
  if (text != kStandardInput) return text;
  std::string all = text_of_bytes(bytes_of_standard_input(), "standard input");
  if (all.ends_with('\n')) all.pop_back();
  return all;
}

std::vector<Position> places_on(const PlaceList& places, Axis axis, std::int64_t size,
                                std::string_view option) {
  const AxisContext context{Site::tokens, std::string(option), {}};
  std::vector<Position> read;
  for (const IndexText& text : places) {
    if (text.kind == IndexText::Kind::range) {
      for (const auto place : resolve_places(text.as<AxisIndex>(), {context, axis, size}))
        read.emplace_back(place);
    } else if (text.kind == IndexText::Kind::last) {
      // Each row has its own last token; all rows have the same layers and heads.
      read.push_back(axis == Axis::pos ? Position::last() : Position(-1));
    } else {
      read.insert(read.end(), text.numbers.begin(), text.numbers.end());
    }
  }
  return read;
}

void require_among(std::int64_t token, const at::Tensor& logits) {
  if (token >= 0 && token < logits.size(0)) return;
  throw ShapeError("--answer-token", fmt::format("token {} is not in the vocabulary; expected 0 to {}", token,
                                                 logits.size(0) - 1));
}

std::vector<Position> read_positions(const PlaceList& positions, const Input& input) {
  if (positions.empty()) return {Position::last()};
  return places_on(positions, Axis::pos, input.length(), "--positions");
}

std::vector<std::int64_t> columns_in_row(const PlaceList& positions, const Input& input, std::int64_t row) {
  const TokenColumns tokens = columns_of(input);
  std::vector<std::int64_t> columns;
  for (const IndexText& text : positions.empty() ? PlaceList{{.kind = IndexText::Kind::last}} : positions) {
    for (const Position& position : read_positions({text}, input)) {
      const bool all = text.kind == IndexText::Kind::range && !text.begin && !text.end;
      if (all && tokens.is_padding(row, *position.column())) continue;
      columns.push_back(position.column_in(row, input.batch(), tokens));
    }
  }
  return columns;
}

Provenance provenance_of(const HookedTransformer& model, const GivenInput& given) {
  Provenance provenance = model.provenance();
  provenance.texts = given.texts;
  if (!given.texts.empty()) return provenance;
  rows_json(given.input.tokens, given.input.attention_mask).get_to(provenance.tokens);
  return provenance;
}

}  // namespace hooked::cli
