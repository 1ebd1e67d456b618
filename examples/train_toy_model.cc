// Trains the toy model of examples/toy_model with the engine itself: the same graph that runs and hooks it
// later, with leaf parameters, LibTorch's autograd and AdamW.
//
//   train_toy_model --out FOLDER [--steps N] [--seed S]
//
// The folder must be new or empty.

#include <ATen/core/Tensor.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <stdexcept>
#include <string>

#include "examples/toy_task/figures.h"
#include "examples/toy_task/toy_task.h"
#include "examples/training/training_options.h"
#include "hooked/hooked.h"

namespace {

hooked::ModelConfig toy_config(std::int64_t d_vocab) {
  hooked::ModelConfig config;
  config.n_layers = 2;
  config.d_model = 128;
  config.n_ctx = 64;
  config.n_heads = config.n_kv_heads = 4;
  config.d_head = 32;
  config.attn_scale = std::sqrt(32.0);
  config.d_mlp = 256;
  config.activation = hooked::Activation::gelu;
  // Slow rotations tell nothing within 64 tokens; a small base leaves more of the fast ones, which tell
  // neighbours apart.
  config.positions = hooked::RotaryPositions{};
  config.rotary()->base = 100;
  config.d_vocab = d_vocab;
  config.unembedding = hooked::Unembedding{.d_vocab = config.d_vocab};
  return config;
}

// Note [Curriculum]
// Repeats come alone, over few words and at length, and only later with sentences, all words and short
// repeats. The circuit that copies needs two heads at once: one that tells each token what came before it,
// and one that finds the token whose predecessor is the present one. With few words the second gets a clear
// signal early. Short repeats and sentences would teach the first layer to look a fixed three or four tokens
// back instead (the next word of a repeat of four is there, and the subject of a sentence), and the
// copying heads then look three places away from the token that they copy: the model is as good, but nobody
// finds its induction heads where the literature says they look.
struct Lesson {
  std::int64_t words;          // the repeats' words: that many from the start of the vocabulary
  std::int64_t shortest_half;  // of the repeats
  bool sentences;
};

Lesson lesson_at(double done, std::int64_t d_vocab) {  // done: 0 to 1 of the training
  constexpr std::int64_t kFewWords = 40;
  const double all_words = static_cast<double>(d_vocab - 1);
  const auto words = static_cast<std::int64_t>(all_words * std::clamp((done - 0.15) / 0.35, 0.0, 1.0));
  return {
      .words = std::max(words, kFewWords), .shortest_half = done < 0.5 ? 12 : 4, .sentences = done >= 0.25};
}

/// Learning rate of a step: a warm-up, then half a cosine down to a twentieth.
double learning_rate(std::int64_t step, std::int64_t steps) {
  constexpr double kPeak = 2e-3;
  const double warm_up =
      std::min(1.0, static_cast<double>(step + 1) / std::min(100.0, static_cast<double>(steps) / 4));
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  return kPeak * warm_up * (0.05 + 0.95 * (1 + std::cos(std::numbers::pi * done)) / 2);
}

/// Mean cross entropy in nats of what can be known in a repeat: the tokens from the second repeated one on.
at::Tensor repeat_loss(const hooked::TrainableTransformer& model, const at::Tensor& tokens,
                       std::int64_t half) {
  const auto logits = model.forward(tokens).narrow(1, half + 1, half - 1);  // [row, half - 1, vocab]
  const auto targets = tokens.narrow(1, half + 2, half - 1);                // [row, half - 1]
  return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
}

/// Says how far the training is: a bar that redraws itself on a terminal, else a line now and then.
class Progress {
 public:
  explicit Progress(std::int64_t steps) : steps_(steps), every_(std::max<std::int64_t>(1, steps / 20)) {}

