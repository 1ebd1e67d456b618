"""generate: token by token over the engine's cache of keys and values."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from hooked.transformer_lens.errors import NotBridged
from hooked.transformer_lens.kv_cache import TransformerLensKeyValueCache
from hooked.transformer_lens.upstream import utilities


@dataclass
class _Stop:
    """What ends a row, and what fills it afterwards."""

    tokens: torch.Tensor
    filler: int

    @staticmethod
    def of(model: Any, eos_token_id: Any) -> "_Stop":
        own = getattr(model.tokenizer, "eos_token_id", None)
        if eos_token_id is None:
            assert own is not None, (
                "Must pass an eos_token_id if stop_at_eos is True and there is no tokenizer that has one"
            )
            eos_token_id = own
        several = [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id)
        filler = several[0] if isinstance(eos_token_id, int) or own is None else own
        return _Stop(torch.tensor(several, device=model.cfg.device), filler)


class GeneratingModel:
    """The part of a model that continues prompts."""

    cfg: Any
    tokenizer: Any

    @torch.no_grad()
    def _tokens(
        self,
        prompt: torch.Tensor,
        mask: torch.Tensor | None,
        max_new_tokens: int,
        stop: _Stop | None,
        do_sample: bool,
        use_past_kv_cache: bool,
        sampling: dict[str, Any],
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The new tokens [batch] of each step, and the logits [batch, d_vocab] that they were picked from."""
        cache = (
            TransformerLensKeyValueCache.init_cache(self.cfg, self.cfg.device, len(prompt))
            if use_past_kv_cache
            else None
        )
        mask = torch.ones_like(prompt) if mask is None else mask
        ended = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
        tokens = prompt
        for _ in range(max_new_tokens):
            new = tokens.shape[1] - cache.previous_attention_mask.shape[1] if cache else tokens.shape[1]
            logits = self.forward(tokens[:, -new:], attention_mask=mask[:, -new:], past_kv_cache=cache)[:, -1]  # type: ignore
            picked = utilities.sample_logits(logits, tokens=tokens, **sampling) if do_sample else logits.argmax(-1)
            if stop is not None:
                picked = torch.where(ended, stop.filler, picked)
                ended = ended | torch.isin(picked, stop.tokens)
            yield picked, logits
            tokens = torch.cat([tokens, picked[:, None]], dim=1)
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
            if ended.all():
                return

    def _prompt(
        self, input: Any, prepend_bos: bool | None, padding_side: str | None
    ) -> tuple[Any, torch.Tensor | None]:
        """The ids of a prompt, [batch, pos], and which of them are real, if that is known."""
        assert isinstance(input, str | torch.Tensor | list), "Input must be a text, a list of texts or a tensor"
        if isinstance(input, torch.Tensor) and input.is_floating_point():
            raise NotBridged("generate", "embeddings as a prompt are not supported", "give tokens or a text")
        side = "left" if isinstance(input, list) and len(input) > 1 else padding_side
        if not isinstance(input, torch.Tensor):
            assert self.tokenizer is not None, "Must provide a tokenizer if passing a string to the model"
            input = self.to_tokens(input, prepend_bos=prepend_bos, padding_side=side)  # type: ignore[attr-defined]
        ids = input.to(self.cfg.device)
        if self.tokenizer is None:
            return ids, None
        with self._overridden(prepend_bos, side):  # type: ignore[attr-defined]
            return ids, utilities.get_attention_mask(self.tokenizer, ids, self.cfg.default_prepend_bos)

    def _started(
        self, input: Any, return_type: str | None, prepend_bos: bool | None, padding_side: str | None, *how: Any
    ) -> tuple[bool, torch.Tensor, Iterator[tuple[torch.Tensor, torch.Tensor]]]:
        """Whether texts are to be returned, the prompt's ids, and the steps of a generation."""
        as_text = return_type == "str" or (return_type == "input" and not isinstance(input, torch.Tensor))
        prompt, mask = self._prompt(input, prepend_bos, padding_side)
        return as_text, prompt, self._tokens(prompt, mask, *how)

    def generate(
        self,
        input: Any = "",
        max_new_tokens: int = 10,
        stop_at_eos: bool = True,
        eos_token_id: Any = None,
        do_sample: bool = True,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        freq_penalty: float = 0.0,
        use_past_kv_cache: bool = True,
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        return_type: str | None = "input",
        verbose: bool = True,
        **generation_kwargs: Any,
    ) -> Any:
        """Continues a text, several, or ids [batch, pos], by at most `max_new_tokens`; prompt and continuation.

        Rows that ended are filled with the stop token. Samples are drawn from torch's generator, as with
        TransformerLens. Hooks see the prompt, then one token at a time.
        """
        assert return_type in ("input", "str", "tokens", "embeds"), "return_type must be input, str, tokens or embeds"
        if return_type == "embeds":
            raise NotBridged("generate", "embeddings are not returned", "take model.W_E of the tokens")
        output_logits = generation_kwargs.pop("output_logits", False)
        generation_kwargs.pop("return_dict_in_generate", None)
        if generation_kwargs:
            warnings.warn(
                f"generate ignores {sorted(generation_kwargs)}, which it does not know", UserWarning, stacklevel=2
            )
        sampling = dict(top_k=top_k, top_p=top_p, temperature=temperature, freq_penalty=freq_penalty)
        stop = _Stop.of(self, eos_token_id) if stop_at_eos else None
        as_text, prompt, steps = self._started(
            input, return_type, prepend_bos, padding_side, max_new_tokens, stop, do_sample, use_past_kv_cache, sampling
        )
        if verbose:
            from tqdm.auto import tqdm

            steps = tqdm(steps, total=max_new_tokens)
        made = list(steps)
        tokens = torch.cat([prompt, *(picked[:, None] for picked, _ in made)], dim=1)
        if output_logits:
            from transformers.utils import ModelOutput

            return ModelOutput(sequences=tokens, logits=tuple(logits for _, logits in made))
        if not as_text:
            return tokens
        texts = [self.tokenizer.decode(row, skip_special_tokens=True) for row in tokens]
        return texts[0] if len(texts) == 1 else texts

    def generate_stream(
        self,
        input: Any = "",
        max_new_tokens: int = 10,
        max_tokens_per_yield: int = 25,
        stop_at_eos: bool = True,
        eos_token_id: Any = None,
        do_sample: bool = True,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        freq_penalty: float = 0.0,
        use_past_kv_cache: bool = True,
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        return_type: str | None = "input",
        verbose: bool = True,
    ) -> Iterator[Any]:
        """`generate` in pieces of at most `max_tokens_per_yield` tokens; the first begins with the prompt."""
        sampling = dict(top_k=top_k, top_p=top_p, temperature=temperature, freq_penalty=freq_penalty)
        stop = _Stop.of(self, eos_token_id) if stop_at_eos else None
        as_text, prompt, steps = self._started(
            input, return_type, prepend_bos, padding_side, max_new_tokens, stop, do_sample, use_past_kv_cache, sampling
        )
        shown = (lambda ids: self.tokenizer.decode(ids[0], skip_special_tokens=True)) if as_text else (lambda ids: ids)
        piece, count = prompt, 0
        for picked, _ in steps:
            piece, count = torch.cat([piece, picked[:, None]], dim=1), count + 1
            if count == max_tokens_per_yield:
                yield shown(piece)
                piece, count = piece[:, :0], 0
        if piece.shape[1]:
            yield shown(piece)
