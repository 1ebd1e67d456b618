// hooked's side of benchmarks/compare_rivals.py: a process that stays alive, reads over stdin what to run,
// one JSON object a line, and answers with one JSON object a line.
//
//   {"do": "load", "folder": F, "dtype": "float32", "weights": "expanded", "threads": 2, "device": "cpu"}
//   -> {"ms": [...], ...}
//   {"do": "cache", "points": "defaults", "tokens": FILE, "repeats": 5}   -> {"ms": [5 numbers]}
//   {"do": "cache", ..., "repeats": 0, "write": FILE}                     -> {"ms": []}, and the results as
//   safetensors
//   {"do": "peak"}                                                        -> {"bytes": peak resident memory}
//
// rivals/serve.py says what the other commands mean; the rivals answer the same ones. A failure is {"error":
// text}. Times end when the device has finished all its work.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/json.h"
#include "hooked/hooked.h"
#include "hooked/io/safetensors.h"

namespace {

namespace act = hooked::act;
using hooked::Json;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The results of a command: created and released within the measured time, as for somebody who reads them.
using Outcome = std::variant<hooked::RunResult, hooked::GenerateResult, Tensors>;
using Call = std::function<Outcome()>;

/// A command and the model and tokens it works on.
struct Work {
  const hooked::HookedTransformer& model;
  const at::Tensor& tokens;  // [batch, pos]
  const Json& command;

