#include "io/pickle/pickle_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/json.h"
#include "hooked/core/tensor_text.h"
#include "io/files/checked_size.h"
#include "io/pickle/zip_limits.h"

namespace hooked {
namespace {

using Kind = PickleKind;
using Limits = ZipCheckpointLimits;

enum class Role : std::uint8_t { kTensor, kParameter, kOrderedDict, kStorage };

struct Allowed {
  std::string_view module;
  std::string_view name;
  Role role;
  at::ScalarType dtype = at::ScalarType::Undefined;
};

/// Every name that a pickle may mention.
constexpr std::array<Allowed, 15> kAllowed = {{
    {"torch._utils", "_rebuild_tensor_v2", Role::kTensor},
    {"torch._utils", "_rebuild_parameter", Role::kParameter},
    {"collections", "OrderedDict", Role::kOrderedDict},
    {"torch", "DoubleStorage", Role::kStorage, at::kDouble},
    {"torch", "FloatStorage", Role::kStorage, at::kFloat},
    {"torch", "HalfStorage", Role::kStorage, at::kHalf},
    {"torch", "BFloat16Storage", Role::kStorage, at::kBFloat16},
    {"torch", "LongStorage", Role::kStorage, at::kLong},
    {"torch", "IntStorage", Role::kStorage, at::kInt},
    {"torch", "ShortStorage", Role::kStorage, at::kShort},
    {"torch", "CharStorage", Role::kStorage, at::kChar},
    {"torch", "ByteStorage", Role::kStorage, at::kByte},
    {"torch", "BoolStorage", Role::kStorage, at::kBool},
    {"torch", "UntypedStorage", Role::kStorage, at::kByte},
    {"torch.storage", "UntypedStorage", Role::kStorage, at::kByte},
}};

const Allowed& allowed(const PickleValue& global) { return kAllowed[global.payload]; }

// Memory of a container and of an item in it: the row or value, room for growth and the heap's own bytes.
constexpr std::uint64_t kContainerBytes = sizeof(PickledContainer) + 16;
constexpr std::uint64_t kItemBytes = 2 * sizeof(PickleValue);

bool may_be_key(PickleKind kind) {
  return kind == Kind::kText || kind == Kind::kInteger || kind == Kind::kBool || kind == Kind::kNone ||
         kind == Kind::kReal || kind == Kind::kBytes || kind == Kind::kTuple;
}

}  // namespace

std::string_view pickle_kind_text(PickleKind kind) noexcept {
  static constexpr std::array<std::string_view, 13> kTexts = {
      "a mark",  "None",   "a bool", "an integer", "a real number", "a text",  "bytes",
      "a tuple", "a list", "a dict", "a global",   "a storage",     "a tensor"};
  return kTexts[static_cast<std::size_t>(kind)];
}

void PickleBuilder::charge(std::uint64_t bytes) {
  built_bytes_ += bytes;
  if (built_bytes_ <= Limits::kBuiltBytes) return;
  refuse_pickle("the values take too much memory; expected at most {} bytes, got more", Limits::kBuiltBytes);
}

std::string PickleBuilder::described(const PickleValue& value) const {
  switch (value.kind) {
    case Kind::kInteger:
      return fmt::format("{}", value.integer());
    case Kind::kBool:
      return value.boolean() ? "True" : "False";
    case Kind::kText:
      return fmt::format("'{}'", printable(document_.text(value).substr(0, 100)));
    case Kind::kGlobal:
      return fmt::format("the global '{}.{}'", allowed(value).module, allowed(value).name);
    default:
      return std::string(pickle_kind_text(value.kind));
  }
}

void PickleBuilder::refuse_argument(std::string_view what, std::string_view wanted,
                                    const PickleValue& got) const {
  refuse_pickle("{}; expected {}, got {}", what, wanted, described(got));
}

PickleValue PickleBuilder::global(std::string_view module, std::string_view name) const {
  const auto place = std::find_if(kAllowed.begin(), kAllowed.end(), [&](const Allowed& row) {
    return row.module == module && row.name == name;
  });
  if (place == kAllowed.end()) {
    refuse_pickle(
        "the global '{}.{}' is not allowed; expected tensors and plain containers only "
        "(torch._utils._rebuild_tensor_v2, torch._utils._rebuild_parameter, collections.OrderedDict and "
        "torch's storages of floats, integers and bools); nothing was run; save the state dict alone, or "
        "convert it to safetensors",
        printable(module.substr(0, 200)), printable(name.substr(0, 200)));
  }
  return {.kind = Kind::kGlobal, .payload = static_cast<std::uint64_t>(place - kAllowed.begin())};
}

PickleValue PickleBuilder::tuple(std::span<const PickleValue> elements) {
  charge(elements.size() * sizeof(PickleValue));
  const PickleValue tuple{.kind = Kind::kTuple,
                          .size = static_cast<std::uint32_t>(elements.size()),
                          .payload = document_.tuples.size()};
  document_.tuples.insert(document_.tuples.end(), elements.begin(), elements.end());
  return tuple;
}

PickleValue PickleBuilder::container(PickleKind kind) {
  charge(kContainerBytes);
  document_.containers.emplace_back();
  return {.kind = kind, .payload = document_.containers.size() - 1};
}

PickleValue PickleBuilder::empty_list() { return container(Kind::kList); }

PickleValue PickleBuilder::empty_dict() { return container(Kind::kDict); }

void PickleBuilder::append(const PickleValue& list, std::span<const PickleValue> values) {
  if (list.kind != Kind::kList) refuse_argument("values are appended to no list", "a list", list);
  charge(values.size() * kItemBytes);
  auto& items = document_.containers[list.payload].items;
  items.insert(items.end(), values.begin(), values.end());
}

void PickleBuilder::set_items(const PickleValue& dict, std::span<const PickleValue> items) {
  if (dict.kind != Kind::kDict) refuse_argument("items are set on no dict", "a dict", dict);
  if (items.size() % 2 != 0) refuse_pickle("a key has no value; expected pairs, got one more");
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!may_be_key(items[i].kind)) {
      refuse_argument("a dict's key is of a wrong kind", "text or another constant", items[i]);
    }
  }
  charge(items.size() * kItemBytes);
  auto& all = document_.containers[dict.payload].items;
  all.insert(all.end(), items.begin(), items.end());
}

