// hooked bench: the cost of a plain run and of a run that keeps every default point on this machine.
#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "core/json.h"
#include "core/size_text.h"
#include "hooked/core/kernel_set.h"
#include "hooked/core/tensor_text.h"

namespace hooked::cli {
namespace {

constexpr int kWarmUps = 3;
constexpr std::int64_t kUsualLength = 128;

/// Times of one kind of run, ms.
struct Times {
  double median;
  double min;
  double max;
};

Times summary(std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const auto half = ms.size() / 2;
  const double median = ms.size() % 2 == 1 ? ms[half] : (ms[half - 1] + ms[half]) / 2;
  return {median, ms.front(), ms.back()};
}

Json times_json(const Times& times) {
  return {{"median", times.median}, {"min", times.min}, {"max", times.max}};
}

// A GPU's results are only available once it has caught up.
void wait_for(const Placement& placement) {
  if (placement.entry().is_cpu()) return;
  for (const c10::Device& device : placement.devices())
    c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.has_index() ? device.index() : 0);
}

// `cuda:0`, or `cuda:0,cuda:1`.
std::string devices_text(const Placement& placement) {
  std::string text;
  for (const c10::Device& device : placement.devices()) text += (text.empty() ? "" : ",") + device.str();
  return text;
}

// Milliseconds of a call, including the release of its result: both belong to the cost of keeping
// activations.
double time_ms(const std::function<void()>& call, const Placement& placement) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  wait_for(placement);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

at::Tensor random_tokens(const BenchOptions& options, const HookedTransformer& model) {
  std::mt19937_64 generator(options.seed);
  std::uniform_int_distribution<std::int64_t> id(0, model.config().d_vocab - 1);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(options.batch * options.length));
  for (auto& one : ids) one = id(generator);
  return at::tensor(ids, at::TensorOptions(at::kLong))
      .view({options.batch, options.length})
      .to(model.device());
}

std::int64_t peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Times of single decode steps after a prompt, plain and with every layer's stream kept.
struct DecodeTimes {
  std::int64_t prompt;  // tokens
  Times plain;
  Times captured;
  std::vector<std::string> notes;  // of a generation
};

// Nothing for models that do not continue text, or have no room for it, and if Ctrl-C came before there was a
// time of both kinds.
std::optional<DecodeTimes> time_decode(const BenchOptions& options, const HookedTransformer& model,
                                       const at::Tensor& tokens) {
  constexpr std::int64_t kTurns = 4;
  const auto& config = model.config();
  const auto steps = options.iterations + kWarmUps;
  const auto prompt = std::min(options.length, config.n_ctx - steps);
  const bool continues =
      config.direction == AttentionDirection::causal && config.d_vocab == config.d_vocab_out() && prompt >= 1;
  if (!continues) return std::nullopt;
  std::vector<double> plain_ms, captured_ms;
  std::vector<std::string> notes;
  ProgressBar bar("decoding", ProgressUnit::steps);
  // Alternating, as above.
  for (std::int64_t turn = 0; turn < 2 * kTurns && !interrupted(); ++turn) {
    bar.show(static_cast<std::uint64_t>(turn), 2 * kTurns);
    auto& times = turn % 2 == 0 ? plain_ms : captured_ms;
    GenerateOptions generate{.max_new_tokens = steps,
                             .sampling = {.greedy = true},
                             .stop = {.tokens = std::vector<std::int64_t>()}};
    if (turn % 2 == 1) generate.capture = act::resid_post;
    std::int64_t step = -kWarmUps;
    auto begin = std::chrono::steady_clock::now();
    generate.on_tokens = [&](const at::Tensor&) {
      const auto now = std::chrono::steady_clock::now();
      if (step++ >= 0) times.push_back(std::chrono::duration<double, std::milli>(now - begin).count());
      begin = now;
      return !interrupted();
    };
    const auto result = model.generate(tokens.narrow(1, 0, prompt), generate);
    if (turn == 0) notes = result.notes;
  }
  if (plain_ms.empty() || captured_ms.empty()) return std::nullopt;
  return DecodeTimes{prompt, summary(plain_ms), summary(captured_ms), std::move(notes)};
}

