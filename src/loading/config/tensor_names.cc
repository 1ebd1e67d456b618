#include "loading/config/tensor_names.h"

#include "families/composite.h"

namespace hooked {

namespace {

// In transformers, question-answering classes call the body by the second name, their families by the first.
constexpr std::string_view kModel = "model.", kOfQuestions = "transformer.";

}  // namespace

std::string_view prefix_of(std::string_view name, const Family& family) {
  if (family.inside != nullptr) return prefix_in_composite(*family.inside, name);
  for (std::string_view prefix = family.prefix; !prefix.empty(); prefix.remove_prefix(prefix.find('.') + 1)) {
    if (name.starts_with(prefix)) return name.substr(0, prefix.size());
  }
  if (family.prefix == kModel && name.starts_with(kOfQuestions)) return name.substr(0, kOfQuestions.size());
  return {};
}

std::optional<std::string_view> other_model_of(std::string_view name, const Family& family) {
  return family.inside == nullptr ? std::nullopt : other_part(*family.inside, name);
}

}  // namespace hooked
