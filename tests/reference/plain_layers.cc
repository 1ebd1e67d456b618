#include "plain_layers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <stdexcept>

namespace hooked::reference {

Array sum(const Array& a, const Array& b) {
  if (a.shape != b.shape) throw std::invalid_argument("sum of two shapes");
  Array out = a;
  for (std::size_t i = 0; i < out.values.size(); ++i) out.values[i] += b.values[i];
  return out;
}

Array linear(const Array& x, const Array& weight, const Array& bias) {
  const std::int64_t in = weight.size(0), width = weight.size(1);
  if (x.last() != in) throw std::invalid_argument("linear: input and weight do not fit");
  std::vector<std::int64_t> shape = x.shape;
  shape.back() = width;
  Array out(shape);
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t o = 0; o < width; ++o) {
      double total = bias.shape.empty() ? 0.0 : bias(o);
      for (std::int64_t i = 0; i < in; ++i) total += x.row(r)[i] * weight(i, o);
      out.row(r)[o] = total;
    }
  }
  return out;
}

Array apply_norm(const Norm& norm, const Array& x, const std::string& name, Points& points) {
  if (norm.kind == NormKind::none) return x;
  const std::int64_t width = x.last();
  // A norm over all heads has one scale a token, and its points have the heads' shape.
  std::vector<std::int64_t> shape = x.shape, scale_shape = x.shape;
  scale_shape.back() = 1;
  if (norm.heads > 0) {
    shape = {x.size(0), x.size(1), norm.heads, width / norm.heads};
    scale_shape = {x.size(0), x.size(1), 1, 1};
  }
  Array scale(scale_shape), centred = x;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    double mean = 0.0;
    if (norm.kind == NormKind::layer_norm) {
      for (std::int64_t i = 0; i < width; ++i) mean += x.row(r)[i] / static_cast<double>(width);
    }
    double mean_square = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
      centred.row(r)[i] -= mean;
      mean_square += centred.row(r)[i] * centred.row(r)[i] / static_cast<double>(width);
    }
    scale.row(r)[0] = std::sqrt(mean_square + norm.eps);
  }
  scale = points.keep(name + ".hook_scale", scale);
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < width; ++i) centred.row(r)[i] /= scale.row(r)[0];
  }
  centred.shape = shape;
  Array out = points.keep(name + ".hook_normalized", centred);
  out.shape = x.shape;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < width; ++i) {
      const double w = norm.w.shape.empty() ? 1.0 : (norm.offset ? 1.0 + norm.w(i) : norm.w(i));
      const double b = norm.b.shape.empty() ? 0.0 : norm.b(i);
      out.row(r)[i] = out.row(r)[i] * w + b;
    }
  }
  return out;
}

double activate(Activation activation, double x) {
  const double root = std::sqrt(2.0 / std::numbers::pi);
  const auto logistic = [](double y) { return 1.0 / (1.0 + std::exp(-y)); };
  switch (activation.kind()) {
    case Activation::relu:
      return x > 0.0 ? x : 0.0;
    case Activation::gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(root * (x + 0.044715 * x * x * x)));
    case Activation::gelu_fast:
      return 0.5 * x * (1.0 + std::tanh(0.7978845608 * x * (1.0 + 0.044715 * x * x)));
    case Activation::gelu_bloom:
      return 0.5 * x * (1.0 + std::tanh(0.79788456 * x * (1.0 + 0.044715 * x * x)));
    case Activation::gelu_quick:
      return x * logistic(1.702 * x);
    case Activation::silu:
      return x * logistic(x);
    case Activation::relu_squared:
      return x > 0.0 ? x * x : 0.0;
    case Activation::sigmoid:
      return logistic(x);
    case Activation::gelu_clipped:
      return std::clamp(activate(Activation::gelu, x), -10.0, 10.0);
    case Activation::hard_swish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case Activation::identity:
      return x;
    case Activation::laplace:
      return 0.5 * (1.0 + std::erf((x - 0.707107) / (0.282095 * std::sqrt(2.0))));
    case Activation::leaky_relu:
      return x > 0.0 ? x : 0.01 * x;
    case Activation::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case Activation::relu6:
      return std::clamp(x, 0.0, 6.0);
    case Activation::sqrt_softplus:
      return std::sqrt(x > 20.0 ? x : std::log1p(std::exp(x)));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::swish:
      return x * logistic(activation.beta() * x);
    case Activation::solu:
    case Activation::xielu:
      break;
  }
  throw std::invalid_argument("solu needs all neurons, xielu its weights");
}

