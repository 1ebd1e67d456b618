"""Texts and tokens, with a tokenizer of `transformers`."""

from typing import Any

import numpy as np
import torch

from hooked.transformer_lens.upstream import utilities

# Tokenizers that are used as they are, without a BOS token of their own.
_NO_OWN_BOS = ("OlmoForCausalLM", "OlmoeForCausalLM", "Olmo2ForCausalLM")
_NO_BOS_FLAG = (*_NO_OWN_BOS, "Qwen3ForCausalLM", "PhiForCausalLM")


class TextModel:
    """The part of a model that knows its tokenizer."""

    cfg: Any
    tokenizer: Any

    def _find_tokenizer(self, tokenizer: Any, default_padding_side: str | None) -> None:
        """Sets the tokenizer that is given, else the one that the config names, else none."""
        self.tokenizer = None
        if tokenizer is None and self.cfg.tokenizer_name is not None:
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(
                self.cfg.tokenizer_name,
                add_bos_token=self.cfg.original_architecture not in _NO_BOS_FLAG,
                trust_remote_code=self.cfg.trust_remote_code,
                use_fast="phi" not in self.cfg.tokenizer_name.lower(),
            )
        if tokenizer is not None:
            self.set_tokenizer(tokenizer, default_padding_side=default_padding_side)
        else:
            assert self.cfg.d_vocab != -1, "Must provide a tokenizer if d_vocab is not provided"

    def set_tokenizer(self, tokenizer: Any, default_padding_side: str | None = None) -> None:
        """Uses this tokenizer, with a BOS token where it can add one; takes the vocabulary's size from it if unknown."""
        from transformers import PreTrainedTokenizerBase

        assert isinstance(tokenizer, PreTrainedTokenizerBase), f"{type(tokenizer)} is no tokenizer of transformers"
        assert default_padding_side in ("left", "right", None), (
            f"padding side must be left or right; got {default_padding_side}"
        )
        if self.cfg.original_architecture not in _NO_OWN_BOS:
            tokenizer = utilities.get_tokenizer_with_bos(tokenizer)
        tokenizer.padding_side = default_padding_side or tokenizer.padding_side or "right"
        self.cfg.tokenizer_prepends_bos = len(tokenizer.encode("")) > 0
        if tokenizer.eos_token is None:
            tokenizer.eos_token = "<|endoftext|>"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        if tokenizer.bos_token is None:
            tokenizer.bos_token = tokenizer.eos_token
        self.tokenizer = tokenizer
        if self.cfg.d_vocab == -1:
            self.cfg.d_vocab = max(tokenizer.vocab.values()) + 1
        if self.cfg.d_vocab_out == -1:
            self.cfg.d_vocab_out = self.cfg.d_vocab

    def _overridden(self, prepend_bos: bool | None, padding_side: str | None) -> Any:
        """While this is open, the defaults are these."""
        return utilities.LocallyOverridenDefaults(self, prepend_bos=prepend_bos, padding_side=padding_side)

    def to_tokens(
        self,
        input: str | list[str],
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        move_to_device: bool = True,
        truncate: bool = True,
    ) -> torch.Tensor:
        """The ids of a text or of several, [batch, pos], padded, with a BOS token unless told otherwise."""
        with self._overridden(prepend_bos, padding_side):
            assert self.tokenizer is not None, "Cannot use to_tokens without a tokenizer"
            wants, adds = self.cfg.default_prepend_bos, self.cfg.tokenizer_prepends_bos
            if wants and not adds:
                input = utilities.get_input_with_manually_prepended_bos(self.tokenizer.bos_token, input)
            longest = self.cfg.n_ctx if truncate else None
            tokens = self.tokenizer(input, return_tensors="pt", padding=True, truncation=truncate, max_length=longest)
            ids = tokens["input_ids"]
            if adds and not wants:
                ids = utilities.get_tokens_with_bos_removed(self.tokenizer, ids)
            return ids.to(self.cfg.device) if move_to_device else ids

    def to_string(self, tokens: Any) -> Any:
        """The text of ids [pos], or the texts of ids [batch, pos]."""
        assert self.tokenizer is not None, "Cannot use to_string without a tokenizer"
        ids = tokens if isinstance(tokens, torch.Tensor) else torch.tensor(tokens)
        if ids.ndim > 2:
            raise ValueError(
                f"[to_string] ids have too many axes; expected [pos] or [batch, pos], got {tuple(ids.shape)}"
            )
        decode = self.tokenizer.batch_decode if ids.ndim == 2 else self.tokenizer.decode
        return decode(ids, clean_up_tokenization_spaces=False)

    def to_str_tokens(self, input: Any, prepend_bos: bool | None = None, padding_side: str | None = None) -> Any:
        """The text of each token of a text or of ids; for a list, one such list for each item."""
        if isinstance(input, list):
            return [self.to_str_tokens(item, prepend_bos, padding_side) for item in input]
        assert self.tokenizer is not None, "Cannot use to_str_tokens without a tokenizer"
        if isinstance(input, str):
            input = self.to_tokens(input, prepend_bos=prepend_bos, padding_side=padding_side)
        elif not isinstance(input, torch.Tensor | np.ndarray):
            raise ValueError(f"[to_str_tokens] expected a text or ids; got {type(input)}")
        ids = np.atleast_1d(torch.as_tensor(input).cpu().numpy().squeeze())
        assert ids.ndim == 1, f"ids must be those of one text; got the shape {tuple(input.shape)}"
        return self.tokenizer.batch_decode([[int(i)] for i in ids], clean_up_tokenization_spaces=False)

    def to_single_token(self, string: str) -> int:
        """The id of a text that is one token."""
        token = self.to_tokens(string, prepend_bos=False).squeeze()
        assert token.ndim == 0, f"Input string: {string} is not a single token!"
        return int(token)

    def to_single_str_token(self, int_token: int) -> str:
        """The text of one token."""
        assert isinstance(int_token, int)
        (text,) = self.to_str_tokens(torch.tensor([int_token]))
        return text

    def get_token_position(
        self,
        single_token: Any,
        input: Any,
        mode: str = "first",
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
    ) -> int:
        """Where a token stands in a text or in ids of one text: the first or the last place."""
        if mode not in ("first", "last"):
            raise ValueError(f"mode must be 'first' or 'last', not {mode}")
        tokens = self.to_tokens(input, prepend_bos, padding_side) if isinstance(input, str) else input
        if tokens.ndim == 2:
            assert len(tokens) == 1, f"ids must be those of one text; got the shape {tuple(tokens.shape)}"
            tokens = tokens[0]
        token = self.to_single_token(single_token) if isinstance(single_token, str) else int(single_token)
        places = (tokens == token).nonzero().flatten()
        assert len(places) > 0, "The token does not occur in the prompt"
        return int(places[0 if mode == "first" else -1])

    def tokens_to_residual_directions(self, tokens: Any) -> torch.Tensor:
        """The columns of W_U for tokens: [..., d_model] for ids [...], or for a text or an id."""
        if isinstance(tokens, torch.Tensor) and tokens.numel() > 1:
            return self.W_U[:, tokens].movedim(0, -1)
        token = self.to_single_token(tokens) if isinstance(tokens, str) else int(tokens)
        return self.W_U[:, token]
