"""Makes tests/golden/lenses: lenses as their packages save them, and what plain torch reads through them in float64.

`tuned` is a folder of the package tuned-lens: config.json, and params.pt with the state dict of its translators, a Linear for
the stream before each block, which add A h + b to h. `jacobian` holds the lens.pt that TransformerLens saves in the format of
Anthropic's package: J by block, in float16, by which the stream behind the block becomes J h. `expected.safetensors` has, for
either, the tokens of a case (`tuned.tokens`) and logits [point, row, pos, vocab] of the mapped stream through final norm and
unembedding; the points are those that the lens maps, in their order.
"""

import collections
import json
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformer_lens.tools.analysis.jacobian_lens import JacobianLens

from .case_files import check, generator_for, kGoldens
from .drawn import model_folder
from .float64 import float64

kFolder = kGoldens / "lenses"
kTuned, kJacobian = "gpt2", "smollm3"  # cases: LayerNorm, RMSNorm


def streams(case: str) -> tuple:
    """The model, the tokens, and the stream before each block, [row, pos, d_model], by transformers."""
    folder = model_folder(f"cases/{case}")
    tokens = load_file(folder / "golden.safetensors")["tokens"]
    with float64():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        return model, tokens, model(tokens, output_hidden_states=True).hidden_states[:-1]


def layer_norm(x: torch.Tensor, norm, eps: float) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * norm.weight + norm.bias


def rms_norm(x: torch.Tensor, norm, eps: float) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * norm.weight


def tuned() -> dict:
    model, tokens, stream = streams(kTuned)
    width, generator = model.config.n_embd, generator_for("lenses/tuned")
    translators = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in stream])
    for parameter in translators.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float32) * 0.3
    folder = kFolder / "tuned"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(translators.state_dict(), folder / "params.pt")
    config = {"base_model_name_or_path": kTuned, "d_model": width, "num_hidden_layers": len(stream), "bias": True,
              "base_model_revision": None, "unembed_hash": None, "lens_type": "linear_tuned_lens"}
    (folder / "config.json").write_text(json.dumps(config))
    logits = []
    for h, linear in zip(stream, translators, strict=True):
        mapped = h + h @ linear.weight.double().T + linear.bias.double()
        normed = layer_norm(mapped, model.transformer.ln_f, model.config.layer_norm_epsilon)
        logits.append(normed @ model.lm_head.weight.T)
    return {"tokens": tokens, "logits": torch.stack(logits)}


def jacobian() -> dict:
    model, tokens, stream = streams(kJacobian)
    width, generator = model.config.hidden_size, generator_for("lenses/jacobian")
    # The last block is not mapped.
    matrices = collections.OrderedDict(
        (layer, torch.randn(width, width, generator=generator)) for layer in range(len(stream) - 1))
    folder = kFolder / "jacobian"
    folder.mkdir(parents=True, exist_ok=True)
    lens = JacobianLens(matrices, n_prompts=3, d_model=width, metadata={"target_layer": len(stream) - 1, "corpus": "none"})
    lens.save(str(folder / "lens.pt"))
    logits = []
    for layer, matrix in matrices.items():
        mapped = stream[layer + 1] @ matrix.half().double().T
        normed = rms_norm(mapped, model.model.norm, model.config.rms_norm_eps)
        logits.append(normed @ model.lm_head.weight.T)
    return {"tokens": tokens, "logits": torch.stack(logits)}


def main(_: list) -> None:
    torch.set_num_threads(1)
    made = {}
    with torch.no_grad():
        for name, make in (("tuned", tuned), ("jacobian", jacobian)):
            made |= {f"{name}.{key}": value.detach() for key, value in make().items()}
    check(made, "lenses")
    save_file({name: value.clone().contiguous() for name, value in sorted(made.items())}, kFolder / "expected.safetensors")
    for file in kFolder.rglob("*"):
        if file.is_file():
            file.chmod(0o644)
    print(f"{sum(f.stat().st_size for f in kFolder.rglob('*') if f.is_file()) / 1e3:.0f} kB", file=sys.stderr)
