#include "loading/fill/loaded_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "core/weight_sample.h"
#include "families/shared/native_config.h"
#include "loading/fill/device.h"
#include "models/transformer/transformer.h"

namespace hooked {
namespace {

// GPUs in one machine may be of several generations, so each is asked.
std::vector<c10::Device> that_multiply_groups(const Placement& placement, at::ScalarType dtype) {
  std::vector<c10::Device> devices = placement.devices();
  std::erase_if(devices, [&](const c10::Device& device) { return !multiplies_groups(device, dtype); });
  return devices;
}

}  // namespace

LoadedModel::LoadedModel(ModelConfig model_config, Placement where, Storage wanted)
    : config(std::move(model_config)),
      points(config),
      placement(std::move(where)),
      device(placement.entry()),
      storage(wanted == Storage::fastest ? fastest_storage(at::TensorOptions(config.dtype).device(device))
                                         : wanted),
      graph(std::make_shared<Transformer>(
          config, points, at::TensorOptions(config.dtype), storage, placement,
          config.experts ? that_multiply_groups(placement, config.dtype) : std::vector<c10::Device>())),
      transport(device.is_cpu() ? nullptr : std::make_shared<HostTransport>()) {
  if (placement.spread()) {
    recording_problem = "a model that is spread over several devices is not recorded";
    notes.push_back(placement.text());
    return;
  }
  OpenedRecorder opened = open_recorder(device);
  recording_problem = std::move(opened.problem);
  if (!opened.recorder) return;
  recordings = std::make_unique<Recordings>(std::move(opened.recorder));
  key_rooms = std::make_unique<KeyRooms>(config, device, *recordings);
}

namespace {

MountedDictionaries joined(const LoadedModel& base, const MountedDictionaries& more) {
  MountedDictionaries all = base.dictionaries;
  for (MountedDictionary each : more) {
    for (std::size_t& source : each.sources) source += base.dictionaries.size();
    all.push_back(std::move(each));
  }
  return all;
}

std::vector<ActivationName> names_inside_all(const MountedDictionaries& dictionaries) {
  std::vector<ActivationName> names;
  for (const MountedDictionary& each : dictionaries) {
    const std::vector<ActivationName> inside = names_inside(each);
    names.insert(names.end(), inside.begin(), inside.end());
  }
  return names;
}

}  // namespace

LoadedModel::LoadedModel(std::shared_ptr<const LoadedModel> of, const MountedDictionaries& more)
    : ModelFacts(*of),
      base(of->base ? of->base : of),
      config(of->config),
      dictionaries(joined(*of, more)),
      points(base->points.with(names_inside_all(dictionaries))),
      placement(of->placement),
      device(of->device),
      storage(of->storage),
      graph(of->graph),
      workspace(of->workspace),
      transport(of->transport),
      recording_problem(device.is_cpu() ? "" : "a model with dictionaries is not recorded") {
  for (const MountedDictionary& each : more) notes.insert(notes.end(), each.notes.begin(), each.notes.end());
}

LoadedModel::~LoadedModel() = default;

std::int64_t LoadedModel::size_of_axis(const ActivationName& name, Axis axis) const {
  for (const MountedDictionary& each : dictionaries) {
    if (!name.host || each.writes != name.place()) continue;
    if (const auto size = each.size_of(axis)) return *size;
  }
  return size_of(axis, config, name.layer);
}

const std::shared_ptr<const ModelIdentity>& LoadedModel::identity() const {
  if (base) return base->identity();
  std::call_once(identified_, [&] {
    WeightSample sample;
    for (const WeightSlot& slot : slots())
      sample.add(slot.name, slot.view.sizes(), [&](std::int64_t i) { return slot.view.number(i); });
    identity_ = std::make_shared<const ModelIdentity>(
        ModelIdentity{.name = id, .fingerprint = sample.fingerprint(write_native_config(config))});
  });
  return identity_;
}

WeightSlots LoadedModel::slots() const { return graph->slots(); }

const std::unordered_map<std::string, SlotView>& LoadedModel::weight_index() const {
  std::call_once(indexed_, [&] {
    for (const WeightSlot& slot : slots()) by_name_.emplace(slot.name, slot.view);
  });
  return by_name_;
}

at::Tensor LoadedModel::weight(const std::string& name) const {
  const auto found = weight_index().find(name);
  const at::NoGradGuard no_grad;
  return found == by_name_.end() ? at::Tensor() : found->second.read().detach();
}

bool LoadedModel::has_weight(const std::string& name) const { return weight_index().contains(name); }

c10::Device LoadedModel::weight_device(const std::string& name) const {
  return weight_index().at(name).device();
}

std::vector<std::string> LoadedModel::weight_names() const {
  std::vector<std::string> names;
  for (const WeightSlot& slot : slots()) names.push_back(slot.name);
  return names;
}

StateDict copy_weights(const LoadedModel& model) {
  const at::NoGradGuard no_grad;
  StateDict weights;
  for (const WeightSlot& slot : model.slots()) {
    at::Tensor copy = at::empty(slot.view.sizes(), slot.view.dtype());
    SlotView(copy).write(slot.view.read());
    weights.emplace(slot.name, std::move(copy));
  }
  return weights;
}

}  // namespace hooked