// Times of several kinds of one task, each compared with the first; one run of it takes `tokens` tokens.
void print_times(const std::string& what, std::int64_t tokens,
                 const std::vector<std::pair<std::string, Times>>& kinds) {
  Table table({{what},
               {"median ms", Align::right},
               {"min", Align::right},
               {"max", Align::right},
               {"tokens/s", Align::right},
               {"ratio", Align::right}});
  for (const auto& [name, times] : kinds) {
    table.add({name, fmt::format("{:.2f}", times.median), fmt::format("{:.2f}", times.min),
               fmt::format("{:.2f}", times.max),
               fmt::format("{:.0f}", static_cast<double>(tokens) / times.median * 1000),
               fmt::format("{:.3f}", times.median / kinds.front().second.median)});
  }
  table.print("  ");
}

// Leaves room in a short context for the decode steps.
std::int64_t usual_length(const ModelConfig& config, std::int64_t iterations) {
  const std::int64_t room = config.n_ctx - iterations - kWarmUps;
  return std::min(kUsualLength, room >= 1 ? room : config.n_ctx);
}

}  // namespace

void perform(const BenchOptions& given) {
  const auto model = load_model(given.model);
  BenchOptions options = given;
  if (options.length == 0) options.length = usual_length(model.config(), options.iterations);
  const Placement& placement = model.placement();
  const std::string device = devices_text(placement);
  const auto tokens = random_tokens(options, model);

  const bool logits = model.config().has_unembedding();
  const RunOptions run{.output = logits ? Output::logits : Output::residual};
  const auto output_of = [&](const RunResult& result) {
    return logits ? result.logits() : result.residual();
  };
  const auto plain_output = output_of(model.run(tokens, run));
  const auto cached = model.run_with_cache(tokens, act::defaults, run);
  const double difference = plain_output.sub(output_of(cached)).abs().max().item<double>();
  const auto points = cached.cache.size();
  const std::vector<std::string> notes = notes_of(cached);
  print_notes(notes);

  // Alternating, so that both run under the same conditions.
  std::vector<double> plain_ms;
  std::vector<double> cache_ms;
  std::optional<InterruptGuard> guard;  // until there is a time, Ctrl-C need not wait
  {
    ProgressBar bar("timing", ProgressUnit::steps);
    for (std::int64_t i = -kWarmUps; i < options.iterations && !interrupted(); ++i) {
      bar.show(static_cast<std::uint64_t>(i + kWarmUps),
               static_cast<std::uint64_t>(options.iterations + kWarmUps));
      const auto plain = time_ms([&] { model.run(tokens, run); }, placement);
      const auto cache = time_ms([&] { model.run_with_cache(tokens, act::defaults, run); }, placement);
      if (i >= 0) {
        plain_ms.push_back(plain);
        cache_ms.push_back(cache);
        if (!guard) guard.emplace();
      }
    }
  }

  // No token can be drawn from logits that are not finite.
  const auto decode = not_finite_json(notes).empty() ? time_decode(options, model, tokens) : std::nullopt;
  if (decode) print_notes(decode->notes);
  const auto plain = summary(plain_ms);
  const auto cache = summary(cache_ms);
  const auto dtype = dtype_text(model.config().dtype);
  if (options.json) {
    Json json = model_json(model);
    json.update({{"batch", options.batch},
                 {"length", options.length},
                 {"threads", at::get_num_threads()},
                 {"device", device},
                 {"kernels", to_string(kernel_set())},
                 {"iterations", plain_ms.size()},
                 {"points", points},
                 {"plain_ms", times_json(plain)},
                 {"cache_ms", times_json(cache)},
                 {"decode_ms", decode ? times_json(decode->plain) : Json(nullptr)},
                 {"decode_cache_ms", decode ? times_json(decode->captured) : Json(nullptr)},
                 {"peak_bytes", peak_bytes()},
                 {"max_logit_difference", number_json(difference)},
                 {"not_finite", not_finite_json(notes)}});
    return print_json(json);
  }
  fmt::print("{} tokens ({} x {}), {}, {}, {} threads, kernels {}, {} iterations\n\n",
             options.batch * options.length, options.batch, options.length, dtype, device,
             at::get_num_threads(), to_string(kernel_set()), plain_ms.size());
  print_times("", options.batch * options.length,
              {{"plain run", plain}, {fmt::format("with cache, {} points", points), cache}});
  if (decode) {
    fmt::print("\n");
    print_times(fmt::format("a step after {} tokens", decode->prompt), options.batch,
                {{"decode", decode->plain}, {"keeping every layer's stream", decode->captured}});
  }
  fmt::print("\nlargest difference of the {} {:.3g}, peak memory {}\n", logits ? "logits" : "output",
             difference, size_text(static_cast<std::uint64_t>(peak_bytes())));
}

}  // namespace hooked::cli
