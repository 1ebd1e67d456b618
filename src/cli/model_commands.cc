// hooked names, tokenize and save: what a model has, its tokenizer, and the model as a folder.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "core/json.h"
#include "core/text_lines.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/selection.h"
#include "hooked/hooks/site.h"
#include "hooked/io/file.h"
#include "hooked/loading/describe.h"
#include "hooked/text/tokenizer.h"

namespace hooked::cli {
namespace {

// The size for batch 1 and --tokens-length; nothing if it depends on the input.
std::optional<std::int64_t> size_for(Axis axis, const ModelConfig& config, std::int64_t layer,
                                     const NamesOptions& options) {
  if (const auto size = size_of(axis, config, layer); size >= 0) return size;
  if (axis == Axis::batch) return 1;
  return axis == Axis::routed ? std::nullopt : options.tokens_length;
}

constexpr std::uint64_t kTextsBytes = std::uint64_t{1} << 30;

std::vector<std::string> read_texts(const std::string& file) {
  try {
    const auto json =
        parse_json(text_of_bytes(read_text_file(file, kTextsBytes), file), {.bytes = kTextsBytes});
    std::vector<std::string> texts;
    if (!json.is_array()) throw std::invalid_argument(fmt::format("is {}", json_kind(json)));
    for (std::size_t i = 0; i < json.size(); ++i) {
      if (!json[i].is_string())
        throw std::invalid_argument(fmt::format("item {} is {}", i, json_kind(json[i])));
      texts.push_back(json[i].get<std::string>());
    }
    return texts;
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(printable(file), fmt::format("{}; expected a JSON array of strings", reason.what()));
  }
}

/// A text's tokens as a run reads them.
struct ShownText {
  Encoding encoding;
  std::size_t before = 0, after = 0;  ///< tokens that a run puts there, which cover no bytes of the text
};

// What a run of the model puts around a text; nothing if it is not known, or is in the text already.
std::optional<TokensAround> put_around(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  if (options.chat.chat || !options.decode.empty()) return std::nullopt;
  if (options.add_special_tokens || tokenizer.around()) return tokenizer.around();
  try {
    return describe(options.model, {.processing = WeightProcessing::none()}).tokens_around;
  } catch (const Error&) {
    return std::nullopt;  // a tokenizer without a model
  }
}

ShownText shown_text(Encoding encoding, const Tokenizer& tokenizer,
                     const std::optional<TokensAround>& around) {
  std::vector<std::int64_t>& ids = encoding.ids;
  if (!around) return {std::move(encoding)};
  // A BOS token that no file asks for is not put before its own spelling.
  const bool spelled = !ids.empty() && !around->before.empty() && ids.front() == around->before.front();
  if (spelled && !tokenizer.around()) return {std::move(encoding)};
  const auto add = [&](std::size_t place, const std::vector<std::int64_t>& tokens) {
    const auto at = static_cast<std::ptrdiff_t>(place);
    ids.insert(ids.begin() + at, tokens.begin(), tokens.end());
    encoding.offsets.insert(encoding.offsets.begin() + at, tokens.size(), TextSpan{0, 0});
    std::vector<std::string> pieces;
    for (const std::int64_t id : tokens) pieces.push_back(tokenizer.piece(id));
    encoding.pieces.insert(encoding.pieces.begin() + at, pieces.begin(), pieces.end());
  };
  add(0, around->before);
  add(ids.size(), around->after);
  return {std::move(encoding), around->before.size(), around->after.size()};
}

// Offsets are places in the text.
Json text_json(const std::string& text, const ShownText& shown) {
  auto offsets = Json::array();
  for (const auto& span : shown.encoding.offsets) offsets.push_back({span.begin, span.end});
  return {
      {"text", text}, {"ids", shown.encoding.ids}, {"pieces", shown.encoding.pieces}, {"offsets", offsets}};
}

// Only the tokenizer was read, so that nothing but the model's name is known.
Json tokenized_json(const TokenizeOptions& options, const Tokenizer& tokenizer,
                    const std::optional<TokensAround>& around, Json rows) {
  Json json = model_json(Provenance{.model = options.model});
  json["rows"] = std::move(rows);
  json["around"] = around ? around_json(tokenizer, *around) : Json(nullptr);
  return json;
}

// Positions are those of a run, as --positions counts them.
void print_text(const ShownText& shown) {
  Table table({{"position", Align::right}, {"id", Align::right}, {"piece"}, {"bytes"}});
  const auto& [ids, pieces, offsets] = shown.encoding;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool put = i < shown.before || i + shown.after >= ids.size();
    table.add({std::to_string(i), std::to_string(ids[i]), printable(pieces[i]),
               !put ? fmt::format("{}-{}", offsets[i].begin, offsets[i].end)
                    : fmt::format("none: a run puts it {}", i < shown.before ? "in front" : "at the end")});
  }
  table.print();
}

}  // namespace

