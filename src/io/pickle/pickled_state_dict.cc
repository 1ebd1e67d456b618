#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_set>

#include "core/json.h"
#include "hooked/core/error.h"
#include "io/pickle/pickle_document.h"
#include "io/pickle/zip_limits.h"

namespace hooked {
namespace {

using Kind = PickleKind;
using Limits = ZipCheckpointLimits;

constexpr std::array<std::string_view, 3> kWrappers = {"model", "state_dict", "model_state_dict"};
constexpr std::string_view kCompiledPrefix = "_orig_mod.";

/// A message lists at most this many keys.
constexpr std::size_t kListed = 20;

/// Of two equal keys, Python would keep the last; another reader the first.
[[noreturn]] void throw_twice(std::string_view key, std::string_view where) {
  throw CheckpointError(
      where, fmt::format("'{}': the name occurs twice in a dict; expected it once", printable(key)));
}

/// Copies values of the document that contain no tensors. A document may contain one value in many places,
/// and a list may contain itself: depth, number and bytes of the copies are limited.
class PlainCopier {
 public:
  PlainCopier(const PickleDocument& document, std::string_view where) : document_(document), where_(where) {}

  /// The value, or nothing if it contains a tensor or a storage.
  std::optional<Json> copy(const PickleValue& value, std::size_t depth = 0) {
    if (++values_ > Limits::kPlainValues) refuse("are too many", Limits::kPlainValues);
    switch (value.kind) {
      case Kind::kNone:
        return Json();
      case Kind::kBool:
        return Json(value.boolean());
      case Kind::kInteger:
        return Json(value.integer());
      case Kind::kReal:
        return std::isfinite(value.real()) ? Json(value.real()) : Json();
      case Kind::kText:
        count_bytes(value);
        return Json(document_.text(value));
      case Kind::kBytes:
        count_bytes(value);
        return Json();
      case Kind::kTuple:
      case Kind::kList:
        return copy_list(value, depth);
      case Kind::kDict:
        return copy_dict(value, depth);
      default:
        return std::nullopt;
    }
  }

 private:
  void count_bytes(const PickleValue& text) {
    bytes_ += text.size;
    if (bytes_ > Limits::kPlainBytes) refuse("have too many bytes of text", Limits::kPlainBytes);
  }

  std::optional<Json> copy_list(const PickleValue& value, std::size_t depth) {
    check_depth(depth);
    const auto tuple = value.kind == Kind::kTuple;
    const std::size_t size = tuple ? value.size : document_.items(value).size();
    auto list = Json::array();
    for (std::size_t i = 0; i < size; ++i) {
      auto item = copy(tuple ? document_.element(value, i) : document_.items(value)[i], depth + 1);
      if (!item) return std::nullopt;
      list.push_back(std::move(*item));
    }
    return list;
  }

  std::optional<Json> copy_dict(const PickleValue& value, std::size_t depth) {
    check_depth(depth);
    const auto& items = document_.items(value);
    Json::object_t dict;
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (items[i].kind == Kind::kText && !names.insert(document_.text(items[i])).second) {
        throw_twice(document_.text(items[i]), where_);
      }
      auto key = copy(items[i], depth + 1);
      auto item = copy(items[i + 1], depth + 1);
      if (!key || !item) return std::nullopt;
      if (items[i].kind == Kind::kText) dict.emplace_back(document_.text(items[i]), std::move(*item));
    }
    return Json(std::move(dict));
  }

  void check_depth(std::size_t depth) const {
    if (depth == Limits::kPlainDepth) refuse("are nested too deeply", Limits::kPlainDepth);
  }

  [[noreturn]] void refuse(std::string_view what, std::size_t limit) const {
    throw CheckpointError(
        where_,
        fmt::format(
            "the values other than tensors {}; expected at most {}, got more; save the state dict alone",
            what, limit));
  }

