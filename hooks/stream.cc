#include "hooks/stream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace hooked {
namespace {

using Kind = StreamStep::Kind;

/// Follows the stream from the embedding to its end.
class Follower {
 public:
  Follower(const ModelConfig& config, Stack stack)
      : config_(config),
        stack_(stack == Stack::none ? config.main_stack() : stack),
        norms_stream_(config.norms_stream()),
        after_additions_(norms_stream_ && config.norm_place == NormPlace::post) {}

  std::vector<StreamStep> follow() && {
    embedding();
    const auto layers = stack_ == Stack::encoder ? config_.n_encoder_layers() : config_.n_layers;
    for (block_ = {stack_, 0}; block_.layer < layers; ++block_.layer) block();
    end();
    return std::move(steps_);
  }

 private:
  /// In this block, if the site is in blocks.
  ActivationName at(Site site) const {
    ActivationName name{.site = site};
    if (row(site).scope != SiteScope::block) return name;
    name.stack = block_.stack;
    name.layer = static_cast<std::int32_t>(block_.layer);
    return name;
  }
  bool has(Part part) const { return hooked::has(config_, part, block_); }

  void show(Site site) { steps_.push_back({Kind::show, stack_, Part::always, at(site)}); }
  void norm(Part part, Site normalized, std::string_view module) {
    steps_.push_back({Kind::norm, stack_, part, at(normalized), {}, module});
  }
  /// A norm that a step passes; not one on the stream itself.
  struct Passed {
    bool there;
    Site normalized;
  };
  void step(Kind kind, Part part, Site site, std::string_view module, std::initializer_list<Passed> norms) {
    StreamStep made{kind, stack_, part, at(site), {}, module};
    for (const Passed& passed : norms) {
      if (passed.there) made.through.push_back(at(passed.normalized));
    }
    steps_.push_back(std::move(made));
  }
  void read(Part part, Site site, std::string_view module, std::initializer_list<Passed> norms = {}) {
    step(Kind::read, part, site, module, norms);
  }
  void write(Part part, Site site, std::string_view module, std::initializer_list<Passed> norms = {}) {
    step(Kind::write, part, site, module, norms);
  }

  void embedding() {
    block_ = {stack_, 0};
    // A decoder's embedding has no points of its own.
    if (stack_ == Stack::decoder) return write(Part::plain_embedding, Site::resid_pre, "embed");
    const bool summed = config_.summed_embedding();
    write(summed ? Part::summed_embedding : Part::plain_embedding, summed ? Site::token_embed : Site::embed,
          "embed");
    if (config_.learned_positions())
      write(Part::position_embedding, summed ? Site::position_embed : Site::pos_embed, "pos_embed");
    if (!summed) return;
    if (config_.token_types > 0) write(Part::token_types, Site::token_type_embed, "token_type_embed");
    if (config_.embedding_sum_norm) norm(Part::embedding_norm, Site::embed_ln_normalized, "embed norm");
    show(Site::full_embed);
  }

  /// The token mixer of this block.
  Part mixer() const {
    return *std::find_if(kMixers.begin(), kMixers.end(), [&](Part part) { return has(part); });
  }

  void block() {
    const bool crosses = has(Part::cross_attention);
    show(Site::resid_pre);
    if (norms_stream_ && !after_additions_) norm(Part::ln1, Site::ln1_normalized, "ln1");
    read(mixer(), Site::attn_in, config_.mixer(block_.layer),
         {{config_.reads_through_ln1(block_.layer), Site::ln1_normalized}});
    if (has(Part::mlp) && config_.parallel()) read_mlp(Site::ln2_normalized);
    write(mixer(), Site::attn_out, config_.mixer(block_.layer),
          {{has(Part::ln1_post), Site::ln1_post_normalized}});
    if (has(Part::serial_mlp)) show(Site::resid_mid);
    if (after_additions_) norm(Part::ln1, Site::ln1_normalized, "ln1");
    if (has(Part::serial_mlp) && norms_stream_ && !after_additions_)
      norm(Part::ln2, Site::ln2_normalized, "ln2");
    if (crosses) {
      read(Part::cross_attention, Site::cross_attn_in, "cross attn",
           {{config_.norms_inputs(block_.layer), Site::ln2_normalized}});
      write(Part::cross_attention, Site::cross_attn_out, "cross attn");
      show(Site::resid_mid_cross);
      if (after_additions_) norm(Part::ln2, Site::ln2_normalized, "ln2");
    }
    if (has(Part::mlp)) {
      if (!config_.parallel()) read_mlp(crosses ? Site::ln3_normalized : Site::ln2_normalized);
      write(mlp(), Site::mlp_out, "mlp", {{has(Part::ln2_post), Site::ln2_post_normalized}});
    }
    if (has(Part::layer_input)) {
      show(Site::resid_mid_mlp);
      read(Part::layer_input, Site::resid_mid_mlp, "layer input");
      write(Part::layer_input, Site::layer_input_out, "layer input",
            {{true, Site::layer_input_ln_post_normalized}});
    }
    if (has(Part::layer_scale))
      steps_.push_back({Kind::scale, stack_, Part::layer_scale, at(Site::resid_sum)});
    show(Site::resid_post);
    if (!has(Part::normed_sum)) return;
    norm(crosses ? Part::ln3 : Part::ln2, crosses ? Site::ln3_normalized : Site::ln2_normalized,
         crosses ? "ln3" : "ln2");
    show(Site::normalized_resid_post);
  }

  Part mlp() const { return has(Part::mixture) ? Part::mixture : Part::dense_mlp; }
  void read_mlp(Site normalized) {
    const bool own_norms = has(Part::expert_norms);
    read(mlp(), Site::mlp_in, "mlp",
         {{config_.norms_inputs(block_.layer), normalized},
          {own_norms, Site::router_ln_normalized},
          {own_norms, Site::experts_ln_normalized}});
  }

