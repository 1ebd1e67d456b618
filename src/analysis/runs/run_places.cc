#include "analysis/runs/run_places.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "core/parallel.h"
#include "core/to_device.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// Runs on a replica.
class ReplicaRuns {
 public:
  ReplicaRuns(HookedTransformer replica, const c10::Device& home, Input input,
              std::vector<ActivationName> patched, PatchedRuns::Options options)
      : replica_(std::move(replica)),
        home_(home),
        input_(std::move(input)),
        patched_(std::move(patched)),
        options_(std::move(options)) {
    for (Edit& edit : options_.run.edits) {
      if (auto* value = std::get_if<at::Tensor>(&edit.value)) *value = there(*value);
    }
  }

  RunResult run(const std::vector<Patch>& patches, const PatchedRuns::Batch& batch) {
    if (!runs_) runs_.emplace(replica_, input_, patched_, options_);
    std::vector<Patch> own;  // those of the batch
    PatchedRuns::Batch renumbered = batch;
    for (PatchedRuns::Row& row : renumbered.rows) {
      own.push_back(patches[row.patch]);
      for (PatchedBlock& block : own.back()) block.value = there(block.value);
      row.patch = own.size() - 1;
    }
    return runs_->run(own, renumbered).to(home_);
  }

 private:
  // Tensors on the model's device; values on another device are reported when the point fires.
  at::Tensor there(const at::Tensor& x) const {
    return x.device() == home_ ? to_device(x, replica_.device()) : x;
  }

  HookedTransformer replica_;
  c10::Device home_;
  Input input_;
  std::vector<ActivationName> patched_;
  PatchedRuns::Options options_;
  std::optional<PatchedRuns> runs_;
};

void require_same(const HookedTransformer& replica, const HookedTransformer& model) {
  if (*replica.identity() == *model.identity()) return;
  throw HookError(
      "replicas",
      fmt::format("the replica on {} is another model; expected copies of the one that is swept, as "
                  "replicate() makes them",
                  replica.device().str()));
}

}  // namespace

std::vector<RunPlace> run_places(const PatchedRuns& home, const HookedTransformer& model,
                                 const std::vector<HookedTransformer>& replicas, const Input& input,
                                 const std::vector<ActivationName>& patched,
                                 const PatchedRuns::Options& options) {
  std::vector<RunPlace> places;
  places.push_back(
      {model.device(), [&home](const auto& patches, const auto& batch) { return home.run(patches, batch); }});
  if (!options.run.hooks.empty() || !model.hooks().empty()) return places;  // hooks need not be thread-safe
  for (const HookedTransformer& replica : replicas) {
    if (replica.loaded() == model.loaded()) continue;
    require_same(replica, model);
    const auto runs = std::make_shared<ReplicaRuns>(replica, model.device(), input, patched, options);
    places.push_back({replica.device(),
                      [runs](const auto& patches, const auto& batch) { return runs->run(patches, batch); }});
  }
  return places;
}

void for_each_run(std::int64_t count, const std::vector<RunPlace>& places, bool beside,
                  const std::function<void(std::int64_t, const RunPlace&)>& work) {
  if (places.size() > 1) {
    for_each_dealt(count, static_cast<std::int64_t>(places.size()),
                   [&](std::int64_t number, std::int64_t place) {
                     work(number, places[static_cast<std::size_t>(place)]);
                   });
  } else if (beside) {
    for_each_task(count, [&](std::int64_t number) { work(number, places.front()); });
  } else {
    for (std::int64_t number = 0; number < count; ++number) work(number, places.front());
  }
}

}  // namespace hooked
