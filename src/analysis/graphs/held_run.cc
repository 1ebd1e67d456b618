// A run with everything held that makes a model linear, and gradients through it.
#include "analysis/graphs/held_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <array>
#include <utility>

#include "analysis/runs/sweep_input.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

/// What is held: everything on the way from the embeddings, or an MLP's output, to what an MLP or the
/// unembedding reads that is not linear.
constexpr std::array kHeldSites = {
    Site::embed_ln_scale, Site::ln1_scale,      Site::kv_latent_norm_scale,
    Site::v_norm_scale,   Site::pattern,        Site::head_gate,
    Site::conv_b,         Site::conv_c,         Site::ln1_post_scale,
    Site::ln2_scale,      Site::ln_final_scale,
};

bool is_held(Site site) {
  for (const Site held : kHeldSites) {
    if (held == site) return true;
  }
  return false;
}

}  // namespace

Input graph_input(const HookedTransformer& model, const Input& input, std::string_view where) {
  const SweepInput rows(model, input, where);
  if (rows.rows() != 1) {
    throw ShapeError(where,
                     fmt::format("a graph is about one prompt; expected tokens [pos] or [1, pos], got {} "
                                 "rows",
                                 rows.rows()));
  }
  Input row = rows.of_row(0, /*with_padding_behind=*/false);
  if (row.attention_mask.defined() && !row.attention_mask.all().item<bool>())
    throw ShapeError(where,
                     "the prompt has padding before or between its tokens; expected tokens without it");
  row.attention_mask = at::Tensor();
  if (!model.hooks().empty())
    throw HookError(where, "hooks are attached to the model; expected a copy of the handle, which has none");
  return row;
}

HeldRun::HeldRun(const HookedTransformer& model, const GraphCoders& coders, Input input,
                 std::int64_t excluded)
    : model_(model),
      coders_(coders),
      input_(std::move(input)),
      length_(input_.length()),
      first_(std::min(excluded, length_)),
      tokens_at_(ActivationName{.site = model.points().find(ActivationName{.site = Site::embed})
                                            ? Site::embed
                                            : Site::token_embed}) {
  Selection kept;
  for (const ActivationName& name : coders.needs()) kept = kept | name;
  for (const ActivationName& name : model.names()) {
    if (!name.host && is_held(name.site)) held_.push_back(name);
  }
  for (const ActivationName& name : held_) kept = kept | name;
  kept = kept | tokens_at_ | end_at();
  for (std::int64_t layer = 0; layer < layers(); ++layer) {
    kept = kept | mlp_at(layer);
    if (const auto reads = coders.reads(layer)) kept = kept | *reads;
  }
  const RunResult result =
      model.run(input_, {.capture = kept, .logit_positions = std::vector<std::int64_t>{length_ - 1}});
  run_ = result.cache;
  logits_ = result.logits().select(0, 0).select(0, 0).to(coders.dtype());
  for (std::int64_t layer = 0; layer < layers(); ++layer) {
    active_.push_back(coders.codes(layer) ? coders.active(layer, run_, first_)
                                          : ActiveFeatures{.pos = at::empty({0}, at::kLong),
                                                           .features = at::empty({0}, at::kLong),
                                                           .values = at::empty({0}, coders.dtype())});
  }
}

ActivationName HeldRun::in_layer(Site site, std::int64_t layer) const {
  return {.site = site, .stack = model_.config().main_stack(), .layer = static_cast<std::int32_t>(layer)};
}
ActivationName HeldRun::mlp_at(std::int64_t layer) const { return in_layer(Site::mlp_out, layer); }
ActivationName HeldRun::end_at() const { return {.site = Site::unembed_in}; }

at::Tensor HeldRun::of(const ActivationName& name) const {
  return run_[name].select(0, 0).to(coders_.dtype());
}
at::Tensor HeldRun::embedded() const { return of(tokens_at_); }
at::Tensor HeldRun::mlp_out(std::int64_t layer) const { return of(mlp_at(layer)); }
at::Tensor HeldRun::read(std::int64_t layer) const { return of(coders_.reads(layer).value()); }
at::Tensor HeldRun::end() const { return of(end_at()).select(0, 0); }

at::Tensor HeldRun::skipped(std::int64_t layer, const at::Tensor& x) const {
  const at::Tensor W_skip = coders_.skip(layer);
  return W_skip.defined() ? at::matmul(x, W_skip.t()) : at::Tensor();
}

at::Tensor HeldRun::constant(std::int64_t layer) const {
  at::Tensor value = mlp_out(layer).clone();
  if (coders_.skip(layer).defined()) value -= skipped(layer, read(layer));
  const at::Tensor bias = coders_.codes(layer) ? coders_.bias(layer) : at::Tensor();
  value.slice(0, first_).zero_();
  if (bias.defined()) value.slice(0, first_) += bias;
  return value;
}

std::vector<Hook> HeldRun::holding(bool patterns) const {
  std::vector<Hook> hooks;
  for (const ActivationName& name : held_) {
    if (patterns && name.site != Site::pattern) continue;
    hooks.push_back(Hook(Selection(name), [value = run_[name]](const at::Tensor& x) {
      return value.to(x.scalar_type()).expand_as(x);
    }));
  }
  return hooks;
}

