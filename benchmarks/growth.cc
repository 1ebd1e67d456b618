// How does cost grow with work: tokens, rows, layers, heads, hooks, edits, patches, new tokens, callers?
//
//   bench_growth [--quick] [--only NAME] [--threads N] [--docs DOCS] [--json FILE]
//
// Models of GPT-2-small's shape with random weights, float32. Each curve is a grid of costs per unit of work,
// so that a level line is cost in proportion. The exponent is that of the whole cost between the last two
// places: 1 is in proportion, 2 quadratic. --docs writes the table of docs/speed.md and the pictures next to
// it.
#include <ATen/ops/randint.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <thread>

#include "benchmarks/growth_curve.h"
#include "benchmarks/page.h"
#include "benchmarks/shapes.h"
#include "benchmarks/timing.h"
#include "core/json.h"

namespace {

using hooked::HookedTransformer;
namespace act = hooked::act;

/// How much time may be spent.
struct Effort {
  bool quick;
  int repeats() const { return quick ? 2 : 5; }
  std::int64_t most(std::int64_t full, std::int64_t in_quick) const { return quick ? in_quick : full; }
};

/// Seconds of `work`, the median over repeats after a warm-up. Long work is repeated less.
double time_of(const Effort& effort, const std::function<void()>& work) {
  const double first = seconds_of(work);
  if (first > 10 || (effort.quick && first > 2)) return first;
  std::vector<double> seconds;
  for (int i = 0; i < effort.repeats() && (seconds.size() < 2 || first * i < 4); ++i)
    seconds.push_back(seconds_of(work));
  return median(seconds);
}

std::vector<std::int64_t> doubled(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> places;
  for (; first <= last; first *= 2) places.push_back(first);
  return places;
}

std::vector<std::int64_t> up_to(std::vector<std::int64_t> places, std::int64_t most) {
  std::erase_if(places, [&](std::int64_t place) { return place > most; });
  return places;
}

/// GPT-2-small's shape with room for long inputs.
void long_gpt2(hooked::ModelConfig& config) { config.n_ctx = 4096; }
constexpr Shape kLongGpt2{"long_gpt2", long_gpt2};
constexpr Shape kLongWindowed{"windowed", shapes::windowed};

at::Tensor random_tokens(const HookedTransformer& model, std::int64_t rows, std::int64_t columns) {
  return at::randint(0, model.config().d_vocab, {rows, columns}, at::kLong);
}

hooked::RunOptions last_logits() { return {.logit_positions = {{-1}}}; }

Curve tokens(const Effort& effort) {
  const std::vector<const Shape*> models{&kLongGpt2, &kLongWindowed, &shapes::kMixture};
  return measured({.name = "tokens",
                   .description = {"A run by its length", "ms a token, one row, logits of the last position"},
                   .line_axis = "model",
                   .axis = "tokens",
                   .per_unit = true,
                   .plot = kLevel,
                   .places = doubled(16, effort.most(4096, 512)),
                   .lines = {"GPT-2 small", "windows of 256", "mixture"}},
                  [&](std::size_t line, std::int64_t length) {
                    const HookedTransformer& model = model_of(*models[line]);
                    const at::Tensor input = random_tokens(model, 1, length);
                    return 1e3 * time_of(effort, [&] { model.run(input, last_logits()); }) /
                           static_cast<double>(length);
                  });
}

Curve rows(const Effort& effort) {
  const std::vector<const Shape*> models{&kLongGpt2, &shapes::kMixture};
  return measured({.name = "rows",
                   .description = {"A run by its rows", "ms a row of 32 tokens, logits of the last position"},
                   .line_axis = "model",
                   .axis = "rows",
                   .per_unit = true,
                   .plot = kLevel,
                   .places = doubled(1, effort.most(64, 16)),
                   .lines = {"GPT-2 small", "mixture"}},
                  [&](std::size_t line, std::int64_t count) {
                    const HookedTransformer& model = model_of(*models[line]);
                    const at::Tensor input = random_tokens(model, count, 32);
                    return 1e3 * time_of(effort, [&] { model.run(input, last_logits()); }) /
                           static_cast<double>(count);
                  });
}

Curve layers(const Effort& effort) {
  return measured(
      {.name = "layers",
       .description = {"A run by the model's layers", "ms a layer, 1 × 128, logits of the last position"},
       .line_axis = "kept",
       .axis = "layers",
       .per_unit = true,
       .plot = kLevel,
       .places = doubled(1, effort.most(32, 16)),
       .lines = {"nothing", "default points", "gradients at the stream"}},
      [&](std::size_t line, std::int64_t count) {
        auto config = config_of(shapes::kGpt2Small);
        config.n_layers = count;
        config.d_vocab = 1000;  // so that mainly the layers are timed
        config.unembedding = hooked::Unembedding{.d_vocab = config.d_vocab};
        const auto model = HookedTransformer::create(config);
        const at::Tensor input = random_tokens(model, 1, 128);
        auto options = last_logits();
        if (line == 1) options.capture = act::defaults;
        if (line == 2) {
          options.gradients = hooked::GradientRequest{
              .of = act::resid_pre,
              .metric = {[](const at::Tensor& logits) { return logits.select(-1, 7).sum(); }}};
        }
        return 1e3 * time_of(effort, [&] { model.run(input, options); }) / static_cast<double>(count);
      });
}

double sweep_seconds(const Effort& effort, const HookedTransformer& model, std::int64_t length,
                     act::BlockSite site, const std::vector<hooked::SweptAxis>& over) {
  const auto from = model.run_with_cache(random_tokens(model, 1, length), site).cache;
  const hooked::SweepOptions options{.site = site,
                                     .over = over,
                                     .from = from,
                                     .into = random_tokens(model, 1, length),
                                     .metric = hooked::logit_difference(11, 7)};
  return time_of(effort, [&] { hooked::sweep(model, options); });
}

Curve heads(const Effort& effort) {
  return measured({.name = "heads",
                   .description = {"Patching every head of every layer, by the model's heads",
                                   "ms a patched head, 15 tokens"},
                   .line_axis = "patched",
                   .axis = "heads",
                   .per_unit = true,
                   .plot = kLevel,
                   .places = up_to({2, 4, 8, 12, 24, 48}, effort.most(48, 12)),
                   .lines = {"z", "pattern"}},
                  [&](std::size_t line, std::int64_t count) {
                    auto config = config_of(shapes::kGpt2Small);
                    config.n_heads = config.n_kv_heads = count;
                    config.d_head = config.d_model / count;
                    config.attn_scale = std::sqrt(static_cast<double>(config.d_head));
                    const auto model = HookedTransformer::create(config);
                    return 1e3 *
                           sweep_seconds(effort, model, 15, line == 0 ? act::z : act::pattern,
                                         {hooked::Axis::layer, hooked::Axis::head}) /
                           static_cast<double>(config.n_layers * count);
                  });
}

Curve hooks(const Effort& effort) {
  const HookedTransformer& model = model_of(shapes::kGpt2Small);
  const at::Tensor input = random_tokens(model, 1, 16);
  std::vector<hooked::ActivationName> names;
  for (const auto& entry : model.run_with_cache(input).cache) names.push_back(entry.name);
  auto places = up_to({0, 1, 2, 5, 10, 20, 50, 100, 200}, static_cast<std::int64_t>(names.size()) - 1);
  places.push_back(static_cast<std::int64_t>(names.size()));
  return measured(
      {.name = "hooks",
       .description = {"A run by the points that are watched, default ones in their order", "ms, 1 × 16"},
       .line_axis = "watched by",
       .axis = "points",
       .per_unit = false,
       .plot = {},
       .places = places,
       .lines = {"cache", "hooks that look", "edits"}},
      [&](std::size_t line, std::int64_t count) {
        auto options = last_logits();
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
          if (line == 0) options.capture = options.capture | names[i];
          if (line == 1) options.hooks.emplace_back(names[i], [](const at::Tensor&) {});
          if (line == 2) options.edits.push_back(hooked::scale(hooked::Address(names[i]), 1.0));
        }
        return 1e3 * time_of(effort, [&] { model.run(input, options); });
      });
}