PickleValue PickleBuilder::call(const PickleValue& function, const PickleValue& arguments) {
  if (function.kind != Kind::kGlobal || allowed(function).role == Role::kStorage) {
    refuse_argument("this cannot be called", "_rebuild_tensor_v2, _rebuild_parameter or OrderedDict",
                    function);
  }
  if (arguments.kind != Kind::kTuple) refuse_argument("a call's arguments", "a tuple", arguments);
  switch (allowed(function).role) {
    case Role::kTensor:
      return tensor(arguments);
    case Role::kParameter:
      return parameter(arguments);
    default:
      break;
  }
  if (arguments.size != 0) {
    refuse_pickle("OrderedDict is called with arguments; expected none, got {}", arguments.size);
  }
  const auto dict = empty_dict();
  document_.containers[dict.payload].ordered = true;
  return dict;
}

PickleValue PickleBuilder::tensor(const PickleValue& arguments) {
  // storage, storage_offset, size, stride, requires_grad, backward_hooks and, in some versions, metadata
  if (arguments.size != 6 && arguments.size != 7) {
    refuse_pickle("_rebuild_tensor_v2 has another number of arguments; expected 6 or 7, got {}",
                  arguments.size);
  }
  const auto at = [&](std::size_t i) -> const PickleValue& { return document_.element(arguments, i); };
  const auto expect = [&](std::size_t i, PickleKind kind, std::string_view what) {
    if (at(i).kind != kind) {
      refuse_argument(fmt::format("_rebuild_tensor_v2's {} is of a wrong kind", what), pickle_kind_text(kind),
                      at(i));
    }
  };
  expect(0, Kind::kStorage, "storage");
  expect(1, Kind::kInteger, "storage_offset");
  expect(2, Kind::kTuple, "size");
  expect(3, Kind::kTuple, "stride");
  expect(4, Kind::kBool, "requires_grad");
  // Hooks would be code; metadata can say that all values are to be negated or conjugated.
  for (std::size_t i = 5; i < arguments.size; ++i) {
    if (i == 6 && at(i).kind == Kind::kNone) continue;
    expect(i, Kind::kDict, i == 5 ? "backward_hooks" : "metadata");
    if (!document_.items(at(i)).empty()) {
      refuse_argument(
          fmt::format("_rebuild_tensor_v2's {} are not empty", i == 5 ? "backward_hooks" : "metadata"),
          "an empty dict", at(i));
    }
  }
  if (document_.tensors.size() == Limits::kTensors) {
    refuse_pickle("there are too many tensors; expected at most {}, got more", Limits::kTensors);
  }
  const PickledTensor row{
      .storage = at(0).payload, .offset = at(1).integer(), .sizes = at(2), .strides = at(3)};
  check_inside(document_.storages[row.storage], row);
  charge(sizeof(PickledTensor));
  document_.tensors.push_back(row);
  return {.kind = Kind::kTensor, .payload = document_.tensors.size() - 1};
}

