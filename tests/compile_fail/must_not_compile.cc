// Each namespace holds code that compiles and, under HOOKED_MUST_NOT_COMPILE, code that must not: its line
// says which message the compiler gives there (an `expect` comment). check_rejections.py compiles this file
// both ways. Without the macro a wrong include or name cannot pass for a rejection.
#include "hooked/engine/hooked_transformer.h"
#include "hooked/engine/trainable_transformer.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/hook.h"
#include "hooked/io/safetensors.h"
#include "hooked/loading/describe.h"

namespace act = hooked::act;

namespace assignment_into_cache {
at::Tensor read(const hooked::ActivationCache& cache) { return cache[act::pattern(1)]; }
#ifdef HOOKED_MUST_NOT_COMPILE
void write(hooked::ActivationCache& cache, const at::Tensor& value) {
  cache[act::pattern(1)] =
      value;  // expect: passing .* as .this. argument discards qualifiers|no viable overloaded|deleted
}
#endif
}  // namespace assignment_into_cache

namespace copied_hook_handle {
hooked::HookHandle moved(hooked::HookHandle&& handle) { return std::move(handle); }
#ifdef HOOKED_MUST_NOT_COMPILE
hooked::HookHandle copied(const hooked::HookHandle& handle) {
  return handle;  // expect: deleted
}
#endif
}  // namespace copied_hook_handle

namespace copied_trainable_transformer {
hooked::TrainableTransformer moved(hooked::TrainableTransformer&& model) { return std::move(model); }
#ifdef HOOKED_MUST_NOT_COMPILE
hooked::TrainableTransformer copied(const hooked::TrainableTransformer& model) {
  return model;  // expect: deleted
}
#endif
}  // namespace copied_trainable_transformer

namespace discarded_hook_handle {
void kept(hooked::HookedTransformer& model) {
  const auto handle = model.hook(act::z(1), [](const at::Tensor&) {});
  model.run(at::Tensor());
}
#ifdef HOOKED_MUST_NOT_COMPILE
void gone_at_once(hooked::HookedTransformer& model) {
  model.hook(act::z(1), [](const at::Tensor&) {});  // expect: ignoring return.*nodiscard
}
#endif
}  // namespace discarded_hook_handle

namespace edit_from_its_members {
const hooked::Edits one = hooked::zero(act::z(1));
const hooked::Edits several = {hooked::zero(act::z(1)), hooked::scale(act::z(0), 2.0)};
#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Edits wrong = {act::z(1),
                             hooked::EditKind::set};  // expect: could not convert|cannot convert|no matching
#endif
}  // namespace edit_from_its_members

namespace file_of_temporary {
std::uint64_t size(const hooked::SafetensorsFile& file) { return file.file().size(); }
#ifdef HOOKED_MUST_NOT_COMPILE
const auto& closed_file() {
  return hooked::SafetensorsFile::open("model.safetensors").file();  // expect: deleted
}
#endif
}  // namespace file_of_temporary

namespace hook_on_const_model {
hooked::HookHandle on_a_copy(const hooked::HookedTransformer& model) {
  auto copy = model;
  return copy.hook(act::z(1), [](const at::Tensor&) {});
}
#ifdef HOOKED_MUST_NOT_COMPILE
hooked::HookHandle on_the_shared_one(const hooked::HookedTransformer& model) {
  return model.hook(act::z(1), [](const at::Tensor&) {});  // expect: discards qualifiers|not marked const
}
#endif
}  // namespace hook_on_const_model

namespace hook_with_wrong_arguments {
const hooked::Hook observer(act::z(1), [](const at::Tensor&) {});
#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Hook wrong(act::z(1),
                         [](const std::string&) {});  // expect: constraints not satisfied|no matching
#endif
}  // namespace hook_with_wrong_arguments

namespace hook_with_wrong_result {
const hooked::Hook editor(act::z(1), [](const at::Tensor& z) { return z; });
#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Hook wrong(act::z(1),
                         [](const at::Tensor&) { return 0.5; });  // expect: a hook returns a tensor
#endif
}  // namespace hook_with_wrong_result

namespace input_from_number {
const hooked::Input text = "a text";
#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Input number = 0;  // expect: conversion from|no viable conversion
#endif
}  // namespace input_from_number

namespace iterator_of_temporary_cache {
bool every_entry(const hooked::HookedTransformer& model, const at::Tensor& tokens) {
  bool all = true;
  for (const auto& entry : model.run_with_cache(tokens).cache) all = all && entry.value().defined();
  return all;
}
#ifdef HOOKED_MUST_NOT_COMPILE
auto first_entry(const hooked::HookedTransformer& model, const at::Tensor& tokens) {
  return model.run_with_cache(tokens).cache.begin();  // expect: deleted
}
#endif
}  // namespace iterator_of_temporary_cache

namespace pointer_into_temporary {
double base(const char* model) { return hooked::read_model_config(model).rotary()->base; }
#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::RotaryPositions* rotary(const char* model) {
  return hooked::read_model_config(model).rotary();  // expect: cannot convert|no viable conversion
}
#endif
}  // namespace pointer_into_temporary

namespace selection_from_number {
const hooked::Selection layer_five = act::resid_post(5);
#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Selection five = 5;  // expect: conversion from|no viable conversion
#endif
}  // namespace selection_from_number

namespace selection_from_zero {
const hooked::Selection patterns = "blocks.*.attn.hook_pattern";
#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Selection layer_zero = 0;  // expect: conversion from|no viable conversion
#endif
}  // namespace selection_from_zero
