#include "hooked/engine/hooked_transformer.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <span>
#include <utility>

#include "engine/loaded_model.h"
#include "engine/scoped_hooks.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"

namespace hooked {
namespace {

// Files that saving would leave beside the new ones and loading would read with them.
void require_no_other_model(const std::filesystem::path& folder, const LoadedModel& model) {
  std::vector<std::string> leftovers{"model.safetensors.index.json"};
  for (const std::string_view name : Tokenizer::file_names()) {
    if (!model.tokenizer_files.contains(std::string(name))) leftovers.emplace_back(name);
  }
  for (const std::string& name : leftovers) {
    if (!std::filesystem::exists(folder / name)) continue;
    throw IoError(folder.string(),
                  fmt::format("the folder holds '{}' of another model; expected an empty or new "
                              "folder; choose another or remove that file",
                              name));
  }
}

const Tokenizer& tokenizer_of(const LoadedModel& model) {
  if (model.tokenizer_problem) throw *model.tokenizer_problem;
  if (!model.tokenizer) {
    throw TokenizerError("tokenizer",
                         "this model has no tokenizer; expected a tokenizer.json beside its weights; pass "
                         "token ids instead of text");
  }
  return *model.tokenizer;
}

std::vector<std::int64_t> ids_of(const at::Tensor& ids) {
  const at::Tensor flat = ids.to(at::kCPU, at::kLong).reshape({-1}).contiguous();
  if (ids.dim() > 2 || (ids.dim() == 2 && ids.size(0) != 1)) {
    throw TokenizerError("ids", "these are several rows; expected one, [pos] or [1, pos]");
  }
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

}  // namespace

HookedTransformer::HookedTransformer(std::shared_ptr<const LoadedModel> model)
    : model_(std::move(model)), hooks_(std::make_shared<ScopedHooks>()) {}
HookedTransformer::HookedTransformer(const HookedTransformer& other) : HookedTransformer(other.model_) {}
HookedTransformer& HookedTransformer::operator=(const HookedTransformer& other) {
  return *this = HookedTransformer(other);
}
HookedTransformer::HookedTransformer(HookedTransformer&&) noexcept = default;
HookedTransformer& HookedTransformer::operator=(HookedTransformer&&) noexcept = default;
HookedTransformer::~HookedTransformer() = default;

const ModelConfig& HookedTransformer::config() const noexcept { return model_->config; }
const std::vector<std::string>& HookedTransformer::notes() const noexcept { return model_->notes; }
const std::vector<StepReport>& HookedTransformer::processing() const noexcept { return model_->processing; }
const std::vector<std::string>& HookedTransformer::ignored_keys() const noexcept {
  return model_->ignored_keys;
}
const std::string& HookedTransformer::family() const noexcept { return model_->family; }
const std::vector<ActivationName>& HookedTransformer::names() const noexcept {
  return model_->points.names();
}
StateDict HookedTransformer::state_dict() const { return copy_weights(*model_); }

HookHandle HookedTransformer::attach(Hook hook) {
  // Which layers a run reaches is not known yet, only whether the model has the points.
  hook.where.resolve(model_->points, Reach::everything(model_->points));
  return {hooks_, hooks_->add(std::move(hook))};
}

void HookedTransformer::save(const std::filesystem::path& folder) const {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw IoError(folder.string(), fmt::format("the folder could not be made ({})", failed.message()));
  require_no_other_model(folder, *model_);
  const StateDict weights = copy_weights(*model_);
  save_safetensors(folder / "model.safetensors", {weights.begin(), weights.end()}, {{"format", "pt"}});
  write_file(folder / "config.json", model_->config.to_json());
  for (const auto& [name, content] : model_->tokenizer_files) write_file(folder / name, content);
}

bool HookedTransformer::has_tokenizer() const noexcept { return model_->tokenizer.has_value(); }

at::Tensor HookedTransformer::to_tokens(std::string_view text) const {
  const Tokenizer& tokenizer = tokenizer_of(*model_);
  // Models that read both ways were trained on whole sequences with their special tokens at both ends.
  const bool special = model_->config.default_prepend_bos;
  const bool both_ends = model_->config.direction == AttentionDirection::bidirectional;
  std::vector<std::int64_t> ids = tokenizer.encode(text, {.add_special_tokens = special && both_ends}).ids;
  if (special && !both_ends && tokenizer.bos_id()) ids.insert(ids.begin(), *tokenizer.bos_id());
  if (ids.empty()) throw TokenizerError("text", "the text has no tokens; expected at least one");
  return at::tensor(ids, at::kLong).unsqueeze(0).to(model_->device);
}

std::int64_t HookedTransformer::to_token(std::string_view text) const {
  const std::vector<std::int64_t> ids = tokenizer_of(*model_).encode(text).ids;
  if (ids.size() != 1) {
    throw TokenizerError(text,
                         fmt::format("this text is not one token; expected exactly one, got {}", ids.size()));
  }
  return ids.front();
}

std::string HookedTransformer::to_string(const at::Tensor& ids) const {
  return tokenizer_of(*model_).decode(ids_of(ids));
}

std::vector<std::string> HookedTransformer::to_str_tokens(const at::Tensor& ids) const {
  std::vector<std::string> pieces;
  for (const std::int64_t id : ids_of(ids)) pieces.push_back(tokenizer_of(*model_).piece(id));
  return pieces;
}

}  // namespace hooked