Array activate_all(Activation activation, const Array& x) {
  Array out(x.shape);
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    if (activation.kind() != Activation::solu) {
      for (std::int64_t i = 0; i < x.last(); ++i) out.row(r)[i] = activate(activation, x.row(r)[i]);
      continue;
    }
    const double largest = *std::max_element(x.row(r), x.row(r) + x.last());
    double total = 0.0;
    for (std::int64_t i = 0; i < x.last(); ++i) total += std::exp(x.row(r)[i] - largest);
    for (std::int64_t i = 0; i < x.last(); ++i) {
      out.row(r)[i] = x.row(r)[i] * std::exp(x.row(r)[i] - largest) / total;
    }
  }
  return out;
}

Array xielu_all(const Weights& weights, const std::string& name, const Array& x) {
  const auto number = [&](const char* which) { return weights.at(name + which)(0); };
  const double alpha_p = number("alpha_p"), alpha_n = number("alpha_n"), beta = number("beta");
  Array out = x;
  for (double& y : out.values) {
    const double below = (std::expm1(std::min(y, number("eps"))) - y) * alpha_n;
    y = (y > 0.0 ? alpha_p * y * y : below) + beta * y;
  }
  return out;
}

Array held(const ModelConfig& config, Array gate) {
  if (config.gate_limit > 0.0) {
    for (double& value : gate.values) value = std::min(value, config.gate_limit);
  }
  return gate;
}

Array product(const ModelConfig& config, Array activated, const Array& up) {
  const double limit = config.gate_limit;
  for (std::size_t i = 0; i < activated.values.size(); ++i) {
    const double within = limit > 0.0 ? std::clamp(up.values[i], -limit, limit) : up.values[i];
    activated.values[i] *= within + (config.up_offset ? 1.0 : 0.0);
  }
  return activated;
}

namespace {

/// Frequency i of the geometric series of a rotary table.
double plain_frequency(double base, double dim, std::int64_t i) {
  return std::pow(base, -2.0 * static_cast<double>(i) / dim);
}

/// Grattafiori et al. 2024.
double llama3_frequency(const Llama3Scaling& scaling, double plain) {
  const double wavelength = 2.0 * std::numbers::pi / plain;
  if (wavelength > scaling.original_n_ctx / scaling.low_freq_factor) return plain / scaling.factor;
  if (wavelength < scaling.original_n_ctx / scaling.high_freq_factor) return plain;
  const double smooth = (scaling.original_n_ctx / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - smooth) * plain / scaling.factor + smooth * plain;
}

/// Peng et al. 2023: between the dimensions that rotate beta_fast and beta_slow times over the original
/// context.
double yarn_frequency(const YarnScaling& scaling, double base, double dim, std::int64_t i) {
  const auto dimension = [&](double turns) {
    return dim * std::log(scaling.original_n_ctx / (2.0 * std::numbers::pi * turns)) / (2.0 * std::log(base));
  };
  double low = dimension(scaling.beta_fast), high = dimension(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;  // the ramp needs a width
  const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  const double plain = plain_frequency(base, dim, i);
  return plain / scaling.factor * ramp + plain * (1.0 - ramp);
}

}  // namespace

RotaryTable rotary_table(const ModelConfig& config, std::int64_t layer, std::int64_t row_length) {
  const RotaryPositions& rotary = *config.rotary();
  const bool local = rotary.local_base.has_value() && config.windowed(layer);
  const double base = local ? *rotary.local_base : rotary.base;
  const RopeScaling scaling = local ? NoScaling{} : rotary.scaling;
  const auto* linear = std::get_if<LinearScaling>(&scaling);
  const auto* llama3 = std::get_if<Llama3Scaling>(&scaling);
  const auto* yarn = std::get_if<YarnScaling>(&scaling);
  const auto* dynamic = std::get_if<DynamicScaling>(&scaling);
  const auto* longrope = std::get_if<LongropeScaling>(&scaling);
  const std::int64_t pairs = config.rotary_dim(layer) / 2;
  const auto dim = static_cast<double>(2 * pairs);
  const auto tokens = static_cast<double>(row_length);

  RotaryTable table;
  if (yarn != nullptr) table.amplitude = yarn->attention_factor;
  if (longrope != nullptr) {
    const bool beyond = tokens > longrope->original_n_ctx;
    table.amplitude = beyond ? longrope->long_attention_factor.value_or(longrope->attention_factor)
                             : longrope->attention_factor;
  }
  for (std::int64_t i = 0; i < pairs; ++i) {
    double frequency = plain_frequency(base, dim, i);
    if (linear != nullptr) frequency /= linear->factor;
    if (llama3 != nullptr) frequency = llama3_frequency(*llama3, frequency);
    if (yarn != nullptr) frequency = yarn_frequency(*yarn, base, dim, i);
    if (longrope != nullptr) {
      const bool beyond = tokens > longrope->original_n_ctx;
      frequency /= (beyond ? longrope->long_factors : longrope->short_factors)[static_cast<std::size_t>(i)];
    }
    if (dynamic != nullptr && tokens > dynamic->original_n_ctx) {
      const double growth = dynamic->factor * tokens / dynamic->original_n_ctx - (dynamic->factor - 1.0);
      frequency = plain_frequency(base * std::pow(growth, dim / (dim - 2.0)), dim, i);
    }
    if (!local && rotary.turned_pairs > 0 && i >= rotary.turned_pairs) frequency = 0.0;
    table.radians_per_position.push_back(frequency);
  }
  return table;
}

Array rotate(const Array& x, const ModelConfig& config, std::int64_t layer, const Sequence& sequence) {
  const std::int64_t half = config.rotary_dim(layer) / 2;
  const std::int64_t start = config.rotary()->at_end ? x.last() - config.rotary_dim(layer) : 0;
  Array out = x;
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    const std::vector<std::int64_t>& places = sequence.positions[b];
    const RotaryTable table =
        rotary_table(config, layer, *std::max_element(places.begin(), places.end()) + 1);
    for (std::int64_t p = 0; p < x.size(1); ++p) {
      const auto place = static_cast<double>(places[p]);
      for (std::int64_t h = 0; h < x.size(2); ++h) {
        for (std::int64_t i = 0; i < half; ++i) {
          const double turn = config.rotary()->reversed ? -1.0 : 1.0;
          const double angle = turn * place * table.radians_per_position[i];
          const double c = table.amplitude * std::cos(angle), s = table.amplitude * std::sin(angle);
          const std::int64_t first = start + (config.rotary()->adjacent_pairs ? 2 * i : i);
          const std::int64_t second = start + (config.rotary()->adjacent_pairs ? 2 * i + 1 : i + half);
          out(b, p, h, first) = x(b, p, h, first) * c - x(b, p, h, second) * s;
          out(b, p, h, second) = x(b, p, h, second) * c + x(b, p, h, first) * s;
        }
      }
    }
  }
  return out;
}