  std::int64_t number(const char* key) const { return command.at(key).get<std::int64_t>(); }
};

Call forward(const Work& work) {
  return [=] { return work.model.run(work.tokens); };
}

Call cache(const Work& work) {
  const auto points = work.command.at("points").get<std::string>();
  const auto selection = points == "defaults" ? hooked::Selection(act::defaults) : hooked::Selection(points);
  return [=] { return work.model.run_with_cache(work.tokens, selection); };
}

// Some activations are computed when they are first read.
Call read_cache(const Work& work) {
  return [=] {
    auto run = work.model.run_with_cache(work.tokens, act::defaults);
    for (const auto& entry : run.cache) entry.value();
    return run;
  };
}

Call until(const Work& work) {
  const hooked::RunOptions options{.output = hooked::Output::residual, .stop_at_layer = work.number("layer")};
  return [=] { return work.model.run(work.tokens, options); };
}

Call harvest(const Work& work) {
  const auto last = static_cast<std::int32_t>(work.number("layer")) - 1;
  const hooked::RunOptions options{.capture = act::resid_post(last), .output = hooked::Output::none};
  return [=] { return work.model.run(work.tokens, options); };
}

Call decode(const Work& work) {
  hooked::GenerateOptions options{.max_new_tokens = work.number("new_tokens"),
                                  .sampling = {.greedy = true},
                                  .stop = {.tokens = std::vector<std::int64_t>()}};
  if (work.command.at("keep").get<bool>()) options.capture = act::resid_post;
  return [=] { return work.model.generate(work.tokens, options); };
}

Call edit_rows(const Work& work) {
  hooked::RunOptions options{.logit_positions = {{-1}}};
  const auto layer = static_cast<std::int32_t>(work.number("layer"));
  for (std::int64_t row = 0; work.command.at("edited").get<bool>() && row < work.tokens.size(0); ++row) {
    options.edits.push_back(hooked::add(act::resid_pre(layer).at(hooked::Axis::batch, row),
                                        work.command.at("step").get<double>() * static_cast<double>(row)));
  }
  return [=] { return work.model.run(work.tokens, options); };
}

/// Attribution patching: rows are the clean and the corrupted text. Per layer and position, (clean -
/// corrupted) . d metric / d corrupted, of the stream that the layer reads: [layer, pos].
Call attribution(const Work& work) {
  const auto answer = work.number("answer");
  const auto against = work.number("against");
  const auto metric = [=](const at::Tensor& logits) {
    const at::Tensor last = logits.select(1, -1);
    return (last.select(-1, answer) - last.select(-1, against)).sum();
  };
  const hooked::RunOptions options{
      .capture = act::resid_pre,
      .logit_positions = {{-1}},
      .gradients = hooked::GradientRequest{.of = act::resid_pre, .metric = {metric}}};
  return [=] {
    const auto run = work.model.run(work.tokens, options);
    std::vector<at::Tensor> layers;
    for (int layer = 0; layer < work.model.config().n_layers; ++layer) {
      const at::Tensor stream = run.cache[act::resid_pre(layer)];
      layers.push_back(((stream[0] - stream[1]) * run.gradients[act::resid_pre(layer)][1]).sum(-1));
    }
    return Tensors{{"attribution", at::stack(layers)}};
  };
}

/// Activation patching of a preset: the difference of two logits at the end for every cell, flat.
Call sweep(const Work& work) {
  const auto& patched = hooked::patching_preset(work.command.at("preset").get<std::string>());
  const auto every = work.number("every"), answer = work.number("answer"), against = work.number("against");
  const auto metric = hooked::logit_difference(answer, against);
  return [=, &patched] {
    const at::Tensor clean = work.tokens.narrow(0, 0, 1), corrupted = work.tokens.narrow(0, 1, 1);
    const auto run = work.model.run_with_cache(clean, hooked::act::BlockSite{patched.parts.front().site});
    const hooked::Grid grid =
        hooked::sweep(work.model, patched, {.from = run.cache, .into = corrupted, .metric = metric});
    return Tensors{{"scores", grid.values().flatten().slice(0, 0, std::nullopt, every)}};
  };
}

const std::map<std::string, Call (*)(const Work&)>& commands() {
  static const std::map<std::string, Call (*)(const Work&)> kCommands = {
      {"forward", forward}, {"cache", cache},   {"read_cache", read_cache}, {"until", until},
      {"harvest", harvest}, {"decode", decode}, {"edit_rows", edit_rows},   {"attribution", attribution},
      {"sweep", sweep}};
  return kCommands;
}

at::Tensor on_host(const at::Tensor& value) { return value.to(at::kCPU, at::kFloat); }

/// Everything in an outcome, by its name; activations in float32, so that dtypes can be compared.
Tensors tensors_of(const Outcome& outcome) {
  Tensors tensors;
  const auto add = [&](const hooked::ActivationCache& cache) {
    for (const auto& entry : cache) tensors.emplace_back(entry.name.to_string(), on_host(entry.value()));
  };
  if (const auto* analysed = std::get_if<Tensors>(&outcome)) {
    for (const auto& [name, value] : *analysed) tensors.emplace_back(name, on_host(value).contiguous());
  } else if (const auto* generated = std::get_if<hooked::GenerateResult>(&outcome)) {
    tensors.emplace_back("tokens", generated->tokens.cpu());
    add(generated->cache);
  } else {
    const auto& run = std::get<hooked::RunResult>(outcome);
    if (run.output() == hooked::Output::logits) tensors.emplace_back("logits", on_host(run.logits()));
    if (run.output() == hooked::Output::residual) tensors.emplace_back("residual", on_host(run.residual()));
    add(run.cache);
  }
  return tensors;
}

/// Waits until the device has finished.
void synchronise(c10::Device device) {
  if (!device.is_cpu()) c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
}

template <typename F>
double milliseconds(const F& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

Json load(const Json& command, std::optional<hooked::HookedTransformer>& model) {
  at::set_num_threads(command.at("threads").get<int>());
  static const std::map<std::string, at::ScalarType> kDtypes = {
      {"bfloat16", at::kBFloat16}, {"float32", at::kFloat}, {"float64", at::kDouble}};
  const auto dtype = kDtypes.at(command.at("dtype").get<std::string>());
  const bool stored = command.value("weights", std::string()) == "stored";
  const double ms = milliseconds([&] {
    model.emplace(hooked::HookedTransformer::load(
        command.at("folder").get<std::string>(),
        {.device = command.at("device").get<std::string>(),
         .dtype = dtype,
         .processing = hooked::WeightProcessing::none(),
         .weights = stored ? hooked::WeightStorage::stored : hooked::WeightStorage::expanded}));
    synchronise(model->device());
  });
  return {{"ms", {ms}},
          {"threads", at::get_num_threads()},
          {"versions", {{"hooked", hooked::version()}, {"LibTorch", hooked::libtorch_version()}}},
          {"instructions", at::get_cpu_capability()}};
}

Json run(const Json& command, const hooked::HookedTransformer& model) {
  const auto found = commands().find(command.at("do").get<std::string>());
  if (found == commands().end()) throw std::invalid_argument("no such command");
  const at::Tensor tokens =
      hooked::SafetensorsFile::open(command.at("tokens").get<std::string>()).read("tokens");
  const Call call = found->second({model, tokens, command});
  if (command.contains("write")) {
    hooked::save_safetensors(command.at("write").get<std::string>(), tensors_of(call()));
  }
  synchronise(model.device());
  std::vector<double> ms;
  for (int repeat = 0; repeat < command.at("repeats").get<int>(); ++repeat) {
    ms.push_back(milliseconds([&] {
      const Outcome kept = call();
      synchronise(model.device());
    }));
  }
  return {{"ms", ms}};
}

// Not getrusage's ru_maxrss: a process starts with the value of its parent.
Json peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return {{"bytes", std::stoll(line.substr(6)) * 1024}};
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

Json answer(const Json& command, std::optional<hooked::HookedTransformer>& model) {
  const auto what = command.at("do").get<std::string>();
  if (what == "load") return load(command, model);
  if (what == "peak") return peak();
  if (!model) throw std::invalid_argument("a model must be loaded first");
  return run(command, *model);
}

}  // namespace

int main() {
  std::optional<hooked::HookedTransformer> model;
  for (std::string line; std::getline(std::cin, line);) {
    Json reply;
    try {
      reply = answer(Json::parse(line), model);
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << hooked::json_text(reply) << std::endl;
  }
}
