#include "analysis/stream_path.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/cache_reading.h"
#include "analysis/numberless.h"
#include "analysis/work_steps.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

/// Follows the stream block by block until it comes to where it is to end.
class PathFinder {
 public:
  PathFinder(const ActivationName& of, const Split& split, const RunReading& run)
      : of_(of), split_(split), run_(run), config_(run.model.config()), stack_(stack_of(of)) {}

  StreamPath find() && {
    if (sublayer_alone()) return std::move(path_);
    if (embedding()) return std::move(path_);
    const auto layers = stack_ == Stack::encoder ? config_.n_encoder_layers() : config_.n_layers;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      if (block({stack_, layer})) return std::move(path_);
    }
    const auto last = stack_ == Stack::encoder ? Site::encoder_final_ln_normalized
                      : config_.has_encoder()  ? Site::decoder_final_ln_normalized
                                               : Site::ln_final_normalized;
    if (read_by({.site = last})) return std::move(path_);
    throw HookError(
        of_.to_string(),
        "this is not made by adding up what was written to the stream; expected a point of the stream "
        "(resid_pre, resid_mid, resid_post, ...), what a norm makes of it (ln1_normalized, ...) or what a "
        "sublayer adds to it (attn_out, mlp_out)");
  }

 private:
  // The points of the embedding are the encoder's where there is one.
  Stack stack_of(const ActivationName& of) const {
    if (of.stack != Stack::none) return of.stack;
    if (!config_.has_encoder()) return Stack::blocks;
    return row(of.site).scope == SiteScope::exit ? Stack::decoder : Stack::encoder;
  }

  ActivationName in_block(Site site, const BlockPlace& block) const {
    return {.site = site, .stack = block.stack, .layer = static_cast<std::int32_t>(block.layer)};
  }

  void write(std::vector<Writing> written) { path_.push_back({.written = std::move(written)}); }

  /// Whether the path ends at this point.
  bool at(Site site, const BlockPlace& block) const { return of_ == in_block(site, block); }

  /// Whether it ends with what a norm beside the stream makes of it here.
  bool read_by(const ActivationName& normalized) {
    if (of_ != normalized) return false;
    path_.push_back({.norm = run_.division(stream_norm_at(run_.model, normalized))});
    return true;
  }

  /// The same for the norms through which an MLP reads, or a mixture's router and experts.
  bool read_by_mlp(const BlockPlace& block) {
    const auto norms = {Site::ln2_normalized, Site::router_ln_normalized, Site::experts_ln_normalized};
    return std::ranges::any_of(norms, [&](Site site) { return read_by(in_block(site, block)); });
  }

  /// The stream itself is normed; whether the path ends with what that makes, before weight and bias.
  bool norm(const ActivationName& normalized, const std::string& bias) {
    if (read_by(normalized)) return true;
    const auto norm = stream_norm_at(run_.model, normalized);
    StreamStep step{.norm = run_.frozen(norm)};
    if (norm.bias.defined()) step.written.push_back(constant_part(bias, norm.bias, run_));
    path_.push_back(std::move(step));
    return false;
  }
  bool norm(Site normalized, const BlockPlace& block, const char* name) {
    return norm(in_block(normalized, block), fmt::format("{} bias {}", name, block.layer));
  }

  /// What a sublayer adds, by itself.
  bool sublayer_alone() {
    const BlockPlace block{of_.stack, of_.layer};
    switch (of_.site) {
      case Site::attn_out:
        return write(attention_written(block, split_, run_)), true;
      case Site::cross_attn_out:
        return write(cross_attention_written(block, split_, run_)), true;
      case Site::mlp_out:
        return write(mlp_written(block, split_, run_)), true;
      case Site::layer_input_out:
        return write({layer_input_part(block)}), true;
      default:
        return false;
    }
  }

  bool embedding() {
    // A decoder's embedding has no points of its own.
    if (stack_ == Stack::decoder) return write({kept_part("embed", act::resid_pre(0), run_)}), false;
    if (!config_.summed_embedding()) {
      std::vector<Writing> written{kept_part("embed", act::embed, run_)};
      if (config_.learned_positions()) written.push_back(kept_part("pos_embed", act::pos_embed, run_));
      return write(std::move(written)), false;
    }
    std::vector<Writing> written{kept_part("embed", act::token_embed, run_)};
    if (config_.learned_positions()) written.push_back(kept_part("pos_embed", act::position_embed, run_));
    if (config_.token_types > 0)
      written.push_back(kept_part("token_type_embed", act::token_type_embed, run_));
    write(std::move(written));
    if (config_.embedding_sum_norm && norm({.site = Site::embed_ln_normalized}, "embed norm bias"))
      return true;
    return of_.site == Site::full_embed;
  }

  bool block(const BlockPlace& block) {
    if (at(Site::resid_pre, block)) return true;
    return config_.norms_stream() && config_.norm_place == NormPlace::post ? post_normed(block)
                                                                           : other_block(block);
  }

  bool post_normed(const BlockPlace& block) {
    write(attention_written(block, split_, run_));
    if (at(Site::resid_mid, block)) return true;
    if (norm(Site::ln1_normalized, block, "ln1")) return true;
    if (!config_.has_mlp()) return at(Site::resid_post, block);
    const bool crosses = block.stack == Stack::decoder && config_.has_encoder();
    if (crosses) {
      if (at(Site::cross_attn_in, block)) return true;
      write(cross_attention_written(block, split_, run_));
      if (at(Site::resid_mid_cross, block) || norm(Site::ln2_normalized, block, "ln2")) return true;
    }
    write(mlp_written(block, split_, run_));
    if (at(Site::resid_post, block)) return true;
    return norm(crosses ? Site::ln3_normalized : Site::ln2_normalized, block, crosses ? "ln3" : "ln2") ||
           at(Site::normalized_resid_post, block);
  }

  bool other_block(const BlockPlace& block) {
    const bool on_stream = config_.norms_stream();
    if (on_stream ? norm(Site::ln1_normalized, block, "ln1") : read_by(in_block(Site::ln1_normalized, block)))
      return true;
    if (config_.parallel() && read_by_mlp(block)) return true;
    write(attention_written(block, split_, run_));
    if (config_.has_mlp()) {
      if (!config_.parallel()) {
        if (at(Site::resid_mid, block)) return true;
        if (on_stream ? norm(Site::ln2_normalized, block, "ln2") : read_by_mlp(block)) return true;
      }
      if (block.stack == Stack::decoder && config_.has_encoder()) {
        if (at(Site::cross_attn_in, block)) return true;
        write(cross_attention_written(block, split_, run_));
        if (at(Site::resid_mid_cross, block) || read_by(in_block(Site::ln3_normalized, block))) return true;
      }
      write(mlp_written(block, split_, run_));
    }
    if (config_.layer_input) {
      if (at(Site::resid_mid_mlp, block)) return true;
      write({layer_input_part(block)});
    }
    return scaled(block) || at(Site::resid_post, block);
  }

  Writing layer_input_part(const BlockPlace& block) const {
    return kept_part(fmt::format("layer input {}", block.layer), in_block(Site::layer_input_out, block),
                     run_);
  }

  /// The block's number multiplies the stream where it has one; whether the path ends before that.
  bool scaled(const BlockPlace& block) {
    if (!config_.layer_scale) return false;
    if (at(Site::resid_sum, block)) return true;
    path_.push_back({.norm = scale_of_stream(run_.model, block)});
    return false;
  }

  ActivationName of_;
  Split split_;
  const RunReading& run_;
  const ModelConfig& config_;
  Stack stack_;
  StreamPath path_;
};

