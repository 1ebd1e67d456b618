#include "core/weight_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace hooked {
namespace {

constexpr std::string_view kBlock = "{stack}.{layer}.";
constexpr std::string_view kExpert = "{expert}";

// What a config must say in addition to having the part that a weight belongs to; these words follow those of
// the part.
namespace options {

using Config = const ModelConfig&;

bool is_biased(NormKind kind, Config c) { return kind == NormKind::layer_norm && c.norm_bias; }
bool keeps_mean(Config c) { return c.unembedding->keeps_mean; }

constexpr WeightOption any{[](Config) { return true; }, ""};

// Norms have weights until these are folded into their readers; norms of sublayers' outputs always have them.
constexpr WeightOption unfolded{[](Config c) { return !c.norm_folded; }, "; not folded"};
constexpr WeightOption shift{[](Config c) { return is_biased(c.norm, c) && !c.norm_folded; },
                             "; a LayerNorm with `norm_bias`, not folded"};
constexpr WeightOption kept_shift{[](Config c) { return is_biased(c.norm, c); },
                                  "; LayerNorms with `norm_bias`"};
constexpr WeightOption final_shift{[](Config c) { return is_biased(c.final_norm, c) && !c.norm_folded; },
                                   "; a LayerNorm with `norm_bias`, not folded"};
constexpr WeightOption embedding_shift{[](Config c) { return is_biased(c.embedding_norm, c); },
                                       "; a LayerNorm with `norm_bias`"};
constexpr WeightOption norm_bias{[](Config c) { return c.norm_bias; }, ", with `norm_bias`"};

constexpr WeightOption untied{[](Config c) { return !c.tied_unembedding(); }, " that is not tied"};
constexpr WeightOption unembedding_bias{[](Config c) { return c.unembedding->bias; },
                                        ", with `unembedding.bias`"};
constexpr WeightOption kept_mean{keeps_mean, " that was centred, with `unembedding.keeps_mean`"};
constexpr WeightOption kept_bias_mean{
    [](Config c) { return keeps_mean(c) && c.unembedding->bias; },
    " that was centred, with `unembedding.keeps_mean` and `unembedding.bias`"};

constexpr WeightOption qkv_bias{[](Config c) { return c.qkv_bias; }, ", with `qkv_bias`"};
constexpr WeightOption attn_out_bias{[](Config c) { return c.attn_out_bias; }, ", with `attn_out_bias`"};
constexpr WeightOption qk_norm_bias{[](Config c) { return c.qk_norm->bias; }, ", with `qk_norm.bias`"};
constexpr WeightOption conv_bias{[](Config c) { return c.short_conv->bias; }, ", with `short_conv.bias`"};

constexpr WeightOption mlp_bias{[](Config c) { return c.mlp_bias; }, ", with `mlp_bias`"};
constexpr WeightOption gate_bias{[](Config c) { return c.mlp_bias && !c.gated_bias_after_product; },
                                 ", with `mlp_bias` that is not added after the product"};
constexpr WeightOption router_bias{[](Config c) { return c.experts->router_bias; },
                                   ", with `experts.router_bias`"};
constexpr WeightOption choice_bias{[](Config c) { return c.experts->choice_bias; },
                                   ", with `experts.choice_bias`"};
constexpr WeightOption expert_scale{[](Config c) { return c.experts->expert_scale; },
                                    ", with `experts.expert_scale`"};
constexpr WeightOption expert_bias{[](Config c) { return c.experts->bias; }, ", with `experts.bias`"};
constexpr WeightOption shared_gate_bias{[](Config c) { return c.experts->shared_gate_bias; },
                                        ", with `experts.shared_gate_bias`"};

}  // namespace options

constexpr double start_of(WeightKind kind) {
  return kind == WeightKind::gain || kind == WeightKind::plain_gain ? 1.0 : 0.0;
}

std::span<const WeightRow> table() {
  using enum Axis;
  using enum WeightInput;
  constexpr bool stream = true, no = false;
  static constexpr WeightRow kRows[] = {
#define AXES(...) \
  AxisList { __VA_ARGS__ }
#define WEIGHT(path, axes, kind, reads, writes, part, also) \
  {path, AXES axes, WeightKind::kind, reads, writes, Part::part, options::also, start_of(WeightKind::kind)},
#define NUMBERS(path, axes, start, part, also) \
  {path, AXES axes, WeightKind::number, nothing, no, Part::part, options::also, start},
#define NUMBER(path, start, part, also) NUMBERS(path, (one), start, part, also)
#include "core/weights.inc"
#undef AXES
  };
  return kRows;
}

// `blocks.3.mlp.experts.12.W_in.weight` without its block and for any expert:
// `mlp.experts.{expert}.W_in.weight`.
std::string pattern_of(std::string_view name) {
  for (const Stack stack : {Stack::blocks, Stack::encoder, Stack::decoder}) {
    const std::string_view folder = stack_name(stack);
    if (!name.starts_with(folder) || name.substr(folder.size(), 1) != ".") continue;
    const auto layer_end = name.find('.', folder.size() + 1);
    if (layer_end != name.npos) name.remove_prefix(layer_end + 1);
  }
  constexpr std::string_view kExperts = "mlp.experts.";
  if (name.starts_with(kExperts)) {
    const auto end = name.find('.', kExperts.size());
    return fmt::format("{}{}{}", kExperts, kExpert, end == name.npos ? "" : name.substr(end));
  }
  const auto leaf = name.rfind('.') + 1;  // npos + 1 is 0
  std::string pattern(name);
  if (name.substr(leaf, 1) == "_") pattern.erase(leaf, 1);
  return pattern;
}

void for_each_expert(const WeightRow& row, const ModelConfig& config,
                     const std::function<void(const std::string& local_name)>& use) {
  const std::string_view local = row.local_path();
  if (!row.per_expert()) return use(std::string(local));
  const auto at = local.find(kExpert);
  for (std::int64_t expert = 0; expert < config.n_experts(); ++expert) {
    use(fmt::format("{}{}{}", local.substr(0, at), expert, local.substr(at + kExpert.size())));
  }
}

// Weights with a least dtype of their own, other than those of norms.
constexpr std::pair<std::string_view, KeptInFloat32 LeastDtypes::*> kKeptInFloat32[] = {
    {"mlp.choice_bias", &LeastDtypes::choice_bias},
    {"mlp.W_gate.weight", &LeastDtypes::router},
    {"mlp.W_gate.bias", &LeastDtypes::router},
    {"mlp.W_out", &LeastDtypes::mlp_out},
    {"mlp.b_out", &LeastDtypes::mlp_out}};

bool is_there(const WeightRow& row, const ModelConfig& config, const WeightPart& part) {
  return row.in_block() == part.has_value() && row.there(config, part);
}

}  // namespace

