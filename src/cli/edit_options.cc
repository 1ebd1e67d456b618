#include "cli/edit_options.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <variant>

#include "cli/command.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooked/io/safetensors.h"

namespace hooked::cli {
namespace {

using Value = std::variant<double, at::Tensor>;

constexpr std::string_view kForm =
    "expected \"ADDRESS OP VALUE\" with OP zero, set X, add X, scale X, replace FILE#KEY or project_out "
    "FILE#KEY, "
    "such as \"blocks.0.attn.hook_z[head=1] scale 0.5\"";

// What an edit's text says, word by word.
struct EditText {
  std::string_view all;
  std::string_view address;
  std::string_view op;
  std::string_view value;
};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

[[noreturn]] void refuse(const EditText& edit, std::string_view what) {
  throw UsageError(fmt::format("--edit \"{}\": {}; {}", printable(edit.all), what, kForm));
}

// The first blank outside the address's brackets ends it.
std::size_t address_end(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (depth <= 0 && (text[i] == ' ' || text[i] == '\t')) return i;
  }
  return text.size();
}

EditText split(std::string_view text) {
  EditText edit{.all = text, .address = {}, .op = {}, .value = {}};
  text = trimmed(text);
  const auto end = address_end(text);
  edit.address = text.substr(0, end);
  text = trimmed(text.substr(end));
  const auto blank = std::min(text.find_first_of(" \t"), text.size());
  edit.op = text.substr(0, blank);
  edit.value = trimmed(text.substr(blank));
  if (edit.address.empty()) refuse(edit, "it is empty");
  if (edit.op.empty()) refuse(edit, "it has no operation");
  return edit;
}

std::optional<double> as_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

/// What an operation is made with.
struct EditContext {
  const HookedTransformer& model;
  const Input& input;
};

// The file's tensor, in the model's dtype where that loses nothing.
at::Tensor tensor_of(const EditText& edit, const EditContext& context) {
  const auto hash = edit.value.rfind('#');
  if (hash == std::string_view::npos || hash == 0 || hash + 1 == edit.value.size()) {
    refuse(edit, fmt::format("'{}' is neither a number nor FILE#KEY", printable(edit.value)));
  }
  const at::Tensor value =
      SafetensorsFile::open(std::string(edit.value.substr(0, hash))).read(edit.value.substr(hash + 1));
  const at::ScalarType dtype = context.model.config().dtype;
  const bool widens = value.is_floating_point() && c10::promoteTypes(value.scalar_type(), dtype) == dtype;
  return widens ? value.to(dtype) : value;
}

Value value_of(const EditText& edit, const EditContext& context) {
  if (const auto number = as_number(edit.value)) return *number;
  return tensor_of(edit, context);
}

// Whether that axis counts what an encoder reads, and not the main tokens.
bool counts_encoder_tokens(const ActivationName& name, Axis axis, const Input& input) {
  return input.feeds_encoder() && counts_source(name, axis);
}

// Size of an axis of a whole activation in this run.
std::int64_t full_size(const ActivationName& name, std::size_t dim, const EditContext& context) {
  const auto& site = row(name.site);
  const auto size = size_of(site.axes[dim], context.model.config());
  if (size >= 0) return size;
  const Input& input = context.input;
  if (site.axes[dim] == Axis::batch) return input.batch();
  return counts_encoder_tokens(name, site.axes[dim], input) ? input.tokens.size(1) : input.length();
}

// `replace` takes from the file what the address takes from the activation, if the file holds all of it.
bool holds_whole_activation(const at::Tensor& value, const Address& address, const EditContext& context) {
  const auto& site = row(address.name().site);
  if (value.dim() != static_cast<std::int64_t>(site.axes.size())) return false;
  for (const auto& [axis, index] : address.indices().entries()) {
    const auto here = axis_on(address.name().site, axis);
    const auto dim = here ? site.axes.find(*here) : std::nullopt;
    if (!dim || value.size(*dim) != full_size(address.name(), static_cast<std::size_t>(*dim), context))
      return false;
  }
  return true;
}

void append_replacements(const EditText& edit, const EditContext& context, std::vector<Edit>& edits) {
  const auto target = EditTarget::parse(edit.address);
  const auto value = tensor_of(edit, context);
  const PointIndex points(context.model.config());
  for (const auto point : target.where.resolve(points, Reach::everything(points))) {
    Address address = points.name(point);
    for (const auto& [axis, index] : target.indices.entries()) address = address.at(axis, index);
    if (!holds_whole_activation(value, address, context)) {
      edits.push_back(set(address, value));
      continue;
    }
    const auto name = address.name().to_string();
    const Input& input = context.input;
    const bool of_encoder = counts_encoder_tokens(address.name(), Axis::pos, input);
    const AxisContext axes{
        .site = address.name().site,
        .where = name,
        .last_positions = (of_encoder ? input.last_encoder_columns() : input.last_columns()).to(at::kCPU)};
    edits.push_back(set(address, take_block(value, address.indices(), axes).clone()));
  }
}

Edit make(const EditText& edit, const Value& value, Edit (*with_number)(EditTarget, double),
          Edit (*with_tensor)(EditTarget, at::Tensor)) {
  auto target = EditTarget::parse(edit.address);
  if (const auto* number = std::get_if<double>(&value)) return with_number(std::move(target), *number);
  return with_tensor(std::move(target), std::get<at::Tensor>(value));
}

struct Operation {
  std::string_view name;
  bool takes_value;
  void (*append)(const EditText& edit, const EditContext& context, std::vector<Edit>& edits);
};

constexpr std::array kOperations = {
    Operation{"zero", false,
              [](const EditText& edit, const EditContext&, std::vector<Edit>& edits) {
                edits.push_back(zero(EditTarget::parse(edit.address)));
              }},
    Operation{"set", true,
              [](const EditText& edit, const EditContext& context, std::vector<Edit>& edits) {
                edits.push_back(make(edit, value_of(edit, context), &set, &set));
              }},
    Operation{"add", true,
              [](const EditText& edit, const EditContext& context, std::vector<Edit>& edits) {
                edits.push_back(make(edit, value_of(edit, context), &add, &add));
              }},
    Operation{"scale", true,
              [](const EditText& edit, const EditContext& context, std::vector<Edit>& edits) {
                edits.push_back(make(edit, value_of(edit, context), &scale, &scale));
              }},
    Operation{"replace", true, &append_replacements},
    Operation{"project_out", true,
              [](const EditText& edit, const EditContext& context, std::vector<Edit>& edits) {
                edits.push_back(project_out(EditTarget::parse(edit.address), tensor_of(edit, context)));
              }},
};

}  // namespace

