#include "harvest/corpus_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <variant>

#include "core/json.h"
#include "core/name_list.h"
#include "core/text_lines.h"
#include "hooked/core/error.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

constexpr std::string_view kTextField = "text";
constexpr std::array<std::string_view, 3> kIdTensors = {"input_ids", "tokens", "token_ids"};

std::variant<std::string, std::vector<std::int64_t>> field_of(std::string_view line, std::string_view given,
                                                              const std::string& where) {
  const std::string_view field = given.empty() ? kTextField : given;
  Json object;
  try {
    object = parse_python_json(line, {.bytes = line.size()});
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(where,
                          fmt::format("it is not JSON: {}; expected an object on each line", error.what()));
  }
  if (!object.is_object())
    throw CheckpointError(where, fmt::format("expected an object on each line, got {}", json_kind(object)));
  const auto found = object.find(field);
  if (found == object.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : object.items()) names.push_back(name);
    throw CheckpointError(
        where, fmt::format("the field '{}' is missing; expected one of its fields {}; --field names it",
                           printable(field), name_list(names)));
  }
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array() && std::ranges::all_of(*found, [](const Json& id) { return id.is_number_integer(); }))
    return found->get<std::vector<std::int64_t>>();
  throw CheckpointError(where, fmt::format("the field '{}' is {}; expected a text, or a list of ids",
                                           printable(field), json_kind(*found)));
}

template <typename Integer>
std::vector<std::int64_t> integers_of(std::string_view bytes) {
  std::vector<Integer> values(bytes.size() / sizeof(Integer));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

bool may_be_ids(const TensorInfo& tensor) {
  const auto dtype = tensor.dtype;
  const bool integers = dtype == at::kLong || dtype == at::kInt || dtype == at::kShort || dtype == at::kByte;
  return integers && (tensor.shape.size() == 1 || tensor.shape.size() == 2);
}

}  // namespace

std::vector<CorpusDocument> documents_of_lines(std::string_view bytes, const CorpusLines& lines) {
  const std::string text = text_of_bytes(bytes, lines.where, lines.first_line);
  std::vector<CorpusDocument> documents;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    const auto number = static_cast<std::int64_t>(documents.size());
    CorpusDocument document{.number = lines.first_document + number};
    if (!lines.objects) {
      document.content = std::string(line);
    } else if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      document.content =
          field_of(line, lines.field, fmt::format("{}: line {}", lines.where, lines.first_line + number));
    }
    documents.push_back(std::move(document));
  }
  return documents;
}

TensorInfo find_ids(const std::filesystem::path& file, std::string_view field) {
  const auto tensors = SafetensorsFile::open(file);
  std::vector<std::string> ids;
  for (const auto& tensor : tensors.tensors()) {
    if (may_be_ids(tensor)) ids.push_back(tensor.name);
  }
  std::string name(field);
  if (name.empty() && ids.size() == 1) name = ids.front();
  for (const auto candidate : kIdTensors) {
    if (name.empty() && std::ranges::find(ids, candidate) != ids.end()) name = candidate;
  }
  if (std::ranges::find(ids, name) == ids.end()) {
    throw CheckpointError(
        path_text(file),
        fmt::format("{}; expected integers [document, pos] or [pos], got {}; --field names the tensor",
                    name.empty() ? "it is not clear which tensor holds the ids"
                                 : fmt::format("no tensor of ids has the name '{}'", printable(name)),
                    ids.empty() ? "none" : name_list(ids)));
  }
  return *tensors.find(name);
}

std::vector<std::int64_t> ids_of_bytes(std::string_view bytes, at::ScalarType dtype) {
  if (dtype == at::kLong) return integers_of<std::int64_t>(bytes);
  if (dtype == at::kInt) return integers_of<std::int32_t>(bytes);
  if (dtype == at::kShort) return integers_of<std::int16_t>(bytes);
  return integers_of<std::uint8_t>(bytes);
}

}  // namespace hooked
