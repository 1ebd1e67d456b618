#include <array>

#include "options/command.h"

namespace hooked::cli {

std::span<const Command> commands() {
  static constexpr std::array kCommands = {
      Command{"info", "what a model is, and what weight processing does to it",
              "hooked info examples/toy_model\n  hooked info gpt2 --process fold_ln,center_unembed --json",
              define_info},
      Command{"names", "every activation point of a model: name, axes, shape",
              "hooked names gpt2 --tokens-length 8\n  hooked names gpt2 --names 'blocks.0.attn.*'",
              define_names},
      Command{"tokenize", "text to ids and pieces, or ids to text",
              "hooked tokenize examples/toy_model --text \"When Mary and John went\"\n"
              "  hooked tokenize examples/toy_model --decode 1,2,3",
              define_tokenize},
      Command{"run", "runs a model and prints the likeliest next tokens and the loss",
              "hooked run examples/toy_model \\\n"
              "      --text \"When Mary and John went to the store, John gave a drink to\"\n"
              "  hooked run gpt2 --tokens 464,3290 --top-k 5 \\\n"
              "      --edit \"blocks.9.attn.hook_z[head=6,pos=-1] zero\"",
              define_run},
      Command{"cache", "writes activations, logits and gradients to a safetensors file",
              "hooked cache gpt2 --tokens 464,3290 --out cache.safetensors \\\n"
              "      --names '*.hook_pattern,*.hook_resid_post'\n"
              "  hooked cache gpt2 --tokens 464,3290 --out gradients.safetensors \\\n"
              "      --gradients --answer-token 318 --against-token 373",
              define_cache},
      Command{"generate", "continues a prompt, token by token, with captures and edits at every step",
              "hooked generate examples/toy_model --text \"When Mary and John went to\" \\\n"
              "      --max-new-tokens 12 --greedy\n"
              "  hooked generate gpt2 --text \"Once upon a time\" --temperature 0.7 --top-k 50 \\\n"
              "      --seed 1 --capture '*.hook_resid_post' --out resid.safetensors",
              define_generate},
      Command{"save", "writes the loaded (processed, converted) model as a native folder",
              "hooked save gpt2 --out gpt2-processed", define_save},
      Command{"bench", "times plain and cached runs on this machine",
              "hooked bench gpt2 --batch 1 --length 128 --iterations 20", define_bench},
  };
  return kCommands;
}

}  // namespace hooked::cli
