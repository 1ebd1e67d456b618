#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "plain_layers.h"

namespace hooked::reference {
namespace {

using Numbers = std::vector<double>;

/// W x + b of a map stored as `name.weight` [out, in] and `name.bias`.
Numbers apply(const Weights& weights, const std::string& name, const Numbers& x) {
  const Array& weight = weights.at(name + ".weight");
  const Array bias = weight_or_empty(weights, name + ".bias");
  Numbers out;
  for (std::int64_t i = 0; i < weight.size(0); ++i) {
    double total = bias.shape.empty() ? 0.0 : bias(i);
    for (std::int64_t j = 0; j < weight.size(1); ++j) total += weight(i, j) * x[static_cast<std::size_t>(j)];
    out.push_back(total);
  }
  return out;
}

/// Softmax over the entries for which `counts`; the others are zero.
template <class Counts>
Numbers softmax(const Numbers& logits, Counts counts) {
  double largest = -INFINITY, total = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (counts(i)) largest = std::max(largest, logits[i]);
  }
  Numbers out(logits.size(), 0.0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (counts(i)) total += out[i] = std::exp(logits[i] - largest);
  }
  for (double& value : out) value /= total;
  return out;
}

/// The places of the largest values, largest first.
struct Largest {
  std::vector<std::size_t> places;
  bool tied = false;  // with a value that is left out
};

Largest largest(const Numbers& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] > values[b]; });
  const bool tied = count < order.size() && values[order[count - 1]] == values[order[count]];
  order.resize(count);
  return {order, tied};
}

/// `ranking` with -inf for the experts of all groups but the best.
Numbers within_best_groups(const Experts& e, Numbers ranking) {
  const auto size = static_cast<std::size_t>(e.n_experts / e.n_groups);
  Numbers scores;
  for (std::size_t first = 0; first < ranking.size(); first += size) {
    Numbers group(ranking.begin() + static_cast<std::ptrdiff_t>(first),
                  ranking.begin() + static_cast<std::ptrdiff_t>(first + size));
    std::ranges::sort(group, std::greater<>());
    scores.push_back(e.group_score == GroupScore::best_two ? group[0] + group[1] : group[0]);
  }
  const auto open = largest(scores, static_cast<std::size_t>(e.groups_per_token)).places;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    if (std::ranges::find(open, i / size) == open.end()) ranking[i] = -INFINITY;
  }
  return ranking;
}

/// A router's output for one token.
struct Routed {
  Numbers weights;                   // [expert]
  std::vector<std::size_t> experts;  // [rank]
  Numbers ranked;                    // [rank], the weight of each chosen expert
  bool tied = false;                 // whether others weigh as much as the last of them
};

Routed route(const ModelConfig& config, const Weights& weights, const std::string& name, const Numbers& x) {
  const Experts& e = *config.experts;
  const Numbers logits = apply(weights, name + "W_gate", x);
  const auto count = static_cast<std::size_t>(e.per_token);
  Routed routed;
  if (e.router == RouterKind::softmax_then_choose || e.router == RouterKind::sigmoid_then_choose) {
    routed.weights = softmax(logits, [](std::size_t) { return true; });
    if (e.router == RouterKind::sigmoid_then_choose) {
      for (std::size_t i = 0; i < logits.size(); ++i) routed.weights[i] = 1.0 / (1.0 + std::exp(-logits[i]));
    }
    Numbers ranking = routed.weights;
    if (e.choice_bias) {
      for (std::size_t i = 0; i < ranking.size(); ++i) {
        ranking[i] += weights.at(name + "choice_bias")(static_cast<std::int64_t>(i));
      }
    }
    const Largest chosen = largest(within_best_groups(e, ranking), count);
    routed.experts = chosen.places;
    routed.tied = chosen.tied;
  } else if (e.router == RouterKind::choose_then_softmax) {
    const Largest chosen = largest(logits, count);
    routed.experts = chosen.places;
    routed.tied = chosen.tied;
    routed.weights = softmax(
        logits, [&](std::size_t i) { return std::ranges::find(routed.experts, i) != routed.experts.end(); });
  } else {
    routed.weights.assign(logits.size(), 0.0);
    std::vector<bool> taken(logits.size(), false);
    for (std::size_t rank = 0; rank < count; ++rank) {
      std::size_t best = logits.size();
      for (std::size_t i = 0; i < logits.size(); ++i) {
        if (!taken[i] && (best == logits.size() || logits[i] > logits[best])) best = i;
      }
      const auto near = [&](std::size_t i) {
        const double scale = std::max(std::abs(logits[i]), logits[best]);
        return !taken[i] && !((logits[best] - logits[i]) / scale > e.mixer_tolerance);
      };
      routed.weights[best] = softmax(logits, near)[best];
      routed.experts.push_back(best);
      taken[best] = true;
    }
  }
  double total = 0.0;
  for (const std::size_t expert : routed.experts) {
    routed.ranked.push_back(routed.weights[expert]);
    total += routed.weights[expert];
  }
  if (e.renormalised) {
    for (double& weight : routed.ranked) weight /= std::max(total, e.least_sum) + e.added_to_sum;
  }
  if (e.expert_scale) {
    for (std::size_t rank = 0; rank < count; ++rank) {
      routed.ranked[rank] *=
          weights.at(name + "expert_scale")(static_cast<std::int64_t>(routed.experts[rank]));
    }
  }
  return routed;
}