bool WeightRow::there(const ModelConfig& config, const WeightPart& block) const {
  return has(config, part, block.value_or(BlockPlace{Stack::none, -1})) && also.holds(config);
}

std::string WeightRow::when_there() const { return hooked::when_there(part) + std::string(also.words); }

std::string_view WeightRow::local_path() const { return in_block() ? path.substr(kBlock.size()) : path; }

std::span<const WeightRow> weight_table() noexcept { return table(); }

const WeightRow* find_weight_row(std::string_view name) {
  static const auto by_local_path = [] {
    std::unordered_map<std::string_view, const WeightRow*> rows;
    for (const WeightRow& row : table()) rows.emplace(row.local_path(), &row);
    return rows;
  }();
  const auto found = by_local_path.find(pattern_of(name));
  return found == by_local_path.end() ? nullptr : found->second;
}

std::vector<std::int64_t> weight_shape(const WeightRow& row, const ModelConfig& config,
                                       const WeightPart& part) {
  std::vector<std::int64_t> shape;
  for (const Axis axis : row.axes) shape.push_back(size_of(axis, config, part ? part->layer : 0));
  return shape;
}

at::ScalarType weight_dtype(const WeightRow& row, const ModelConfig& config) {
  if (row.is_gain() || row.kind == WeightKind::shift) return config.dtype_of(config.least_dtypes.norms);
  for (const auto& [path, group] : kKeptInFloat32) {
    if (row.local_path() == path) return config.dtype_of(config.least_dtypes.*group);
  }
  return config.dtype;
}

void for_each_weight(const ModelConfig& config, const WeightPart& part,
                     const std::function<void(const WeightRow& row, const std::string& local_name)>& use) {
  for (const WeightRow& row : table()) {
    if (!is_there(row, config, part)) continue;
    for_each_expert(row, config, [&](const std::string& local_name) { use(row, local_name); });
  }
}

std::string weight_name(const WeightPart& part, std::string_view local_name, const ModelConfig& config) {
  const std::string stored = config.grouped_query() ? grouped_spelling(local_name) : std::string(local_name);
  return part ? fmt::format("{}.{}", part->path(), stored) : stored;
}

std::string grouped_spelling(std::string_view name) {
  const auto leaf = name.rfind('.') + 1;
  const auto* row = find_weight_row(name);
  if (row == nullptr || !row->axes.find(Axis::kv_head) || name.substr(leaf, 1) == "_") {
    return std::string(name);
  }
  return fmt::format("{}_{}", name.substr(0, leaf), name.substr(leaf));
}

std::string_view final_norm_path(Stack stack) {
  if (stack == Stack::encoder) return "encoder_final_ln";
  return stack == Stack::decoder ? "decoder_final_ln" : "ln_final";
}

std::vector<WeightPart> weight_parts(const ModelConfig& config) {
  std::vector<WeightPart> parts;
  for (const BlockPlace& block : config.blocks()) parts.emplace_back(block);
  parts.emplace_back(std::nullopt);
  return parts;
}

std::int64_t ModelConfig::parameter_count() const {
  std::int64_t count = 0;
  for (const WeightPart& part : weight_parts(*this)) {
    for (const WeightRow& row : table()) {
      if (!is_there(row, *this, part)) continue;
      std::int64_t size = row.per_expert() ? n_experts() : 1;
      for (const std::int64_t length : weight_shape(row, *this, part)) size *= length;
      count += size;
    }
  }
  return count;
}

}  // namespace hooked