  const PickleDocument& document_;
  std::string_view where_;
  std::size_t values_ = 0;
  std::size_t bytes_ = 0;
};

class StateDictFinder {
 public:
  StateDictFinder(const PickleDocument& document, std::string_view where)
      : document_(document), where_(where) {}

  PickledStateDict find() {
    const auto& root = dict_at_top();
    check_keys(root);  // first: otherwise the one `model` could be any number of them
    const auto inner = wrapped(root);
    if (!inner && !has_tensors(root) && !document_.items(root).empty()) {
      throw CheckpointError(
          where_, fmt::format("the file holds no state dict; expected names and tensors at its top or under "
                              "{}, got only the keys {}",
                              fmt::join(kWrappers, ", "), keys(root)));
    }
    if (inner) check_keys(*inner);
    add_tensors(inner ? *inner : root, inner ? "the state dict" : "");
    add_values(root, inner);
    strip_prefix();
    return std::move(found_);
  }

  PickledStateDict find_paths() {
    const auto& root = dict_at_top();
    add_paths(root, "", 0);
    add_values(root, std::nullopt);
    return std::move(found_);
  }

 private:
  const PickleValue& dict_at_top() const {
    const auto& root = document_.root;
    if (root.kind == Kind::kDict) return root;
    throw CheckpointError(
        where_, fmt::format("the file holds no state dict; expected a dict of names and tensors, got {}; "
                            "save it as torch.save(model.state_dict(), file)",
                            pickle_kind_text(root.kind)));
  }

  /// A dict may occur in many places of a document, or in itself: depth and number are limited.
  void add_paths(const PickleValue& dict, const std::string& before, std::size_t depth) {
    const auto refuse = [&](std::string_view what, std::uint64_t limit) {
      throw CheckpointError(
          where_, fmt::format("the dicts around the tensors {}; expected at most {}, got more", what, limit));
    };
    if (depth == Limits::kPlainDepth) refuse("are nested too deeply", Limits::kPlainDepth);
    const auto& items = document_.items(dict);
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (++visited_ > Limits::kPlainValues) refuse("have too many entries", Limits::kPlainValues);
      const PickleValue &key = items[i], &value = items[i + 1];
      const bool is_text = key.kind == Kind::kText, is_dict = value.kind == Kind::kDict;
      const bool has_name = is_text || key.kind == Kind::kInteger;
      if (value.kind != Kind::kTensor && !(is_dict && has_name)) continue;
      if (!has_name || is_text) check_name(key);
      const auto name = before + (is_text ? std::string(document_.text(key)) : std::to_string(key.integer()));
      path_bytes_ += name.size();
      if (path_bytes_ > Limits::kBuiltBytes) refuse("have too many bytes of names", Limits::kBuiltBytes);
      if (is_dict) {
        add_paths(value, name + ".", depth + 1);
      } else if (paths_.insert(name).second) {
        found_.entries.push_back({name, value.payload});
      } else {
        throw_twice(name, where_);
      }
    }
  }