/// All parts in one tensor, with the remainder behind them. Neurons are many: nothing of them is kept twice.
Parts with_remainder(const StreamPath& path, std::vector<at::Tensor> values, const at::Tensor& whole) {
  auto rest = whole;
  for (const auto& part : values) rest = rest - part.sum(0);
  values.push_back(rest.unsqueeze(0));
  return {.axis = part_axis(path), .values = at::cat(values)};
}

}  // namespace

RunReading reading_of(const HookedTransformer& model, const ActivationCache& cache, const ReadAt& at) {
  require_cache_of(model, cache, "cache");
  return {model, cache, columns_of(cache, at.like, at.positions)};
}

at::Tensor RunReading::operator()(const Address& address) const {
  return read_columns(cache, address, columns).to(at::kCPU, at::kDouble);
}

FrozenNorm RunReading::frozen(const StreamNorm& norm) const {
  return {.centres = norm.centres(), .scale = (*this)(norm.scale), .weight = norm.weight};
}

FrozenNorm RunReading::division(const StreamNorm& norm) const {
  return {.centres = norm.centres(), .scale = (*this)(norm.scale)};
}

at::Tensor Writing::vectors() const {
  auto x = values();
  if (matrix) x = at::einsum("rpuw,uwm->rpum", {x, matrix()});
  x = x.movedim(2, 0);
  for (const auto& norm : through) x = norm.of(x);
  return x;
}

