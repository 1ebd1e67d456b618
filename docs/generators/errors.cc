// Prints docs/errors.md: makes each kind of error happen and shows what the library said.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/hooked.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "hooked/text/tokenizer.h"
#include "page.h"

namespace act = hooked::act;
using hooked::HookedTransformer;

namespace {

/// One thing that goes wrong: when, how to make it happen, and what helps.
struct Case {
  std::string_view when;
  std::function<void()> provoke;
  std::string_view cure;
};

template <typename Kind>
void print_section(std::string_view name, std::string_view about, const std::vector<Case>& cases) {
  std::cout << fmt::format("\n## {}\n\n{}\n", name, about);
  for (const Case& entry : cases) {
    try {
      entry.provoke();
    } catch (const Kind& error) {
      std::cout << fmt::format("\n**{}**\n\n```text\n{}\n```\n\n{}\n", entry.when, error.what(), entry.cure);
      continue;
    }
    throw std::logic_error(fmt::format("no error where one is documented: {}", entry.when));
  }
}

hooked::ModelConfig small_config() {
  hooked::ModelConfig config;
  config.n_layers = 2;
  config.d_model = 12;
  config.n_ctx = 8;
  config.n_heads = config.n_kv_heads = 3;
  config.d_head = 4;
  config.d_mlp = 16;
  config.d_vocab = 11;
  config.unembedding = hooked::Unembedding{.d_vocab = config.d_vocab};
  config.attn_scale = 2.0;
  return config;
}

/// A folder to work in, so that messages show relative paths; removed at the end.
class Workplace {
 public:
  Workplace() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hooked-errors-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    std::filesystem::current_path(folder_);
  }
  ~Workplace() {
    std::filesystem::current_path("/");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};

void write(const std::string& file, std::string_view text) {
  if (const auto folder = std::filesystem::path(file).parent_path(); !folder.empty()) {
    std::filesystem::create_directories(folder);
  }
  hooked::write_file(file, text);
}

// A saved model in `folder`, with one thing in its config.json replaced.
void save_with(const HookedTransformer& model, const std::string& folder, std::string_view from,
               std::string_view to) {
  model.save(folder);
  std::string text = hooked::read_text_file(folder + "/config.json", 1 << 20);
  const auto place = text.find(from);
  if (place == std::string::npos) throw std::logic_error(fmt::format("config.json has no {}", from));
  write(folder + "/config.json", text.replace(place, from.size(), to));
}

void checkpoint_errors(const HookedTransformer& model, const std::filesystem::path& repository) {
  print_section<hooked::CheckpointError>(
      "CheckpointError", "The files of a model are absent, damaged, or do not belong to its config.",
      {{"There is no such model", [] { (void)HookedTransformer::load("modles/gpt2/small"); },
        "Give a folder, or the `org/name` of a model that is in the local Hugging Face cache; `hooked list` "
        "shows which are. Nothing is downloaded."},
       {"The folder has no weights",
        [&] {
          model.save("no-weights");
          std::filesystem::remove("no-weights/model.safetensors");
          (void)HookedTransformer::load("no-weights");
        },
        "Put one of these files next to config.json; an index needs its shards there too. Convert other "
        "formats first."},
       {"Shards are missing",
        [&] {
          model.save("shards");
          std::filesystem::rename("shards/model.safetensors", "shards/model-00001-of-00002.safetensors");
          write("shards/model.safetensors.index.json",
                R"({"weight_map": {"embed.W_E": "model-00001-of-00002.safetensors", )"
                R"("unembed.W_U": "model-00002-of-00002.safetensors"}})");
          (void)HookedTransformer::load("shards");
        },
        "All of them are listed. For a model of the hub cache the message names the command that downloads "
        "them; `hooked info` describes what is there."},
       {"An index names files elsewhere",
        [&] {
          model.save("elsewhere");
          std::filesystem::remove("elsewhere/model.safetensors");
          write("elsewhere/model.safetensors.index.json",
                R"({"weight_map": {"embed.W_E": "../other/a.safetensors"}})");
          (void)HookedTransformer::load("elsewhere");
        },
        "Put the shards next to their index. Nothing was opened."},
       {"An adapter is of another model",
        [&] {
          model.save("base");
          write("adapter/adapter_config.json",
                R"({"peft_type": "LORA", "base_model_name_or_path": "../base"})");
          hooked::save_safetensors("adapter/adapter_model.safetensors",
                                   {{"base_model.model.h.0.attn.c_attn.lora_A.weight", at::ones({2, 12})},
                                    {"base_model.model.h.0.attn.c_attn.lora_B.weight", at::ones({36, 2})}});
          (void)HookedTransformer::load("adapter");
        },
        "Write the model that the adapter was made for into adapter_config.json (docs/loading.md)."},
       {"A pickle is not a state dict",
        [&] {
          model.save("module");
          std::filesystem::remove("module/model.safetensors");
          std::filesystem::copy_file(repository / "tests/io/files/module.pt", "module/pytorch_model.bin");
          (void)HookedTransformer::load("module");
        },
        "Save the state dict (`torch.save(model.state_dict(), file)`), not the module. A file from elsewhere "
        "that names anything but tensors is not to be trusted; nothing in it was run."},
       {"A checkpoint is older than PyTorch 1.6",
        [&] {
          model.save("legacy");
          std::filesystem::remove("legacy/model.safetensors");
          std::filesystem::copy_file(repository / "tests/io/files/legacy.pt", "legacy/pytorch_model.bin");
          (void)HookedTransformer::load("legacy");
        },
        "Write it again with a recent torch, or convert it to safetensors."},
       {"A file was cut off",
        [&] {
          model.save("cut");
          std::filesystem::resize_file("cut/model.safetensors",
                                       std::filesystem::file_size("cut/model.safetensors") - 100);
          (void)HookedTransformer::load("cut");
        },
        "Fetch the file again."},
       {"Config and weights do not belong together",
        [&] {
          save_with(model, "wide", "\"d_mlp\": 16", "\"d_mlp\": 32");
          (void)HookedTransformer::load("wide");
        },
        "Use the config.json that came with the weights."},
       {"Tensors are missing",
        [&] {
          auto weights = model.state_dict();
          weights.erase("blocks.1.attn.W_Q");
          weights.erase("unembed.W_U");
          (void)HookedTransformer::from_state_dict(weights, model.config());
        },
        "All missing tensors are listed at once. Tensors that the model does not need are named in `notes()` "
        "instead."}});
}

void config_errors(const HookedTransformer& model) {
  print_section<hooked::ConfigError>(
      "ConfigError",
      "The model's config, or an option of loading, asks for something this engine would not honour.",
      {{"The family is not supported",
        [] {
          write("other/config.json", R"({"model_type": "rwkv", "hidden_size": 16})");
          (void)HookedTransformer::load("other");
        },
        "Families that are not in [families.md](families.md) can be converted to a native folder "
        "(docs/architecture.md)."},
       {"A field has an unknown value",
        [&] {
          save_with(model, "activation", "\"act_fn\": \"relu\"", "\"act_fn\": \"tanhshrink\"");
          (void)HookedTransformer::load("activation");
        },
        "An unknown value is never replaced by a default."},
       {"An adapter is not one of weights and products",
        [] {
          write(
              "pissa/adapter_config.json",
              R"({"peft_type": "LORA", "base_model_name_or_path": "../base", "init_lora_weights": "pissa"})");
          (void)HookedTransformer::load("pissa");
        },
        "Each key of adapter_config.json is honoured or refused; docs/loading.md lists them."},
       {"A field has the wrong type",
        [&] {
          save_with(model, "type", "\"n_layers\": 2", "\"n_layers\": \"2\"");
          (void)HookedTransformer::load("type");
        },
        "Fix config.json."},
       {"Sizes contradict each other",
        [] {
          auto config = small_config();
          config.n_kv_heads = 2;
          (void)HookedTransformer::create(config);
        },
        "`ModelConfig::validate()` checks a config before anything is allocated."},
       {"A processing step would change what the model computes",
        [] {
          auto config = small_config();
          config.unembedding->soft_cap = 30;
          const auto capped = HookedTransformer::create(config);
          (void)HookedTransformer::from_state_dict(
              capped.state_dict(), config,
              {.processing = hooked::WeightProcessing::only({hooked::ProcessingStep::center_unembed})});
        },
        "Ask for fewer steps, or for none by name: the default applies those that keep the function and says "
        "in `processing()` and `hooked info` why the others are left out."},
       {"There is no such device", [] { (void)HookedTransformer::create(small_config(), {.device = "gpu"}); },
        "Write `cpu`, `cuda` or `cuda:N`."},
       {"The model does not have a weight", [&] { (void)model.weights().W_gate(0); },
        "Only gated MLPs have `W_gate`."}});
}

void shape_errors(const HookedTransformer& model, const at::Tensor& tokens) {
  print_section<hooked::ShapeError>(
      "ShapeError",
      "What you pass to a run has the wrong shape, dtype or values. Checked before anything is computed.",
      {{"A token id is outside the vocabulary",
        [&] {
          model.run(at::tensor({1, -2, 3}, at::kLong));
        },
        "Use the model's own tokenizer. Negative ids never count from the end."},
       {"Tokens have another dtype",
        [&] {
          model.run(at::tensor({1, 2, 3}, at::kInt));
        },
        "Convert the ids."},
       {"The input is too long",
        [&] {
          model.run(at::zeros({1, 9}, at::kLong));
        },
        "Cut it, or use a model with a longer context."},
       {"The mask does not fit",
        [&] {
          model.run({tokens, {.attention_mask = at::ones({1, 3}, at::kLong)}});
        },
        "One number per token: 1 for real tokens, 0 for padding."},
       {"A position does not exist", [&] { model.run(tokens, {.logit_positions = {{7}}}); },
        "Negative positions count from the end: -1 is the last."},
       {"A layer does not exist", [&] { model.run(tokens, {.stop_at_layer = 3}); },
        "The number of layers is allowed too: it stops after the last block."}});
}

void hook_errors(const HookedTransformer& model, const at::Tensor& tokens) {
  const auto slim = model.run_with_cache(tokens, act::pattern);
  print_section<hooked::HookError>(
      "HookError", "A name, selection, hook or edit cannot be honoured. Never a silent miss.",
      {{"A name is misspelled", [] { (void)hooked::ActivationName::parse("blocks.0.attn.hook_patern"); },
        "[activations.md](activations.md) lists all names; `hooked names MODEL` those of a model."},
       {"This model does not have the activation", [&] { model.run_with_cache(tokens, act::rot_q(0)); },
        "The message says when the point exists, and which existing name is nearest."},
       {"A glob matches nothing", [&] { model.run_with_cache(tokens, "blocks.*.hook_resid_pst"); },
        "`hooked names MODEL --names GLOB` tries a glob."},
       {"The layer does not exist", [&] { model.run_with_cache(tokens, act::z(2)); }, "Layers count from 0."},
       {"The run would not get there",
        [&] { model.run_with_cache(tokens, act::resid_post(1), {.stop_at_layer = 1}); },
        "Let the run go further, or leave the activation out. `act::resid_post` (all layers) keeps what is "
        "reached."},
       {"An activation was not kept", [&] { (void)slim.cache[act::z(0)]; },
        "Add it to the selection: `act::pattern | act::z`."},
       {"A column is not held",
        [&] {
          const auto some = model.run_with_cache(tokens, act::resid_post, {.keep = {.positions = 1}});
          (void)some.cache[act::resid_post(0).pos(-1)];
        },
        "An address means columns of the sequence, also where a cache holds some of them: with "
        "`keep.positions`, after a prefix, or in a file. Ask for a column that is held, keep more of them, "
        "or join the caches of the stretches (`ActivationCache::join`)."},
       {"A run made no logits",
        [&] { const auto [logits, cache] = model.run_with_cache(tokens, act::z, {.stop_at_layer = 1}); },
        "Let the run go to its end. `run.output()` says which output a run has."},
       {"A hook returns another shape",
        [&] {
          model.run_with_hooks(tokens, {{act::z(0), [](const at::Tensor& z) { return z.sum(2); }}});
        },
        "Return a tensor like the one received. To only look, return nothing."},
       {"A hook writes in place",
        [&] {
          model.run_with_hooks(tokens, {{act::z(0), [](const at::Tensor& z) { z.mul_(0); }}});
        },
        "Return an edited copy. Caches and other hooks may hold the tensor. Writing through `.data()` or a "
        "raw pointer cannot be noticed and is not allowed."},
       {"An edit's value does not fit",
        [&] { model.run(tokens, {.edits = {hooked::set(act::z(0).head(1), at::ones({5}))}}); },
        "The value is broadcast to the addressed block. An axis with one index is dropped, as in "
        "`tensor[i]`."},
       {"An index is out of range", [&] { model.run(tokens, {.edits = {hooked::zero(act::z(0).head(3))}}); },
        "Heads count from 0; negative ones count from the end."},
       {"The site does not have the axis", [] { (void)act::resid_pre(0).head(1); },
        "Use a site with heads: `z`, `result`, `q_input`."},
       {"A backward hook has nothing to follow",
        [&] {
          model.run(tokens,
                    {.hooks = {{act::z(0), [](const at::Tensor&) {}, hooked::HookDirection::backward}}});
        },
        "Set `RunOptions::gradients` to the metric whose gradient flows back."}});
}

void tokenizer_errors(const HookedTransformer& model) {
  constexpr std::string_view kWords =
      R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": null, "decoder": null, "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": null}})";
  print_section<hooked::TokenizerError>(
      "TokenizerError",
      "Text and ids that cannot be turned into each other, or a tokenizer's file that is not understood.",
      {{"The model has no tokenizer", [&] { (void)model.to_tokens("When Mary and John went"); },
        "Pass ids (`--tokens 1,2,3`), or put the `tokenizer.json` into the model's folder."},
       {"A word is not in the vocabulary",
        [&] {
          write("words/tokenizer.json", kWords);
          (void)hooked::Tokenizer::load("words").encode("a c");
        },
        "A word-level tokenizer knows whole words only."},
       {"The file asks for something that is not supported",
        [] {
          write(
              "pieces/tokenizer.json",
              R"({"added_tokens": [], "pre_tokenizer": {"type": "UnicodeScripts"}, "model": {"type": "BPE", "vocab": {}, "merges": []}})");
          (void)hooked::Tokenizer::load("pieces");
        },
        "The model still loads and runs on ids; `notes()` says why text cannot be used."}});
}

void io_errors() {
  print_section<hooked::IoError>(
      "IoError", "The operating system said no.",
      {{"A file cannot be opened", [] { (void)hooked::SafetensorsFile::open("activations.safetensors"); },
        "Check the path and the rights."},
       {"A folder cannot be written",
        [] {
          write("taken", "a file");
          HookedTransformer::create(small_config()).save("taken");
        },
        "Choose another folder. A file that could not be written whole leaves what was there before."},
       {"A file that hooked did not write has the name",
        [] {
          write("scores.csv", "somebody's own table");
          hooked::Grid(at::ones({2}, at::kDouble), {{"layer", {"0", "1"}}}, {}).save("scores.csv");
        },
        "Choose another name, or allow any file to be replaced: `--force`, in C++ `Overwrite::any` "
        "([cache-files.md](cache-files.md#what-is-replaced-and-what-is-not))."},
       {"A folder holds what hooked did not write",
        [] {
          write("notes/README.md", "somebody's own notes");
          HookedTransformer::create(small_config()).save("notes");
        },
        "Choose another folder ([deploying.md](deploying.md#saving-a-model))."}});
}

void memory_errors() {
  const auto model = HookedTransformer::create(small_config());
  print_section<hooked::MemoryError>(
      "MemoryError",
      "There was not enough memory to load, run, continue, train or analyse. Nothing of what was asked for "
      "is kept, so that\n"
      "the same with less can be asked for at once. Sweeps try fewer patches at a time before they throw it.",
      {{"A run does not fit",
        [&] {
          const auto wide = [](const at::Tensor& z) { return z.new_empty({std::int64_t{1} << 50}); };
          model.run(at::tensor({1, 2}, at::kLong), {.hooks = {hooked::Hook(act::z(0), wide)}});
        },
        "Give fewer rows or columns, or keep fewer points ([gpu.md](gpu.md#memory)). Here a hook asked for "
        "too much."}});
}

void errors_of_moving(const HookedTransformer& model, const at::Tensor& tokens) {
  print_section<hooked::Error>(
      "Error", "An object that was moved from holds nothing any more. It may be assigned to or destroyed.",
      {{"A model was moved from",
        [&] {
          HookedTransformer first = model;
          const HookedTransformer second = std::move(first);
          first.run(tokens);
        },
        "Use what it was moved to. A copy of a model shares its weights, so that it costs no more than "
        "moving."}});
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) throw std::invalid_argument("expected the repository's folder");
  const Workplace workplace;
  const auto model = HookedTransformer::create(small_config(), {.seed = 1});
  const at::Tensor tokens = at::tensor({1, 2, 3, 4}, at::kLong);
  hooked::print_page(arguments[1], "errors", {});
  checkpoint_errors(model, arguments[1]);
  config_errors(model);
  shape_errors(model, tokens);
  hook_errors(model, tokens);
  tokenizer_errors(model);
  io_errors();
  memory_errors();
  errors_of_moving(model, tokens);
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return EXIT_FAILURE;
}