Input HeldRun::copies(std::int64_t rows) const {
  Input many = input_;
  for (at::Tensor* each : {&many.tokens, &many.token_types}) {
    if (each->defined()) *each = each->expand({rows, length_}).contiguous();
  }
  return many;
}

/// What a backward pass is about; the hooks in the graph read it.
struct LinearRun::Passing {
  const std::vector<ReadDirection>* directions = nullptr;
  const Visit* visit = nullptr;
  const std::optional<HeadsOf>* heads = nullptr;
  at::ScalarType dtype;

  /// The gradient at what features of a layer read, with that of the directions there.
  at::Tensor with_directions(const at::Tensor& gradient, std::int64_t layer) const {
    at::Tensor sum;
    for (std::size_t row = 0; row < directions->size(); ++row) {
      const ReadDirection& one = (*directions)[row];
      if (one.layer != layer) continue;
      if (!sum.defined()) sum = gradient.clone();
      sum[static_cast<std::int64_t>(row)][one.pos] += one.direction.to(sum.options());
    }
    return sum.defined() ? sum : gradient;
  }
};

LinearRun::LinearRun(const HeldRun& held, std::int64_t rows, bool by_heads)
    : rows_(rows),
      layers_(held.layers()),
      passing_(std::make_shared<Passing>()),
      constant_reads_(static_cast<std::size_t>(held.layers())) {
  const auto passing = passing_;
  passing->dtype = held.coders().dtype();
  const at::Tensor start =
      at::zeros({1}, at::TensorOptions(held.model().dtype()).device(held.model().device()))
          .requires_grad_(true);
  const auto seen = [passing](const at::Tensor& x, std::int64_t layer) {
    x.register_hook([passing, layer](const at::Tensor& gradient) {
      (*passing->visit)(layer, gradient.to(passing->dtype));
      return gradient;
    });
  };
  std::vector<Hook> hooks = held.holding();
  hooks.push_back(Hook(Selection(held.tokens_at()), [&](const at::Tensor& x) {
    const at::Tensor nothing = at::zeros_like(x) + start.to(x.device());
    seen(nothing, -1);
    return nothing;
  }));
  std::vector<at::Tensor> reads(constant_reads_.size());
  for (std::int64_t layer = 0; layer < layers_; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    if (const auto name = held.coders().reads(layer)) {
      hooks.push_back(Hook(Selection(*name), [&, passing, layer, at](const at::Tensor& x) {
        // What the MLP reads leads nowhere: the gradient of a direction enters at a tensor that the MLP's
        // place depends on.
        reads[at] = x.view_as(x);
        reads[at].register_hook([passing, layer](const at::Tensor& gradient) {
          return passing->with_directions(gradient, layer);
        });
        constant_reads_[at] = x.detach().select(0, 0).to(passing->dtype).clone();
      }));
    }
    hooks.push_back(Hook(Selection(held.mlp_at(layer)), [&, layer, at](const at::Tensor& x) {
      at::Tensor written = held.constant(layer).to(x.scalar_type()).expand_as(x) + start.to(x.device());
      if (const at::Tensor& read = reads[at]; read.defined()) {
        const at::Tensor skipped = held.skipped(layer, read.to(held.coders().dtype()));
        const at::Tensor nothing = (read * 0).sum(-1, true).to(x.scalar_type());
        written = written + (skipped.defined() ? skipped.to(x.scalar_type()) + nothing : nothing);
      }
      seen(written, layer);
      return written;
    }));
    if (by_heads && held.model().config().attends(layer)) {
      hooks.push_back(Hook(Selection(held.in_layer(Site::z, layer)), [passing, layer](const at::Tensor& z) {
        const at::Tensor same = z.view_as(z);
        same.register_hook([passing, layer](const at::Tensor& gradient) {
          if (!*passing->heads || (*passing->heads)->layer != layer) return gradient;
          const at::Tensor pass = (*passing->heads)->pass.to(gradient.options());  // [row, head]
          return gradient * pass.unsqueeze(1).unsqueeze(-1);
        });
        return same;
      }));
    }
  }
  hooks.push_back(Hook(Selection(held.end_at()), [&](const at::Tensor& x) { end_ = x.view_as(x); }));
  held.model().run(held.copies(rows), {.hooks = hooks,
                                       .output = Output::none,
                                       .logit_positions = std::vector<std::int64_t>{held.length() - 1},
                                       .differentiable = true});
  constant_end_ = end_.detach().select(0, 0).select(0, 0).to(passing->dtype).clone();
}

const at::Tensor& LinearRun::constant_read(std::int64_t layer) const {
  return constant_reads_.at(static_cast<std::size_t>(layer));
}

void LinearRun::back(const std::vector<ReadDirection>& directions, const Visit& visit,
                     const std::optional<HeadsOf>& heads) const {
  passing_->directions = &directions;
  passing_->visit = &visit;
  passing_->heads = &heads;
  at::Tensor seed = at::zeros_like(end_).detach();
  for (std::size_t row = 0; row < directions.size(); ++row) {
    if (directions[row].layer == layers_)
      seed[static_cast<std::int64_t>(row)][0] += directions[row].direction.to(seed.options());
  }
  end_.backward(seed, /*retain_graph=*/true);
}

}  // namespace hooked
