#include "hooked/hooks/edit.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/activation_cache.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

Edit make_edit(EditTarget target, EditKind kind, std::variant<double, at::Tensor> value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value); tensor != nullptr && !tensor->defined()) {
    throw HookError(
        "edit", "the value is an undefined tensor; expected numbers that broadcast to the addressed block");
  }
  return Edit{std::move(target), kind, std::move(value)};
}

// The address with the columns that the source holds, if these are not all from 0 on: after a prefix those of
// the run, at the model's exit those whose logits were asked for.
EditTarget with_columns(const Address& address, const ActivationCache& source) {
  const auto& entry = source.entry(address.name());
  const auto axis = axis_on(entry.name.site, Axis::pos);
  const HeldColumns held(source, entry);
  if (!axis || address.indices().find(*axis) != nullptr || held.all()) return address;
  if (held.all_of_the_run() || (row(entry.name.site).asked_rows && !entry.positions.empty()))
    return address.at(*axis, entry.positions);
  throw HookError(
      address.to_string(),
      fmt::format("the address means all columns, and this cache holds some of them ({}); expected "
                  "an address of columns that it holds, such as [{}={}]",
                  held.text(), axis_name(*axis),
                  entry.row_positions.defined() ? "last" : std::to_string(entry.positions.front())));
}

}  // namespace

EditTarget EditTarget::parse(std::string_view text) {
  const auto bracket = text.find('[');
  const Selection where = Selection(text.substr(0, bracket));
  if (bracket == std::string_view::npos) return {where, {}};
  if (text.back() != ']') throw HookError(text, "the indices are not closed; expected name[axis=index,...]");
  return {where, AxisIndices::parse(text.substr(bracket + 1, text.size() - bracket - 2))};
}

Edit zero(EditTarget target) { return make_edit(std::move(target), EditKind::set, 0.0); }
Edit set(EditTarget target, double value) { return make_edit(std::move(target), EditKind::set, value); }
Edit set(EditTarget target, at::Tensor value) {
  return make_edit(std::move(target), EditKind::set, std::move(value));
}
Edit add(EditTarget target, double value) { return make_edit(std::move(target), EditKind::add, value); }
Edit add(EditTarget target, at::Tensor value) {
  return make_edit(std::move(target), EditKind::add, std::move(value));
}
Edit scale(EditTarget target, double factor) { return make_edit(std::move(target), EditKind::scale, factor); }
Edit scale(EditTarget target, at::Tensor factor) {
  return make_edit(std::move(target), EditKind::scale, std::move(factor));
}
Edit replace(const Address& address, const ActivationCache& source) {
  Edit edit = make_edit(with_columns(address, source), EditKind::replace, source[address]);
  edit.source = EditSource{source.model(), source.entry(address.name()).held.sizes()};
  return edit;
}
std::vector<Edit> replace(act::BlockSite site, const ActivationCache& source) {
  std::vector<Edit> edits;
  for (const ActivationCache::Entry& entry : source) {
    if (entry.name.site == site.site) edits.push_back(replace(Address(entry.name), source));
  }
  if (!edits.empty()) return edits;
  throw HookError(row(site.site).word,
                  fmt::format("the cache holds no activation of this site; expected one of a run that keeps "
                              "`{}`",
                              row(site.site).word));
}
Edit project_out(EditTarget target, at::Tensor direction) {
  if (direction.defined() && (direction.dim() != 1 || !direction.any().item<bool>())) {
    throw HookError("edit",
                    fmt::format("a direction is one vector that is not all zeros; expected [size of the last "
                                "axis], got {} {}",
                                direction.dim() == 1 ? "zeros" : "a tensor", shape_text(direction.sizes())));
  }
  return make_edit(std::move(target), EditKind::project_out, std::move(direction));
}

}  // namespace hooked
