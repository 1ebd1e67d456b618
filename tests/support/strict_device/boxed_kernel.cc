#include "tests/support/strict_device/boxed_kernel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/kernels.h"
#include "tests/support/strict_device/memory.h"
#include "tests/support/strict_device/recorder.h"

namespace hooked::strict {
namespace {

// Replaces every tensor of a value by what `use` makes of it.
template <typename Use>
void each_tensor(c10::IValue& value, const Use& use) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = use(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(t.defined() ? use(t) : t);
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector()) {
      list.push_back(t && t->defined() ? std::optional<at::Tensor>(use(*t)) : t);
    }
    value = std::move(list);
  }
}

/// The values of a call as a step keeps them. One tensor that is used in several places stays one.
class KeptValues {
 public:
  explicit KeptValues(torch::jit::Stack values) : values_(std::move(values)) {
    std::vector<const void*> seen;
    for (c10::IValue& value : values_) {
      each_tensor(value, [&](const at::Tensor& t) {
        const auto known = std::find(seen.begin(), seen.end(), t.unsafeGetTensorImpl());
        order_.push_back(static_cast<std::size_t>(known - seen.begin()));
        if (known == seen.end()) {
          seen.push_back(t.unsafeGetTensorImpl());
          tensors_.emplace_back(t);
        }
        return at::empty({0});  // its placeholder
      });
    }
  }
  torch::jit::Stack get() const {
    std::vector<at::Tensor> tensors;
    for (const KeptTensor& kept : tensors_) tensors.push_back(kept.get());
    torch::jit::Stack values;
    auto next = order_.begin();
    for (const c10::IValue& kept : values_) {
      c10::IValue value = kept;
      each_tensor(value, [&](const at::Tensor&) { return tensors[*next++]; });
      values.push_back(std::move(value));
    }
    return values;
  }

 private:
  torch::jit::Stack values_;
  std::vector<KeptTensor> tensors_;
  std::vector<std::size_t> order_;  // which of them is in each place
};

// Writes a step's outputs into its outputs at recording time.
void write_again(const c10::IValue& recorded, const c10::IValue& made) {
  const auto write = [](const at::Tensor& into, const at::Tensor& from) {
    if (!into.defined() || into.numel() == 0 || into.is_same(from)) return;
    OpenMemory opened;
    opened.alias(into).copy_(opened.alias(from));
  };
  if (made.isTensor()) write(recorded.toTensor(), made.toTensor());
  if (!made.isTensorList()) return;
  const std::vector<at::Tensor> into = recorded.toTensorVector(), from = made.toTensorVector();
  for (std::size_t i = 0; i < into.size(); ++i) write(into[i], from[i]);
}

