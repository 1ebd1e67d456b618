#include "hooked/core/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "core/json.h"
#include "core/model_config_fields.h"
#include "core/model_config_rules.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

using std::string_view;

void check(string_view path, std::int64_t value, const field::Between& rule) {
  const bool one = rule.least == rule.most;
  expect(value >= rule.least && value <= rule.most, path, value,
         one ? fmt::format("{}", rule.least) : fmt::format("{} to {}", rule.least, rule.most));
}

void check(string_view path, std::int64_t value, const field::DivisorOf& rule) {
  expect(value >= 1 && rule.value % value == 0, path, value,
         fmt::format("a divisor of {} = {}", rule.field, rule.value));
}

void check(string_view path, std::int64_t value, const field::RotaryDim& rule) {
  const std::int64_t dim = value == 0 ? rule.d_head : value;
  expect(value >= 0 && dim <= rule.d_head && dim % 2 == 0, path, value,
         fmt::format("an even number up to d_head = {} (0 means all of d_head, which must then be even)",
                     rule.d_head));
}

void check(string_view path, double value, field::Positive) {
  expect(std::isfinite(value) && value > 0, path, value, "a finite number above 0");
}

void check(string_view path, double value, field::NotNegative) {
  expect(std::isfinite(value) && value >= 0, path, value, "a finite number, at least 0");
}

void check(string_view path, double value, field::NotZero) {
  expect(std::isfinite(value) && value != 0, path, value, "a finite number other than 0");
}

void check(string_view path, double value, const field::Above& rule) {
  expect(std::isfinite(value) && value > rule.value, path, value,
         fmt::format("more than {} = {}", rule.field, rule.value));
}

void check(string_view path, double value, const field::AtLeast& rule) {
  expect(std::isfinite(value) && value >= rule.least, path, value, fmt::format("at least {}", rule.least));
}

void check(string_view path, double value, field::Scaling) {
  expect(std::isfinite(value) && value > 0 && value != 1.0, path, value,
         "a finite number above 0, and not 1, which scales nothing");
}

void check(string_view path, const std::vector<bool>& value, const field::EachLayer& rule) {
  if (value.empty() && rule.may_be_empty) return;
  expect(static_cast<std::int64_t>(value.size()) == rule.n_layers, path, value.size(),
         fmt::format("one entry for each of the {} layers", rule.n_layers));
  expect(std::ranges::find(value, true) != value.end(), path, "only false",
         rule.may_be_empty ? "true for at least one layer, or an empty list" : "true for at least one layer");
}

void check_count(string_view path, std::size_t size, std::int64_t count, string_view of) {
  expect(static_cast<std::int64_t>(size) == count, path, size,
         fmt::format("one number for each of the {} {}", count, of));
}

void check(string_view path, const std::vector<double>& value, const field::Finite& rule) {
  check_count(path, value.size(), rule.count, rule.of);
  for (const double number : value) expect(std::isfinite(number), path, number, "finite numbers");
}

void check(string_view path, const std::vector<double>& value, const field::AllPositive& rule) {
  check_count(path, value.size(), rule.count, rule.of);
  for (const double number : value) check(path, number, field::Positive{});
}

template <class E, std::size_t N>
void check(string_view path, E value, const field::OneOf<E, N>& rule) {
  expect(value_of(rule.words, word_of(rule.words, value)).has_value(), path, static_cast<int>(value),
         fmt::format("one of {}", all_words(rule.words)));
}

void check(string_view path, const Activation& value, const field::KnownActivation& rule) {
  check(path, value.kind(), field::OneOf{kActivationWords});
  expect(rule.with_weights || value.kind() != Activation::xielu, path, activation_name(value),
         "another activation than xielu, whose numbers only MLPs hold");
  check(fmt::format("{}.beta", path), value.beta(), field::Positive{});
}

void check(string_view path, at::ScalarType value, field::FloatDtype) {
  expect(parse_float_dtype(dtype_text(value)).has_value(), path, dtype_text(value),
         "float32, float64, float16 or bfloat16");
}

void check(string_view path, const std::vector<std::string>& value, field::StepNames) {
  std::set<string_view> steps;
  for (const std::string& step : value) {
    expect(!step.empty() && steps.insert(step).second, path, fmt::format("\"{}\"", printable(step)),
           "the names of processing steps, each once");
  }
}

struct CheckValue {
  template <class Value>
  void operator()(string_view, const Value&, field::Any) const {}
  template <class Value, class Rule>
  void operator()(string_view path, const std::optional<Value>& value, const Rule& rule) const {
    if (value) check(path, *value, rule);
  }
  template <class Value, class Rule>
  void operator()(string_view path, const Value& value, const Rule& rule) const {
    check(path, value, rule);
  }
};

}  // namespace

std::vector<BlockPlace> ModelConfig::blocks() const {
  std::vector<BlockPlace> all;
  for (std::int64_t layer = 0; layer < n_encoder_layers(); ++layer) all.push_back({Stack::encoder, layer});
  for (std::int64_t layer = 0; layer < n_layers; ++layer) all.push_back({main_stack(), layer});
  return all;
}

std::int64_t ModelConfig::key_layer(std::int64_t l) const {
  if (!shares_keys(l)) return l;
  std::int64_t source = layers_with_keys() - 1;
  while (source > 0 && windowed(source) != windowed(l)) --source;
  return source;
}

bool ModelConfig::logits_centred() const {
  return std::ranges::find(processing, "center_unembed") != processing.end();
}

bool ModelConfig::lends_keys(std::int64_t l) const {
  for (std::int64_t later = layers_with_keys(); later < n_layers; ++later) {
    if (key_layer(later) == l) return true;
  }
  return false;
}

std::int64_t ModelConfig::last_start(std::int64_t l, std::int64_t end_layer) const {
  std::int64_t start = l;
  // With an earlier start more layers run, which need keys, too.
  for (std::int64_t later = end_layer - 1; later >= std::max(start, layers_with_keys()); --later) {
    start = std::min(start, key_layer(later));
  }
  return start;
}

ModelConfig without_unembedding(ModelConfig config) {
  config.unembedding.reset();
  config.final_norm = NormKind::none;
  return config;
}

ModelConfig encoder_alone(ModelConfig config) {
  if (!config.has_encoder()) return config;
  config.n_layers = config.n_encoder_layers();
  config.encoder.reset();
  config.unembedding.reset();
  config.final_norm = config.norms_stream() ? NormKind::none : config.norm;
  config.direction = AttentionDirection::bidirectional;
  return config;
}

std::vector<double> geometric_alibi_slopes(std::int64_t n_heads) {
  if (n_heads < 1 || n_heads > kMaxHeads) {
    throw ConfigError("n_heads", fmt::format("out of range; expected 1 to {}, got {}", kMaxHeads, n_heads));
  }
  std::vector<double> slopes(static_cast<std::size_t>(n_heads));
  for (std::size_t head = 0; head < slopes.size(); ++head) {
    slopes[head] = std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(n_heads));
  }
  return slopes;
}

std::optional<Activation> parse_activation(std::string_view name) noexcept {
  const auto kind = value_of(kActivationWords, name);
  return kind ? std::optional<Activation>(*kind) : std::nullopt;
}

std::string_view activation_name(Activation activation) noexcept {
  return word_of(kActivationWords, activation.kind());
}

void ModelConfig::validate() const {
  visit_fields(CheckValue(), *this);
  check_rules(*this);
}

}  // namespace hooked
