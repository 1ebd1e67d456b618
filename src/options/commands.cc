#include <array>

#include "options/command.h"

namespace hooked::cli {
namespace {

constexpr bool kEndsEarly = true;

}  // namespace

std::span<const Command> commands() {
  static constexpr std::array kCommands = {
      Command{"list", "models and dictionaries in the local Hugging Face cache; which load",
              "  hooked list\n"
              "  hooked list --json",
              define_list},
      Command{"info", "what a model is, and what weight processing does to it; what a dictionary is",
              "  hooked info examples/toy_model\n"
              "  hooked info examples/toy_model --process fold_ln,center_unembed --json",
              define_info},
      Command{"names", "every activation point of a model: name, axes, shape",
              "  hooked names examples/toy_model --tokens-length 8\n"
              "  hooked names examples/toy_model --names 'blocks.0.attn.*'",
              define_names},
      Command{"tokenize", "text to ids and pieces, or ids to text",
              "  hooked tokenize examples/toy_model --text \"When Mary and John went\"\n"
              "  hooked tokenize examples/toy_model --decode 1,2,3",
              define_tokenize},
      Command{"run", "runs a model and prints the likeliest next tokens and the loss",
              "  hooked run examples/toy_model \\\n"
              "      --text \"When Mary and John went to the store, John gave a drink to\"\n"
              "  hooked run examples/toy_model --tokens 1,2,3 --top-k 5 \\\n"
              "      --edit \"blocks.1.attn.hook_z[head=3,pos=-1] zero\"",
              define_run},
      Command{"cache", "writes activations, logits and gradients to a safetensors file",
              "  hooked cache examples/toy_model --text \"When Mary and John went\" \\\n"
              "      --names '*.hook_pattern,*.hook_resid_post' --out cache.safetensors\n"
              "  hooked cache examples/toy_model --tokens 1,2,3 --out gradients.safetensors \\\n"
              "      --gradients --answer \" Mary\" --against \" John\"",
              define_cache, kEndsEarly},
      Command{"show", "what a safetensors file holds, and where its activations come from",
              "  hooked show cache.safetensors\n"
              "  hooked show examples/toy_model/model.safetensors --list",
              define_show},
      Command{"generate", "continues a prompt, token by token, with captures and edits at every step",
              "  hooked generate examples/toy_model --text \"When Mary and John went to\" \\\n"
              "      --max-new-tokens 12 --greedy\n"
              "  hooked generate examples/toy_model --text \"Then Mary\" --temperature 0.7 \\\n"
              "      --top-k 50 --seed 1 --capture '*.hook_resid_post' --out resid.safetensors",
              define_generate, kEndsEarly},
      Command{"lens", "what the model would predict if it stopped at each point of its stream",
              "  hooked lens examples/toy_model --answer \" Mary\" --mid \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\"\n"
              "  hooked lens examples/toy_model --tokens 1,2,3 --parts head --top-k 1 --json",
              define_lens, kEndsEarly},
      Command{"attribute", "what each layer, head, expert or neuron adds to a logit",
              "  hooked attribute examples/toy_model --answer \" Mary\" --against \" John\" \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\" \\\n"
              "      --grain head\n"
              "  hooked attribute examples/toy_model --tokens 1,2,3 --answer-token 4 \\\n"
              "      --sources --out sources.csv",
              define_attribute, kEndsEarly},
      Command{"heads", "where each head looks: scores (previous token, induction) or a picture",
              "  hooked heads examples/toy_model --half 20\n"
              "  hooked heads examples/toy_model --pattern 1.3 --out attention.svg \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\"\n"
              "  hooked heads examples/toy_model --score previous_token,entropy --per-row \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\"",
              define_heads, kEndsEarly},
      Command{"patch", "activation patching: puts activations of one run into another, everywhere",
              "  hooked patch examples/toy_model \\\n"
              "      --clean \"When John and Mary went to the shop, John gave a bag to\" \\\n"
              "      --corrupted \"When John and Mary went to the shop, Mary gave a bag to\" \\\n"
              "      --answer \" Mary\" --against \" John\" --sweep resid_pre\n"
              "  hooked patch examples/toy_model --pairs examples/pairs.jsonl \\\n"
              "      --sweep attn_head_out_all_pos --metric logit_difference,probability \\\n"
              "      --out heads.svg",
              define_patch, kEndsEarly},
      Command{"circuits", "which heads, MLPs or edges give the answer: by gradients, judged by runs",
              "  hooked circuits examples/toy_model --pairs examples/pairs.jsonl \\\n"
              "      --check 5 --top 4 --judge 50\n"
              "  hooked circuits examples/toy_model \\\n"
              "      --clean \"When John and Mary went to the shop, John gave a bag to\" \\\n"
              "      --corrupted \"When John and Mary went to the shop, Mary gave a bag to\" \\\n"
              "      --answer \" Mary\" --against \" John\" --edges --steps 5 --top 12 --greedy \\\n"
              "      --save circuit.json",
              define_circuits, kEndsEarly},
      Command{"weights", "circuits from weights alone: composition, copying, singular directions",
              "  hooked weights examples/toy_model --composition q,k,v\n"
              "  hooked weights examples/toy_model --copying\n"
              "  hooked weights examples/toy_model --singular ov_written --layer 1 --index 3",
              define_weights, kEndsEarly},
      Command{"sae", "features of a dictionary: which fire, what they raise, what changing them does",
              "  hooked sae examples/toy_model --dictionary examples/toy_sae --with-error \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\"\n"
              "  hooked sae examples/toy_model --dictionary examples/toy_sae --with-error \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\" \\\n"
              "      --ablate 182 --answer \" Mary\"",
              define_sae, kEndsEarly},
      Command{"graph", "an attribution graph: which features, errors and tokens lead to the next token",
              "  hooked graph examples/toy_model --dictionary examples/toy_transcoders \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\" \\\n"
              "      --out graph.json\n"
              "  hooked graph examples/toy_model --neurons --answer \" Mary\" \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\"",
              define_graph, kEndsEarly},
      Command{"harvest", "activations of a whole corpus on disk; continues where it stopped",
              "  hooked harvest examples/toy_model --corpus examples/pairs.jsonl \\\n"
              "      --field clean --names resid_post1 --context 16 --out acts\n"
              "  hooked harvest examples/toy_model --corpus examples/pairs.jsonl \\\n"
              "      --field clean --names resid_post --context 16 --moments --out moments\n"
              "  hooked harvest --status acts",
              define_harvest, kEndsEarly},
      Command{"report", "one page about a prompt: tokens, lens, attention, attribution, patching",
              "  hooked report examples/toy_model --out report.html \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\"\n"
              "  hooked report examples/toy_model --out pair.html \\\n"
              "      --answer \" Mary\" --against \" John\" \\\n"
              "      --text \"When John and Mary went to the shop, John gave a bag to\" \\\n"
              "      --corrupted \"When John and Mary went to the shop, Mary gave a bag to\" \\\n"
              "      --dictionary examples/toy_sae --with-error --neurons",
              define_report, kEndsEarly},
      Command{"save", "writes the loaded (processed, converted) model as a native folder",
              "  hooked save examples/toy_model --out toy_model_processed", define_save},
      Command{"bench", "times plain and cached runs on this machine",
              "  hooked bench examples/toy_model --batch 1 --length 32 --iterations 20", define_bench,
              kEndsEarly},
      Command{"completion", "prints what makes the shell complete commands, options and models",
              "  source <(hooked completion bash)", define_completion},
  };
  return kCommands;
}

}  // namespace hooked::cli