  void check_keys(const PickleValue& dict) const {
    const auto& items = document_.items(dict);
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (items[i].kind != Kind::kText || names.insert(document_.text(items[i])).second) continue;
      throw_twice(document_.text(items[i]), where_);
    }
  }

  bool has_tensors(const PickleValue& dict) const {
    const auto& items = document_.items(dict);
    for (std::size_t i = 1; i < items.size(); i += 2) {
      if (items[i].kind == Kind::kTensor) return true;
    }
    return false;
  }

  std::string key_text(const PickleValue& key) const {
    return key.kind == Kind::kText ? printable(document_.text(key)) : std::string(pickle_kind_text(key.kind));
  }

  std::string keys(const PickleValue& dict) const {
    const auto& items = document_.items(dict);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < items.size() && texts.size() < kListed; i += 2) {
      texts.push_back(key_text(items[i]));
    }
    return fmt::format("{}{}", fmt::join(texts, ", "), texts.size() * 2 < items.size() ? ", …" : "");
  }

  /// The dict with tensors under one of the known keys.
  std::optional<PickleValue> wrapped(const PickleValue& root) const {
    const auto& items = document_.items(root);
    std::optional<PickleValue> inner;
    std::string_view inner_key;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (items[i].kind != Kind::kText || items[i + 1].kind != Kind::kDict) continue;
      const auto key = document_.text(items[i]);
      if (std::find(kWrappers.begin(), kWrappers.end(), key) == kWrappers.end()) continue;
      if (!has_tensors(items[i + 1])) continue;
      if (inner) {
        throw CheckpointError(where_, fmt::format("the file holds two state dicts; expected one, got '{}' "
                                                  "and '{}'; save the one to read in its own file",
                                                  inner_key, key));
      }
      inner = items[i + 1];
      inner_key = key;
    }
    return inner;
  }

  void add_tensors(const PickleValue& dict, std::string_view others_of) {
    const auto& items = document_.items(dict);
    std::vector<std::string> others;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const auto& key = items[i];
      if (items[i + 1].kind != Kind::kTensor) {
        if (!others_of.empty()) others.push_back(key_text(key));
        continue;
      }
      check_name(key);
      found_.entries.push_back({std::string(document_.text(key)), items[i + 1].payload});
    }
    if (others.empty()) return;
    const auto count = others.size();
    others.resize(std::min(count, kListed));
    found_.notes.push_back(fmt::format("[{}] {} entries of {} are not tensors and were not read: {}{}",
                                       where_, count, others_of, fmt::join(others, ", "),
                                       count > kListed ? ", …" : ""));
  }

  void check_name(const PickleValue& key) const {
    const auto refuse = [&](std::string_view what) {
      throw CheckpointError(where_, fmt::format("tensor '{}': {}", key_text(key), what));
    };
    if (key.kind != Kind::kText) refuse("the name is not a text; expected a text");
    if (key.size > Limits::kNameBytes) {
      refuse(fmt::format("the name is too long; expected at most {} bytes, got {}", Limits::kNameBytes,
                         key.size));
    }
    if (document_.text(key).find('\0') != std::string_view::npos) {
      refuse("the name has a NUL; expected none");
    }
  }

  /// Every value of the top dict that is not the state dict and has no tensors, such as an optimizer's.
  void add_values(const PickleValue& root, const std::optional<PickleValue>& inner) {
    const auto& items = document_.items(root);
    PlainCopier copier(document_, where_);
    Json::object_t values;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const auto& value = items[i + 1];
      if (inner && value.kind == Kind::kDict && value.payload == inner->payload) continue;
      if (value.kind == Kind::kTensor) continue;
      auto key = copier.copy(items[i]);
      auto plain = copier.copy(value);
      if (key && plain && items[i].kind == Kind::kText)
        values.emplace_back(document_.text(items[i]), std::move(*plain));
    }
    found_.values = json_text(values);
  }

  void strip_prefix() {
    auto& entries = found_.entries;
    const auto compiled = [](const auto& entry) { return entry.name.starts_with(kCompiledPrefix); };
    if (entries.empty() || !std::all_of(entries.begin(), entries.end(), compiled)) return;
    for (auto& entry : entries) entry.name.erase(0, kCompiledPrefix.size());
    found_.notes.push_back(
        fmt::format("[{}] the names' prefix {} (of torch.compile) was left off", where_, kCompiledPrefix));
  }

  const PickleDocument& document_;
  std::string_view where_;
  PickledStateDict found_;
  std::unordered_set<std::string> paths_;  // that were found
  std::size_t visited_ = 0;
  std::uint64_t path_bytes_ = 0;
};

}  // namespace

PickledStateDict find_state_dict(const PickleDocument& document, std::string_view where) {
  return StateDictFinder(document, where).find();
}

PickledStateDict find_tensor_paths(const PickleDocument& document, std::string_view where) {
  return StateDictFinder(document, where).find_paths();
}

}  // namespace hooked