Curve edits(const Effort& effort) {
  const HookedTransformer& model = model_of(shapes::kGpt2Small);
  return measured(
      {.name = "edits",
       .description = {"Rows with an edit each", "ms a row of 4 tokens, logits of the last position"},
       .line_axis = "each row",
       .axis = "rows",
       .per_unit = true,
       .plot = kLevel,
       .places = up_to({1, 3, 10, 30, 100, 300, 1000}, effort.most(1000, 100)),
       .lines = {"without an edit", "with one in the stream", "with one in a head"}},
      [&](std::size_t line, std::int64_t count) {
        const at::Tensor input = random_tokens(model, count, 4);
        auto options = last_logits();
        for (std::int64_t row = 0; row < count && line > 0; ++row) {
          const auto layer = static_cast<std::int32_t>(row % 12);
          const hooked::Address whole =
              line == 1 ? hooked::Address(act::resid_pre(layer)) : act::z(layer).head(row % 11);
          options.edits.push_back(
              hooked::add(whole.at(hooked::Axis::batch, row), 1e-3 * static_cast<double>(row)));
        }
        return 1e3 * time_of(effort, [&] { model.run(input, options); }) / static_cast<double>(count);
      });
}

Curve patches(const Effort& effort) {
  using hooked::Axis;
  struct Kind {
    std::int64_t cells;
    act::BlockSite site;
    std::vector<hooked::SweptAxis> over;
  };
  const std::vector<Kind> kinds{{12, act::z, {Axis::layer}},
                                {96, act::z, {Axis::layer, Axis::pos}},
                                {144, act::z, {Axis::layer, Axis::head}},
                                {1152, act::z, {Axis::layer, Axis::pos, Axis::head}},
                                {9216, act::pattern, {Axis::layer, Axis::head, Axis::query, Axis::key}}};
  std::vector<std::int64_t> places;
  for (const Kind& kind : kinds) places.push_back(kind.cells);
  return measured(
      {.name = "patches",
       .description = {"A sweep by its cells: z by layer and then by position, head and both, the whole "
                       "pattern",
                       "ms a cell, 8 tokens"},
       .line_axis = "model",
       .axis = "cells",
       .per_unit = true,
       .plot = kRatios,
       .places = up_to(places, effort.most(10000, 1152)),
       .lines = {"GPT-2 small"}},
      [&](std::size_t, std::int64_t cells) {
        const auto kind =
            std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.cells == cells; });
        return 1e3 * sweep_seconds(effort, model_of(shapes::kGpt2Small), 8, kind->site, kind->over) /
               static_cast<double>(cells);
      });
}

