"""Which submodules of a `transformers` model play which part, family by family.

Everything else (conversion of weights, recording of activations) is derived from these tables.
"""

import dataclasses
from collections.abc import Callable

import torch


@dataclasses.dataclass
class LayerParts:
    """The submodules of one layer.

    `norms` is by native name: ln1, ln2, ln1_post, ln2_post, attn.q_norm, attn.k_norm.
    """

    block: torch.nn.Module
    norms: dict
    out: torch.nn.Module
    query: torch.nn.Module | None = None
    key: torch.nn.Module | None = None
    value: torch.nn.Module | None = None
    fused_qkv: torch.nn.Module | None = None
    split_qkv: Callable | None = None  # [..., all of q, k, v] -> views of q, k, v, each [..., head, d_head]
    gate: torch.nn.Module | None = None
    up: torch.nn.Module | None = None
    down: torch.nn.Module | None = None


@dataclasses.dataclass
class ModelParts:
    """The submodules of a model."""

    embed: torch.nn.Module
    layers: list
    unembed: torch.nn.Module
    final_norm: torch.nn.Module | None
    pos_embed: torch.nn.Module | None = None
    pos_embed_offset: int = 0  # rows of the position table before position 0
    embed_norm: torch.nn.Module | None = None
    embed_scale: float = 1.0


def split_thirds(x: torch.Tensor, config) -> tuple:
    """GPT-2: q, k, v side by side."""
    return x.unflatten(-1, (3, config["n_heads"], config["d_head"])).unbind(-3)


def split_per_head(x: torch.Tensor, config) -> tuple:
    """GPT-NeoX and BLOOM: q, k, v of head 0, then of head 1."""
    return x.unflatten(-1, (config["n_heads"], 3, config["d_head"])).unbind(-2)


def llama_parts(model, norms=None) -> ModelParts:
    """Llama and what is built like it; `norms` is native name -> attribute of the layer."""
    norms = norms or {"ln1": "input_layernorm", "ln2": "post_attention_layernorm"}
    layers = []
    for layer in model.model.layers:
        attn, mlp = layer.self_attn, layer.mlp
        layer_norms = {name: getattr(layer, attribute) for name, attribute in norms.items()}
        for name in ("q_norm", "k_norm"):
            if hasattr(attn, name):
                layer_norms[f"attn.{name}"] = getattr(attn, name)
        layers.append(LayerParts(
            block=layer, norms=layer_norms, query=attn.q_proj, key=attn.k_proj, value=attn.v_proj,
            out=getattr(attn, "o_proj", None) or attn.dense,
            gate=getattr(mlp, "gate_proj", None),
            up=getattr(mlp, "up_proj", None) or getattr(mlp, "fc1", None) or mlp.c_fc,
            down=getattr(mlp, "down_proj", None) or getattr(mlp, "fc2", None) or mlp.c_proj))
    final = getattr(model.model, "norm", None) or model.model.final_layernorm
    return ModelParts(embed=model.model.embed_tokens, layers=layers, unembed=model.lm_head, final_norm=final)


def gemma_parts(model) -> ModelParts:
    parts = llama_parts(model, {"ln1": "input_layernorm", "ln1_post": "post_attention_layernorm",
                                "ln2": "pre_feedforward_layernorm", "ln2_post": "post_feedforward_layernorm"})
    parts.embed_scale = model.config.hidden_size ** 0.5
    return parts


def olmo2_parts(model) -> ModelParts:
    return llama_parts(model, {"ln1_post": "post_attention_layernorm", "ln2_post": "post_feedforward_layernorm"})


def one_norm_parts(model) -> ModelParts:
    """Phi and Cohere: attention and MLP read the same norm."""
    return llama_parts(model, {"ln1": "input_layernorm"})


def gpt2_parts(model) -> ModelParts:
    body = model.transformer
    layers = [LayerParts(block=b, norms={"ln1": b.ln_1, "ln2": b.ln_2}, out=b.attn.c_proj, fused_qkv=b.attn.c_attn,
                         split_qkv=split_thirds, up=b.mlp.c_fc, down=b.mlp.c_proj) for b in body.h]
    return ModelParts(embed=body.wte, pos_embed=body.wpe, layers=layers, unembed=model.lm_head, final_norm=body.ln_f)


def gpt_neo_parts(model) -> ModelParts:
    body = model.transformer
    layers = []
    for block in body.h:
        attn = block.attn.attention
        layers.append(LayerParts(block=block, norms={"ln1": block.ln_1, "ln2": block.ln_2}, out=attn.out_proj,
                                 query=attn.q_proj, key=attn.k_proj, value=attn.v_proj, up=block.mlp.c_fc,
                                 down=block.mlp.c_proj))
    return ModelParts(embed=body.wte, pos_embed=body.wpe, layers=layers, unembed=model.lm_head, final_norm=body.ln_f)


def gptj_parts(model) -> ModelParts:
    body = model.transformer
    layers = [LayerParts(block=b, norms={"ln1": b.ln_1}, out=b.attn.out_proj, query=b.attn.q_proj, key=b.attn.k_proj,
                         value=b.attn.v_proj, up=b.mlp.fc_in, down=b.mlp.fc_out) for b in body.h]
    return ModelParts(embed=body.wte, layers=layers, unembed=model.lm_head, final_norm=body.ln_f)


def _neox_layer(block, attn) -> LayerParts:
    return LayerParts(block=block, norms={"ln1": block.input_layernorm, "ln2": block.post_attention_layernorm},
                      out=attn.dense, fused_qkv=attn.query_key_value, split_qkv=split_per_head,
                      up=block.mlp.dense_h_to_4h, down=block.mlp.dense_4h_to_h)


def gpt_neox_parts(model) -> ModelParts:
    body = model.gpt_neox
    return ModelParts(embed=body.embed_in, layers=[_neox_layer(b, b.attention) for b in body.layers],
                      unembed=getattr(model, "lm_head", None) or model.embed_out, final_norm=body.final_layer_norm)


def bloom_parts(model) -> ModelParts:
    body = model.transformer
    return ModelParts(embed=body.word_embeddings, embed_norm=body.word_embeddings_layernorm,
                      layers=[_neox_layer(b, b.self_attention) for b in body.h], unembed=model.lm_head,
                      final_norm=body.ln_f)


def opt_parts(model) -> ModelParts:
    body = model.model.decoder
    layers = [LayerParts(block=b, norms={"ln1": b.self_attn_layer_norm, "ln2": b.final_layer_norm},
                         out=b.self_attn.out_proj, query=b.self_attn.q_proj, key=b.self_attn.k_proj,
                         value=b.self_attn.v_proj, up=b.fc1, down=b.fc2) for b in body.layers]
    return ModelParts(embed=body.embed_tokens, pos_embed=body.embed_positions, pos_embed_offset=2, layers=layers,
                      unembed=model.lm_head, final_norm=body.final_layer_norm)
