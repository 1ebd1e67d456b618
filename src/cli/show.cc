// hooked show: the content of a safetensors file and where it comes from, from its header alone.
#include "cli/show.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/size_text.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/activation_name.h"

namespace hooked::cli {
namespace {

using Fields = std::vector<Field>;

constexpr std::string_view kGradientPrefix = "grad.";
constexpr std::size_t kRowsShown = 2;  // of the input
constexpr std::size_t kIdsShown = 24;  // of a row

std::string dtype_of(const TensorInfo& tensor) {
  return tensor.dtype == at::ScalarType::Undefined ? printable(tensor.dtype_name)
                                                   : std::string(dtype_text(tensor.dtype));
}

// `[batch 1, pos 15, d_model 128]`, or the sizes alone.
std::string shape_of(const TensorInfo& tensor, const TensorAxes& axes) {
  const auto found = axes.find(tensor.name);
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    sizes.push_back(found == axes.end() ? std::to_string(tensor.shape[i])
                                        : fmt::format("{} {}", printable(found->second[i]), tensor.shape[i]));
  }
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::string ids_text(std::vector<std::int64_t> ids) {
  const bool whole = ids.size() <= kIdsShown;
  if (!whole) ids.resize(kIdsShown);
  return fmt::format("{}{}", fmt::join(ids, ","), whole ? "" : ",...");
}

std::string input_text(const FileContents& contents) {
  std::vector<std::string> rows;
  const auto& [texts, tokens] = std::tie(contents.provenance.texts, contents.provenance.tokens);
  const std::size_t count = std::max(texts.size(), tokens.size());
  for (std::size_t i = 0; i < std::min(count, kRowsShown); ++i)
    rows.push_back(texts.empty() ? ids_text(tokens[i]) : fmt::format("\"{}\"", printable(texts[i])));
  if (count > kRowsShown) rows.push_back(fmt::format("and {} more", count - kRowsShown));
  const auto* ids = contents.file.find("tokens");
  const bool sized = ids != nullptr && ids->shape.size() == 2;
  // For a generation, this is more than the input.
  return fmt::format("{}{}", fmt::join(rows, "; "),
                     sized ? fmt::format(" ({} x {} tokens in all)", ids->shape[0], ids->shape[1]) : "");
}

std::string steps_text(const std::vector<std::pair<std::string, std::string>>& processing) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_outcome;
  for (const auto& [step, outcome] : processing) {
    auto found = std::find_if(by_outcome.begin(), by_outcome.end(),
                              [&outcome = outcome](const auto& group) { return group.first == outcome; });
    if (found == by_outcome.end()) found = by_outcome.insert(found, {outcome, {}});
    found->second.push_back(printable(step));
  }
  std::vector<std::string> groups;
  for (const auto& [outcome, steps] : by_outcome)
    groups.push_back(fmt::format("{}: {}", printable(outcome), fmt::join(steps, ", ")));
  return fmt::format("{}", fmt::join(groups, "; "));
}

void add_provenance(const FileContents& contents, Fields& fields) {
  const Provenance& from = contents.provenance;
  std::vector<std::string> missing;
  const auto add = [&](const char* label, bool is_there, const std::string& text) {
    if (is_there) {
      fields.push_back({label, text});
    } else {
      missing.emplace_back(label);
    }
  };
  add("hooked version", !from.hooked_version.empty(), printable(from.hooked_version));
  add("model", !from.model.empty(), printable(from.model));
  if (!from.revision.empty()) fields.push_back({"revision", printable(from.revision)});
  add("config", !from.config_sha1.empty(), "SHA-1 " + printable(from.config_sha1));
  add("fingerprint", !from.fingerprint.empty(), printable(from.fingerprint));
  add("dtype", !from.dtype.empty(), printable(from.dtype));
  add("processing", !from.processing.empty(), steps_text(from.processing));
  std::vector<std::string> edits;
  for (const auto& edit : from.edits.value_or(std::vector<std::string>())) edits.push_back(printable(edit));
  add("edits", from.edits.has_value(), edits.empty() ? "none" : fmt::format("{}", fmt::join(edits, "; ")));
  add("input", !from.texts.empty() || !from.tokens.empty(), input_text(contents));
  for (const auto& [key, value] : from.more) fields.push_back({printable(key), printable(value)});
  if (contents.axes.empty()) missing.emplace_back("axes");
  if (!missing.empty()) fields.push_back({"not recorded", fmt::format("{}", fmt::join(missing, ", "))});
}

// `q, k, v`, or for a brief summary the first of many.
std::string list_text(std::vector<std::string> words, Detail detail) {
  constexpr std::size_t kWordsShown = 6;
  const std::size_t count = words.size();
  if (detail == Detail::full || count <= kWordsShown) return fmt::format("{}", fmt::join(words, ", "));
  words.resize(kWordsShown - 1);
  return fmt::format("{} and {} more", fmt::join(words, ", "), count - words.size());
}

/// Activations of the same layers.
struct Group {
  std::string place;  // `layers 0-11`
  std::vector<std::string> words;
};

// `layers 0-3,7` of a stack.
std::string layers_text(Stack stack, const std::set<std::int32_t>& layers) {
  std::vector<std::string> runs;
  for (auto at = layers.begin(); at != layers.end();) {
    const auto first = *at;
    auto last = first;
    for (++at; at != layers.end() && *at == last + 1; ++at) last = *at;
    runs.push_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
  }
  return fmt::format("{}{} {}", stack == Stack::blocks ? "" : fmt::format("{} ", stack_name(stack)),
                     layers.size() == 1 ? "layer" : "layers", fmt::join(runs, ","));
}

// The file's content, by the layers that it covers, in the order of the file.
void add_tensors(const FileContents& contents, Detail detail, Fields& fields) {
  struct Kept {
    Stack stack;
    std::string word;
    std::set<std::int32_t> layers;
  };
  std::vector<Kept> kept;
  std::vector<std::string> outside, others;
  std::size_t gradients = 0;
  for (const auto& tensor : contents.file.tensors()) {
    const auto name = ActivationName::try_parse(tensor.name);
    if (!name) {
      const bool is_gradient = tensor.name.starts_with(kGradientPrefix) &&
                               ActivationName::try_parse(tensor.name.substr(kGradientPrefix.size()));
      gradients += is_gradient ? 1 : 0;
      if (!is_gradient) others.push_back(printable(tensor.name));
      continue;
    }
    std::string word(row(name->site).word);
    if (name->layer < 0) {
      outside.push_back(std::move(word));
      continue;
    }
    auto found = std::find_if(kept.begin(), kept.end(),
                              [&](const Kept& one) { return one.stack == name->stack && one.word == word; });
    if (found == kept.end()) found = kept.insert(found, {name->stack, std::move(word), {}});
    found->layers.insert(name->layer);
  }
  std::vector<Group> groups;
  for (const Kept& one : kept) {
    std::string place = layers_text(one.stack, one.layers);
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.place == place; });
    if (found == groups.end()) found = groups.insert(found, {std::move(place), {}});
    found->words.push_back(one.word);
  }
  for (const Group& group : groups) fields.push_back({group.place, list_text(group.words, detail)});
  const bool activations = !groups.empty() || !outside.empty();
  if (!outside.empty())
    fields.push_back({groups.empty() ? "activations" : "outside them", list_text(outside, detail)});
  if (gradients > 0) fields.push_back({"gradients", fmt::format("of {} activations", gradients)});
  if (!others.empty() && activations) fields.push_back({"other tensors", list_text(others, detail)});
}

}  // namespace

