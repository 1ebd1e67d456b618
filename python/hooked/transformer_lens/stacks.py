"""The weights of all layers as one tensor, and what follows from them."""

from typing import Any

import torch

from hooked.transformer_lens.upstream import FactoredMatrix, utilities


def _stacked(part: str, name: str, text: str) -> property:
    def read(self: Any) -> torch.Tensor:
        return torch.stack([getattr(getattr(block, part), name) for block in self.blocks])

    return property(read, doc=text)


class StackedWeights:
    """Properties of a model with `blocks`."""

    cfg: Any
    blocks: Any
    embed: Any
    pos_embed: Any
    unembed: Any

    W_Q = _stacked("attn", "W_Q", "[layer, head, d_model, d_head]")
    W_K = _stacked("attn", "W_K", "[layer, head, d_model, d_head]")
    W_V = _stacked("attn", "W_V", "[layer, head, d_model, d_head]")
    W_O = _stacked("attn", "W_O", "[layer, head, d_head, d_model]")
    b_Q = _stacked("attn", "b_Q", "[layer, head, d_head]")
    b_K = _stacked("attn", "b_K", "[layer, head, d_head]")
    b_V = _stacked("attn", "b_V", "[layer, head, d_head]")
    b_O = _stacked("attn", "b_O", "[layer, d_model]")
    W_in = _stacked("mlp", "W_in", "[layer, d_model, d_mlp]")
    W_out = _stacked("mlp", "W_out", "[layer, d_mlp, d_model]")
    b_in = _stacked("mlp", "b_in", "[layer, d_mlp]")
    b_out = _stacked("mlp", "b_out", "[layer, d_model]")

    @property
    def W_gate(self) -> torch.Tensor | None:
        """[layer, d_model, d_mlp]; None without gates."""
        return torch.stack([block.mlp.W_gate for block in self.blocks]) if self.cfg.gated_mlp else None

    @property
    def W_E(self) -> torch.Tensor:
        """[d_vocab, d_model]."""
        return self.embed.W_E

    @property
    def W_pos(self) -> torch.Tensor:
        """[n_ctx, d_model]; of models with embeddings of positions."""
        return self.pos_embed.W_pos

    @property
    def W_E_pos(self) -> torch.Tensor:
        """W_E above W_pos."""
        return torch.cat([self.W_E, self.W_pos])

    @property
    def W_U(self) -> torch.Tensor:
        """[d_model, d_vocab_out]."""
        return self.unembed.W_U

    @property
    def b_U(self) -> torch.Tensor:
        """[d_vocab_out]."""
        return self.unembed.b_U

    @property
    def QK(self) -> FactoredMatrix:
        """W_Q W_K^T of every head."""
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        """W_V W_O of every head."""
        return FactoredMatrix(self.W_V, self.W_O)

    @property
    def n_params_total(self) -> int:
        """All numbers in the weights."""
        return sum(weight.numel() for weight in self.parameters())  # type: ignore[attr-defined]

    def accumulated_bias(self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True) -> torch.Tensor:
        """The sum of b_O and b_out of the layers before `layer`, and of its b_O with `mlp_input`: [d_model]."""
        assert not mlp_input or layer < self.cfg.n_layers, "the last layer's MLP is the last that can read the stream"
        total = torch.zeros_like(self.blocks[0].attn.b_O)
        for index, block in enumerate(self.blocks):
            if index < layer or (index == layer and mlp_input):
                total = total + block.attn.b_O
            if index < layer and include_mlp_biases:
                total = total + block.mlp.b_out
        return total

    def all_composition_scores(self, mode: str) -> torch.Tensor:
        """Composition scores [layer, head, layer, head] of heads with later heads' "Q", "K" or "V"; else 0."""
        rights = {"Q": lambda: self.QK, "K": lambda: self.QK.T, "V": lambda: self.OV}
        if mode not in rights:
            raise ValueError(f"mode must be one of {list(rights)} not {mode}")
        scores = utilities.composition_scores(self.OV, rights[mode](), broadcast_dims=True)
        layers = torch.arange(self.cfg.n_layers, device=scores.device)
        earlier = layers[:, None, None, None] < layers[None, None, :, None]
        return torch.where(earlier, scores, torch.zeros_like(scores))

    def all_head_labels(self) -> list[str]:
        """L0H0, L0H1, ..."""
        return [f"L{layer}H{head}" for layer in range(self.cfg.n_layers) for head in range(self.cfg.n_heads)]
