"""Activations of a `transformers` model under hook names, recorded by forward hooks on its parts."""

import contextlib
import sys

import torch

from .float64 import float64
from .model_parts import ModelParts


class Trace:
    """First input and output of each module of a forward pass, and queries and keys as attention got them."""

    def __init__(self, model, parts: ModelParts, shape):
        self.shape = tuple(shape)
        self.parts = parts
        self.inputs, self.outputs, self.rotated = {}, {}, []
        self.handles = [m.register_forward_hook(self._keep, with_kwargs=True) for m in model.modules()]
        self.restore = self._spy_on_attention(model)

    def _keep(self, module, args, kwargs, output):
        first = args[0] if args else kwargs.get("hidden_states")
        self.inputs[module] = first
        self.outputs[module] = output[0] if isinstance(output, tuple) else output

    def _spy_on_attention(self, model):
        source = sys.modules[type(model).__module__]
        owners = [source] if hasattr(source, "eager_attention_forward") else []
        owners += [type(m) for m in model.modules() if hasattr(type(m), "_attn")]
        undo = []
        for owner in dict.fromkeys(owners):
            name = "_attn" if isinstance(owner, type) else "eager_attention_forward"
            original = getattr(owner, name)

            def spy(module, query, key, *args, _original=original, **kwargs):
                self.rotated.append((query.transpose(1, 2), key.transpose(1, 2)))
                return _original(module, query, key, *args, **kwargs)

            setattr(owner, name, spy)
            undo.append((owner, name, original))
        return undo

    def close(self):
        for handle in self.handles:
            handle.remove()
        for owner, name, original in self.restore:
            setattr(owner, name, original)

    def _shaped(self, value):
        """[batch, pos, ...] again where a model flattened it, and batch expanded."""
        if value.dim() == 2:
            value = value.unflatten(0, self.shape)
        return value.expand(self.shape[0], *value.shape[1:])

    def into(self, module):
        return self._shaped(self.inputs[module])

    def out_of(self, module):
        return self._shaped(self.outputs[module])


def norm_points(trace: Trace, module, config: dict) -> dict:
    """`hook_scale` and `hook_normalized` of a norm, from what went in and what came out of it.

    normalized = (output - bias) / weight; the scale is the number that takes normalized to the (centred) input.
    """
    x, y = trace.inputs[module], trace.outputs[module]
    weight = module.weight + (1 if config.get("adds_one_to_norm_weights") else 0)
    bias = getattr(module, "bias", None)
    normalized = (y - (0 if bias is None else bias)) / weight
    if "RMS" not in type(module).__name__:
        x = x - x.mean(-1, keepdim=True)
    scale = (x * normalized).sum(-1, keepdim=True) / (normalized * normalized).sum(-1, keepdim=True)
    return {"hook_scale": scale, "hook_normalized": normalized}


def _by_head(x, d_head):
    return x.unflatten(-1, (-1, d_head)) if x.dim() == 3 else x


def _attention_points(trace: Trace, part, config: dict) -> dict:
    native = config["native"]
    d_head = native["d_head"]
    if part.fused_qkv is not None:
        qkv = part.split_qkv(trace.out_of(part.fused_qkv), native)
    else:
        qkv = [trace.out_of(m) for m in (part.query, part.key, part.value)]
    points = {f"attn.hook_{letter}": _by_head(x, d_head) for letter, x in zip("qkv", qkv)}
    points["attn.hook_z"] = _by_head(trace.into(part.out), d_head)
    for name in ("attn.q_norm", "attn.k_norm"):
        if name not in part.norms:
            continue
        norm = norm_points(trace, part.norms[name], config)
        whole = norm["hook_normalized"].dim() == 3
        head_first = not whole and norm["hook_normalized"].shape[2] == trace.shape[1]  # [batch, head, pos, d_head]
        for leaf, value in norm.items():
            if whole:
                value = value.unsqueeze(-1) if leaf == "hook_scale" else _by_head(value, d_head)
            points[f"{name}.{leaf}"] = value.transpose(1, 2) if head_first else value
    return points


