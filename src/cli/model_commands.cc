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
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "core/json.h"
#include "core/size_text.h"
#include "core/text_lines.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/dictionaries/dictionary_set.h"
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

// Whether a folder is a dictionary, or a set of them that can be read.
bool holds_whole(const std::filesystem::path& folder) {
  try {
    return is_dictionary(folder.native()) && !describe_dictionary(folder.native()).members.empty();
  } catch (const Error&) {
    return false;
  }
}

/// The folders with dictionaries among a revision's files, below its folder; `.` is the folder itself.
std::vector<std::filesystem::path> dictionaries_of(const CachedModel& model) {
  constexpr int kDeepest = 8;
  std::vector<std::filesystem::path> found;
  std::error_code stopped;
  const auto look = [&](const auto& self, const std::filesystem::path& folder, int depth) -> void {
    if (holds_whole(folder)) return found.push_back(folder.lexically_relative(model.folder));
    if (depth == kDeepest) return;
    std::vector<std::filesystem::path> folders;
    for (std::filesystem::directory_iterator at(folder, stopped), end; !stopped && at != end;
         at.increment(stopped)) {
      if (std::error_code ignored; at->is_directory(ignored)) folders.push_back(at->path());
    }
    std::ranges::sort(folders);
    const std::size_t before = found.size();
    for (const auto& each : folders) self(self, each, depth + 1);
    const bool broken = found.size() == before && is_dictionary(folder.native());
    if (broken) found.push_back(folder.lexically_relative(model.folder));
  };
  look(look, model.folder, 0);
  return found;
}

Outline examine_dictionary(const std::filesystem::path& folder, const std::filesystem::path& of) {
  Outline outline{.type = "dictionary", .parameters = {}, .problem = {}, .short_reason = {}};
  try {
    const auto described = describe_dictionary(folder.native());
    outline.parameters = described.parameters;
    outline.bytes = described.stored_bytes;
  } catch (const Error& error) {
    outline.problem = error.what();
    outline.short_reason = short_reason(error, of);
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
  CachedModel model;
  Outline outline;
};

/// The model, or the dictionaries that are there instead.
void list(const CachedModel& model, const Outline& outline, std::vector<Listed>& all) {
  const bool may_have_dictionaries = !outline.problem.empty() && model.problem.empty() && model.file.empty();
  const auto dictionaries =
      may_have_dictionaries ? dictionaries_of(model) : std::vector<std::filesystem::path>();
  if (dictionaries.empty()) return all.push_back({model, outline});
  for (const auto& place : dictionaries) {
    CachedModel named = model;
    if (place != ".") {
      named.id += ":" + place.native();
      named.folder /= place;
    }
    const Outline own = examine_dictionary(named.folder, model.folder);
    all.push_back({std::move(named), own});
  }
}

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
    list(model, outline->second, all);
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
