"""The modules of a model: they hold parameters and HookPoints under TransformerLens's names; the engine computes."""

from typing import Any

import torch
from torch import nn

from hooked.transformer_lens.config import HookedTransformerConfig
from hooked.transformer_lens.errors import NotBridged
from hooked.transformer_lens.parameters import Weight
from hooked.transformer_lens.parts import (
    Component,
    LayerNorm,
    LayerNormPre,
    RMSNorm,
    RMSNormPre,
    final_norm,
    norm,
    norm_after,
    norms_outputs,
)
from hooked.transformer_lens.upstream import FactoredMatrix, HookPoint, utilities

__all__ = [
    "MLP",
    "AbstractAttention",
    "Attention",
    "BertBlock",
    "BertEmbed",
    "BertMLMHead",
    "BertNSPHead",
    "BertPooler",
    "Component",
    "Embed",
    "GatedMLP",
    "GroupedQueryAttention",
    "LayerNorm",
    "LayerNormPre",
    "MoE",
    "PosEmbed",
    "RMSNorm",
    "RMSNormPre",
    "TransformerBlock",
    "Unembed",
    "final_norm",
    "mlp",
    "norm",
    "norms_outputs",
]


class Embed(Component):
    """The embedding of tokens."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W_E", cfg.d_vocab, cfg.d_model)
        if cfg.post_embedding_ln:
            self.ln = LayerNorm(cfg)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """The rows of `tokens`, normed if the model norms them."""
        rows = self.W_E[tokens]
        return self.ln(rows) if self.cfg.post_embedding_ln else rows


class PosEmbed(Component):
    """The embedding of positions."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W_pos", cfg.n_ctx, cfg.d_model)

    def forward(  # type: ignore[override]
        self, tokens: torch.Tensor, past_kv_pos_offset: int = 0, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The embedding of the tokens' positions, [batch, pos, d_model]: zero on padding, which is not counted.

        The mask covers the `past_kv_pos_offset` columns before the tokens, too.
        """
        batch, columns = tokens.shape
        if attention_mask is None:
            attention_mask = torch.ones(batch, past_kv_pos_offset + columns, dtype=torch.int, device=tokens.device)
        positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)[:, past_kv_pos_offset:]
        real = attention_mask[:, past_kv_pos_offset:, None].bool()
        return torch.where(real, self.W_pos[positions], 0)


class Unembed(Component):
    """The map from the stream to logits."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W_U", cfg.d_model, cfg.d_vocab_out)
        self._constant("b_U", 0.0, cfg.d_vocab_out)
        self._hooks("hook_in", "hook_out")

    def forward(self, residual: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """The logits of a normed stream [..., d_model], through this module's HookPoints."""
        return self.hook_out(self.hook_in(residual) @ self.W_U + self.b_U)


class AbstractAttention(Component):
    """An attention layer."""

    _kv = ""  # before the names of the weights of keys and values

    def __init__(self, cfg: HookedTransformerConfig, attn_type: str = "global", layer_id: int | None = None) -> None:
        super().__init__(cfg)
        self.attn_type, self.layer_id = attn_type, layer_id
        heads, width = cfg.n_heads, cfg.d_head
        keys = cfg.n_key_value_heads or heads
        self._weight("W_Q", heads, cfg.d_model, width)
        self._weight("W_O", heads, width, cfg.d_model)
        self._constant("b_Q", 0.0, heads, width)
        self._constant("b_O", 0.0, cfg.d_model)
        if cfg.use_attention_sinks:
            self._constant("sinks", 0.0, heads)
        for name in "KV":
            self._weight(f"{self._kv}W_{name}", keys, cfg.d_model, width)
        for name in "KV":
            self._constant(f"{self._kv}b_{name}", 0.0, keys, width)
        if cfg.use_qk_norm or norms_outputs(cfg) or cfg.original_architecture == "OlmoeForCausalLM":
            self.q_norm = RMSNorm(cfg, width if cfg.use_qk_norm else heads * width)
            self.k_norm = RMSNorm(cfg, width if cfg.use_qk_norm else keys * width)
        # As in TransformerLens, where nothing reads it: masks are made for each run.
        self.register_buffer("mask", torch.empty((0, 0), dtype=torch.bool), persistent=False)
        self._hooks(*(f"hook_{name}" for name in ("k", "q", "v", "z", "attn_scores", "pattern", "result")))
        if cfg.positional_embedding_type == "rotary":
            self._hooks("hook_rot_k", "hook_rot_q")
        if cfg.positional_embedding_type == "shortformer":
            self._hooks("hook_attn_input")

    @property
    def OV(self) -> FactoredMatrix:
        """W_V W_O of each head."""
        return FactoredMatrix(self.W_V, self.W_O)

    @property
    def QK(self) -> FactoredMatrix:
        """W_Q W_K^T of each head."""
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1))


