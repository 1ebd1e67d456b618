"""Writes tests/dictionaries/golden/saelens: small random dictionaries of every architecture of SAELens that hooked reads,
saved by SAELens, and what SAELens computes with them in float64.

Usage: saelens.py [--packages FOLDER ...]        writes the goldens
       saelens.py [--packages FOLDER ...] --check FOLDER
                                                 compares dictionaries that hooked saved with the goldens of their names:
       HOOKED_SAVED_DICTIONARIES=FOLDER dictionaries_tests --gtest_filter=*WhatIsSaved* writes them

FOLDERs are where SAELens 6.54 and what it imports are installed, if that is not this environment.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "saelens"
D_IN, D_OUT, FEATURES = 12, 8, 24
VALUES = "expected.safetensors"

# Name of the golden: class, options. `scale`: how much noise the weights get.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "standard": ("standard", {}),
    "standard_no_bias_on_input": ("standard", {"apply_b_dec_to_input": False}),
    "standard_layer_norm": ("standard", {"normalize_activations": "layer_norm"}),
    "standard_constant_norm": (
        "standard",
        {"normalize_activations": "constant_norm_rescale"},
    ),
    "standard_expected_average": (
        "standard",
        {"normalize_activations": "expected_average_only_in"},
    ),
    "standard_hook_z": ("standard", {"reshape_activations": "hook_z"}),
    "gated": ("gated", {}),
    "topk": ("topk", {"k": 5}),
    "topk_rescaled": ("topk", {"k": 5, "rescale_acts_by_decoder_norm": True}),
    "topk_few_positive": ("topk", {"k": 18}),
    "abstopk": ("abstopk", {"k": 5}),
    "abstopk_rescaled": ("abstopk", {"k": 5, "rescale_acts_by_decoder_norm": True}),
    "jumprelu": ("jumprelu", {}),
    "jumprelu_layer_norm": (
        "jumprelu",
        {"normalize_activations": "layer_norm", "apply_b_dec_to_input": False},
    ),
    "matching_pursuit": (
        "matching_pursuit",
        {"residual_threshold": 0.5, "max_iterations": 6},
    ),
    "matching_pursuit_no_bias": (
        "matching_pursuit",
        {
            "residual_threshold": 0.0,
            "stop_on_duplicate_support": False,
            "max_iterations": 4,
            "apply_b_dec_to_input": False,
        },
    ),
    "transcoder": ("transcoder", {}),
    "transcoder_layer_norm": ("transcoder", {"normalize_activations": "layer_norm"}),
    "skip_transcoder": ("skip_transcoder", {}),
    "jumprelu_transcoder": ("jumprelu_transcoder", {}),
    "jumprelu_skip_transcoder": ("jumprelu_skip_transcoder", {}),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", nargs="*", default=[])
    parser.add_argument("--check")
    given = parser.parse_args()
    sys.path[:0] = given.packages
    return given


def undone(sae: Any) -> str:
    """What is undone after the reconstruction."""
    return sae.cfg.normalize_activations if not hasattr(sae, "W_skip") else "none"


def computed(sae: Any, x: Any, heads: bool) -> dict[str, Any]:
    """What SAELens computes for activations x, with all of its points."""
    import torch

    with torch.no_grad():
        _, cache = sae.run_with_cache(x)
        codes = sae.encode(x)
        if (
            heads
        ):  # the flattening is turned off by a first call with another number of axes
            sae.turn_on_forward_pass_hook_z_reshaping()
            codes = sae.encode(x)
        found = {"x": x, "codes": codes, "output": sae.forward(x)}
        if "hook_sae_acts_pre" in cache:
            found["pre"] = cache["hook_sae_acts_pre"]
        if undone(sae) != "none":  # else the same as the output
            found["recons"] = cache["hook_sae_recons"]
    return {name: value.detach().clone().contiguous() for name, value in found.items()}


def make(name: str, architecture: str, options: dict[str, Any]) -> None:
    import torch
    from sae_lens.registry import get_sae_class
    from sae_lens.saes.sae import SAEMetadata
    from safetensors.torch import save_file

    torch.manual_seed(len(name) * 7 + sum(map(ord, name)))
    sae_class, config_class = get_sae_class(architecture)
    heads = options.get("reshape_activations") == "hook_z"
    place = "blocks.1.attn.hook_z" if heads else "blocks.1.hook_resid_post"
    facts: dict[str, Any] = dict(
        model_name="tiny",
        hook_name=place,
        prepend_bos=True,
        context_size=16,
        own={"a": [1, None]},
    )
    sizes: dict[str, Any] = dict(
        d_in=D_IN, d_sae=FEATURES, dtype="float64", device="cpu"
    )
    if "transcoder" in architecture:
        sizes |= dict(d_out=D_OUT, apply_b_dec_to_input=False)
        facts |= dict(
            hook_name="blocks.1.ln2.hook_normalized",
            hook_name_out="blocks.1.hook_mlp_out",
        )
    sae = sae_class(config_class(**sizes, **options, metadata=SAEMetadata(**facts)))
    with torch.no_grad():
        for weight in sae.parameters():
            weight.add_(0.4 * torch.randn_like(weight))
        if hasattr(sae, "threshold"):
            sae.threshold.copy_(
                0.3 * torch.randn(FEATURES, dtype=torch.float64)
            )  # some are negative
    x = 2 * torch.randn(2, 2, *([3, 4] if heads else [D_IN]), dtype=torch.float64)
    folder = GOLDEN / name
    sae.save_model(folder)
    save_file(computed(sae, x, heads), folder / VALUES)


def check(saved: Path) -> None:
    """Reads what hooked saved with SAELens, and computes the golden's values."""
    import torch
    from sae_lens import SAE
    from safetensors.torch import load_file

    for folder in sorted(saved.iterdir()):
        golden = GOLDEN / folder.name
        wanted = load_file(golden / VALUES)
        sae = SAE.load_from_disk(folder)
        got = computed(sae, wanted["x"], "hook_z" in folder.name)
        largest = max(
            float((got[name] - value).abs().max()) for name, value in wanted.items()
        )
        facts = json.loads((folder / "cfg.json").read_text())["metadata"]
        original = json.loads((golden / "cfg.json").read_text())["metadata"]
        kept = all(facts.get(key) == value for key, value in original.items())
        assert (
            largest < 1e-12 and kept and torch.get_default_dtype() == torch.float32
        ), (folder.name, largest, facts)
        print(f"{folder.name}: equal to {largest:.1e}, metadata kept")


def main() -> None:
    given = arguments()
    if given.check:
        check(Path(given.check))
        return
    shutil.rmtree(GOLDEN, ignore_errors=True)
    for name, (architecture, options) in CASES.items():
        make(name, architecture, options)


if __name__ == "__main__":
    main()