class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op),
        schema_(op.schema()),
        name_(schema_.name()),
        stack_(stack),
        first_(stack.size() - schema_.arguments().size()) {
    TORCH_CHECK(name_.starts_with("aten::"), "strict device: no kernel for ", name_);
    name_.erase(0, 6);
  }

  void run() {
    find_device();
    for (int i = 0; i < waits(); ++i) note_wait(name_);
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      each_tensor(stack_[first_ + i],
                  [&](const at::Tensor& t) { return on_host(t, schema_.arguments()[i]); });
    }
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    give_back_resized();
    bool launches = schema_.returns().empty();
    for (std::size_t i = stack_.size() - schema_.returns().size(); i < stack_.size(); ++i) {
      launches |= !stack_[i].isTensor();
      each_tensor(stack_[i], [&](const at::Tensor& t) {
        launches |= t.numel() > 0;
        return on_this_device(t);
      });
    }
    if (launches) note_launch(c10::toString(op_.operator_name()));
  }

 private:
  void find_device() {
    const c10::Argument* first = nullptr;
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      each_tensor(stack_[first_ + i], [&](const at::Tensor& t) {
        if (!on_device(t)) return t;
        if (first == nullptr) {
          first = &argument;
          device_ = t.device();
        }
        TORCH_CHECK(t.device() == *device_, "strict device: ", name_, " got tensors of several devices: '",
                    first->name(), "' on ", *device_, " and '", argument.name(), "' on ", t.device());
        return t;
      });
    }
    TORCH_CHECK(device_, "strict device: ", name_, " got no tensor of the device");
  }

  // How often CUDA's kernel waits: if the size of its output, or a check, depends on values.
  int waits() const {
    static const std::set<std::string> kOnce{"nonzero",
                                             "masked_select",
                                             "equal",
                                             "unique_dim",
                                             "_unique2",
                                             "unique_consecutive",
                                             "unique_dim_consecutive"};
    if (name_ == "bincount") return 2;
    // Has a kernel for some dtypes and cards; otherwise it must know how long the groups are.
    if (name_ == "_grouped_mm")
      return multiplies_groups(device_->index(), stack_[first_].toTensor().scalar_type()) ? 0 : 1;
    // Knows its size if that is given.
    if (name_ == "repeat_interleave") return stack_.back().isNone() ? 1 : 0;
    return kOnce.contains(name_) ? 1 : 0;
  }

  // For `index` they were counted before, when its sizes were found.
  bool waits_for_indices() const { return name_ == "index_put" || name_ == "_index_put_impl_"; }
  bool takes_indices() const { return name_ == "index" || waits_for_indices(); }

  // CUDA takes a host number together with device tensors if it works element by element.
  bool takes_numbers() const {
    static const std::set<std::string> kOthers{
        "fill_", "masked_fill_", "masked_fill", "_index_put_impl_", "index_put_", "where", "clamp"};
    return op_.hasTag(at::Tag::pointwise) || kOthers.contains(name_);
  }

  at::Tensor on_host(const at::Tensor& t, const c10::Argument& argument) {
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const bool index = takes_indices() && argument.name() == "indices";
    if (!on_device(t)) {
      if (index) {
        if (waits_for_indices()) note_wait(name_ + " with indices of the host");  // CUDA takes them too
        return t;
      }
      const bool number = t.is_cpu() && t.dim() == 0 && !written;
      const bool wrapped = number && t.unsafeGetTensorImpl()->is_wrapped_number();
      TORCH_CHECK(wrapped || (number && takes_numbers()),
                  "strict device: expected all tensors on the same device, but ", name_, " got '",
                  argument.name(), "' ", t.sizes(), " on ", t.device(), " next to ", *device_);
      return t;
    }
    for (const auto& [original, replacement] : replaced_) {
      if (original.is_same(t)) return replacement;
    }
    if (index && waits_for_indices() && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte)) {
      note_wait(name_ + " with a mask");
    }
    // An empty `out` may be resized, which borrowed memory cannot be.
    at::Tensor replacement =
        written && t.numel() == 0 ? at::empty(t.sizes(), at::TensorOptions(t.dtype())) : opened_.alias(t);
    replaced_.emplace_back(t, replacement);
    return replacement;
  }

  void give_back_resized() {
    for (const auto& [original, replacement] : replaced_) {
      if (original.numel() > 0 || replacement.numel() == 0) continue;
      original.resize_(replacement.sizes());
      opened_.alias(original).copy_(replacement);
    }
  }

  at::Tensor on_this_device(const at::Tensor& t) {
    for (const auto& [original, replacement] : replaced_) {
      if (replacement.is_same(t)) return original;
      TORCH_CHECK(!t.is_alias_of(replacement) || t.numel() == 0, "strict device: ", name_,
                  " makes a view; give it a kernel of its own");
    }
    at::Tensor made = at::empty_strided(t.sizes(), t.strides(), t.options().device(*device_));
    if (t.numel() > 0) opened_.alias(made).copy_(t);
    made_.push_back(made);
    return made;
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  std::string name_;
  torch::jit::Stack& stack_;
  std::size_t first_;  // of the arguments on the stack
  std::optional<c10::Device> device_;
  std::vector<std::pair<at::Tensor, at::Tensor>> replaced_;
  std::vector<at::Tensor> made_;
  OpenMemory opened_;  // goes before the tensors
  at::AutoDispatchBelowADInplaceOrView below_;
};

}  // namespace

void run_host_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!is_recording()) {
    Call(op, *stack).run();
    return;
  }
  const std::size_t arguments = op.schema().arguments().size();
  const KeptValues given(
      torch::jit::Stack(stack->end() - static_cast<std::ptrdiff_t>(arguments), stack->end()));
  Call(op, *stack).run();
  const std::size_t returns = op.schema().returns().size();
  const KeptValues made(torch::jit::Stack(stack->end() - static_cast<std::ptrdiff_t>(returns), stack->end()));
  record_step([op, given, made] {
    torch::jit::Stack again = given.get();
    Call(op, again).run();
    const torch::jit::Stack into = made.get();
    for (std::size_t i = 0; i < into.size(); ++i) write_again(into[i], again[again.size() - into.size() + i]);
  });
}

}  // namespace hooked::strict