class Attention(AbstractAttention):
    """Attention whose heads have their own keys and values."""


class GroupedQueryAttention(AbstractAttention):
    """Attention in which several heads share keys and values: `_W_K`; `W_K` repeats them for each head."""

    _kv = "_"

    def _of_each_head(self, name: str) -> torch.Tensor:
        return getattr(self, name).repeat_interleave(self.cfg.n_heads // self.cfg.n_key_value_heads, dim=0)

    def _set(self, name: str, value: torch.Tensor) -> None:
        shared = value[:: self.cfg.n_heads // self.cfg.n_key_value_heads] if len(value) == self.cfg.n_heads else value
        setattr(self, name, Weight(shared.detach().clone()))

    W_K = property(lambda self: self._of_each_head("_W_K"), lambda self, value: self._set("_W_K", value))
    W_V = property(lambda self: self._of_each_head("_W_V"), lambda self, value: self._set("_W_V", value))
    b_K = property(lambda self: self._of_each_head("_b_K"), lambda self, value: self._set("_b_K", value))
    b_V = property(lambda self: self._of_each_head("_b_V"), lambda self, value: self._set("_b_V", value))


def activated(cfg: HookedTransformerConfig, value: torch.Tensor) -> torch.Tensor:
    """The activation function of the MLPs."""
    if cfg.act_fn not in utilities.SUPPORTED_ACTIVATIONS or cfg.act_fn == "xielu":  # whose numbers are weights
        raise NotBridged(
            str(cfg.act_fn),
            "MLPs with this activation function are computed by the engine only",
            "run the model with its own MLPs",
        )
    return utilities.SUPPORTED_ACTIVATIONS[cfg.act_fn](value)


class MLP(Component):
    """An MLP."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W_in", cfg.d_model, cfg.d_mlp)
        self._constant("b_in", 0.0, cfg.d_mlp)
        self._weight("W_out", cfg.d_mlp, cfg.d_model)
        self._constant("b_out", 0.0, cfg.d_model)
        if cfg.is_layer_norm_activation():
            self._hooks("hook_mid")
            # Folded with the others.
            self.ln = LayerNormPre(cfg, cfg.d_mlp) if cfg.normalization_type == "LNPre" else LayerNorm(cfg, cfg.d_mlp)
        self._hooks("hook_pre", "hook_post")

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        """What the MLP writes, of what it reads."""
        post = activated(self.cfg, self.hook_pre(x @ self.W_in + self.b_in))
        if self.cfg.is_layer_norm_activation():
            post = self.ln(self.hook_mid(post))
        return self.hook_post(post) @ self.W_out + self.b_out


class GatedMLP(Component):
    """An MLP with a gate."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W_in", cfg.d_model, cfg.d_mlp)
        self._weight("W_out", cfg.d_mlp, cfg.d_model)
        self._weight("W_gate", cfg.d_model, cfg.d_mlp)
        self._constant("b_in", 0.0, cfg.d_mlp)
        self._constant("b_out", 0.0, cfg.d_model)
        self._hooks("hook_pre", "hook_pre_linear", "hook_post")

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        """What the MLP writes, of what it reads. Once folded, its biases are inside of the branches."""
        folded = getattr(self, "b_gate", None)
        gate, up = x @ self.W_gate, x @ self.W_in
        if folded is not None:
            gate, up = gate + folded, up + self.b_in
        post = activated(self.cfg, self.hook_pre(gate)) * self.hook_pre_linear(up)
        return self.hook_post(post if folded is not None else post + self.b_in) @ self.W_out + self.b_out


class _Linear(Component):
    def __init__(self, cfg: HookedTransformerConfig, outputs: int, inputs: int) -> None:
        super().__init__(cfg)
        self._weight("weight", outputs, inputs)


class _Expert(Component):
    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self.W_in = _Linear(cfg, cfg.d_mlp, cfg.d_model)
        self.W_out = _Linear(cfg, cfg.d_model, cfg.d_mlp)
        self.W_gate = _Linear(cfg, cfg.d_mlp, cfg.d_model)
        self._hooks("hook_gate", "hook_pre", "hook_post")


class MoE(Component):
    """A mixture of experts."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self.experts = nn.ModuleList([_Expert(cfg) for _ in range(cfg.num_experts)])
        self.W_gate = _Linear(cfg, cfg.num_experts, cfg.d_model)
        self._hooks("hook_expert_weights", "hook_expert_indices")

    def compute(self, *_: Any) -> torch.Tensor:
        """Raises: only the engine knows the routers that there are."""
        raise NotBridged(
            "MoE", "mixtures of experts are computed by the engine only", "edit hook_mlp_in and hook_mlp_out by hooks"
        )


def mlp(cfg: HookedTransformerConfig) -> Component:
    """The MLP of a block."""
    return MoE(cfg) if cfg.num_experts else GatedMLP(cfg) if cfg.gated_mlp else MLP(cfg)


class TransformerBlock(Component):
    """A block."""

    def __init__(self, cfg: HookedTransformerConfig, block_index: int) -> None:
        super().__init__(cfg)
        self.ln1 = norm(cfg)
        if cfg.use_normalization_before_and_after:
            self.ln1_post = norm_after(cfg)
        if not cfg.attn_only:
            self.ln2 = norm(cfg)
            if cfg.use_normalization_before_and_after:
                self.ln2_post = norm_after(cfg)
        kind = GroupedQueryAttention if cfg.n_key_value_heads is not None else Attention
        self.attn = kind(cfg, cfg.attn_types[block_index] if cfg.use_local_attn else "global", block_index)
        if not cfg.attn_only:
            self.mlp = mlp(cfg)
        self._hooks("hook_attn_in", "hook_q_input", "hook_k_input", "hook_v_input", "hook_mlp_in")
        self._hooks("hook_attn_out", "hook_mlp_out", "hook_resid_pre")
        if not cfg.attn_only and not cfg.parallel_attn_mlp:
            self._hooks("hook_resid_mid")
        self._hooks("hook_resid_post")


class TokenTypeEmbed(Component):
    """The embedding of token types."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W_token_type", 2, cfg.d_model)


