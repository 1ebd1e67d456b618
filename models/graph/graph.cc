#include "models/graph/graph.h"

#include <ATen/ops/empty.h>

#include <cassert>
#include <string>
#include <vector>

namespace hooked {

at::Tensor ParameterStack::part(const std::string& name, std::int64_t module, at::IntArrayRef sizes,
                                const at::TensorOptions& options) {
  at::Tensor& whole = wholes_[name];
  if (!whole.defined()) {
    std::vector<std::int64_t> all{modules_};
    all.insert(all.end(), sizes.begin(), sizes.end());
    whole = at::empty(all, options);
  }
  assert(whole.sizes().slice(1) == sizes);
  // A leaf like any other parameter, and not a view as far as gradients are concerned.
  return whole.select(0, module).variable_data();
}

at::Tensor ParameterStack::whole(const std::string& name) const {
  const auto found = wholes_.find(name);
  return found == wholes_.end() ? at::Tensor() : found->second;
}

bool has_point(Site site, const GraphContext& context) {
  const SiteRow& site_row = row(site);
  return stands_in(site_row, context.stack) && site_row.exists(context.config, context.layer);
}

Point add_point(torch::nn::Module& owner, Site site, const GraphContext& context) {
  const SiteRow& site_row = row(site);
  if (!has_point(site, context)) return nullptr;
  ActivationName name{.site = site};
  if (site_row.scope == SiteScope::block) {
    name.stack = context.stack;
    name.layer = static_cast<std::int32_t>(context.layer);
    if (per_expert(site_row)) name.expert = static_cast<std::int32_t>(context.expert);
  }
  const auto leaf = site_row.path.substr(site_row.path.rfind('.') + 1);  // npos + 1 is 0: the whole path
  return owner.register_module(std::string(leaf), std::make_shared<HookPoint>(context.points.require(name)));
}

at::Tensor add_parameter(torch::nn::Module& owner, const char* name, at::IntArrayRef sizes,
                         const GraphContext& context) {
  ParameterStack* const stack = context.stack_of_experts;
  return owner.register_parameter(name,
                                  stack == nullptr
                                      ? context.memory.empty(sizes, context.options)
                                      : stack->part(name, context.expert, sizes, context.options),
                                  /*requires_grad=*/false);
}

Matrix add_matrix(torch::nn::Module& owner, const char* name, std::int64_t out, std::int64_t in,
                  Matrix::Groups groups, const GraphContext& context) {
  if (context.stack_of_experts != nullptr) return Matrix(add_parameter(owner, name, {out, in}, context));
  Matrix matrix(out, in, groups, context.options, context.storage, &context.memory);
  if (!matrix.parts()) owner.register_parameter(name, matrix.stored(), /*requires_grad=*/false);
  return matrix;
}

Matrix add_rows(torch::nn::Module& owner, const char* name, std::int64_t rows, std::int64_t size,
                const GraphContext& context) {
  if (context.storage != Storage::codes) return Matrix(add_parameter(owner, name, {rows, size}, context));
  return add_matrix(owner, name, rows, size, {.out = 1, .in = size}, context);
}

}  // namespace hooked
