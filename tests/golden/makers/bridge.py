"""Makes tests/golden/bridge: what the tools of TransformerLens 4 say of checkpoints that its TransformerBridge runs.

It needs an environment of its own, `requirements_bridge.txt`. For each model, as it is, in float64, on three pairs of
prompts: `<case>/raw.safetensors` with both prompts, the two answers, and of the difference of their logits at the last column

    nodes.*    attribution_patch by node, [row, pos, ...], clean into corrupted: `embed`, `head` [.., layer, head], `mlp`
    edges      attribution_patch by edge, [row, writer, reader, pos]; NaN where there is none. Writers are the embedding,
               then each layer's heads and MLP; readers each layer's q, k and v of all heads and its MLP, then the logits
    recovered  faithfulness of the circuits `kept` [circuit, writer, reader], of the first row, [circuit]
    paths.*    get_act_patch_direct_path_all_sources of q, k and v, [layer, head, later layer, head], of the first row

and the index, which says what its tools refuse.
"""

import importlib.metadata
import sys
import warnings

import torch

from .analyses import Analysis
from .case_files import generator_for
from .drawn import model_folder
from .float64 import float64

kModels = ("gpt2", "gpt_neox", "phi", "olmo")
kWidth, kRows, kCircuits = 6, 3, 3


def load(folder: str):
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    return TransformerBridge.boot_transformers(folder, hf_model=model, device="cpu", dtype=torch.float64)


class Names:
    """Numbers of TransformerLens's nodes among the writers and readers of a model."""

    def __init__(self, layers: int, heads: int):
        self.layers, self.heads = layers, heads
        self.writers, self.readers = 1 + layers * (heads + 1), layers * (3 * heads + 1) + 1

    def writer(self, node) -> int:
        if node.kind == "embed":
            return 0
        first = 1 + node.layer * (self.heads + 1)
        return first + (node.head if node.kind == "attn_head_out" else self.heads)

    def reader(self, node) -> int:
        if node.kind == "logits":
            return self.readers - 1
        first = node.layer * (3 * self.heads + 1)
        return first + 3 * self.heads if node.kind == "mlp_in" else first + "qkv".index(node.kind[0]) * self.heads + node.head


def make(case: str, folder: str) -> tuple:
    """Tensors, and what the tools refuse."""
    from transformer_lens import patching
    from transformer_lens.tools.analysis.attribution_patching import (EdgeAttributionConfig, FaithfulnessConfig,
                                                                      attribution_patch, faithfulness)

    bridge = load(folder)
    layers, heads, vocab = bridge.cfg.n_layers, bridge.cfg.n_heads, bridge.cfg.d_vocab
    generator = generator_for("bridge/" + case)
    draw = lambda: torch.randint(0, vocab, (kRows, kWidth), generator=generator)
    clean, corrupted, answer = draw(), draw(), draw()[:, 0]
    against = (answer + 1) % vocab
    made = {"clean": clean, "corrupted": corrupted, "answer": answer, "against": against}
    metric_of = lambda row: lambda logits: logits[0, -1, answer[row]] - logits[0, -1, against[row]]
    pair = lambda row: (clean[row:row + 1], corrupted[row:row + 1])

    nodes = {"nodes.embed": torch.zeros(kRows, kWidth), "nodes.head": torch.zeros(kRows, kWidth, layers, heads),
             "nodes.mlp": torch.zeros(kRows, kWidth, layers)}
    for row in range(kRows):
        for node, score in attribution_patch(bridge, *pair(row), metric_of(row)).node_scores.items():
            if node.kind == "embed":
                nodes["nodes.embed"][row, node.position] = score
            elif node.kind == "attn_head_out":
                nodes["nodes.head"][row, node.position, node.layer, node.head] = score
            else:
                nodes["nodes.mlp"][row, node.position, node.layer] = score
    made |= nodes

    names = Names(layers, heads)
    edges = torch.full((kRows, names.writers, names.readers, kWidth), float("nan"))
    try:
        found = [attribution_patch(bridge, *pair(row), metric_of(row), EdgeAttributionConfig(granularity="edge")).edge_scores
                 for row in range(kRows)]
    except (NotImplementedError, ValueError) as error:
        return made, " ".join(str(error).split())
    for row, scores in enumerate(found):
        for (writer, reader), score in scores.items():
            edges[row, names.writer(writer), names.reader(reader), reader.position] = score
    made["edges"] = edges

    kept = torch.rand(kCircuits, names.writers, names.readers, generator=generator) < 0.6
    made["kept"] = (kept & ~edges[0, :, :, 0].isnan()).to(torch.int64)
    recovered = []
    for circuit in made["kept"]:
        chosen = [edge for edge in found[0] if circuit[names.writer(edge[0]), names.reader(edge[1])]]
        recovered.append(faithfulness(bridge, *pair(0), metric_of(0), chosen, FaithfulnessConfig("corrupt")).recovered)
    made["recovered"] = torch.tensor(recovered)

    caches = [bridge.run_with_cache(tokens)[1] for tokens in pair(0)]
    for component in "qkv":
        made[f"paths.{component}"] = patching.get_act_patch_direct_path_all_sources(
            bridge, corrupted[:1], *caches, metric_of(0), component, verbose=False).detach()
    return made, None


def main(_: list) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    analysis, models = Analysis("bridge"), []
    analysis.clear()
    for case in kModels:
        folder = str(model_folder(f"cases/{case}"))
        with float64():
            tensors, refused = make(case, folder)
        analysis.write(case, "raw", tensors, with_gaps="edges")
        models.append({"model": case, "folder": f"cases/{case}", "processing": {"raw": []}} | ({"edges_refused": refused} if refused else {}))
        print(case, refused or "", file=sys.stderr, flush=True)
    analysis.write_index({"oracle": "TransformerLens " + importlib.metadata.version("transformer-lens")}, models)