/// The seconds of each step of a generation.
std::vector<double> steps_of(const HookedTransformer& model, std::int64_t count,
                             const hooked::Selection& capture) {
  std::vector<double> seconds;
  auto before = std::chrono::steady_clock::now();
  hooked::GenerateOptions options{.max_new_tokens = count};
  options.capture = capture;
  options.sampling.greedy = true;
  options.on_tokens = [&](const at::Tensor&) {
    const auto now = std::chrono::steady_clock::now();
    seconds.push_back(std::chrono::duration<double>(now - before).count());
    before = now;
    return true;
  };
  model.generate(random_tokens(model, 1, 8), options);
  return seconds;
}

Curve new_tokens(const Effort& effort) {
  const std::int64_t most = effort.most(1000, 100);
  std::map<std::size_t, std::vector<double>> steps;
  return measured(
      {.name = "new_tokens",
       .description = {"A generation by its length", "ms of the last of that many new tokens, one row"},
       .line_axis = "model",
       .axis = "new tokens",
       .per_unit = true,
       .plot = kLevel,
       .places = up_to({2, 5, 10, 20, 50, 100, 200, 500, 1000}, most),
       .lines = {"GPT-2 small", "keeping the stream", "windows of 256"}},
      [&](std::size_t line, std::int64_t count) {
        auto& seconds = steps[line];
        if (seconds.empty()) {
          const HookedTransformer& model = model_of(line == 2 ? kLongWindowed : kLongGpt2);
          const hooked::Selection kept = line == 1 ? hooked::Selection(act::resid_post) : hooked::Selection();
          steps_of(model, 2, kept);
          seconds = steps_of(model, most, kept);
        }
        // The steps of the last tenth, so that a single slow one does not count; the first is the prompt's.
        const auto end = seconds.begin() + count;
        return 1e3 * median({std::max(seconds.begin() + 1, end - 1 - count / 10), end});
      });
}

