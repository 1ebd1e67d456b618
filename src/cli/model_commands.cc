// hooked list, names, tokenize and save: what is there, what a model has, its tokenizer, and the model as a
// folder.
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "core/json.h"
#include "core/size_text.h"
#include "core/text_lines.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/selection.h"
#include "hooked/hooks/site.h"
#include "hooked/io/file.h"
#include "hooked/io/hub_cache.h"
#include "hooked/loading/describe.h"
#include "hooked/text/tokenizer.h"
#include "options/help.h"

namespace hooked::cli {
namespace {

constexpr std::size_t kCommitLetters = 7;  // as git and the hub shorten commits

/// What is known about a revision's files without reading weights.
struct Outline {
  std::string type;
  std::optional<std::int64_t> parameters;
  std::uint64_t bytes = 0;
  std::string problem;       ///< why it cannot be loaded, in full; empty: it can be
  std::string short_reason;  ///< the same, without the remedy
};

// An error's first clause, with its place below the folder: the rest of the folder's name is known.
std::string short_reason(const Error& error, const std::filesystem::path& folder) {
  std::string_view place = error.where();
  const auto size = folder.native().size() + 1;
  if (place.starts_with(folder.native())) place.remove_prefix(std::min(size, place.size()));
  const auto what = error.message().substr(0, error.message().find("; "));
  return place.empty() ? std::string(what) : fmt::format("{}: {}", place, what);
}

Outline examine(const CachedModel& model) {
  Outline outline{
      .type = named_model_type(model.path().native()), .parameters = {}, .problem = {}, .short_reason = {}};
  outline.bytes = stored_bytes(model);
  const auto refuse = [&](std::string_view problem, std::string_view reason) {
    outline.problem = problem;
    outline.short_reason = reason;
  };
  if (!model.problem.empty()) {
    refuse(model.problem, model.problem);
    return outline;
  }
  try {
    const auto known = hooked::outline(model.path().native());
    outline.type = known.family;
    outline.parameters = known.parameters;
  } catch (const Error& error) {
    refuse(error.what(), short_reason(error, model.folder));
  } catch (const c10::Error& error) {
    refuse(error.what_without_backtrace(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    refuse(error.what(), error.what());
  }
  return outline;
}

// 466 K, 124 M, 1.56 B: three digits.
std::string count_text(std::int64_t count) {
  static constexpr std::array<std::string_view, 4> kUnits = {"K", "M", "B", "T"};
  if (count < 1000) return std::to_string(count);
  auto value = static_cast<double>(count) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

struct Listed {
  const CachedModel& model;
  const Outline& outline;
};

void print_table(const std::vector<Listed>& all) {
  Table table(
      {{"model"}, {"revision"}, {"type"}, {"params", Align::right}, {"size", Align::right}, {"loads"}});
  for (const auto& [model, outline] : all) {
    const bool loads = outline.problem.empty();
    table.add({model.id, model.commit.substr(0, kCommitLetters), outline.type,
               outline.parameters ? count_text(*outline.parameters) : "", size_text(outline.bytes),
               loads ? "yes" : "no"});
  }
  table.print("", kColumns);
}

void print_problems(const std::vector<Listed>& all) {
  const auto refused = [](const Listed& listed) { return !listed.outline.problem.empty(); };
  if (std::ranges::none_of(all, refused)) return;
  fmt::print("\nwhy not\n");
  for (const auto& [model, outline] : all) {
    if (outline.problem.empty()) continue;
    fmt::print("  {}\n", model.id);
    std::istringstream lines(wrapped(outline.short_reason, kColumns - 4));
    for (std::string line; std::getline(lines, line);) fmt::print("    {}\n", line);
  }
}

Json entry_json(const Listed& listed) {
  const auto& [model, outline] = listed;
  return {{"model", model.id},
          {"commit", or_null(model.commit)},
          {"folder", model.folder.native()},
          {"model_type", or_null(outline.type)},
          {"parameters", or_null(outline.parameters)},
          {"bytes", outline.bytes},
          {"loads", outline.problem.empty()},
          {"problem", or_null(outline.problem)}};
}

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

// A text as tokens; offsets are places in it.
Json encoding_json(const std::string& text, const Encoding& encoding) {
  auto offsets = Json::array();
  for (const auto& span : encoding.offsets) offsets.push_back({span.begin, span.end});
  return {{"text", text}, {"ids", encoding.ids}, {"pieces", encoding.pieces}, {"offsets", offsets}};
}

// Only the tokenizer was read, so that nothing but the model's name is known.
Json tokenized_json(const TokenizeOptions& options, const Tokenizer& tokenizer, Json rows) {
  Json json = model_json(Provenance{.model = options.model});
  json["rows"] = std::move(rows);
  const auto& around = tokenizer.around();
  json["around"] = options.add_special_tokens && around ? around_json(tokenizer, *around) : Json(nullptr);
  return json;
}

// The ids that a run of the model puts in front of a text; none if they are there already.
std::vector<std::int64_t> put_in_front(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  if (options.add_special_tokens || options.chat.chat) return {};
  if (const auto& around = tokenizer.around()) return around->before;
  try {
    const auto known = describe(options.model, {.processing = WeightProcessing::none()});
    return known.tokens_around ? known.tokens_around->before : std::vector<std::int64_t>();
  } catch (const Error&) {
    return {};  // a tokenizer without a model
  }
}

// Positions are those of a run, as --positions counts them.
void print_encoding(const Encoding& encoding, const Tokenizer& tokenizer,
                    const std::vector<std::int64_t>& in_front) {
  Table table({{"position", Align::right}, {"id", Align::right}, {"piece"}, {"bytes"}});
  std::size_t position = 0;
  for (const std::int64_t id : in_front)
    table.add({std::to_string(position++), std::to_string(id), printable(tokenizer.piece(id)),
               "none: a run puts it in front"});
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    table.add({std::to_string(position++), std::to_string(encoding.ids[i]), printable(encoding.pieces[i]),
               fmt::format("{}-{}", encoding.offsets[i].begin, encoding.offsets[i].end)});
  }
  table.print();
}

}  // namespace

void perform(const ListOptions& options) {
  const auto cache = hub_cache();
  const auto models = cached_models(cache);
  std::map<std::filesystem::path, Outline> known;  // branches and tags may name the same commit
  std::vector<Listed> all;
  for (const auto& model : models) {
    // A problem of an entry belongs to it alone; problems of a folder are shared.
    const auto [outline, fresh] =
        known.try_emplace(model.problem.empty() ? model.path() : std::filesystem::path(model.id));
    if (fresh) outline->second = examine(model);
    all.push_back({model, outline->second});
  }
  const auto& place = cache.path.native();
  if (options.json) {
    auto list = Json::array();
    for (const auto& listed : all) list.push_back(entry_json(listed));
    return print_json({{"cache", place}, {"chosen_by", cache.chosen_by}, {"models", list}});
  }
  if (all.empty()) {
    fmt::print("No models in the hub cache {} (of {}); `hf download ORG/NAME` puts one there.\n", place,
               cache.chosen_by);
    return;
  }
  fmt::print("{} (hub cache of {})\n\n", place, cache.chosen_by);
  print_table(all);
  print_problems(all);
}

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
  if (!options.decode.empty()) {
    const auto text = tokenizer.decode(options.decode);
    if (options.json) {
      const Json row{{"ids", options.decode}, {"text", text}};
      return print_json(tokenized_json(options, tokenizer, Json::array({row})));
    }
    fmt::print("{}\n", text);
    return;
  }
  const EncodeOptions encode{.add_special_tokens = options.add_special_tokens};
  if (options.text) {
    const std::string text =
        chat_texts({text_or_standard_input(*options.text)}, options.chat, tokenizer).front();
    const auto encoding = tokenizer.encode(text, encode);
    if (!options.json) return print_encoding(encoding, tokenizer, put_in_front(options, tokenizer));
    return print_json(tokenized_json(options, tokenizer, Json::array({encoding_json(text, encoding)})));
  }
  auto list = Json::array();
  const auto texts = chat_texts(read_texts(*options.texts_file), options.chat, tokenizer);
  const auto encodings = tokenizer.encode_batch(texts, {.encode = encode});
  const auto in_front = options.json ? std::vector<std::int64_t>() : put_in_front(options, tokenizer);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (options.json) {
      list.push_back(encoding_json(texts[i], encodings[i]));
    } else {
      fmt::print("\"{}\"\n", printable(texts[i]));
      print_encoding(encodings[i], tokenizer, in_front);
      fmt::print("\n");
    }
  }
  if (options.json) print_json(tokenized_json(options, tokenizer, std::move(list)));
}

void perform(const SaveOptions& options) {
  HookedTransformer::require_can_save(options.model.model, options.out);
  const auto model = load_model(options.model);
  {
    ProgressBar bar("saving");
    model.save(options.out, {.progress = bar.progress(), .packed = options.packed});
  }
  const auto& config = model.config();
  if (options.json) {
    Json json = model_json(model);
    json["out"] = options.out;
    json["parameters"] = config.parameter_count();
    json["packed"] = options.packed;
    return print_json(json);
  }
  fmt::print("{}: {} parameters as {}{}\n", options.out, grouped(config.parameter_count()),
             dtype_text(config.dtype), options.packed ? ", packed" : "");
  print_steps(model.processing());
}

}  // namespace hooked::cli