Numbers activated(const ModelConfig& config, const Numbers& gate, const Numbers& up) {
  const auto width = static_cast<std::int64_t>(gate.size());
  Array pre({width}), linear_branch({width});
  pre.values = gate;
  linear_branch.values = up;
  const Array input = held(config, pre);
  const Array on = activate_all(config.activation, input);
  return product(config, on, linear_branch).values;
}

void append_row(Array& rows, const Numbers& row) {
  rows.values.insert(rows.values.end(), row.begin(), row.end());
  ++rows.shape[0];
}

/// The shared expert times its gate.
Array shared_expert(const ModelConfig& config, const Weights& weights, const std::string& name,
                    const Array& x, Points& points) {
  const std::string shared = name + "shared_expert.";
  const auto bias = [&](const char* which) { return weight_or_empty(weights, shared + which); };
  const Array gate =
      points.keep(shared + "hook_pre", linear(x, weights.at(shared + "W_gate"), bias("b_gate")));
  const Array up =
      points.keep(shared + "hook_pre_linear", linear(x, weights.at(shared + "W_in"), bias("b_in")));
  Array post = gate;
  post.values = activated(config, gate.values, up.values);
  post = points.keep(shared + "hook_post", post);
  Array written = linear(post, weights.at(shared + "W_out"), bias("b_out"));
  Array weight({x.size(0), x.size(1), 1});
  std::fill(weight.values.begin(), weight.values.end(), 1.0);
  if (config.experts->shared_gate) {
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      const Numbers token(x.row(r), x.row(r) + x.last());
      weight.row(r)[0] = 1.0 / (1.0 + std::exp(-apply(weights, name + "shared_expert_gate", token)[0]));
    }
    weight = points.keep(shared + "hook_weight", weight);
  }
  for (std::int64_t r = 0; r < written.rows(); ++r) {
    for (std::int64_t m = 0; m < written.last(); ++m) written.row(r)[m] *= weight.row(r)[0];
  }
  return written;
}

}  // namespace

Array mixture(const ModelConfig& config, const Weights& weights, std::int64_t layer, const Array& stream,
              const Array& normed, const Sequence& sequence, Points& points) {
  const std::string name = sequence.stack + "." + std::to_string(layer) + ".mlp.";
  const Experts& e = *config.experts;
  const auto own_norm = [&](const std::string& which, const Array& read) {
    const std::string place = name + which;
    return apply_norm(norm_of(config, weights, config.norm, place), read, place, points);
  };
  const Array router_read = e.own_norms ? own_norm("router_ln", stream) : normed;
  const Array x = e.own_norms ? own_norm("experts_ln", stream) : normed;
  Array expert_weights({x.size(0), x.size(1), e.n_experts}), indices({x.size(0), x.size(1), e.per_token});
  std::vector<Routed> routed;  // by row and position
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    routed.push_back(
        route(config, weights, name, Numbers(router_read.row(r), router_read.row(r) + x.last())));
    std::ranges::copy(routed.back().weights, expert_weights.row(r));
    if (routed.back().tied) points.leave_undecided();
    for (std::int64_t k = 0; k < e.per_token; ++k) {
      indices.row(r)[k] = static_cast<double>(routed.back().experts[static_cast<std::size_t>(k)]);
    }
  }
  points.note(name + "hook_expert_weights", expert_weights);
  points.note(name + "hook_expert_indices", indices);

  Array out(x.shape);
  for (std::int64_t i = 0; i < e.n_experts; ++i) {
    const std::string expert = name + "experts." + std::to_string(i) + ".";
    Array reads({0, x.last()}), gates({0, e.d_expert}), ups({0, e.d_expert}), posts({0, e.d_expert});
    for (std::int64_t k = 0; k < e.per_token; ++k) {
      for (std::int64_t r = 0; r < x.rows(); ++r) {
        const bool real =
            sequence.real[static_cast<std::size_t>(r / x.size(1))][static_cast<std::size_t>(r % x.size(1))];
        const Routed& token = routed[static_cast<std::size_t>(r)];
        const auto rank = static_cast<std::size_t>(k);
        if (!real || token.experts[rank] != static_cast<std::size_t>(i)) continue;
        Numbers read(x.row(r), x.row(r) + x.last());
        if (e.weighted_inputs) {
          for (double& value : read) value *= token.ranked[rank];
        }
        append_row(reads, read);
        append_row(gates, apply(weights, expert + "W_gate", read));
        append_row(ups, apply(weights, expert + "W_in", read));
        const Numbers post =
            activated(config, apply(weights, expert + "W_gate", read), apply(weights, expert + "W_in", read));
        append_row(posts, post);
        const Numbers written = apply(weights, expert + "W_out", post);
        for (std::int64_t m = 0; m < out.last(); ++m) {
          out.row(r)[m] +=
              (e.weighted_inputs ? 1.0 : token.ranked[rank]) * written[static_cast<std::size_t>(m)];
        }
      }
    }
    if (e.weighted_inputs) points.note(expert + "hook_in", reads);
    points.note(expert + "hook_gate", gates);
    points.note(expert + "hook_pre", ups);
    points.note(expert + "hook_post", posts);
  }
  if (e.own_norms) out = own_norm("experts_ln_post", out);
  if (e.d_shared == 0) return out;
  const Array written = shared_expert(config, weights, name, normed, points);
  return sum(out, e.own_norms ? own_norm("shared_expert.ln_post", written) : written);
}

}  // namespace hooked::reference
