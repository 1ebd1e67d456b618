// Names as text, tensor operators and printing with hooked/hooked.h alone. Arguments: a model folder, and a
// folder in which a model with more rows in its embedding than its tokenizer has pieces is written.
#include <hooked/hooked.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

namespace {

namespace act = hooked::act;

void use_names(hooked::HookedTransformer& model) {
  const auto handle = model.hook("z1", [](const at::Tensor& x) { return x * 0.5; });
  const auto [logits, cache] =
      model.run_with_cache("When John and Mary went to the shop,", "pattern,resid_post1");
  const at::Tensor last = at::softmax(logits.index({0, -1}), -1);
  std::cout << act::z(1) << ' ' << model.names()[3] << ' ' << cache.begin()->name << '\n'
            << cache["pattern0[head=1,pos=last]"] << at::cat({last.slice(0, 0, 2), last.slice(0, 2, 4)})
            << '\n';
  const auto edited =
      model.run("When John", {.edits = {hooked::zero("blocks.1.attn.hook_z[head=3]"),
                                        hooked::scale("blocks.*.hook_resid_pre[pos=-1]", 2.0)}});
  std::cout << "largest change " << (edited.logits() - model("When John")).abs().max() << '\n';
}

// What published models are like: 80 more ids than pieces.
void save_with_more_ids(const hooked::HookedTransformer& model, const std::filesystem::path& folder) {
  hooked::ModelConfig config = model.config();
  hooked::StateDict weights = model.state_dict();
  config.d_vocab += 80;
  config.unembedding->d_vocab += 80;
  weights["embed.W_E"] = at::cat({weights["embed.W_E"], at::randn({80, config.d_model})});
  weights["unembed.W_U"] = at::cat({weights["unembed.W_U"], at::randn({config.d_model, 80})}, 1);
  if (config.unembedding->bias) weights["unembed.b_U"] = at::cat({weights["unembed.b_U"], at::zeros({80})});
  hooked::HookedTransformer::from_state_dict(weights, config).save(folder);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return EXIT_FAILURE;
  auto model = hooked::HookedTransformer::load(argv[1]);
  use_names(model);
  save_with_more_ids(model, argv[2]);
  for (const auto& file : hooked::Tokenizer::files_in(argv[1])) {
    std::filesystem::copy(std::filesystem::path(argv[1]) / file, std::filesystem::path(argv[2]) / file);
  }
  std::cout << "names, operators and printing work\n";
}
