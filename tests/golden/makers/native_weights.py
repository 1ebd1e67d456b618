"""Native weights of a `transformers` model, by its parts."""

import dataclasses

import torch

from .drawn import draw
from .model_parts import LayerParts, ModelParts


@dataclasses.dataclass
class Weight:
    """A native weight is `of`, a view of the model's parameters, times `factor`, and then plus `offset`."""

    of: torch.Tensor
    factor: float = 1.0
    offset: float = 0.0

    def value(self) -> torch.Tensor:
        return self.of * self.factor + self.offset

    def assign(self, value: torch.Tensor) -> None:
        self.of.copy_((value.double() - self.offset) / self.factor)


def matrix(module) -> torch.Tensor:
    """[in, out]; `nn.Linear` stores [out, in], GPT-2's Conv1D [in, out]."""
    return module.weight.T if isinstance(module, torch.nn.Linear) else module.weight


def _norm(native: str, module, config) -> dict:
    """Weight and bias of a norm. Those that add 1 to w: w under `norm_offset`, else 1 + w."""
    hooked = config["native"].get("hooked", {})
    added = config.get("adds_one_to_norm_weights", False) and not hooked.get("norm_offset")
    weights = {f"{native}.w": Weight(module.weight, offset=float(added))}
    if getattr(module, "bias", None) is not None:
        weights[f"{native}.b"] = Weight(module.bias)
    return weights


def _qkv(part: LayerParts, config: dict, prefix: str) -> dict:
    if part.fused_qkv is not None:
        matrices = part.split_qkv(matrix(part.fused_qkv), config)
        biases = part.split_qkv(part.fused_qkv.bias, config)
    else:
        by_head = lambda x: None if x is None else x.unflatten(-1, (-1, config["d_head"]))
        modules = (part.query, part.key, part.value)
        matrices = [by_head(matrix(m)) for m in modules]
        biases = [by_head(m.bias) for m in modules]
    grouped = config.get("n_key_value_heads") is not None
    weights = {}
    for letter, weight, bias in zip("QKV", matrices, biases):
        under = "_" if grouped and letter != "Q" else ""
        weights[f"{prefix}.{under}W_{letter}"] = Weight(weight.permute(1, 0, 2))
        if bias is not None:
            weights[f"{prefix}.{under}b_{letter}"] = Weight(bias)
    return weights


def _layer(part: LayerParts, config: dict, prefix: str) -> dict:
    native = config["native"]
    weights = _qkv(part, native, f"{prefix}.attn")
    weights[f"{prefix}.attn.W_O"] = Weight(matrix(part.out).unflatten(0, (native["n_heads"], native["d_head"])))
    if part.out.bias is not None:
        weights[f"{prefix}.attn.b_O"] = Weight(part.out.bias)
    for name, module in part.norms.items():
        weights |= _norm(f"{prefix}.{name}", module, config)
    for name, module in (("gate", part.gate), ("in", part.up), ("out", part.down)):
        if module is None:
            continue
        weights[f"{prefix}.mlp.W_{name}"] = Weight(matrix(module))
        if module.bias is not None:
            weights[f"{prefix}.mlp.b_{name}"] = Weight(module.bias)
    return weights


def _weights(parts: ModelParts, config: dict) -> dict:
    weights = {"embed.W_E": Weight(parts.embed.weight, factor=parts.embed_scale)}
    if parts.embed_norm is not None:
        weights |= _norm("embed.ln", parts.embed_norm, config)
    if parts.pos_embed is not None:
        weights["pos_embed.W_pos"] = Weight(parts.pos_embed.weight[parts.pos_embed_offset:])
    for i, part in enumerate(parts.layers):
        weights |= _layer(part, config, f"blocks.{i}")
    if parts.final_norm is not None:
        weights |= _norm("ln_final", parts.final_norm, config)
    if not config["native"].get("hooked", {}).get("tied_unembedding"):
        weights["unembed.W_U"] = Weight(matrix(parts.unembed))
    if getattr(parts.unembed, "bias", None) is not None:
        weights["unembed.b_U"] = Weight(parts.unembed.bias)
    return weights


def native_weights(parts: ModelParts, config: dict) -> dict:
    """The native state dict, float32; every conversion is exact in it (asserted)."""
    with torch.no_grad():
        weights = {name: weight.value() for name, weight in _weights(parts, config).items()}
    narrow = {name: value.float().contiguous() for name, value in weights.items()}
    for name, value in weights.items():
        assert torch.equal(narrow[name].double(), value.double()), f"{name} is not exact in float32"
    return narrow


def drawn_weights(parts: ModelParts, config: dict, folder: str) -> dict:
    """The same after the model's parameters were set to what is drawn for a native folder (drawn.py)."""
    drawn = {name: draw(folder, name, weight.value().shape) for name, weight in _weights(parts, config).items()}
    with torch.no_grad():
        for name, weight in _weights(parts, config).items():
            weight.assign(drawn[name])
    made = native_weights(parts, config)
    assert all(torch.equal(made[name], value) for name, value in drawn.items())
    return made
