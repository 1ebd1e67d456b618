"""Compares circuit-tracer on hooked.transformer_lens with circuit-tracer on TransformerLens: the same model, the same
transcoders.

Usage: run_circuit_tracer.py [--packages FOLDER ...]

FOLDERs are where circuit-tracer and what it imports are installed, if that is not this environment. Prints how many
values were compared and the largest difference.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from both import compare, with_values

PROMPT = "a c b e d a"
WORDS = ["<s>", "</s>", *"abcdefghi"]

BASE: dict[str, Any] = dict(
    n_layers=3, d_model=16, d_head=4, n_heads=4, d_mlp=24, n_ctx=16, d_vocab=len(WORDS), device="cpu", seed=3
)
GATED: dict[str, Any] = BASE | dict(
    act_fn="silu", gated_mlp=True, normalization_type="RMS", positional_embedding_type="rotary", n_key_value_heads=2
)
MODELS: dict[str, dict[str, Any]] = {
    "GPT-2": BASE | dict(act_fn="gelu_new"),
    "Llama": GATED,
    "Gemma 2": GATED
    | dict(
        act_fn="gelu_pytorch_tanh",
        use_normalization_before_and_after=True,
        attn_scores_soft_cap=5.0,
        output_logits_soft_cap=3.0,
        use_local_attn=True,
        window_size=3,
        attn_types=["local", "global", "local"],
    ),
}
# Where features read, where they write, and what the transcoders are.
TRANSCODERS: dict[str, tuple[str, str, str]] = {
    "per layer": ("mlp.hook_in", "mlp.hook_out", "relu"),
    "with skips": ("ln2.hook_normalized", "hook_mlp_out", "skip"),
    "across layers": ("hook_resid_mid", "hook_mlp_out", "cross"),
}


def tokenizer(folder: str) -> Any:
    """A tokenizer of a few words."""
    import tokenizers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="</s>")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="</s>", unk_token="</s>"
    ).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def transcoders(kind: str, dtype: torch.dtype) -> Any:
    """Small random transcoders, for each layer or across layers."""
    from circuit_tracer.transcoder import SingleLayerTranscoder, TranscoderSet
    from circuit_tracer.transcoder.activation_functions import JumpReLU
    from circuit_tracer.transcoder.cross_layer_transcoder import CrossLayerTranscoder

    reads, writes, what = TRANSCODERS[kind]
    sizes: dict[str, Any] = dict(d_model=16, d_transcoder=20, device=torch.device("cpu"), dtype=dtype)
    places: dict[str, Any] = dict(feature_input_hook=reads, feature_output_hook=writes)
    if what == "cross":
        return with_values(CrossLayerTranscoder(n_layers=3, lazy_decoder=False, **sizes, **places), 0.4)
    each = {
        layer: with_values(
            SingleLayerTranscoder(
                activation_function=JumpReLU(torch.full((20,), 0.1, dtype=dtype)) if what == "skip" else torch.relu,
                layer_idx=layer,
                skip_connection=what == "skip",
                **sizes,
            ),
            0.4,
        )
        for layer in range(3)
    }
    return TranscoderSet(each, **places)


def graphs(model: Any) -> dict[str, torch.Tensor]:
    """Attribution graphs: whole, in small batches, of the strongest features only, of chosen logits."""
    from circuit_tracer import attribute

    found = {}
    options: dict[str, dict[str, Any]] = {
        "whole": dict(batch_size=64),
        "small batches": dict(batch_size=7, max_n_logits=4),
        "strongest": dict(batch_size=5, max_feature_nodes=15, update_interval=1),
        "of targets": dict(batch_size=16, attribution_targets=torch.tensor([4, 7])),
        "weights on disk": dict(batch_size=64, max_n_logits=2, offload="disk"),
    }
    if model.skip_transcoder:  # circuit-tracer reads skips after it has moved them away
        del options["weights on disk"]
    for name, how in options.items():
        graph = attribute(PROMPT, model, **how)
        found |= {
            f"{name}: {part}": getattr(graph, part)
            for part in (
                "adjacency_matrix",
                "active_features",
                "activation_values",
                "selected_features",
                "logit_probabilities",
                "logit_token_ids",
                "input_tokens",
            )
        }
    return found


def interventions(model: Any, feature: tuple[int, int, int]) -> dict[str, torch.Tensor]:
    """Logits and features with a feature set, frozen in the ways that there are, and a continuation."""
    layer, pos, index = feature
    changes = [(layer, pos, index, 3.0), (1, slice(2, None), 5, -1.0)]
    tokens = model.ensure_tokenized(PROMPT)
    found = {}
    for name, how in {
        "attention held": {},
        "free": dict(freeze_attention=False),
        "direct": dict(constrained_layers=range(3), apply_activation_function=False),
        "two layers held": dict(constrained_layers=range(2)),
        "sparse": dict(sparse=True),
    }.items():
        logits, features = model.feature_intervention(tokens, changes, **how)
        found |= {f"{name}: logits": logits, f"{name}: features": features.to_dense()}
    _, logits, features = model.feature_intervention_generate(
        PROMPT, changes, do_sample=False, max_new_tokens=4, stop_at_eos=False, verbose=False
    )
    return found | {"continued: logits": logits, "continued: features": features}


def values() -> dict[str, torch.Tensor]:
    """What is compared: features, graphs, interventions, and runs of the model itself."""
    from circuit_tracer import ReplacementModel
    from transformer_lens import HookedTransformerConfig

    found: dict[str, torch.Tensor] = {}
    with tempfile.TemporaryDirectory() as folder:
        words = tokenizer(folder)
        for name, sizes in MODELS.items():
            for kind in TRANSCODERS:
                for dtype in (torch.float64, torch.float32):
                    torch.set_default_dtype(dtype)
                    torch.manual_seed(1)
                    coders = transcoders(kind, dtype)
                    model = ReplacementModel.from_config(
                        HookedTransformerConfig(**sizes, dtype=dtype), coders, tokenizer=words
                    )
                    with_values(model, 0.3, but="transcoders")
                    logits, features = model.get_activations(PROMPT)
                    sparse = model.get_activations(PROMPT, sparse=True)[1]
                    some = {"logits": logits, "features": features, "sparse": sparse.to_dense()}
                    cached = model.run_with_cache(model.ensure_tokenized(PROMPT))[1]
                    some |= dict(cached.items())
                    some |= graphs(model)
                    strongest = some["whole: active_features"][some["whole: activation_values"].argmax()]
                    some |= interventions(model, tuple(strongest.tolist()))
                    found |= {f"{name}, {kind}, {dtype}, {key}": value.clone() for key, value in some.items()}
    return found


if __name__ == "__main__":
    sys.exit(compare(Path(__file__), __doc__, values, {torch.float64: 1e-9, torch.float32: 1e-4}))
