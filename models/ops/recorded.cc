#include "models/ops/recorded.h"

#include <c10/core/GradMode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

#include "hooked/core/error.h"

// Note [Recorded operations]
// A run with gradients should cost what its arithmetic costs. So its operations are those of plain runs, in
// the workspace's memory, and each says how a gradient passes back through it. They keep handles, which are
// released once the gradient has passed. Weights are frozen and get no gradients, so a product keeps no
// activation. Second derivatives are not recorded: a gradient of a gradient is an error, never a wrong
// number. (torch::autograd::Function would clone what it returns unchanged and keep tensors in a dictionary
// by name.)

namespace hooked {
namespace {

class RecordedOperation : public torch::autograd::Node {
 public:
  explicit RecordedOperation(PassBack pass_back) : pass_back_(std::move(pass_back)) {}

  std::string name() const override { return "hooked::RecordedOperation"; }

  void release_variables() override { pass_back_ = nullptr; }

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (c10::GradMode::is_enabled()) {
      throw HookError("gradients",
                      "runs record no second derivatives; expected gradients without create_graph; set "
                      "HOOKED_KERNELS=plain in the environment for LibTorch's own operators, which do");
    }
    if (pass_back_ == nullptr) {
      throw HookError(
          "gradients",
          "the run's graph has passed its gradients and is gone; expected one pass, or retain_graph");
    }
    const auto is_defined = [](const at::Tensor& gradient) { return gradient.defined(); };
    if (std::none_of(gradients.begin(), gradients.end(), is_defined)) {
      return torch::autograd::variable_list(num_outputs());
    }
    return pass_back_(gradients);
  }

  PassBack pass_back_;
};

// The pointer type of LibTorch's autograd nodes: a shared_ptr, in newer versions an intrusive_ptr.
using NodePointer = std::remove_cvref_t<decltype(std::declval<torch::autograd::Edge&>().function)>;

template <typename Pointer, typename Operation = RecordedOperation>
Pointer node_of(PassBack pass_back) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return Pointer(new Operation(std::move(pass_back)), [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Operation>(std::move(pass_back));
  }
}

}  // namespace

bool records(const at::Tensor& x) { return x.defined() && c10::GradMode::is_enabled() && x.requires_grad(); }

at::Tensor without_history(const at::Tensor& x) { return x.requires_grad() ? x.detach() : x; }

std::vector<at::Tensor> recorded(const std::vector<at::Tensor>& outputs,
                                 const std::vector<at::Tensor>& inputs, PassBack pass_back) {
  const auto operation = node_of<NodePointer>(std::move(pass_back));
  operation->set_next_edges(torch::autograd::collect_next_edges(inputs));
  std::vector<at::Tensor> behind;
  for (const at::Tensor& output : outputs) {
    behind.push_back(output.detach());  // a tensor of its own, not a view of any other
    torch::autograd::set_history(behind.back(), operation);
  }
  return behind;
}

at::Tensor recorded(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                    std::function<std::vector<at::Tensor>(const at::Tensor& gradient)> pass_back) {
  return recorded(std::vector{output}, inputs,
                  [pass_back = std::move(pass_back)](const std::vector<at::Tensor>& gradients) {
                    return pass_back(gradients.front());
                  })
      .front();
}

}  // namespace hooked
