"""HookedEncoder: BERT with its masked-LM head."""

from typing import Any, NoReturn

import torch
from torch import nn

import hooked
from hooked.transformer_lens import components
from hooked.transformer_lens.caching import CachingModel
from hooked.transformer_lens.config import HookedTransformerConfig
from hooked.transformer_lens.errors import NotBridged
from hooked.transformer_lens.stacks import StackedWeights
from hooked.transformer_lens.upstream import HookPoint


class HookedEncoder(StackedWeights, CachingModel):
    """TransformerLens's encoder, run by hooked's engine. Sentence heads hold weights only."""

    _parts = ("embed", "blocks", "mlm_head", "unembed")
    _group = {"norm_place": "post", "embedding_sum_norm": True, "token_types": 2, "mlm_head": "gelu"}

    def __init__(
        self,
        cfg: HookedTransformerConfig | dict[str, Any],
        tokenizer: Any = None,
        move_to_device: bool = True,
        **_: Any,
    ) -> None:
        super().__init__()
        self.cfg = HookedTransformerConfig.unwrap(cfg)
        self.tokenizer = tokenizer
        if tokenizer is None and self.cfg.tokenizer_name is not None:
            from transformers import AutoTokenizer

            self.tokenizer = AutoTokenizer.from_pretrained(self.cfg.tokenizer_name)
        if self.cfg.d_vocab == -1:
            assert self.tokenizer is not None, "Must provide a tokenizer if d_vocab is not provided"
            self.cfg.d_vocab = max(self.tokenizer.vocab.values()) + 1
        if self.cfg.d_vocab_out == -1:
            self.cfg.d_vocab_out = self.cfg.d_vocab
        self.embed = components.BertEmbed(self.cfg)
        self.blocks = nn.ModuleList([components.BertBlock(self.cfg) for _ in range(self.cfg.n_layers)])
        self.mlm_head = components.BertMLMHead(self.cfg)
        self.unembed = components.Unembed(self.cfg)
        self.nsp_head = components.BertNSPHead(self.cfg)
        self.pooler = components.BertPooler(self.cfg)
        self.hook_full_embed = HookPoint()
        if move_to_device:
            self.to(self.cfg.device)
        self.setup()
        self._bind()

    @classmethod
    def from_pretrained(cls, model_name: str, **_: Any) -> NoReturn:
        """Raises: the engine loads BERT without the pooler and the head for sentences, which this class also has."""
        raise NotBridged(
            "HookedEncoder.from_pretrained",
            f"{model_name}'s pooler and its head for sentences are not loaded",
            "run it by hooked.HookedTransformer.load, or make HookedEncoder(cfg) and give it weights by load_state_dict",
        )

    @property
    def W_E(self) -> torch.Tensor:
        """[d_vocab, d_model]."""
        return self.embed.embed.W_E

    @property
    def W_pos(self) -> torch.Tensor:
        """[n_ctx, d_model]."""
        return self.embed.pos_embed.W_pos

    def to_tokens(self, input: Any, move_to_device: bool = True, truncate: bool = True) -> tuple[torch.Tensor, ...]:
        """The ids of texts, their types and their mask, each [batch, pos]."""
        assert self.tokenizer is not None, "Cannot use to_tokens without a tokenizer"
        longest = self.cfg.n_ctx if truncate else None
        found = self.tokenizer(input, return_tensors="pt", padding=True, truncation=truncate, max_length=longest)
        given = (found.input_ids, found.token_type_ids, found.attention_mask)
        return tuple(value.to(self.cfg.device) for value in given) if move_to_device else given

    def encoder_output(
        self,
        tokens: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        one_zero_attention_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The stream after the last block, [batch, pos, d_model]."""
        given = self._input(tokens, token_type_ids, one_zero_attention_mask)
        options = {"ends": False, "stop_at_layer": self.cfg.n_layers}
        return self._sealed(self._run(given, output="residual", **options).residual)

    def _input(self, tokens: torch.Tensor, types: torch.Tensor | None, mask: torch.Tensor | None) -> Any:
        details = {"token_types": types, "attention_mask": mask}
        given = {name: value.to(self.cfg.device) for name, value in details.items() if value is not None}
        return hooked.Input(tokens.to(self.cfg.device), **given)

    def forward(
        self,
        input: Any,
        return_type: str | None = "logits",
        token_type_ids: torch.Tensor | None = None,
        one_zero_attention_mask: torch.Tensor | None = None,
    ) -> Any:
        """Logits [batch, pos, d_vocab] of texts or ids, or with "predictions" the texts in the place of masks."""
        tokens = input
        if isinstance(input, str | list):
            tokens, types, mask = self.to_tokens(input)
            token_type_ids = types if token_type_ids is None else token_type_ids
            one_zero_attention_mask = mask if one_zero_attention_mask is None else one_zero_attention_mask
        given = self._input(tokens, token_type_ids, one_zero_attention_mask)
        logits = self._sealed(self._run(given, output="logits").logits)
        if return_type == "predictions":
            assert self.tokenizer is not None, "Must have a tokenizer to use return_type='predictions'"
            texts = self.tokenizer.decode(logits[tokens == self.tokenizer.mask_token_id].argmax(dim=-1))
            return [f"Prediction {i}: {text}" for i, text in enumerate(texts.split(" "))] if " " in texts else texts
        return None if return_type is None else logits
