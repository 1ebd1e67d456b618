#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/input_options.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/saved_activation.h"
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

/// What an operation is built with.
struct EditContext {
  const HookedTransformer& model;
  const Input& input;
  const std::string& from_model;  ///< other model whose values files may have
};

/// A tensor of a file.
struct FileTensor {
  at::Tensor value;                      ///< in the model's dtype if that loses nothing
  std::optional<ActivationCache> cache;  ///< with only this activation, if the file is a saved cache
};

// Files that do not name a model are the user's own.
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

FileTensor tensor_of(const EditText& edit, const EditContext& context) {
  const auto hash = edit.value.rfind('#');
  if (hash == std::string_view::npos || hash == 0 || hash + 1 == edit.value.size()) {
    refuse_edit(edit.all, fmt::format("'{}' is neither a number nor FILE#KEY", printable(edit.value)));
  }
  const auto file = SafetensorsFile::open(std::string(edit.value.substr(0, hash)));
  require_model_of(file, context);
  const std::string key(edit.value.substr(hash + 1));
  FileTensor read{file.read(key), std::nullopt};
  read.cache = saved_activation(file, key);
  const at::ScalarType dtype = context.model.config().dtype;
  const bool widens =
      read.value.is_floating_point() && c10::promoteTypes(read.value.scalar_type(), dtype) == dtype;
  if (widens) read.value = read.value.to(dtype);
  return read;
}

Value value_of(const EditText& edit, const EditContext& context) {
  if (const auto number = as_number(edit.value)) return *number;
  return tensor_of(edit, context).value;
}

// Whether that axis counts the encoder's tokens, and not the main tokens.
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

// The places that an address selects in a whole activation, counted from 0: on each token axis, only those
// that this run has.
AxisIndices places_of(const Address& address, const EditContext& context) {
  const std::string where = address.name().to_string();
  const AxisContext axes{.site = address.name().site, .where = where, .last_positions = {}};
  const AxisList& site = row(address.name().site).axes;
  AxisIndices places;
  const bool by_expert = per_expert(row(address.name().site));  // the run decides whose tokens
  for (std::size_t dim = 0; dim < site.size(); ++dim) {
    const std::int64_t size = full_size(address.name(), dim, context);
    const AxisIndex* index = address.indices().find(site[dim]);
    if (index == nullptr) {
      // Only token axes have no fixed size.
      const bool of_tokens = size_of(site[dim], context.model.config(), address.name().layer) < 0;
      if (of_tokens && site[dim] != Axis::batch && !by_expert)
        places.add(site[dim], AxisIndex::Range{0, size});
    } else if (std::holds_alternative<AxisIndex::Last>(index->value)) {
      places.add(site[dim], *index);
    } else {
      const auto numbers = resolve_places(*index, {axes, site[dim], size});
      const bool one = std::holds_alternative<std::int64_t>(index->value);
      places.add(site[dim], one ? AxisIndex(numbers.front()) : AxisIndex(numbers));
    }
  }
  return places;
}

// The value that `replace` puts at an address. If a file's tensor has the activation's axes, it is a whole
// activation, and the address selects from it, column by column, what it selects from the activation; a
// tensor that is not a saved activation may also be the block itself.
at::Tensor replacement(const EditText& edit, const Address& address, const EditContext& context) {
  const ActivationName name = address.name();
  const std::string where = name.to_string();
  FileTensor given = tensor_of(edit, context);
  const AxisList& site = row(name.site).axes;
  if (given.value.dim() != static_cast<std::int64_t>(site.size())) return given.value;
  const Input& input = context.input;
  const bool of_encoder = counts_encoder_tokens(name, Axis::pos, input);
  const AxisContext axes{
      .site = name.site,
      .where = where,
      .last_positions = (of_encoder ? input.last_encoder_columns() : input.last_columns()).to(at::kCPU)};
  const AxisIndices places = places_of(address, context);
  if (given.cache)
    return block_of(*given.cache, name, places, axes.last_positions).to(given.value.scalar_type());
  std::vector<std::int64_t> sizes;
  for (std::size_t dim = 0; dim < site.size(); ++dim) sizes.push_back(full_size(name, dim, context));
  const at::Tensor whole = at::empty({1}, given.value.options()).expand(sizes);
  const bool is_block = take_block(whole, address.indices(), axes).sizes() == given.value.sizes();
  return is_block ? given.value : take_block(given.value, places, axes).clone();
}

void append_replacements(const EditText& edit, const EditContext& context, Edits& edits) {
  const auto target = EditTarget::parse(edit.address);
  const PointIndex points(context.model.config());
  for (const auto point : target.where.resolve(points, Reach::everything(points))) {
    Address address = points.name(point);
    for (const auto& [axis, index] : target.indices.entries()) address = address.at(axis, index);
    edits.push_back(set(address, replacement(edit, address, context)));
  }
}

Edit make(const EditText& edit, const Value& value, Edit (*with_number)(EditTarget, double),
          Edit (*with_tensor)(EditTarget, at::Tensor)) {
  auto target = EditTarget::parse(edit.address);
  if (const auto* number = std::get_if<double>(&value)) return with_number(std::move(target), *number);
  return with_tensor(std::move(target), std::get<at::Tensor>(value));
}

void append(const EditText& edit, const EditContext& context, Edits& edits) {
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
      return edits.push_back(project_out(EditTarget::parse(edit.address), tensor_of(edit, context).value));
  }
}

}  // namespace

Edits read_edits(const EditOptions& options, const HookedTransformer& model, const Input& input) {
  Edits edits;
  for (const auto& text : options.texts) {
    const EditText edit = read_edit_text(text);
    try {
      EditTarget::parse(edit.address);
    } catch (const HookError& error) {
      refuse_edit(edit.all, error.what());  // wrong in the option's text, whatever the model has
    }
    append(edit, {model, input, options.from_model}, edits);
  }
  return edits;
}

}  // namespace hooked::cli
