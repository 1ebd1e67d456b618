"""Makes tests/analysis/golden/circuit_tracer.safetensors: attribution graphs of small random models and transcoders by
circuit-tracer 0.5.0 (with TransformerLens 3.9), in float64, and what it prunes of them.

    python tests/analysis/makers/attribution_graphs.py tests/analysis/golden/circuit_tracer.safetensors
"""

import sys

import huggingface_hub.constants
import torch
from safetensors.torch import save_file

# circuit-tracer imports a switch that newer huggingface_hub no longer has, and web tools that nothing here calls.
huggingface_hub.constants.HF_HUB_ENABLE_HF_TRANSFER = False

from transformer_lens import HookedTransformerConfig  # noqa: E402

from circuit_tracer.attribution.attribute import attribute  # noqa: E402
from circuit_tracer.graph import compute_graph_scores, prune_graph  # noqa: E402
from circuit_tracer.replacement_model.replacement_model_transformerlens import (  # noqa: E402
    TransformerLensReplacementModel,
)
from circuit_tracer.transcoder.cross_layer_transcoder import CrossLayerTranscoder  # noqa: E402
from circuit_tracer.transcoder.single_layer_transcoder import SingleLayerTranscoder, TranscoderSet  # noqa: E402

LAYERS, WIDTH, FEATURES, VOCABULARY = 2, 16, 24, 20
TOKENS = [3, 7, 1, 15, 9, 7]


class Tokenizer:
    """What circuit-tracer asks of a tokenizer whose texts do not matter."""

    bos_token_id, pad_token_id, eos_token_id = TOKENS[0], TOKENS[0], TOKENS[0]
    all_special_ids = [TOKENS[0]]
    padding_side = "right"
    vocab_size = VOCABULARY

    def decode(self, ids, **_):
        return str(ids)


def random_(module, generator):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)


def transcoders(kind, generator):
    places = {"feature_input_hook": "mlp.hook_in", "feature_output_hook": "hook_mlp_out"}
    if kind == "cross":
        made = CrossLayerTranscoder(LAYERS, FEATURES, WIDTH, lazy_decoder=False, lazy_encoder=False,
                                    dtype=torch.float64, device=torch.device("cpu"), scan="random", **places)
    else:
        made = TranscoderSet(
            {layer: SingleLayerTranscoder(WIDTH, FEATURES, torch.nn.functional.relu, layer, dtype=torch.float64,
                                          skip_connection=kind == "skip", device=torch.device("cpu"))
             for layer in range(LAYERS)}, scan="random", **places)
    random_(made, generator)
    return made


def put_sparse(tensors, name, matrix):
    """A square of which most is 0: the flat places of what is not, and its values (of a mask none)."""
    places = matrix.flatten().nonzero().flatten()
    tensors[name + ".places"] = places.to(torch.int32)
    if matrix.dtype != torch.bool:
        tensors[name + ".values"] = matrix.flatten()[places]


def main(path):
    torch.set_default_dtype(torch.float64)
    tensors = {"tokens": torch.tensor(TOKENS)}
    for number, kind in enumerate(["plain", "skip", "cross"]):
        generator = torch.Generator().manual_seed(number)
        config = HookedTransformerConfig(
            n_layers=LAYERS, d_model=WIDTH, n_ctx=8, d_head=5, n_heads=3, d_mlp=20, d_vocab=VOCABULARY,
            act_fn="gelu", normalization_type="LN", dtype=torch.float64, device="cpu", seed=1)
        features = transcoders(kind, generator)
        model = TransformerLensReplacementModel.from_config(config, features)
        named = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in named.items():
                if not name.startswith("transcoders."):
                    value.copy_(torch.randn(value.shape, generator=generator) * 0.4)
        model.tokenizer = Tokenizer()
        for name, value in named.items():
            plain = name.replace("old_mlp.", "").replace("old_unembed.", "")
            tensors[f"{kind}.{plain}"] = value.detach().clone()
        for name, most in [("all", None), ("some", 9)]:
            graph = attribute(torch.tensor(TOKENS), model, batch_size=3, max_feature_nodes=most, update_interval=1,
                              max_n_logits=5, desired_logit_prob=0.9)
            out = f"{kind}.graph.{name}."
            put_sparse(tensors, out + "adjacency", graph.adjacency_matrix)
            tensors[out + "features"] = graph.active_features[graph.selected_features]
            tensors[out + "logits"] = graph.logit_token_ids
            tensors[out + "scores"] = torch.tensor(compute_graph_scores(graph))
            for node, edge in [(0.8, 0.98), (0.5, 0.7), (0.0, 0.0)]:
                kept = prune_graph(graph, node, edge)
                at = f"{out}pruned.{node}.{edge}."
                tensors[at + "nodes"] = kept.node_mask.to(torch.uint8)
                put_sparse(tensors, at + "edges", kept.edge_mask.to(torch.bool))
                tensors[at + "influence"] = kept.cumulative_scores
    save_file({name: value.detach().contiguous() for name, value in tensors.items()}, path)


if __name__ == "__main__":
    main(sys.argv[1])