void perform(const NamesOptions& options) {
  const auto config = read_model_config(options.model);
  const PointIndex points(config);
  const auto selection = options.names.empty() ? Selection(act::everything) : Selection(options.names);

  auto list = Json::array();
  Table table({{"name"}, {"axes"}, {"shape"}, {"wide"}});
  for (const auto point : selection.resolve(points, Reach::everything(points))) {
    const auto& name = points.name(point);
    const auto& site = row(name.site);
    std::vector<std::string> axes;
    std::vector<std::string> shape;
    auto sizes = Json::array();
    for (std::size_t dim = 0; dim < site.axes.size(); ++dim) {
      axes.emplace_back(axis_name(site.axes[dim]));
      const auto size = size_for(site.axes[dim], config, name.layer, options);
      sizes.push_back(or_null(size));
      shape.push_back(size ? std::to_string(*size) : axes.back());
    }
    table.add({name.to_string(), fmt::format("[{}]", fmt::join(axes, ", ")),
               fmt::format("[{}]", fmt::join(shape, ", ")), site.wide ? "wide" : ""});
    list.push_back({{"name", name.to_string()}, {"axes", axes}, {"shape", sizes}, {"wide", site.wide}});
  }
  if (options.json) {
    Json json =
        model_json(Provenance{.model = options.model, .dtype = std::string(dtype_text(config.dtype))});
    json["names"] = std::move(list);
    return print_json(json);
  }
  table.print();
}

void perform(const TokenizeOptions& options) {
  const auto tokenizer = load_tokenizer(options.model);
  const auto around = put_around(options, tokenizer);
  if (!options.decode.empty()) {
    const auto text = tokenizer.decode(options.decode);
    if (options.json) {
      const Json row{{"ids", options.decode}, {"text", text}};
      return print_json(tokenized_json(options, tokenizer, around, Json::array({row})));
    }
    fmt::print("{}\n", text);
    return;
  }
  const bool one = options.text.has_value();
  const auto texts =
      chat_texts(one ? std::vector{text_or_standard_input(*options.text)} : read_texts(*options.texts_file),
                 options.chat, tokenizer);
  const bool in_encoding = options.add_special_tokens;  // the tokenizer puts them there itself
  auto encodings = tokenizer.encode_batch(texts, {.encode = {.add_special_tokens = in_encoding}});
  auto list = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const ShownText shown =
        shown_text(std::move(encodings[i]), tokenizer, in_encoding ? std::nullopt : around);
    if (options.json) {
      list.push_back(text_json(texts[i], shown));
      continue;
    }
    if (!one) fmt::print("\"{}\"\n", printable(texts[i]));
    print_text(shown);
    if (!one) fmt::print("\n");
  }
  if (options.json) print_json(tokenized_json(options, tokenizer, around, std::move(list)));
}

void perform(const SaveOptions& options) {
  HookedTransformer::require_can_save(options.model.model, options.out);
  const auto model = load_model(options.model);
  {
    const InterruptGuard nothing_is_left;  // of a folder that is not whole
    ProgressBar bar("saving");
    const auto progress = [&bar](std::uint64_t done, std::uint64_t total) {
      if (interrupted()) throw Interrupted("while the model was saved");
      bar.show(done, total);
    };
    model.save(options.out, {.progress = progress, .packed = options.packed});
  }
  const auto& config = model.config();
  if (options.json) {
    Json json = model_json(model);
    json["out"] = options.out;
    json["parameters"] = config.parameter_count();
    json["packed"] = options.packed;
    return print_json(json);
  }
  fmt::print("{}: {} parameters{} as {}{}\n", options.out, grouped(config.parameter_count()),
             is_processed(model.processing()) ? " after processing" : "", dtype_text(config.dtype),
             options.packed ? ", packed" : "");
  print_steps(model.processing());
}

}  // namespace hooked::cli