  void end() {
    block_ = {Stack::none, -1};
    const bool encoder = stack_ == Stack::encoder;
    using Final = std::pair<Part, Site>;
    const auto [part, normalized] =
        encoder                 ? Final{Part::encoder_final_norm, Site::encoder_final_ln_normalized}
        : config_.has_encoder() ? Final{Part::decoder_final_norm, Site::decoder_final_ln_normalized}
                                : Final{Part::final_norm, Site::ln_final_normalized};
    StreamStep last{Kind::read,          stack_, encoder ? Part::cross_attention : Part::unembedding,
                    steps_.back().point, {},     encoder ? "cross attn" : "logits"};
    if (has(part)) last.through.push_back(at(normalized));
    steps_.push_back(std::move(last));
  }

  const ModelConfig& config_;
  Stack stack_;
  bool norms_stream_, after_additions_;
  BlockPlace block_;
  std::vector<StreamStep> steps_;
};

}  // namespace

std::string StreamStep::label(std::string_view between) const {
  const std::string named = between.empty() ? std::string(module) : fmt::format("{} {}", module, between);
  return in_block() && module != "embed" && !reads_end() ? fmt::format("{} {}", named, point.layer) : named;
}

std::string StreamStep::part_label(std::string_view kind, std::int64_t number) const {
  return fmt::format("{}{} {}.{}", part == Part::cross_attention ? "cross " : "", kind, point.layer, number);
}

Site cross_site(Site plain) {
  const std::string word = fmt::format("cross_{}", row(plain).word);
  return std::ranges::find(site_table(), word, &SiteRow::word)->site;
}

ActivationName StreamStep::of_attention(Site plain) const {
  ActivationName name = point;
  name.site = crosses() ? cross_site(plain) : plain;
  return name;
}

bool StreamStep::mixes_own_tokens() const {
  return std::find(kMixers.begin(), kMixers.end(), part) != kMixers.end();
}

bool StreamStep::shows_within_block() const {
  const bool edge = point.site == Site::resid_pre || point.site == Site::resid_post ||
                    point.site == Site::normalized_resid_post;
  return kind == Kind::show && in_block() && !edge;
}

std::vector<StreamStep> stream_of(const ModelConfig& config, Stack stack) {
  return Follower(config, stack).follow();
}

const StreamStep* step_in(const std::vector<StreamStep>& steps, StreamStep::Kind kind,
                          bool (StreamStep::*which)() const, std::int64_t layer) {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const StreamStep& step) {
    return step.kind == kind && step.in_block() && step.point.layer == layer && (step.*which)() &&
           !step.reads_end();
  });
  return found == steps.end() ? nullptr : &*found;
}

const ActivationName& shown_before(const StreamStep* step) {
  while (step->kind != Kind::show) --step;
  return step->point;
}

std::optional<ActivationName> norm_before_values(const ModelConfig& config, const StreamStep& write) {
  const std::vector<StreamStep> steps = stream_of(config, write.crosses() ? Stack::encoder : write.stack);
  const StreamStep* read = write.crosses()
                               ? &steps.back()
                               : step_in(steps, Kind::read, &StreamStep::mixes_own_tokens, write.point.layer);
  return read->through.empty() ? std::nullopt : std::optional(read->through.front());
}

std::set<ActivationName> stream_beginnings(const ModelConfig& config) {
  std::set<ActivationName> beginnings;
  for (const Stack stack : stacks_of(config)) {
    for (const StreamStep& step : stream_of(config, stack)) {
      const bool embeds = step.kind == Kind::write && !step.by_sublayer();
      const bool first = step.point.site == Site::resid_pre && step.point.layer == 0;
      if (embeds || first) beginnings.insert(step.point);
    }
  }
  return beginnings;
}

std::vector<Stack> stacks_of(const ModelConfig& config) {
  if (config.has_encoder()) return {Stack::encoder, Stack::decoder};
  return {Stack::blocks};
}

ActivationName end_of_stream(const ModelConfig& config, Stack stack) {
  const std::vector<StreamStep> steps = stream_of(config, stack);
  const auto last = std::find_if(steps.rbegin(), steps.rend(),
                                 [](const StreamStep& step) { return step.kind == Kind::show; });
  return last->point;
}

std::vector<StreamWriter> sublayers(const ModelConfig& config, Stack stack) {
  std::vector<StreamWriter> all;
  for (const Stack of : stack == Stack::none ? stacks_of(config) : std::vector{stack}) {
    for (const StreamStep& step : stream_of(config, of)) {
      if (!step.by_sublayer()) continue;
      for (StreamWriter& writer : writers_of(config, step)) all.push_back(std::move(writer));
    }
  }
  return all;
}

std::string points_of(const std::vector<StreamWriter>& writers) {
  std::vector<std::string_view> words;
  for (const StreamWriter& writer : writers) {
    const std::string_view word = row(writer.place.name().site).word;
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string in_stack(const std::string& label, Stack stack) {
  return stack == Stack::encoder ? "encoder " + label : label;
}

std::vector<StreamWriter> writers_of(const ModelConfig& config, const StreamStep& write) {
  if (!write.of_heads()) return {{in_stack(write.label(), write.stack), Address(write.point)}};
  std::vector<StreamWriter> heads;
  const Address z(write.of_attention(Site::z));
  for (std::int64_t head = 0; head < config.n_heads; ++head)
    heads.push_back({in_stack(write.part_label("head", head), write.stack), z.head(head)});
  return heads;
}

}  // namespace hooked
