"""Native weights out of a `transformers` model, by its parts."""

import torch

from .model_parts import LayerParts, ModelParts


def matrix(module) -> torch.Tensor:
    """[in, out]; `nn.Linear` stores [out, in], GPT-2's Conv1D [in, out]."""
    return module.weight.T if isinstance(module, torch.nn.Linear) else module.weight


def _norm(native: str, module, config) -> dict:
    """Weight and bias of a norm. Those that add 1 to w: w under `norm_offset`, else 1 + w."""
    weights = {f"{native}.w": module.weight}
    if getattr(module, "bias", None) is not None:
        weights[f"{native}.b"] = module.bias
    offset = config.get("adds_one_to_norm_weights", False)
    hooked = config["native"].get("hooked", {})
    if offset and not hooked.get("norm_offset"):
        weights[f"{native}.w"] = module.weight + 1
    return weights


def _qkv(part: LayerParts, config: dict, prefix: str) -> dict:
    if part.fused_qkv is not None:
        matrices = part.split_qkv(matrix(part.fused_qkv), config)
        biases = part.split_qkv(part.fused_qkv.bias, config)
    else:
        modules = (part.query, part.key, part.value)
        matrices = [matrix(m) for m in modules]
        biases = [m.bias for m in modules]
    grouped = config.get("n_key_value_heads") is not None
    weights = {}
    for letter, weight, bias in zip("QKV", matrices, biases):
        under = "_" if grouped and letter != "Q" else ""
        by_head = weight.unflatten(-1, (-1, config["d_head"]))
        weights[f"{prefix}.{under}W_{letter}"] = by_head.permute(1, 0, 2)
        if bias is not None:
            weights[f"{prefix}.{under}b_{letter}"] = bias.unflatten(-1, (-1, config["d_head"]))
    return weights


def _layer(part: LayerParts, config: dict, prefix: str) -> dict:
    native = config["native"]
    weights = _qkv(part, native, f"{prefix}.attn")
    weights[f"{prefix}.attn.W_O"] = matrix(part.out).unflatten(0, (native["n_heads"], native["d_head"]))
    if part.out.bias is not None:
        weights[f"{prefix}.attn.b_O"] = part.out.bias
    for name, module in part.norms.items():
        weights |= _norm(f"{prefix}.{name}", module, config)
    for name, module in (("gate", part.gate), ("in", part.up), ("out", part.down)):
        if module is None:
            continue
        weights[f"{prefix}.mlp.W_{name}"] = matrix(module)
        if module.bias is not None:
            weights[f"{prefix}.mlp.b_{name}"] = module.bias
    return weights


def native_weights(parts: ModelParts, config: dict) -> dict:
    """The native state dict, float32; every conversion is exact in it (asserted)."""
    weights = {"embed.W_E": parts.embed.weight * parts.embed_scale}
    if parts.embed_norm is not None:
        weights |= _norm("embed.ln", parts.embed_norm, config)
    if parts.pos_embed is not None:
        weights["pos_embed.W_pos"] = parts.pos_embed.weight[parts.pos_embed_offset:]
    for i, part in enumerate(parts.layers):
        weights |= _layer(part, config, f"blocks.{i}")
    if parts.final_norm is not None:
        weights |= _norm("ln_final", parts.final_norm, config)
    if not config["native"].get("hooked", {}).get("tied_unembedding"):
        weights["unembed.W_U"] = matrix(parts.unembed)
    if getattr(parts.unembed, "bias", None) is not None:
        weights["unembed.b_U"] = parts.unembed.bias
    narrow = {name: value.detach().float().contiguous() for name, value in weights.items()}
    for name, value in weights.items():
        assert torch.equal(narrow[name].double(), value.detach().double()), f"{name} is not exact in float32"
    return narrow
