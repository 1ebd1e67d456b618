#include "families/shared/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hooked {
namespace {

constexpr std::string_view kOriginal = "original_max_position_embeddings";

// Adds a note that the number at `unused` is not used, if it differs from that at `used`.
void note_if_other(HfConfig& hf, const std::pair<const ConfigReader&, std::string_view>& unused,
                   const std::pair<const ConfigReader&, std::string_view>& used) {
  const auto& [holder, key] = unused;
  if (key.empty() || !holder.has(key) || holder.number(key) == used.first.number(used.second)) return;
  hf.note(fmt::format("[{}] {} has no effect: {} [{}] goes before it, as in transformers", holder.where(key),
                      holder.number(key), used.first.number(used.second), used.first.where(used.second)));
}

// The object that states the number of tokens of the original training context: the key outside the group
// takes precedence.
const ConfigReader* holder_of_original(const HfConfig& hf, const ConfigReader& group,
                                       const RopeDefaults& defaults) {
  if (!defaults.of_one_kind && hf.json().has(kOriginal)) return &hf.json();
  return !defaults.original_n_ctx && group.has(kOriginal) ? &group : nullptr;
}

double original_context(HfConfig& hf, const ConfigReader& group, const RopeDefaults& defaults,
                        const ModelConfig& config) {
  const ConfigReader* holder = holder_of_original(hf, group, defaults);
  if (holder == nullptr) return defaults.original_n_ctx.value_or(static_cast<double>(config.n_ctx));
  if (holder != &group) note_if_other(hf, {group, kOriginal}, {*holder, kOriginal});
  return holder->number(kOriginal);
}

RopeScaling read_llama3(const ConfigReader& group, double original) {
  group.ignore({"attention_factor"});
  return Llama3Scaling{.factor = group.number("factor"),
                       .low_freq_factor = group.number("low_freq_factor"),
                       .high_freq_factor = group.number("high_freq_factor"),
                       .original_n_ctx = original};
}

RopeScaling read_yarn(const ConfigReader& group, const ModelConfig& config, double original) {
  YarnScaling scaling{.original_n_ctx = original};
  scaling.factor = group.number_or("factor", static_cast<double>(config.n_ctx) / original);
  const double mscale = group.number_or("mscale", 0.0), all_dim = group.number_or("mscale_all_dim", 0.0);
  const double usual = mscale != 0.0 && all_dim != 0.0
                           ? yarn_magnitude(scaling.factor, mscale) / yarn_magnitude(scaling.factor, all_dim)
                           : yarn_magnitude(scaling.factor, 1.0);
  scaling.attention_factor = group.number_or("attention_factor", usual);
  scaling.beta_fast = group.is_unset("beta_fast") ? 32.0 : group.number("beta_fast");
  scaling.beta_slow = group.is_unset("beta_slow") ? 1.0 : group.number("beta_slow");
  scaling.truncate = group.boolean_or("truncate", true);
  return scaling;
}

RopeScaling read_longrope(const ConfigReader& group, const ModelConfig& config, double original) {
  LongropeScaling scaling{.short_factors = group.numbers("short_factor"),
                          .long_factors = group.numbers("long_factor"),
                          .original_n_ctx = original};
  const double factor = group.number_or("factor", static_cast<double>(config.n_ctx) / original);
  const double usual = factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
  scaling.attention_factor = group.number_or("attention_factor", usual);
  return scaling;
}

// Records where the numbers of a scaling come from that may exclude other fields.
void name_scaling_keys(HfConfig& hf, const ConfigReader& group, const RopeDefaults& defaults) {
  const ConfigReader* holder = holder_of_original(hf, group, defaults);
  const std::string original =
      holder != nullptr ? holder->where(kOriginal)
                        : hf.json().where(defaults.original_n_ctx ? kOriginal : "max_position_embeddings");
  const auto in_group = [&](std::string_view key) { return group.where(key); };
  // Computed if they are absent.
  const auto or_original = [&](std::string_view key) { return group.has(key) ? group.where(key) : original; };
  for (const std::string_view kind : {"llama3", "yarn", "dynamic", "longrope", "linear"}) {
    const auto name = [&](std::string_view field) { return fmt::format("rotary.{}.{}", kind, field); };
    hf.comes_from(name("original_n_ctx"), original);
    for (const auto key : {"factor", "attention_factor"}) hf.comes_from(name(key), or_original(key));
    for (const auto key : {"low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"}) {
      hf.comes_from(name(key), in_group(key));
    }
    hf.comes_from(name("short_factors"), in_group("short_factor"));
    hf.comes_from(name("long_factors"), in_group("long_factor"));
    hf.comes_from(name("long_attention_factor"), in_group("long_mscale"));
  }
}

// Sections are three lengths; which ones makes no difference for text.
void read_sections(const ConfigReader& group) {
  constexpr std::string_view kKey = "mrope_section";
  group.ignore({"mrope_interleaved"});
  if (!group.has(kKey)) return;
  const std::vector<std::int64_t> lengths = group.integers(kKey);
  const bool good = lengths.size() == 3 && std::ranges::all_of(lengths, [](auto n) { return n >= 0; });
  if (!good)
    group.refuse(kKey, "is not one length for each of time, height and width; expected three of them");
}

RopeScaling read_scaling(HfConfig& hf, const ConfigReader& group, const ModelConfig& config,
                         const RopeDefaults& defaults) {
  const std::string_view key = group.first_of({"rope_type", "type"});
  const std::string type = group.text_or(key, "default");
  name_scaling_keys(hf, group, defaults);
  // Keys that transformers leaves in groups of kinds that do not have them.
  group.ignore({"rope_type", "type", "original_max_position_embeddings"});
  if (defaults.sections) read_sections(group);
  if (type == "default" || (defaults.sections && type == "mrope")) {
    group.ignore({"factor"});
    return NoScaling{};
  }
  if (type == "linear") {
    const double factor = group.number("factor");
    if (factor == 1.0) return NoScaling{};
    return LinearScaling{.factor = factor};
  }
  if (type == "dynamic") {
    return DynamicScaling{.factor = group.number("factor"),
                          .original_n_ctx = static_cast<double>(config.n_ctx)};
  }
  const double original = original_context(hf, group, defaults, config);
  if (type == "llama3") return read_llama3(group, original);
  if (type == "longrope" || (defaults.calls_longrope_yarn && (type == "su" || type == "yarn"))) {
    return read_longrope(group, config, original);
  }
  if (type == "yarn") return read_yarn(group, config, original);
  group.refuse(
      key,
      "is not a rotary scaling this engine knows; expected default, linear, dynamic, llama3, yarn or "
      "longrope");
}

// Number of rotated dimensions of a head; 0: none.
std::int64_t turned_dimensions(const ConfigReader& reader, std::string_view key, const ModelConfig& config,
                               double share) {
  if (!(share >= 0.0) || share > 1.0)
    reader.refuse(key, "is out of range; expected a share of d_head from 0 to 1");
  const auto dim = static_cast<std::int64_t>(static_cast<double>(config.d_head) * share);
  if (dim % 2 != 0) {
    reader.refuse(key, fmt::format("turns {} of the {} dimensions of a head; expected an even number of them",
                                   dim, config.d_head));
  }
  return dim;
}

// By alpha^(d / (d - 2)); without an alpha, `dynamic` computes it anew for each length.
void stretch_once(const ConfigReader& parameters, const ModelConfig& config, RotaryPositions& rotary) {
  const double alpha = parameters.number_or("alpha", 0.0);
  parameters.ignore({"beta_fast", "beta_slow", "mscale", "mscale_all_dim"});
  if (alpha == 0.0) return;
  if (alpha < 0.0 || config.d_head <= 2)
    parameters.refuse(
        "alpha",
        "does not stretch these heads; expected a number above 0, and heads of more than 2 dimensions");
  const auto d_head = static_cast<double>(config.d_head);
  rotary.base *= std::pow(alpha, d_head / (d_head - 2.0));
  rotary.scaling = NoScaling{};
}

// Number of rotated pairs, out of those of a whole head.
std::int64_t turned_pairs(const ConfigReader& reader, std::string_view key, const ModelConfig& config,
                          double share) {
  const auto d_head = static_cast<double>(config.d_head);
  const auto pairs = share > 0.0 && share <= 1.0 ? static_cast<std::int64_t>(share * d_head / 2.0) : 0;
  if (pairs < 1) {
    reader.refuse(key,
                  fmt::format("is out of range; expected a share that turns at least one of the {} pairs "
                              "of a head, at most 1",
                              config.d_head / 2));
  }
  return pairs == config.d_head / 2 ? 0 : pairs;
}

// The kind with a share of rotated pairs whose frequencies are those of all pairs.
RotaryPositions read_proportional(HfConfig& hf, const ConfigReader& parameters, const ModelConfig& config,
                                  double base) {
  constexpr std::string_view kShare = "partial_rotary_factor";
  RotaryPositions rotary{.base = base};
  rotary.turned_pairs = turned_pairs(parameters, kShare, config, parameters.number_or(kShare, 1.0));
  if (const double factor = parameters.number_or("factor", 1.0); factor != 1.0) {
    rotary.scaling = LinearScaling{.factor = factor};
  }
  hf.comes_from("rotary.linear.factor", parameters.where("factor"));
  parameters.ignore({"rope_type", "type"});
  parameters.refuse_unread();
  return rotary;
}

// The group of one kind of layer. A share of 0 means no positions, as in transformers.
Positions read_group(HfConfig& hf, const ConfigReader& parameters, const ModelConfig& config,
                     const RopeDefaults& defaults) {
  const ConfigReader& json = hf.json();
  RotaryPositions rotary;
  const bool own_theta = parameters.has("rope_theta");
  const bool theta_beside = !defaults.theta_key.empty() && json.has(defaults.theta_key);
  rotary.base = own_theta      ? parameters.number("rope_theta")
                : theta_beside ? json.number(defaults.theta_key)
                               : defaults.theta;
  if (own_theta) note_if_other(hf, {json, defaults.theta_key}, {parameters, "rope_theta"});
  hf.comes_from("rotary.base",
                own_theta || !theta_beside ? parameters.where("rope_theta") : json.where(defaults.theta_key));
  if (defaults.proportional &&
      parameters.text_or(parameters.first_of({"rope_type", "type"}), "default") == "proportional") {
    return read_proportional(hf, parameters, config, rotary.base);
  }
  const bool inside = parameters.has("partial_rotary_factor");
  const ConfigReader& holder = inside ? parameters : json;
  const std::string_view key = inside ? "partial_rotary_factor" : defaults.partial_key;
  const double share = holder.number_or(key, defaults.partial.value_or(1.0));
  if (inside) note_if_other(hf, {json, defaults.partial_key}, {parameters, key});
  const bool turns_all = !defaults.partial && share != 1.0;
  // Scalings read it in every family; without scaling it has no effect, except in families with several kinds
  // of layers.
  const bool scaled = parameters.text_or(parameters.first_of({"rope_type", "type"}), "default") != "default";
  if (turns_all && (scaled || defaults.of_one_kind)) {
    holder.refuse(key, "is not honoured by this family; expected 1, or no such key");
  }
  if (turns_all)
    hf.note(
        fmt::format("[{}] has no effect: transformers does not read it for this family", holder.where(key)));
  const std::int64_t turned = turns_all ? config.d_head : turned_dimensions(holder, key, config, share);
  rotary.dim = turned == config.d_head ? 0 : turned;
  rotary.adjacent_pairs = defaults.adjacent_pairs;
  rotary.scaling = read_scaling(hf, parameters, config, defaults);
  if (defaults.fixed_alpha && std::holds_alternative<DynamicScaling>(rotary.scaling)) {
    stretch_once(parameters, config, rotary);
  }
  parameters.refuse_unread();
  if (turned == 0) return NoPositions{};
  return rotary;
}

ConfigReader no_group(const ConfigReader& json, std::string_view absent = "{}") {
  return {absent, json.where("rope_parameters")};
}

// For families that rotate all dimensions.
RotaryPositions read_rotary_group(HfConfig& hf, const ConfigReader& parameters, const ModelConfig& config,
                                  const RopeDefaults& defaults) {
  return std::get<RotaryPositions>(read_group(hf, parameters, config, defaults));
}

// Full layers may be scaled, windowed ones have their own base. In the older style, windowed layers are not
// scaled, and transformers reads a scaling's kind only under the newer of its two keys.
std::pair<RotaryPositions, RotaryPositions> read_older_style(HfConfig& hf, const ModelConfig& config,
                                                             const LayeredRopeDefaults& defaults) {
  const ConfigReader& json = hf.json();
  const RopeDefaults of_full{.theta = defaults.theta, .theta_key = defaults.theta_key, .of_one_kind = true};
  RotaryPositions full = read_rotary_group(hf, no_group(json), config, of_full);
  RotaryPositions windowed = full;
  windowed.base = defaults.windowed_theta_key.empty()
                      ? defaults.windowed_theta
                      : hf.positive_or(defaults.windowed_theta_key, defaults.windowed_theta);
  hf.require_unset({"rope_parameters"});  // without a group for each kind of layer, it is unclear which
  if (json.is_unset("rope_scaling")) return {full, windowed};
  const ConfigReader scaling = json.object("rope_scaling");
  if (scaling.has("rope_type")) {
    full = read_rotary_group(hf, scaling, config, of_full);
  } else {
    for (const std::string& key : scaling.keys()) scaling.ignore({key});
    hf.note("rope_scaling has no effect: transformers reads its kind as rope_type only for this family");
  }
  return {full, windowed};
}

}  // namespace