void PickleBuilder::check_inside(const PickledStorage& storage, const PickledTensor& tensor) const {
  const auto& [sizes, strides] = std::pair(tensor.sizes, tensor.strides);
  if (sizes.size > Limits::kRank || sizes.size != strides.size) {
    refuse_pickle("a tensor has {} sizes and {} strides; expected as many of both, at most {}", sizes.size,
                  strides.size, Limits::kRank);
  }
  for (const auto& tuple : {sizes, strides}) {
    for (std::size_t i = 0; i < tuple.size; ++i) {
      const auto& value = document_.element(tuple, i);
      if (value.kind == Kind::kInteger && value.integer() >= 0) continue;
      refuse_argument("a tensor's size or stride is not allowed", "an integer of at least 0", value);
    }
  }
  const auto shape = document_.integers(sizes);
  const auto steps = document_.integers(strides);
  const auto bits = 8 * at::elementSize(storage.dtype);
  const auto span = checked_span(shape, steps);
  const auto text = [&] {
    return fmt::format("a tensor of shape {}, strides {} and storage offset {}", shape_text(shape),
                       shape_text(steps), tensor.offset);
  };
  if (!span || !checked_bytes(shape, bits)) {
    refuse_pickle("{} overflows; expected sizes below 2^60 bytes", text());
  }
  const auto elements = static_cast<std::uint64_t>(storage.elements);
  const auto offset = static_cast<std::uint64_t>(tensor.offset);
  if (tensor.offset < 0 || offset > elements || *span > elements - offset) {
    refuse_pickle("{} reaches outside its storage; expected it within {} elements", text(), elements);
  }
}

PickleValue PickleBuilder::parameter(const PickleValue& arguments) const {
  // data, requires_grad, backward_hooks
  if (arguments.size != 3) {
    refuse_pickle("_rebuild_parameter has another number of arguments; expected 3, got {}", arguments.size);
  }
  const auto& inner = document_.element(arguments, 0);
  const auto& hooks = document_.element(arguments, 2);
  if (inner.kind != Kind::kTensor) refuse_argument("_rebuild_parameter's data", "a tensor", inner);
  if (document_.element(arguments, 1).kind != Kind::kBool) {
    refuse_argument("_rebuild_parameter's requires_grad", "a bool", document_.element(arguments, 1));
  }
  if (hooks.kind != Kind::kDict || !document_.items(hooks).empty()) {
    refuse_argument("_rebuild_parameter's backward_hooks", "an empty dict", hooks);
  }
  return inner;
}

PickleValue PickleBuilder::storage(const PickleValue& id) {
  if (id.kind != Kind::kTuple || id.size != 5) {
    refuse_argument("a persistent id is malformed", "a tuple of 'storage', type, key, location and numel",
                    id);
  }
  const auto at = [&](std::size_t i) -> const PickleValue& { return document_.element(id, i); };
  if (at(0).kind != Kind::kText || document_.text(at(0)) != "storage") {
    refuse_argument("a persistent id is of another kind", "'storage'", at(0));
  }
  if (at(1).kind != Kind::kGlobal || allowed(at(1)).role != Role::kStorage) {
    refuse_argument("a storage's type", "one of torch's storages", at(1));
  }
  if (at(2).kind != Kind::kText) refuse_argument("a storage's key", "a text", at(2));
  // The device that it was on. Everything is read to the CPU.
  if (at(3).kind != Kind::kText) refuse_argument("a storage's location", "a text", at(3));
  const auto dtype = allowed(at(1)).dtype;
  if (at(4).kind != Kind::kInteger || at(4).integer() < 0) {
    refuse_argument("a storage's numel", "an integer of at least 0", at(4));
  }
  const std::array<std::int64_t, 1> elements = {at(4).integer()};
  if (!checked_bytes(elements, 8 * at::elementSize(dtype))) {
    refuse_argument("a storage's numel overflows", "less than 2^60 bytes", at(4));
  }
  charge(sizeof(PickledStorage));
  document_.storages.push_back({.key = at(2), .dtype = dtype, .elements = at(4).integer()});
  return {.kind = Kind::kStorage, .payload = document_.storages.size() - 1};
}

void PickleBuilder::set_state(const PickleValue& object, const PickleValue& state) const {
  if (object.kind != Kind::kDict || !document_.containers[object.payload].ordered) {
    refuse_argument("BUILD gives attributes to something", "a collections.OrderedDict", object);
  }
  if (state.kind != Kind::kDict) refuse_argument("BUILD's attributes", "a dict", state);
  const auto& items = document_.items(state);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind == Kind::kText && document_.text(items[i]) == "_metadata") continue;
    refuse_argument("BUILD gives an attribute that is not allowed", "'_metadata'", items[i]);
  }
}

}  // namespace hooked