void add_edit_option(CLI::App& app, std::vector<std::string>& edits) {
  app.add_option("--edit", edits,
                 "an intervention \"ADDRESS OP VALUE\", repeatable: name[axis=i|i:j|i+j,...] (globs "
                 "allowed), then zero, "
                 "set X, add X, scale X, replace FILE#KEY or project_out FILE#KEY; X a number or FILE#KEY")
      ->option_text("E")
      ->allow_extra_args(false);
}

std::vector<Edit> read_edits(const std::vector<std::string>& texts, const HookedTransformer& model,
                             const Input& input) {
  std::vector<Edit> edits;
  for (const auto& text : texts) {
    const auto edit = split(text);
    const auto operation =
        std::find_if(kOperations.begin(), kOperations.end(),
                     [&](const Operation& candidate) { return candidate.name == edit.op; });
    if (operation == kOperations.end())
      refuse(edit, fmt::format("there is no operation '{}'", printable(edit.op)));
    if (operation->takes_value == edit.value.empty()) {
      refuse(edit, operation->takes_value ? fmt::format("{} needs a value", edit.op)
                                          : fmt::format("{} takes no value", edit.op));
    }
    try {
      EditTarget::parse(edit.address);
    } catch (const HookError& error) {
      refuse(edit, error.what());  // how the option is written, not what the model has
    }
    operation->append(edit, {model, input}, edits);
  }
  return edits;
}

}  // namespace hooked::cli
