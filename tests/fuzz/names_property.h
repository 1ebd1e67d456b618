#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index_text.h"
#include "core/split.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/selection.h"
#include "options/command.h"
#include "options/edit_text.h"
#include "options/patch_names.h"
#include "tests/fuzz/property.h"

namespace hooked {

/// The points of a small model with experts, for names to be looked up in.
inline const PointIndex& points_of_a_model() {
  static const PointIndex points = [] {
    ModelConfig config;
    config.n_layers = 2;
    config.d_model = 4;
    config.n_ctx = 8;
    config.n_heads = config.n_kv_heads = 2;
    config.d_head = 2;
    config.d_mlp = 3;
    config.mlp = MlpKind::gated;
    config.d_vocab = 5;
    config.unembedding = Unembedding{.d_vocab = 5};
    config.experts = Experts{.n_experts = 2, .per_token = 1, .d_expert = 3};
    return PointIndex(config);
  }();
  return points;
}

/// Looks a selection up; what it finds is in order and there.
inline void hold_selection(const Selection& selection) {
  const PointIndex& points = points_of_a_model();
  const auto found = selection.resolve(points, Reach::everything(points));
  hold(std::ranges::adjacent_find(found, std::greater_equal<>()) == found.end(), "points out of order");
  hold(found.empty() || found.back() < points.size(), "a point that the model lacks");
}

/// What must hold for any text taken as a name, an address, a selection, the place and the text of an edit,
/// and a list of sweeps: each is refused with a HookError (on the command line a UsageError), or means
/// something whose text is read as the same again. Returns whether any took it; throws std::logic_error where
/// this does not hold.
inline bool names_property(std::string_view text) {
  text = text.substr(0, 160);  // the distance of a long text from every name takes its time
  bool any = false;
  if (const auto name = ActivationName::try_parse(text)) {
    hold(name->to_string() == text, "a full name with another text");
    hold(ActivationName::parse(text) == *name, "two meanings of a name");
    any = true;
  } else {
    hold(!accepts<HookError>([&] { ActivationName::parse(text); }), "a name and none");
  }
  any |= accepts<HookError>([&] {
    const Address address = Address::parse(text);
    hold(Address::parse(address.to_string()) == address, "an address that changes");
  });
  any |= accepts<HookError>([&] {
    const std::string once = Address(text).to_string();
    hold(Address(once).to_string() == once, "shorthand that changes");
  });
  any |= accepts<HookError>([&] {
    const std::string once = AxisIndices::parse(text).to_string();
    hold(AxisIndices::parse(std::string_view(once).substr(1, once.size() - 2)).to_string() == once,
         "indices that change");
  });
  any |= accepts<HookError>([&] { hold_selection(Selection(text)); });
  any |= accepts<cli::UsageError>([&] {
    const cli::EditText edit = cli::read_edit_text(text);
    hold(!edit.address.empty() && edit.all == text, "an edit without a place");
    accepts<HookError>([&] { hold_selection(EditTarget::parse(edit.address).where); });
  });
  any |= accepts<cli::UsageError>([&] {
    std::vector<std::string> words;
    for (const std::string_view word : split(text, ',')) words.emplace_back(word);
    cli::read_sweeps(words);
  });
  accepts<cli::UsageError>([&] { cli::read_metric(text); });
  return any;
}

}  // namespace hooked
