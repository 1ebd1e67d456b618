// What does loading a checkpoint cost against reading its bytes? Writes a sharded Llama checkpoint of random
// bfloat16 numbers, about 1 GiB, into a folder that does not exist yet, then takes turns: read() of all
// shards into fresh memory, loading as it is, loading processed. Prints times, ratios, and the peak of
// anonymous memory above the level before, in units of the loaded weights. The folder is left for the caller
// to remove.
//
//   bench_loading FOLDER [ROUNDS]
#include <ATen/TensorOperators.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/randn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"

namespace {

using hooked::HookedTransformer;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

constexpr int kLayers = 8, kWidth = 2048, kNeurons = 5632, kVocabulary = 32000, kLayersPerShard = 2;

at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes, at::TensorOptions(at::kBFloat16)) * 0.02; }

Tensors block(int layer) {
  const std::string at = fmt::format("model.layers.{}.", layer);
  Tensors tensors;
  for (const char* name : {"q", "k", "v", "o"}) {
    tensors.emplace_back(fmt::format("{}self_attn.{}_proj.weight", at, name), random({kWidth, kWidth}));
  }
  tensors.emplace_back(at + "mlp.gate_proj.weight", random({kNeurons, kWidth}));
  tensors.emplace_back(at + "mlp.up_proj.weight", random({kNeurons, kWidth}));
  tensors.emplace_back(at + "mlp.down_proj.weight", random({kWidth, kNeurons}));
  tensors.emplace_back(at + "input_layernorm.weight", random({kWidth}));
  tensors.emplace_back(at + "post_attention_layernorm.weight", random({kWidth}));
  return tensors;
}

void make_checkpoint(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::string map;
  int shards = 0;
  const auto write = [&](const Tensors& tensors) {
    const std::string file = fmt::format("model-{:05}.safetensors", ++shards);
    hooked::save_safetensors(folder / file, tensors, {.metadata = {{"format", "pt"}}});
    for (const auto& [name, tensor] : tensors) {
      map += fmt::format("{}\"{}\": \"{}\"", map.empty() ? "" : ", ", name, file);
    }
  };
  write({{"model.embed_tokens.weight", random({kVocabulary, kWidth})},
         {"model.norm.weight", random({kWidth})},
         {"lm_head.weight", random({kVocabulary, kWidth})}});
  for (int first = 0; first < kLayers; first += kLayersPerShard) {
    Tensors tensors;
    for (int layer = first; layer < first + kLayersPerShard; ++layer) {
      for (auto& entry : block(layer)) tensors.push_back(std::move(entry));
    }
    write(tensors);
  }
  hooked::write_file(folder / "model.safetensors.index.json", fmt::format("{{\"weight_map\": {{{}}}}}", map));
  hooked::write_file(folder / "config.json",
                     fmt::format(R"({{"model_type": "llama", "hidden_size": {}, "intermediate_size": {},
      "num_hidden_layers": {}, "num_attention_heads": 16, "vocab_size": {}, "max_position_embeddings": 2048,
      "torch_dtype": "bfloat16"}})",
                                 kWidth, kNeurons, kLayers, kVocabulary));
}

std::uint64_t read_all(const std::filesystem::path& folder) {
  std::uint64_t total = 0;
  std::vector<std::unique_ptr<char[]>> memory;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::uint64_t size = entry.file_size();
    memory.push_back(std::make_unique_for_overwrite<char[]>(size));
    const int file = ::open(entry.path().c_str(), O_RDONLY);
    for (std::uint64_t at = 0; at < size;) {
      const auto got = ::read(file, memory.back().get() + at, size - at);
      if (got <= 0) std::abort();
      at += static_cast<std::uint64_t>(got);
    }
    ::close(file);
    total += size;
  }
  return total;
}

// Anonymous memory of the process, bytes.
double anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) * 1024.0;
  }
  return 0.0;
}

// Seconds, and the highest level of anonymous memory above the one before.
struct Cost {
  double seconds;
  double bytes;
};

Cost cost_of(const std::function<void()>& action) {
  const double before = anonymous_bytes();
  std::atomic<bool> done{false};
  double peak = before;
  std::thread watcher([&] {
    while (!done) {
      peak = std::max(peak, anonymous_bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  action();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  done = true;
  watcher.join();
  return {seconds, peak - before};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: bench_loading FOLDER [ROUNDS]\n");
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    if (!std::filesystem::exists(folder)) make_checkpoint(folder);
    const int rounds = argc == 3 ? std::stoi(argv[2]) : 3;
    const auto load = [&](const hooked::WeightProcessing& processing) {
      HookedTransformer::load(folder.string(), {.dtype = at::kBFloat16, .processing = processing});
    };
    std::uint64_t bytes = 0;
    for (int round = 0; round < rounds; ++round) {
      const Cost reading = cost_of([&] { bytes = read_all(folder); });
      const Cost raw = cost_of([&] { load(hooked::WeightProcessing::none()); });
      const Cost processed = cost_of([&] { load({}); });
      fmt::print(
          "{:.2f} GiB: read {:.2f} s; as it is {:.2f} s, {:.2f} x read, peak {:.2f} x weights; processed "
          "{:.2f} s, {:.2f} x read, peak {:.2f} x weights\n",
          static_cast<double>(bytes) / (1 << 30), reading.seconds, raw.seconds, raw.seconds / reading.seconds,
          raw.bytes / static_cast<double>(bytes), processed.seconds, processed.seconds / reading.seconds,
          processed.bytes / static_cast<double>(bytes));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