class BertEmbed(Component):
    """The sum of an encoder's embeddings, normed."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self.embed = Embed(cfg)
        self.pos_embed = PosEmbed(cfg)
        self.token_type_embed = TokenTypeEmbed(cfg)
        self.ln = LayerNorm(cfg)
        self._hooks("hook_embed", "hook_pos_embed", "hook_token_type_embed")


class BertBlock(Component):
    """A block of an encoder."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self.attn = Attention(cfg)
        self.ln1 = LayerNorm(cfg)
        self.mlp = MLP(cfg)
        self.ln2 = LayerNorm(cfg)
        self._hooks("hook_q_input", "hook_k_input", "hook_v_input", "hook_attn_out", "hook_mlp_in", "hook_mlp_out")
        self._hooks("hook_resid_pre", "hook_resid_mid", "hook_resid_post", "hook_normalized_resid_post")


class BertMLMHead(Component):
    """The layer before an encoder's unembedding."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W", cfg.d_model, cfg.d_model)
        self._constant("b", 0.0, cfg.d_model)
        self.ln = LayerNorm(cfg)


class BertPooler(Component):
    """What an encoder's sentence heads read."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W", cfg.d_model, cfg.d_model)
        self._constant("b", 0.0, cfg.d_model)
        self._hooks("hook_pooler_out")


class BertNSPHead(Component):
    """An encoder's head for next sentences."""

    def __init__(self, cfg: HookedTransformerConfig) -> None:
        super().__init__(cfg)
        self._weight("W", cfg.d_model, 2)
        self._constant("b", 0.0, 2)
        self._hooks("hook_nsp_out")
