// How fast is a sweep of patches, compared with a full run for each cell, with full-length rows from the
// layer on, and with the arithmetic that cannot be left out?
//
//   bench_patching [--threads N] [--repeats N] [--only NAME] [--docs FOLDER] [--json FILE]
//
// GPT-2-small's shape, random weights, float32. Cells of large sweeps are sampled for the slower ways, and
// the time is scaled up; results are compared cell by cell.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "benchmarks/page.h"
#include "benchmarks/shapes.h"
#include "benchmarks/timing.h"
#include "core/json.h"
#include "hooked/hooked.h"
#include "models/storage/matrix.h"

namespace {

using hooked::Axis;
namespace act = hooked::act;

/// One sweep, and the arithmetic of its cells.
struct Sweep {
  const char* name;
  act::BlockSite site;
  std::vector<Axis> over;
  std::int64_t tokens;
  std::int64_t sample;  ///< the slower ways run one cell out of this many
  bool enters_behind_attention;
};

const std::vector<Sweep> kSweeps{
    {"resid_pre", act::resid_pre, {Axis::layer, Axis::pos}, 15, 1, false},
    {"attn_head_out_all_pos", act::z, {Axis::layer, Axis::head}, 15, 1, true},
    {"attn_head_out_by_pos", act::z, {Axis::layer, Axis::pos, Axis::head}, 15, 10, true},
    {"attn_head_pattern_dest_src_pos",
     act::pattern,
     {Axis::layer, Axis::head, Axis::query, Axis::key},
     15,
     100,
     true},
    {"resid_pre, 256 tokens", act::resid_pre, {Axis::layer, Axis::pos}, 256, 48, false},
};

/// A cell of a sweep: the place of its patch.
struct Cell {
  hooked::Address place;
  std::int64_t layer;
  std::int64_t first_column;
};

struct Prompts {
  at::Tensor clean, corrupted;  // [1, pos]
  hooked::ActivationCache from, into;
};

/// The cells in the order of the grid's numbers.
std::vector<Cell> cells_of(const Sweep& sweep, const hooked::ActivationCache& from) {
  std::vector<Cell> cells;
  for (std::int32_t layer = 0; layer < from.n_layers(); ++layer) {
    std::vector<Cell> made{{sweep.site(layer), layer, 0}};
    for (const Axis axis : sweep.over) {
      if (axis == Axis::layer) continue;
      std::vector<Cell> finer;
      const auto dim = *hooked::row(sweep.site.site).axes.find(*hooked::axis_on(sweep.site.site, axis));
      for (const Cell& cell : made) {
        for (std::int64_t i = 0; i < from[sweep.site(layer)].size(static_cast<std::int64_t>(dim)); ++i) {
          Cell next{cell.place.at(axis, i), layer, cell.first_column};
          if (axis == Axis::pos || axis == Axis::query) next.first_column = i;
          finer.push_back(next);
        }
      }
      made = finer;
    }
    cells.insert(cells.end(), made.begin(), made.end());
  }
  return cells;
}

/// Multiplications and additions that a cell's patch can change, one logit position at the end.
double work_of(const Sweep& sweep, const Cell& cell, const hooked::ModelConfig& c) {
  const auto d = static_cast<double>(c.d_model),
             columns = static_cast<double>(sweep.tokens - cell.first_column);
  const double keys = (static_cast<double>(cell.first_column) + static_cast<double>(sweep.tokens)) / 2;
  const double qkv = 6 * d * d, write = 2 * d * d, mlp = 4 * d * static_cast<double>(c.d_mlp);
  const double attention = 4 * keys * d;
  double work = 2 * d * static_cast<double>(c.d_vocab);
  for (std::int64_t layer = cell.layer; layer < c.n_layers; ++layer) {
    const bool enters = layer == cell.layer && sweep.enters_behind_attention;
    const double asked = layer + 1 == c.n_layers ? 1 : columns;
    if (enters && layer + 1 == c.n_layers && cell.first_column + 1 < sweep.tokens &&
        sweep.over.back() != Axis::head) {
      return 0;  // another column than the metric's
    }
    if (!enters) work += columns * qkv * 2 / 3 + asked * (qkv / 3 + attention);
    work += asked * (write + mlp);
  }
  return work;
}

/// Products per second, the better of LibTorch's and ours.
double measured_rate() {
  constexpr std::int64_t in = 768, out = 3072;
  const at::Tensor weight = at::randn({out, in});
  hooked::Matrix packed(out, in, {.out = out, .in = in}, at::TensorOptions(at::kFloat),
                        hooked::Storage::fastest);
  packed.as_out_in().write(weight);
  double best = 0;
  for (const std::int64_t rows : {128, 1024}) {
    const at::Tensor x = at::randn({rows, in});
    at::Tensor result = at::empty({rows, out});
    for (int i = 0; i < 20; ++i) {
      const double seconds = std::min(seconds_of([&] { at::linear(x, weight); }),
                                      seconds_of([&] { packed.multiply_into(result, x, {}); }));
      best = std::max(best, 2.0 * static_cast<double>(rows * in * out) / seconds);
    }
  }
  return best;
}

/// The earlier way to sweep: per layer 32 rows of all columns, from that layer's stream on.
void rows_of_full_length(const hooked::HookedTransformer& model, const Prompts& prompts,
                         const std::vector<Cell>& cells, const hooked::Metric& metric) {
  for (std::size_t begin = 0; begin < cells.size();) {
    std::size_t end = begin;
    while (end < cells.size() && end - begin < 32 && cells[end].layer == cells[begin].layer) ++end;
    const auto rows = static_cast<std::int64_t>(end - begin);
    const auto layer = static_cast<std::int32_t>(cells[begin].layer);
    const hooked::Address whole = cells[begin].place.name();
    std::vector<std::int64_t> sizes = prompts.into[whole].sizes().vec();
    sizes.front() = rows;
    const at::Tensor values = prompts.into[whole].expand(sizes).clone(at::MemoryFormat::Contiguous);
    for (std::size_t i = begin; i < end; ++i) {
      hooked::write_block(values.narrow(0, static_cast<std::int64_t>(i - begin), 1), cells[i].place.indices(),
                          {whole.name().site, "", {}}, prompts.from[cells[i].place]);
    }
    const at::Tensor stream = prompts.into[act::resid_pre(layer)].expand({rows, -1, -1});
    metric(model
               .run(hooked::Input::start_at_layer(layer, stream),
                    {.edits = {hooked::set(whole, values)}, .logit_positions = {{-1}}})
               .logits());
    begin = end;
  }
}

hooked::Json measure(const hooked::HookedTransformer& model, const Sweep& sweep, int repeats, double rate) {
  const auto tokens = [&](std::uint64_t seed) {
    at::manual_seed(seed);
    return at::randint(50257, {1, sweep.tokens}, at::kLong);
  };
  Prompts prompts{.clean = tokens(1), .corrupted = tokens(2), .from = {}, .into = {}};
  prompts.from = model.run_with_cache(prompts.clean, sweep.site).cache;
  prompts.into =
      model.run_with_cache(prompts.corrupted, hooked::Selection(act::resid_pre) | sweep.site).cache;
  const hooked::Metric metric = hooked::logit_difference(11, 7);
  const std::vector<Cell> cells = cells_of(sweep, prompts.from);
  std::vector<Cell> sampled;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < cells.size(); i += static_cast<std::size_t>(sweep.sample)) {
    sampled.push_back(cells[i]);
    numbers.push_back(i);
  }
  const double scale = static_cast<double>(cells.size()) / static_cast<double>(sampled.size());