  void show(std::int64_t step, double sentence_loss, double repeat_loss) const {
    const bool bar = isatty(STDERR_FILENO);
    const bool last = step + 1 == steps_;
    if (!bar && step % every_ != 0 && !last) return;
    const auto numbers = fmt::format("step {:>5}/{}  loss: sentences {:.3f}, repeats {:.3f} nats  {:.0f} s",
                                     step + 1, steps_, sentence_loss, repeat_loss, seconds());
    if (bar) {
      const auto filled = static_cast<std::size_t>(30 * (step + 1) / steps_);
      fmt::print(stderr, "\r[{}{}] {}{}", std::string(filled, '#'), std::string(30 - filled, '.'), numbers,
                 last ? "\n" : "");
    } else {
      fmt::print(stderr, "{}\n", numbers);
    }
    std::fflush(stderr);
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::int64_t steps_;
  std::int64_t every_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void train(const hooked::TrainableTransformer& model, toy::Task& task, std::int64_t steps) {
  const auto parameters = model.parameters();
  torch::optim::AdamW optimizer(parameters,
                                torch::optim::AdamWOptions().betas({0.9, 0.98}).weight_decay(0.01));
  const Progress progress(steps);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (auto& group : optimizer.param_groups()) group.options().set_lr(learning_rate(step, steps));
    const auto lesson =
        lesson_at(static_cast<double>(step) / static_cast<double>(steps), model.config().d_vocab);
    const auto half = task.draw(lesson.shortest_half, 31);
    const auto sentences = task.sentences(64, toy::Pairs::training);

    optimizer.zero_grad();
    const auto copy_loss = repeat_loss(model, task.repeats(32, half, lesson.words), half);
    copy_loss.backward();
    const auto sentence_loss = model.loss({sentences.tokens, {.attention_mask = sentences.mask}});
    if (lesson.sentences) sentence_loss.backward();
    torch::nn::utils::clip_grad_norm_(parameters, 1.0);
    optimizer.step();
    progress.show(step, sentence_loss.item<double>(), copy_loss.item<double>());
  }
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::runtime_error(fmt::format("could not write {}", file.string()));
}

std::string model_card(const toy::Figures& figures, const hooked::ModelConfig& config,
                       const training::Options& options) {
  return fmt::format(
      R"(# Toy model

A small transformer that comes with hooked, for its demo and its tests. It was trained by
`examples/train_toy_model.cc` with the engine itself ({steps} steps, seed {seed}, float32) and does two things:

1. It names the indirect object: "When Mary and John went to the store, John gave a drink to" is followed by "Mary".
2. It repeats: after random words it has seen before, it says what followed them. Its induction heads do this.

| | |
|---|---|
| architecture | {layers} layers, d_model {d_model}, {heads} heads of {d_head}, MLPs of {d_mlp} (GELU), LayerNorm, rotary positions |
| parameters | {parameters} |
| context | {n_ctx} tokens |
| vocabulary | {vocab} words; `<bos>` comes first; a word that is not in it is refused |

| measured on | right top-1 predictions over the full vocabulary |
|---|---|
| {sentences} sentences whose pair of names no training sentence had, in either order | {all:.2f} % |
| of these, the answer was mentioned first ("A and B ... B gave a O to" A) | {first:.2f} % |
| of these, the answer was mentioned second ("A and B ... A gave a O to" B) | {second:.2f} % |
| {tokens} tokens of repeats of 4 to 31 different random words, from the second repeated word on | {repeats:.2f} % |

A test of hooked (`tests/examples/toy_model_test.cc`) computes these figures again. One pair of names in ten is held out
of the training sentences by a hash of the pair; in the random repeats all words occur. The model knows eight templates,
350 names, 116 places and 117 objects, and nothing else about the world: its use is to be taken apart.
)",
      fmt::arg("steps", options.steps), fmt::arg("seed", options.seed), fmt::arg("layers", config.n_layers),
      fmt::arg("d_model", config.d_model), fmt::arg("heads", config.n_heads),
      fmt::arg("d_head", config.d_head), fmt::arg("d_mlp", config.d_mlp),
      fmt::arg("parameters", config.parameter_count()), fmt::arg("n_ctx", config.n_ctx),
      fmt::arg("vocab", config.d_vocab), fmt::arg("sentences", figures.sentences),
      fmt::arg("all", 100 * figures.sentence_accuracy()), fmt::arg("first", 100 * figures.first_accuracy()),
      fmt::arg("second", 100 * figures.second_accuracy()), fmt::arg("tokens", figures.repeated_tokens),
      fmt::arg("repeats", 100 * figures.repeat_accuracy()));
}

}  // namespace

int main(int argc, char** argv) try {
  const auto options = training::read_options(argc, argv, 3000);
  toy::Task task(options.seed);
  const auto config = toy_config(task.vocabulary().size());
  const auto model = hooked::TrainableTransformer::create(config, {.seed = options.seed});
  fmt::print(stderr, "training {} parameters for {} steps\n", config.parameter_count(), options.steps);
  train(model, task, options.steps);

  model.freeze().save(options.out);
  write(options.out / "tokenizer.json", task.vocabulary().tokenizer_json());
  write(options.out / "tokenizer_config.json",
        "{\n  \"bos_token\": \"<bos>\",\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");

  // Measured as everybody will use it: read back from the folder, with its weights processed.
  const auto figures = toy::measure(hooked::HookedTransformer::load(options.out.string()));
  write(options.out / "README.md", model_card(figures, config, options));
  fmt::print(
      "held-out sentences {:.2f} % right (answer mentioned first {:.2f} %, second {:.2f} %), repeats {:.2f} "
      "%\n",
      100 * figures.sentence_accuracy(), 100 * figures.first_accuracy(), 100 * figures.second_accuracy(),
      100 * figures.repeat_accuracy());
  fmt::print("wrote {}\n", options.out.string());
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
