// How much memory does a run of 4,096 tokens take, by what attention does on top of plain causal attention,
// and how many pages does a second run fault in?
//
//   bench_peak_memory [--threads N] [--docs DOCS]
//
// GPT-2-small's shape, random weights, logits of the last position; every figure is of a process of its own.
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "benchmarks/page.h"
#include "benchmarks/shapes.h"

namespace {

constexpr std::int64_t kTokens = 4096;

void plain(hooked::ModelConfig& config) { config.n_ctx = kTokens; }

/// Three of four layers see 256 tokens.
void windowed(hooked::ModelConfig& config) {
  plain(config);
  config.window = hooked::Window{.size = 256};
  for (int layer = 0; layer < config.n_layers; ++layer) config.window->layers.push_back(layer % 4 != 3);
}

void capped(hooked::ModelConfig& config) {
  plain(config);
  config.score_soft_cap = 50;
}

void alibi(hooked::ModelConfig& config) {
  plain(config);
  hooked::AlibiPositions alibi;
  for (int head = 1; head <= config.n_heads; ++head) alibi.slopes.push_back(std::exp2(-8.0 * head / 12.0));
  config.positions = alibi;
}

enum class Rows : std::uint8_t { whole, padded, alternating };

/// One line of the table.
struct Case {
  const char* name;
  const char* text;
  void (*change)(hooked::ModelConfig& config);
  Rows rows;
};

constexpr std::array kCases{
    Case{"plain", "plain causal", plain, Rows::whole},
    Case{"windowed", "windows of 256 in three of four layers", windowed, Rows::whole},
    Case{"capped", "soft cap of the scores", capped, Rows::whole},
    Case{"alibi", "ALiBi", alibi, Rows::whole},
    Case{"padded", "512 columns of padding", plain, Rows::padded},
    Case{"alternating", "of 4096, 100 and 1024 tokens in turn", plain, Rows::alternating}};

/// The output of a process of one case: bytes and faults.
struct Figures {
  double peak = 0;          ///< of the process
  double above_model = 0;   ///< of the first run, over what the model takes
  double first_faults = 0;  ///< pages
  double second_faults = 0;
  double third_faults = 0;
};

double status_bytes(const std::string& key) {
  const std::string status = text_of("/proc/self/status");
  return 1024 * std::stod(status.substr(status.find(key + ":") + key.size() + 1));
}

Figures measure(const Case& one, at::ScalarType dtype) {
  const auto model = hooked::HookedTransformer::create(config_of({one.name, one.change}), {.dtype = dtype});
  const auto input = [&](std::int64_t length) {
    const at::Tensor tokens = at::randint(0, model.config().d_vocab, {1, length}, at::kLong);
    if (one.rows != Rows::padded) return hooked::Input(tokens);
    return hooked::Input(tokens, {.attention_mask = (at::arange(length, at::kLong) >= 512).unsqueeze(0)});
  };
  std::vector<hooked::Input> inputs;
  for (const std::int64_t length : one.rows == Rows::alternating
                                       ? std::vector<std::int64_t>{kTokens, 100, 1024}
                                       : std::vector<std::int64_t>{kTokens}) {
    inputs.push_back(input(length));
  }
  const auto run = [&] {
    const double before = page_faults_so_far();
    for (const auto& each : inputs) model.run(each, {.logit_positions = {{-1}}});
    return page_faults_so_far() - before;
  };
  Figures figures;
  const double resident = status_bytes("VmRSS");
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  figures.first_faults = run();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  figures.peak = 1024.0 * static_cast<double>(usage.ru_maxrss);
  figures.above_model = status_bytes("VmHWM") - resident;
  figures.second_faults = run();
  figures.third_faults = run();
  return figures;
}

Figures measure_in_a_process_of_its_own(const std::string& program, const Case& one, bool bfloat16,
                                        int threads) {
  const std::string command =
      fmt::format("'{}' --case {} --threads {}{}", program, one.name, threads, bfloat16 ? " --bfloat16" : "");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  Figures f;
  if (pipe == nullptr || std::fscanf(pipe.get(), "%lf %lf %lf %lf %lf", &f.peak, &f.above_model,
                                     &f.first_faults, &f.second_faults, &f.third_faults) != 5) {
    throw std::runtime_error("no figures from " + command);
  }
  return f;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = at::get_num_threads();
  bool bfloat16 = false;
  std::string docs, name;
  CLI::App app("How much memory does a run of 4,096 tokens take?");
  app.add_option("--threads", threads, "that LibTorch uses");
  app.add_option("--docs", docs, "folder whose speed.md gets the table");
  app.add_option("--case", name, "print one case's figures, of this process");
  app.add_flag("--bfloat16", bfloat16, "that case's dtype, else float32");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  const c10::AutoGradMode no_gradients(false);
  for (const Case& one : kCases) {
    if (name != one.name) continue;
    const Figures f = measure(one, bfloat16 ? at::kBFloat16 : at::kFloat);
    fmt::print("{} {} {} {} {}\n", f.peak, f.above_model, f.first_faults, f.second_faults, f.third_faults);
    return 0;
  }

  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string text = fmt::format(
      "{}.\n\n| 1 × {}, logits of the last position | dtype | peak MB | ÷ plain | a run's own MB | ÷ plain | "
      "pages "
      "faulted in by the first run | by the second | by the third |\n|---|---|---|---|---|---|---|---|---|\n",
      about_machine(), kTokens);
  for (const bool half : {false, true}) {
    std::optional<Figures> first;
    for (const Case& one : kCases) {
      const Figures f = measure_in_a_process_of_its_own(program, one, half, threads);
      if (!first) first = f;
      text += fmt::format("| {} | {} | {:.0f} | {:.2f} | {:.0f} | {:.2f} | {:.0f} | {:.0f} | {:.0f} |\n",
                          one.text, half ? "bfloat16" : "float32", f.peak / 1e6, f.peak / first->peak,
                          f.above_model / 1e6, f.above_model / first->above_model, f.first_faults,
                          f.second_faults, f.third_faults);
    }
  }
  fmt::print("{}", text);
  if (!docs.empty()) write_between_marks(std::filesystem::path(docs) / "speed.md", "bench_peak_memory", text);
  return 0;
}