def _stream_points(trace: Trace, part, place: str, parallel: bool) -> dict:
    points = {"hook_resid_pre": trace.into(part.block)}
    after_attn, after_mlp = (part.norms["ln1_post"], part.norms["ln2_post"]) if place in ("output", "both") else (
        part.out, part.down)
    points["hook_attn_out"], points["hook_mlp_out"] = trace.out_of(after_attn), trace.out_of(after_mlp)
    if place == "post":
        points["hook_resid_mid"] = trace.into(part.norms["ln1"])
        points["hook_resid_post"] = trace.into(part.norms["ln2"])
        points["hook_normalized_resid_post"] = trace.out_of(part.block)
        return points
    if not parallel:
        points["hook_resid_mid"] = trace.into(part.up if place == "output" else part.norms["ln2"])
    points["hook_resid_post"] = trace.out_of(part.block)
    return points


def _layer_points(trace: Trace, part, config: dict) -> dict:
    native = config["native"]
    place = native.get("hooked", {}).get("norm_place", "pre")
    points = _stream_points(trace, part, place, native.get("parallel_attn_mlp", False))
    points |= _attention_points(trace, part, config)
    for name, module in part.norms.items():
        if not name.startswith("attn."):
            points |= {f"{name}.{leaf}": trace._shaped(v) for leaf, v in norm_points(trace, module, config).items()}
    if native.get("hooked", {}).get("parallel_one_norm"):
        points |= {f"ln2.{leaf}": points[f"ln1.{leaf}"] for leaf in ("hook_scale", "hook_normalized")}
    if part.gate is not None:
        points["mlp.hook_pre"] = trace.out_of(part.gate)
        points["mlp.hook_pre_linear"] = trace.out_of(part.up)
    else:
        points["mlp.hook_pre"] = trace.out_of(part.up)
    points["mlp.hook_post"] = trace.into(part.down)
    return points


def _model_points(trace: Trace, parts: ModelParts, config: dict) -> dict:
    points = {"unembed.hook_in": trace.into(parts.unembed), "unembed.hook_out": trace.out_of(parts.unembed)}
    if parts.embed_norm is not None:
        points["hook_embed"] = trace.out_of(parts.embed_norm)
        points |= {f"embed.ln.{leaf}": v for leaf, v in norm_points(trace, parts.embed_norm, config).items()}
    else:
        points["hook_embed"] = trace.out_of(parts.embed)
    if parts.pos_embed is not None:
        points["hook_pos_embed"] = trace.out_of(parts.pos_embed)
    if parts.final_norm is not None:
        points |= {f"ln_final.{leaf}": v for leaf, v in norm_points(trace, parts.final_norm, config).items()}
    return points


def position_ids(mask, tokens):
    """Positions count real tokens, as `generate` passes them."""
    if mask is None:
        return torch.arange(tokens.shape[1]).expand_as(tokens)
    return (mask.cumsum(-1) - 1).clamp(min=0)


def attention_mask_for(config: dict, tokens, mask):
    """The mask to pass: [batch, pos], or all of it ([batch, 1, pos, pos], additive) for a bidirectional model."""
    if config["native"].get("attention_dir") != "bidirectional":
        return mask
    seen = torch.ones_like(tokens) if mask is None else mask
    hidden = (seen == 0)[:, None, None, :].expand(-1, 1, tokens.shape[1], -1)
    return torch.zeros(hidden.shape).masked_fill(hidden, torch.finfo(torch.float64).min)


def record(model, parts: ModelParts, config: dict, tokens, mask=None) -> dict:
    """Every point that `transformers` lets be seen, with tokens, logits and the mask. The model must be float64."""
    with float64() as mode, torch.no_grad(), contextlib.closing(Trace(model, parts, tokens.shape)) as trace:
        extra = {} if config.get("no_position_ids") else {"position_ids": position_ids(mask, tokens)}
        result = model(tokens, attention_mask=attention_mask_for(config, tokens, mask), output_attentions=True,
                       use_cache=False, **extra)
        points = _model_points(trace, parts, config)
        rotary = config["native"].get("positional_embedding_type") == "rotary"
        assert len(mode.softmax_inputs) == len(parts.layers), len(mode.softmax_inputs)
        for i, part in enumerate(parts.layers):
            layer = _layer_points(trace, part, config)
            layer["attn.hook_pattern"] = result.attentions[i]
            if not config.get("scores_differ"):
                layer["attn.hook_attn_scores"] = mode.softmax_inputs[i]
            if rotary:
                layer["attn.hook_rot_q"], layer["attn.hook_rot_k"] = trace.rotated[i]
            points |= {f"blocks.{i}.{name}": value for name, value in layer.items()}
    points = {name: value.detach().clone() for name, value in points.items()}
    points |= {"logits": result.logits, "tokens": tokens}
    if mask is not None:
        points["attention_mask"] = mask
    return points