FileContents::FileContents(const std::filesystem::path& path)
    : file(SafetensorsFile::open(path)), provenance(read_provenance(file)), axes(read_axes(file)) {}

std::uint64_t FileContents::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& tensor : file.tensors()) bytes += tensor.bytes();
  return bytes;
}

void print_summary(const FileContents& contents, Detail detail) {
  const auto count = contents.file.tensors().size();
  fmt::print("{}: {} {}, {}\n", contents.file.path().native(), grouped(static_cast<std::int64_t>(count)),
             count == 1 ? "tensor" : "tensors", size_text(contents.bytes()));
  Fields fields;
  if (detail == Detail::full) {
    add_provenance(contents, fields);
  } else {
    const Provenance& from = contents.provenance;
    fields.push_back({"model", fmt::format("{}, {}", printable(from.model), printable(from.dtype))});
    fields.push_back({"input", input_text(contents)});
  }
  add_tensors(contents, detail, fields);
  print_fields(fields);
}

void print_list(const FileContents& contents) {
  Table table({{"name"}, {contents.axes.empty() ? "shape" : "axes"}, {"dtype"}});
  for (const auto& tensor : contents.file.tensors())
    table.add({printable(tensor.name), shape_of(tensor, contents.axes), dtype_of(tensor)});
  table.print("  ");
}

Json tensors_json(const FileContents& contents) {
  auto tensors = Json::array();
  for (const auto& tensor : contents.file.tensors()) {
    const auto axes = contents.axes.find(tensor.name);
    tensors.push_back({{"name", tensor.name},
                       {"axes", axes == contents.axes.end() ? Json(nullptr) : Json(axes->second)},
                       {"shape", tensor.shape},
                       {"dtype", dtype_of(tensor)},
                       {"bytes", tensor.bytes()}});
  }
  return tensors;
}

Json contents_json(const FileContents& contents) {
  const Provenance& from = contents.provenance;
  Json json = model_json(from);
  json["file"] = contents.file.path().native();
  json["bytes"] = contents.bytes();
  json["provenance"] = {{"hooked_version", or_null(from.hooked_version)},
                        {"revision", or_null(from.revision)},
                        {"config_sha1", or_null(from.config_sha1)},
                        {"edits", or_null(from.edits)},
                        {"texts", or_null(from.texts)},
                        {"tokens", or_null(from.tokens)},
                        {"more", from.more}};
  json["tensors"] = tensors_json(contents);
  return json;
}

void perform(const ShowOptions& options) {
  const FileContents contents(options.file);
  if (options.json) return print_json(contents_json(contents));
  print_summary(contents, Detail::full);
  if (options.list) print_list(contents);
}

}  // namespace hooked::cli