Array mlp(const ModelConfig& config, const Weights& weights, const std::string& name, const Array& x,
          Points& points) {
  const Array b_in = weight_or_empty(weights, name + "b_in");
  const bool gated = config.mlp == MlpKind::gated;
  const bool bias_after_product = gated && config.gated_bias_after_product;

  const Array pre = points.keep(name + "hook_pre", gated ? linear(x, weights.at(name + "W_gate"),
                                                                  weight_or_empty(weights, name + "b_gate"))
                                                         : linear(x, weights.at(name + "W_in"), b_in));
  const auto activated = [&](const Array& input) {
    if (config.activation.kind() == Activation::xielu) return xielu_all(weights, name + "xielu.", input);
    return activate_all(config.activation, input);
  };
  Array neurons;
  if (gated) {
    const Array linear_branch = points.keep(
        name + "hook_pre_linear", linear(x, weights.at(name + "W_in"), bias_after_product ? Array() : b_in));
    neurons = product(config, activated(held(config, pre)), linear_branch);
  } else {
    neurons = activated(pre);
  }
  if (bias_after_product && !b_in.shape.empty()) {
    for (std::int64_t r = 0; r < neurons.rows(); ++r) {
      for (std::int64_t i = 0; i < neurons.last(); ++i) neurons.row(r)[i] += b_in(i);
    }
  }
  if (config.mlp_norm) {
    neurons = points.keep(name + "hook_mid", neurons);
    neurons =
        apply_norm(norm_of(config, weights, NormKind::layer_norm, name + "ln"), neurons, name + "ln", points);
  }
  neurons = points.keep(name + "hook_post", neurons);
  return linear(neurons, weights.at(name + "W_out"), weight_or_empty(weights, name + "b_out"));
}

Array weight_or_empty(const Weights& weights, const std::string& name) {
  const auto found = weights.find(name);
  return found == weights.end() ? Array() : found->second;
}

Norm norm_of(const ModelConfig& config, const Weights& weights, NormKind kind, const std::string& name) {
  return {.kind = kind,
          .eps = config.eps,
          .offset = config.norm_offset && !name.ends_with("embed.ln") && name != "mlm_head.ln" &&
                    !name.ends_with(".mlp.ln"),
          .w = weight_or_empty(weights, name + ".w"),
          .b = weight_or_empty(weights, name + ".b")};
}

Array Points::keep(const std::string& name, Array value) {
  if (change_) change_(name, value);
  return values_[name] = std::move(value);
}

void Points::note(const std::string& name, Array value) {
  const std::vector<double> before = value.values;
  if (change_) change_(name, value);
  const auto differ = [](double a, double b) { return a != b && !(std::isnan(a) && std::isnan(b)); };
  if (!std::ranges::equal(before, value.values, std::not_fn(differ))) {
    throw std::invalid_argument("the plain model has no way to change " + name);
  }
  values_[name] = std::move(value);
}

}  // namespace hooked::reference