at::Tensor Writing::before_norms(at::Tensor directions) const {
  for (auto norm = through.rbegin(); norm != through.rend(); ++norm) directions = norm->before(directions);
  return directions;
}

at::Tensor Writing::along(const at::Tensor& directions) const {
  const auto seen = before_norms(directions);
  const auto x = values();
  if (!matrix) return at::einsum("rpum,rpnm->urpn", {x, seen});
  return at::einsum("rpuw,rpnuw->urpn", {x, at::einsum("uwm,rpnm->rpnuw", {matrix(), seen})});
}

StreamPath path_to(const ActivationName& of, const Split& split, const RunReading& run) {
  return PathFinder(of, split, run).find();
}

ActivationName end_of_stream(const ModelConfig& config, Stack stack) {
  const bool normed = config.norms_stream() && config.norm_place == NormPlace::post && config.has_mlp();
  const auto in = stack == Stack::none ? config.main_stack() : stack;
  const auto layers = in == Stack::encoder ? config.n_encoder_layers() : config.n_layers;
  return {.site = normed ? Site::normalized_resid_post : Site::resid_post,
          .stack = in,
          .layer = static_cast<std::int32_t>(layers - 1)};
}

void append(GridAxis& axis, const Writing& writing) {
  axis.labels.insert(axis.labels.end(), writing.labels.begin(), writing.labels.end());
  axis.places.insert(axis.places.end(), writing.places.begin(), writing.places.end());
}

GridAxis part_axis(const StreamPath& path) {
  GridAxis axis{.name = "part", .labels = {}};
  for (const auto& step : path) {
    for (const auto& writing : step.written) append(axis, writing);
  }
  axis.labels.emplace_back("remainder");
  axis.places.emplace_back(std::nullopt);
  return axis;
}

void walk_back(const StreamPath& path, at::Tensor directions,
               const std::function<void(const Writing& writing, const at::Tensor& seen)>& use) {
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    for (auto writing = step->written.rbegin(); writing != step->written.rend(); ++writing)
      use(*writing, directions);
    if (step->norm) directions = step->norm->before(directions);
  }
}

void walk_forward(const StreamPath& path,
                  const std::function<bool(const Writing& writing, const at::Tensor& vectors)>& use) {
  for (auto step = path.begin(); step != path.end(); ++step) {
    for (const auto& writing : step->written) {
      auto vectors = writing.vectors();
      for (auto later = step + 1; later != path.end(); ++later) {
        if (later->norm) vectors = later->norm->of(vectors);
      }
      if (!use(writing, vectors)) return;
    }
  }
}

Parts vectors_along(const StreamPath& path, const at::Tensor& whole) {
  std::vector<at::Tensor> values;
  walk_forward(path, [&](const Writing&, const at::Tensor& vectors) {
    values.push_back(vectors);
    return true;
  });
  return with_remainder(path, std::move(values), whole);
}

Parts directions_along(const StreamPath& path, const at::Tensor& whole, const at::Tensor& directions,
                       const std::function<bool(const SweepProgress&)>& watch) {
  std::int64_t writings = 0;
  for (const auto& step : path) writings += static_cast<std::int64_t>(step.written.size());
  const WorkSteps steps(writings, watch);
  std::vector<at::Tensor> values;  // the last first
  bool going_on = true;
  walk_back(path, directions, [&](const Writing& writing, const at::Tensor& seen) {
    const auto parts = static_cast<std::int64_t>(writing.labels.size());
    values.push_back(going_on ? writing.along(seen)
                              : numberless({parts, seen.size(0), seen.size(1), seen.size(2)}));
    going_on = going_on && steps.done(static_cast<std::int64_t>(values.size()));
  });
  std::ranges::reverse(values);
  return with_remainder(path, std::move(values), at::einsum("rpm,rpnm->rpn", {whole, directions}));
}

}  // namespace hooked
