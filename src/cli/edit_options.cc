// The values of --edit as edits.
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/file_tensor.h"
#include "cli/input_options.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/saved_activation.h"
#include "options/edit_text.h"

namespace hooked::cli {
namespace {

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

// What errors call an edit.
std::string name_of(const EditText& edit) { return fmt::format("--edit \"{}\"", printable(edit.all)); }

FileTensor tensor_of(const EditText& edit, const EditContext& context) {
  const auto hash = edit.value.rfind('#');
  if (hash == std::string_view::npos || hash == 0 || hash + 1 == edit.value.size()) {
    refuse_edit(edit.all, fmt::format("'{}' is neither a number nor FILE#KEY", printable(edit.value)));
  }
  return read_file_tensor(edit.value.substr(0, hash), edit.value.substr(hash + 1),
                          {context.model, context.from_model});
}

// The activations that an edit applies to.
std::vector<ActivationName> names_of(const EditTarget& target, const EditContext& context) {
  const PointIndex& points = context.model.points();
  std::vector<ActivationName> names;
  for (const auto point : target.where.resolve(points, Reach::everything(points)))
    names.push_back(points.name(point));
  return names;
}

// The dtype that each of these has in this run. In a model that is narrower than float32 some are float32
// (scales, logits), and a run tells which.
std::map<ActivationName, at::ScalarType> dtypes_of(const std::vector<ActivationName>& names,
                                                   const EditContext& context) {
  std::map<ActivationName, at::ScalarType> dtypes;
  const at::ScalarType dtype = context.model.config().dtype;
  const bool narrow = dtype != at::kFloat && dtype != at::kDouble;
  Selection unknown;
  for (const ActivationName& name : names) {
    dtypes[name] = row(name.site).integers ? at::kLong : dtype;
    if (narrow) unknown = unknown | Selection(name);
  }
  if (unknown.empty()) return dtypes;
  const auto run = context.model.run(context.input, {.capture = unknown, .output = Output::none});
  for (const auto& entry : run.cache) dtypes[entry.name] = entry.value().scalar_type();
  return dtypes;
}

// Edits with a tensor of a file, in the dtype and on the device of the activations: one edit, or one for each
// dtype that these have.
template <typename Make>
void append_of_tensor(const EditText& edit, const EditContext& context, Make make, std::vector<Edit>& edits) {
  const auto target = EditTarget::parse(edit.address);
  const at::Tensor given = tensor_of(edit, context).value;
  std::map<at::ScalarType, Selection> by_dtype;
  for (const auto& [name, dtype] : dtypes_of(names_of(target, context), context))
    by_dtype[dtype] = by_dtype[dtype] | Selection(name);
  for (const auto& [dtype, names] : by_dtype) {
    const EditTarget those = by_dtype.size() == 1 ? target : EditTarget(names, target.indices);
    edits.push_back(make(those, in_dtype(given, dtype, name_of(edit)).to(context.model.device())));
  }
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
  if (given.is_block || given.value.dim() != static_cast<std::int64_t>(site.size())) return given.value;
  const Input& input = context.input;
  const bool of_encoder = counts_encoder_tokens(name, Axis::pos, input);
  const AxisContext axes{
      .site = name.site,
      .where = where,
      .last_positions = (of_encoder ? input.last_encoder_columns() : input.last_columns()).to(at::kCPU)};
  const AxisIndices places = places_of(address, context);
  if (given.cache) return block_of(*given.cache, name, places, axes.last_positions);
  std::vector<std::int64_t> sizes;
  for (std::size_t dim = 0; dim < site.size(); ++dim) sizes.push_back(full_size(name, dim, context));
  const at::Tensor whole = at::empty({1}, given.value.options()).expand(sizes);
  const bool is_block = take_block(whole, address.indices(), axes).sizes() == given.value.sizes();
  return is_block ? given.value : take_block(given.value, places, axes).clone();
}

void append_replacements(const EditText& edit, const EditContext& context, Edits& edits) {
  const auto target = EditTarget::parse(edit.address);
  for (const auto& [name, dtype] : dtypes_of(names_of(target, context), context)) {
    Address address = name;
    for (const auto& [axis, index] : target.indices.entries()) address = address.at(axis, index);
    const at::Tensor value = in_dtype(replacement(edit, address, context), dtype, name_of(edit));
    edits.push_back(set(address, value.to(context.model.device())));
  }
}

void append_with(const EditText& edit, const EditContext& context, Edit (*with_number)(EditTarget, double),
                 Edit (*with_tensor)(EditTarget, at::Tensor), std::vector<Edit>& edits) {
  if (const auto number = as_number(edit.value))
    return edits.push_back(with_number(EditTarget::parse(edit.address), *number));
  append_of_tensor(edit, context, with_tensor, edits);
}

// A block of one place in one row is a direction, although it may keep the row's axis.
Edit without_direction(EditTarget target, const at::Tensor& value) {
  const bool one = value.dim() > 1 && value.numel() == value.size(-1);
  return project_out(std::move(target), one ? value.flatten() : value);
}

void append(const EditText& edit, const EditContext& context, Edits& edits) {
  switch (edit.operation) {
    case EditOperation::zero:
      return edits.push_back(zero(EditTarget::parse(edit.address)));
    case EditOperation::set:
      return append_with(edit, context, &set, &set, edits);
    case EditOperation::add:
      return append_with(edit, context, &add, &add, edits);
    case EditOperation::scale:
      return append_with(edit, context, &scale, &scale, edits);
    case EditOperation::replace:
      return append_replacements(edit, context, edits);
    case EditOperation::project_out:
      return append_of_tensor(edit, context, &without_direction, edits);
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
