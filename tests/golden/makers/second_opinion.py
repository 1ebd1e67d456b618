"""Asks TransformerLens about models that came from `transformers`, wherever it can express them."""

import torch

from . import padding, transformer_lens_cases
from .exceptions import is_exception
from .float64 import float64

kAgreement = 1e-11  # largest difference / max(1, largest magnitude), float64
kKnownActivations = ("relu", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "silu")
kArchitectures = {("output", "whole_projection"): "Olmo2ForCausalLM", ("pre", "whole_projection"): "OlmoeForCausalLM"}


def opinion(native: dict, weights: dict):
    """TransformerLens's fields and weights for the same function, or nothing if it has no such model."""
    fields = {k: v for k, v in native.items() if k not in ("model_type", "hooked")}
    hooked = native.get("hooked", {})
    place = hooked.get("norm_place", "both" if fields.get("use_normalization_before_and_after") else "pre")
    gated_biases = fields.get("gated_mlp") and hooked.get("mlp_bias", True)
    if (fields.get("act_fn") not in kKnownActivations or place == "post" or gated_biases
            or fields.get("positional_embedding_type") == "none"):
        return None
    if hooked.get("qk_norm") == "whole_projection":
        if native["n_heads"] * native["d_head"] != native["d_model"]:
            return None
        fields["original_architecture"] = kArchitectures[(place, "whole_projection")]
    fields["yarn_truncate"] = hooked.get("yarn_truncate", True)
    state = dict(weights)
    if hooked.get("norm_offset"):
        state = {n: w + 1 if n.endswith(".w") else w for n, w in state.items()}
    if hooked.get("parallel_one_norm"):
        state |= {n.replace(".ln1.", ".ln2."): w for n, w in state.items() if ".ln1." in n}
    if hooked.get("tied_unembedding"):
        state["unembed.W_U"] = state["embed.W_E"].T
    return fields, state


def assert_agreement(first: dict, second: dict, case: str, tolerance: float = kAgreement) -> None:
    """Every point of `first` that `second` has must be equal, rows of padding left out."""
    for name, value in first.items():
        if name not in second or name == "attention_mask":
            continue
        a, b = value.double(), second[name].double()
        assert a.shape == b.shape, f"{case}: {name} {tuple(a.shape)} and {tuple(b.shape)}"
        if (left_out := padding.of_activation(first, name, a)) is not None:
            a, b = (x.masked_fill(left_out, 0) for x in (a, b))
        assert torch.equal(a.isinf(), b.isinf()), f"{case}: {name} differs in -inf"
        a, b = (x.masked_fill(x.isinf(), 0) for x in (a, b))
        difference = (a - b).abs().max() / max(1.0, b.abs().max())
        assert difference <= tolerance, f"{case}: {name} differs by {difference:.2g}"


def _assert_complete(golden, raw: dict) -> None:
    """What TransformerLens has and the golden lacks must be listed as an exception."""
    missing = [n for n in raw if n not in golden.outputs
               and not is_exception(n, golden.exceptions)]
    assert not missing, f"{golden.case}: not recorded: {missing}"


def ask(golden, tolerance: float = kAgreement) -> None:
    """Asks TransformerLens, if it has this model: it must agree; its processed outputs join the golden."""
    second = opinion(golden.native_config, golden.weights)
    if second is None:
        return
    tokens, mask = golden.outputs["tokens"], golden.outputs.get("attention_mask")
    with float64():
        raw = transformer_lens_cases.run(*second, tokens, mask)
        golden.processed, steps, golden.processed_skipped = transformer_lens_cases.processed_or_reason(
            *second, tokens, mask, raw)
    golden.processing = list(steps)
    assert_agreement(golden.outputs, raw, golden.case, tolerance)
    _assert_complete(golden, raw)
    golden.agrees_with = transformer_lens_cases.kOracle