  double work = 0;
  for (const Cell& cell : cells) {
    const bool masked = sweep.site.site == hooked::Site::pattern &&
                        prompts.from[cell.place].item<double>() == prompts.into[cell.place].item<double>();
    work += masked ? 0 : work_of(sweep, cell, model.config());
  }
  const double floor = work / rate;

  std::vector<double> own_loop, before, ours;
  std::vector<double> scores(sampled.size());
  double worst = 0;
  for (int round = 0; round < repeats; ++round) {
    own_loop.push_back(scale * seconds_of([&] {
                         for (std::size_t i = 0; i < sampled.size(); ++i) {
                           const hooked::RunOptions options{
                               .edits = {hooked::replace(sampled[i].place, prompts.from)},
                               .logit_positions = {{-1}}};
                           scores[i] = metric(model.run(prompts.corrupted, options).logits()).item<double>();
                         }
                       }));
    before.push_back(scale * seconds_of([&] { rows_of_full_length(model, prompts, sampled, metric); }));
    const hooked::SweepOptions options{.site = sweep.site,
                                       .over = {sweep.over.begin(), sweep.over.end()},
                                       .from = prompts.from,
                                       .into = prompts.corrupted,
                                       .metric = metric};
    at::Tensor values;
    ours.push_back(seconds_of([&] { values = hooked::sweep(model, options).values().flatten(); }));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double made = values[static_cast<std::int64_t>(numbers[i])].item<double>();
      worst = std::max(worst, std::abs(made - scores[i]));
    }
  }
  const double a = median(own_loop), b = median(before), c = median(ours);
  return {{"sweep", sweep.name},
          {"cells", cells.size()},
          {"own_loop_s", own_loop},
          {"before_s", before},
          {"ours_s", ours},
          {"floor_s", floor},
          {"worst_difference", worst},
          {"line", fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.3f} | {:.1f} | {:.2f} | {:.2f} | {:.1e} |\n",
                               sweep.name, cells.size(), a, b, c, a / c, b / c, c / floor, worst)}};
}

}  // namespace

int main(int argc, char** argv) {
  int threads = at::get_num_threads(), repeats = 3;
  std::string json_file, only, docs;
  CLI::App app("How fast is a sweep of patches?");
  app.add_option("--threads", threads, "that LibTorch uses");
  app.add_option("--repeats", repeats, "of each way, in turns; medians are printed");
  app.add_option("--only", only, "sweeps whose names begin so");
  app.add_option("--docs", docs, "folder whose speed.md gets the table");
  app.add_option("--json", json_file, "file for all times");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  const c10::AutoGradMode no_gradients(false);
  const hooked::HookedTransformer& model = model_of(shapes::kGpt2Small);
  const double rate = measured_rate();
  std::string table = fmt::format(
      "{}; products {:.0f} GFLOP/s.\n\n| sweep | cells | own loop s | before s | ours s | own loop / ours | "
      "before "
      "/ ours | ours / floor | worst difference |\n|---|---|---|---|---|---|---|---|---|\n",
      about_machine(), rate / 1e9);
  fmt::print("{}", table);
  hooked::Json all = hooked::Json::array();
  for (const Sweep& sweep : kSweeps) {
    if (!std::string_view(sweep.name).starts_with(only)) continue;
    all.push_back(measure(model, sweep, repeats, rate));
    const auto line = all.back().at("line").get<std::string>();
    fmt::print("{}", line);
    std::fflush(stdout);
    table += line;
  }
  if (!docs.empty()) write_between_marks(std::filesystem::path(docs) / "speed.md", "bench_patching", table);
  if (!json_file.empty()) {
    std::ofstream(json_file) << hooked::Json{
        {"threads", threads},
        {"gflops", rate / 1e9},
        {"sweeps", all}}.dump(1);
  }
  return 0;
}
