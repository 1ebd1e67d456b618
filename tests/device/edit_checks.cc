#include <ATen/TensorOperators.h>

#include <array>
#include <stdexcept>

#include "hooked/hooks/edit.h"
#include "tests/device/checks.h"

namespace hooked::device_tests {
namespace edit_group {
namespace {

// A few numbers of a run: what an edit changes shows there.
NamedTensors edited(const Subject& s, std::vector<Edit> edits) {
  return all_of(s.model.run(s.input(), s.options({.edits = std::move(edits), .capture = act::resid_post})));
}

// Each activation of the first layer, of the first with attention and outside of the blocks alone, but
// for ids and experts' own.
template <typename MakeEdit>
NamedTensors edit_each(const Subject& s, const MakeEdit& make) {
  NamedTensors all;
  for (const ActivationName& name : s.model.names()) {
    const SiteRow& site = row(name.site);
    const bool elsewhere = name.layer > 0 && name.layer != s.attending();
    if (elsewhere || site.integers || per_expert(site)) continue;
    const std::optional<Edit> edit = make(name);
    if (!edit) continue;
    for (const auto& [output, value] : edited(s, {*edit})) all[name.to_string() + " > " + output] = value;
  }
  return all;
}

bool has(Axis axis, const ActivationName& name) { return row(name.site).axes.find(axis).has_value(); }
bool has_places(const ActivationName& name) { return has(Axis::pos, name) || has(Axis::query, name); }

NamedTensors scaled(const Subject& s) {
  return edit_each(
      s, [](const ActivationName& name) -> std::optional<Edit> { return scale(Address(name), 0.5); });
}

NamedTensors zeroed_range(const Subject& s) {
  return edit_each(s, [](const ActivationName& name) -> std::optional<Edit> {
    if (!has_places(name) || has(Axis::one, name)) return std::nullopt;
    return zero(Address(name).pos(AxisIndex::Range{1, 3}));
  });
}

NamedTensors scaled_list(const Subject& s) {
  return edit_each(s, [](const ActivationName& name) -> std::optional<Edit> {
    if (!has_places(name)) return std::nullopt;
    return scale(Address(name).pos(std::vector<std::int64_t>{0, 2}), 0.25);
  });
}

NamedTensors scaled_last(const Subject& s) {
  return edit_each(s, [](const ActivationName& name) -> std::optional<Edit> {
    if (!has_places(name)) return std::nullopt;
    return scale(Address(name).pos(AxisIndex::Last{}), 0.25);
  });
}

NamedTensors one_head(const Subject& s) {
  return edit_each(s, [](const ActivationName& name) -> std::optional<Edit> {
    if (!has(Axis::head, name)) return std::nullopt;
    return scale(Address(name).head(0), 2.0);
  });
}

NamedTensors rows_and_heads(const Subject& s) {
  return edit_each(s, [&](const ActivationName& name) -> std::optional<Edit> {
    if (!has(Axis::head, name) || s.golden.tokens.size(0) < 2) return std::nullopt;
    return scale(Address(name).row(1).head(std::vector<std::int64_t>{0, 0}), 2.0);
  });
}

NamedTensors added_tensor(const Subject& s) {
  return edit_each(s, [&](const ActivationName& name) -> std::optional<Edit> {
    if (!has(Axis::d_model, name)) return std::nullopt;
    return add(Address(name), s.random({s.config().d_model}, 11));
  });
}

NamedTensors set_numbers(const Subject& s) {
  return edit_each(s, [](const ActivationName& name) -> std::optional<Edit> {
    // Among experts of equal weight the choice of a device is arbitrary.
    if (!has(Axis::pos, name) || has(Axis::expert, name)) return std::nullopt;
    return set(Address(name).pos(1), 0.75);
  });
}

NamedTensors without_direction(const Subject& s) {
  return edit_each(s, [&](const ActivationName& name) -> std::optional<Edit> {
    if (!has(Axis::d_model, name)) return std::nullopt;
    return project_out(Address(name), s.random({s.config().d_model}, 12));
  });
}

NamedTensors replaced(const Subject& s) {
  Input other = s.input();
  other.tokens = other.tokens.flip(1);
  const auto cache = s.model.run_with_cache(other, act::everything, s.options()).cache;
  return edit_each(s,
                   [&](const ActivationName& name) -> std::optional<Edit> { return replace(name, cache); });
}

NamedTensors several(const Subject& s) {
  return edited(s,
                {scale(act::resid_pre(0), 0.5), add(act::z(s.attending()).pos(1), 0.25),
                 scale(act::z(s.attending()).head(0), 3.0), zero(act::attn_out(-1).pos(AxisIndex::Last{}))});
}

NamedTensors tokens_replaced(const Subject& s) { return edited(s, {set(Address(act::tokens).pos(1), 2.0)}); }

NamedTensors experts_sent(const Subject& s) {
  NamedTensors all;
  for (const ActivationName& name : s.model.names()) {
    if (name.site != Site::expert_indices) continue;
    for (const auto& [output, value] : edited(s, {set(Address(name).pos(1), 0.0)}))
      all[name.to_string() + " > " + output] = value;
  }
  return all;
}

NamedTensors with_hooks(const Subject& s) {
  NamedTensors all;
  std::vector<at::Tensor> seen;
  const std::vector<Hook> hooks{Hook(act::attn_out, [](const at::Tensor& x) { return x * 1.5; }),
                                Hook(act::pattern, [](const at::Tensor& x) { return x * 0.75; }),
                                Hook(act::resid_post, [&](const at::Tensor& x, const ActivationName& name) {
                                  all[name.to_string()] = x.detach().clone();
                                })};
  for (const auto& [name, value] : all_of(s.model.run_with_hooks(s.input(), hooks, s.options())))
    all["run " + name] = value;
  return all;
}

NamedTensors attached(const Subject& s) {
  HookedTransformer own = s.model;
  const HookHandle handle = own.hook(act::v, [](const at::Tensor& x) { return x + 1.0; });
  return all_of(own.run(s.input(), s.options()));
}

NamedTensors throwing_hook(const Subject& s) {
  try {
    s.model.run_with_hooks(s.input(),
                           {Hook(act::resid_post, [](const at::Tensor&) { throw std::domain_error("x"); })},
                           s.options());
  } catch (const std::domain_error&) {
    return all_of(s.model.run(s.input(), s.options()));
  }
  throw std::logic_error("the hook's error did not come through");
}

bool mixes(const Subject& s) {
  for (const ActivationName& name : s.model.names())
    if (name.site == Site::expert_indices) return true;
  return false;
}
bool several_rows(const Subject& s) { return s.golden.tokens.size(0) > 1; }

constexpr std::array<Check, 16> kChecks{{
    {"scaled", always, scaled},
    {"zeroed_range", always, zeroed_range},
    {"scaled_list", always, scaled_list},
    {"scaled_last", always, scaled_last},
    {"one_head", always, one_head},
    {"rows_and_heads", several_rows, rows_and_heads},
    {"added_tensor", always, added_tensor},
    {"set_numbers", always, set_numbers},
    {"without_direction", always, without_direction},
    {"replaced", always, replaced},
    {"several", always, several},
    {"tokens_replaced", always, tokens_replaced},
    {"experts_sent", mixes, experts_sent},
    {"hooked", always, with_hooks},
    {"attached", always, attached},
    {"throwing_hook", always, throwing_hook},
}};

}  // namespace
}  // namespace edit_group

std::span<const Check> edit_checks() { return edit_group::kChecks; }

}  // namespace hooked::device_tests
