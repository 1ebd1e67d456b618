#include "cli/edit_options.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooked/io/provenance.h"
#include "hooked/io/safetensors.h"
#include "options/edit_text.h"

namespace hooked::cli {
namespace {

using Value = std::variant<double, at::Tensor>;

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
  const std::string& from_model;  ///< whose values files may hold besides
};

// Files that do not say which model they are of are the user's own.
void require_model_of(const SafetensorsFile& file, const EditContext& context) {
  const Provenance from = read_provenance(file);
  const std::shared_ptr<const ModelIdentity> own = context.model.identity();
  if (from.fingerprint.empty() || from.fingerprint == own->fingerprint) return;
  const std::string& meant = context.from_model;
  if (!meant.empty() && (from.model == meant || from.fingerprint.starts_with(meant))) return;
  throw HookError(
      printable(file.path().native()),
      fmt::format("the file is of another model; expected {}{}, got {}; run this model, or say with "
                  "--from-model and the name or fingerprint that the other's values are meant",
                  own->text(), meant.empty() ? "" : fmt::format(" or '{}'", printable(meant)),
                  ModelIdentity{from.model, from.fingerprint}.text()));
}

// The file's tensor, in the model's dtype where that loses nothing.
at::Tensor tensor_of(const EditText& edit, const EditContext& context) {
  const auto hash = edit.value.rfind('#');
  if (hash == std::string_view::npos || hash == 0 || hash + 1 == edit.value.size()) {
    refuse_edit(edit.all, fmt::format("'{}' is neither a number nor FILE#KEY", printable(edit.value)));
  }
  const auto file = SafetensorsFile::open(std::string(edit.value.substr(0, hash)));
  require_model_of(file, context);
  const at::Tensor value = file.read(edit.value.substr(hash + 1));
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
  const auto size = size_of(site.axes[dim], context.model.config(), name.layer);
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

void append(const EditText& edit, const EditContext& context, std::vector<Edit>& edits) {
  switch (edit.operation) {
    case EditOperation::zero:
      return edits.push_back(zero(EditTarget::parse(edit.address)));
    case EditOperation::set:
      return edits.push_back(make(edit, value_of(edit, context), &set, &set));
    case EditOperation::add:
      return edits.push_back(make(edit, value_of(edit, context), &add, &add));
    case EditOperation::scale:
      return edits.push_back(make(edit, value_of(edit, context), &scale, &scale));
    case EditOperation::replace:
      return append_replacements(edit, context, edits);
    case EditOperation::project_out:
      return edits.push_back(project_out(EditTarget::parse(edit.address), tensor_of(edit, context)));
  }
}

}  // namespace

std::vector<Edit> read_edits(const EditOptions& options, const HookedTransformer& model, const Input& input) {
  std::vector<Edit> edits;
  for (const auto& text : options.texts) {
    const EditText edit = read_edit_text(text);
    try {
      EditTarget::parse(edit.address);
    } catch (const HookError& error) {
      refuse_edit(edit.all, error.what());  // how the option is written, not what the model has
    }
    append(edit, {model, input, options.from_model}, edits);
  }
  return edits;
}

}  // namespace hooked::cli