Curve callers(const Effort& effort) {
  return measured({.name = "callers",
                   .description = {"Threads of a program on one model, one thread of LibTorch for each",
                                   "ms of all threads' runs over their number, 1 × 32"},
                   .line_axis = "model",
                   .axis = "callers",
                   .per_unit = true,
                   .plot = kLevel,
                   .places = doubled(1, 8),
                   .lines = {"GPT-2 small"}},
                  [&](std::size_t, std::int64_t count) {
                    constexpr int kRuns = 4;  // of each caller
                    const HookedTransformer& model = model_of(shapes::kGpt2Small);
                    const at::Tensor input = random_tokens(model, 1, 32);
                    return 1e3 *
                           time_of(effort,
                                   [&] {
                                     std::vector<std::jthread> threads;
                                     for (std::int64_t i = 0; i < count; ++i) {
                                       threads.emplace_back([copy = model, &input] {
                                         auto options = last_logits();
                                         options.threads = 1;
                                         for (int run = 0; run < kRuns; ++run) copy.run(input, options);
                                       });
                                     }
                                   }) /
                           static_cast<double>(count * kRuns);
                  });
}

using Question = Curve (*)(const Effort&);
const std::vector<std::pair<const char*, Question>> kQuestions{
    {"tokens", tokens},  {"rows", rows},   {"layers", layers},   {"heads", heads},
    {"hooks", hooks},    {"edits", edits}, {"patches", patches}, {"new_tokens", new_tokens},
    {"callers", callers}};

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  int threads = at::get_num_threads();
  std::string only, docs, json_file;
  CLI::App app("How does cost grow with work?");
  app.add_flag("--quick", quick, "smaller ends, few repeats");
  app.add_option("--only", only, "one question");
  app.add_option("--threads", threads, "that LibTorch uses");
  app.add_option("--docs", docs, "folder whose speed.md gets the table, and whose pictures/ the curves");
  app.add_option("--json", json_file, "file for all numbers");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  at::manual_seed(1);
  const c10::AutoGradMode no_gradients(false);

  std::vector<Curve> curves;
  for (const auto& [name, question] : kQuestions) {
    if (only.empty() || only == name) curves.push_back(question({quick}));
  }
  const std::string about =
      fmt::format("{}; float32; medians{}.", about_machine(), quick ? ", with --quick" : "");
  std::string text = about + "\n\n" + table_of(curves);
  fmt::print("\n{}", text);

  hooked::Json all{{"about", about}, {"curves", hooked::Json::object()}};
  for (const Curve& curve : curves) {
    all["curves"][curve.name] = hooked::Json::parse(curve.grid().to_json());
    if (docs.empty()) continue;
    const std::string file = fmt::format("pictures/growth_{}.svg", curve.name);
    hooked::write_file(std::filesystem::path(docs) / file, hooked::line_plot_svg(curve.grid(), curve.plot));
    text += fmt::format("\n![{}]({})\n", curve.description.title, file);
  }
  if (!docs.empty()) write_between_marks(std::filesystem::path(docs) / "speed.md", "bench_growth", text);
  if (!json_file.empty()) hooked::write_file(json_file, all.dump(1) + "\n");
  return 0;
}