double yarn_magnitude(double factor, double weight) {
  return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

ConfigReader rope_group(const ConfigReader& json, std::string_view absent) {
  if (!json.is_unset("rope_scaling")) return json.object("rope_scaling");
  return json.has("rope_parameters") ? json.object("rope_parameters") : no_group(json, absent);
}

void read_rope(HfConfig& hf, ModelConfig& config, const RopeDefaults& defaults) {
  const ConfigReader& json = hf.json();
  if (!json.is_unset("rope_scaling") && !json.is_unset("rope_parameters")) {
    hf.note("rope_parameters has no effect: transformers takes rope_scaling where both are there");
  }
  config.positions = read_group(hf, rope_group(json, defaults.group), config, defaults);
  json.ignore({defaults.theta_key, defaults.partial_key, kOriginal, "rope_scaling", "rope_parameters"});
  // Its purpose is to exceed the trained context, and it does not name another one.
  const RotaryPositions* rotary = config.rotary();
  if (rotary != nullptr && std::holds_alternative<DynamicScaling>(rotary->scaling))
    config.n_ctx = kUnlimitedContext;
}

void read_layered_rope(HfConfig& hf, ModelConfig& config, const LayeredRopeDefaults& defaults) {
  const ConfigReader& json = hf.json();
  RotaryPositions full, windowed;
  const auto parameters =
      json.holds_object("rope_parameters") ? json.object_if("rope_parameters") : std::nullopt;
  const bool grouped = parameters && (parameters->holds_object("full_attention") ||
                                      parameters->holds_object("sliding_attention"));
  ModelConfig of_full = config;
  of_full.d_head = config.head_width_of(/*in_windowed=*/false);
  const auto group = [&](std::string_view key, const ModelConfig& kind, std::string_view absent) {
    const bool windows = key == "sliding_attention";
    const auto found = parameters ? parameters->object_if(key) : std::nullopt;
    return read_rotary_group(hf, found ? *found : no_group(json, absent), kind,
                             {.theta = windows ? defaults.windowed_theta : defaults.theta,
                              .theta_key = windows ? defaults.windowed_theta_key : defaults.theta_key,
                              .of_one_kind = true,
                              .proportional = defaults.proportional});
  };
  if (grouped || (!defaults.full_group.empty() && !json.has("rope_parameters"))) {
    if (!json.is_unset("rope_scaling")) {
      json.refuse(
          "rope_scaling",
          "is set together with groups for each kind of layer in rope_parameters; expected one of the two");
    }
    windowed = group("sliding_attention", config, "{}");
    // Last, so that errors name its keys.
    full = group("full_attention", of_full, grouped ? "{}" : defaults.full_group);
    hf.comes_from("rotary.local_base", parameters ? parameters->where("sliding_attention.rope_theta")
                                                  : json.where("rope_parameters"));
    if (parameters) parameters->refuse_unread();
  } else {
    std::tie(full, windowed) = read_older_style(hf, config, defaults);
  }
  json.ignore({"rope_theta", "rope_scaling", "rope_parameters", kOriginal, defaults.theta_key,
               defaults.windowed_theta_key});
  const bool differ = config.window && windowed != full;
  if (differ && (windowed.turned_pairs > 0 || !std::holds_alternative<NoScaling>(windowed.scaling))) {
    json.refuse("rope_parameters",
                "scales the windowed layers in another way than the full ones, which is not "
                "supported; expected rope_type default under sliding_attention");
  }
  if (differ) full.local_base = windowed.base;
  config.positions = std::move(full);
}

}  // namespace hooked
