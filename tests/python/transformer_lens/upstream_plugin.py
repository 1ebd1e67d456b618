"""A pytest plugin: TransformerLens's tests get hooked's classes, and random models for the names that they load."""

import os
import pathlib
from typing import Any

import torch

import hooked.transformer_lens as ours
import transformer_lens.HookedTransformer as upstream_module

if os.environ.get("UPSTREAM_ITSELF") != "1":  # else TransformerLens answers its own tests, with the same random models
    ours.install()

import transformers  # noqa: E402
from transformer_lens import HookedTransformer, HookedTransformerConfig  # noqa: E402

# What the tests load, in the shapes of those models but for their depths and widths.
SOLU = dict(d_model=64, d_head=16, n_heads=4, n_ctx=1024, act_fn="solu_ln", normalization_type="LN")
SHAPES: dict[str, dict[str, Any]] = {
    "solu-1l": dict(SOLU, n_layers=1),
    "solu-2l": dict(SOLU, n_layers=2),
    "attn-only-2l": dict(SOLU, n_layers=2, act_fn="relu", attn_only=True, positional_embedding_type="shortformer"),
    "tiny-stories-1M": dict(SOLU, n_layers=2, act_fn="gelu_new", n_ctx=512),
    "gpt2": dict(SOLU, n_layers=3, act_fn="gelu_new"),
    "opt-125m": dict(SOLU, n_layers=2, act_fn="relu"),
    "pythia-14m": dict(
        SOLU, n_layers=2, act_fn="gelu", parallel_attn_mlp=True, positional_embedding_type="rotary", rotary_dim=4
    ),
}
SHAPES["gpt2-small"] = SHAPES["gpt2"]


def gpt2_tokenizer() -> Any:
    """GPT-2's tokenizer, from the folder with its vocab.json and merges.txt."""
    folder = pathlib.Path(os.environ["UPSTREAM_TOKENIZER"])
    return transformers.GPT2TokenizerFast(
        vocab_file=str(folder / "vocab.json"), merges_file=str(folder / "merges.txt"), add_prefix_space=False
    )


def bert_tokenizer() -> Any:
    """A tokenizer of BERT's class with a few words."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world"]
    return transformers.BertTokenizerFast(vocab={word: index for index, word in enumerate(words)})


def from_pretrained(
    cls: Any, model_name: str, default_padding_side: str | None = None, device: str | None = None, **options: Any
) -> Any:
    """A random model of that name's kind, processed as from_pretrained does."""
    if model_name not in SHAPES:
        raise LookupError(f"no random model answers {model_name}")
    torch.manual_seed(sum(map(ord, model_name)))
    tokenizer = gpt2_tokenizer()
    cfg = HookedTransformerConfig(**SHAPES[model_name], d_vocab=50257, tokenizer_name=None, device="cpu")
    cfg.initializer_range = 0.3
    model = cls(cfg, tokenizer, default_padding_side=default_padding_side)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "W_" not in name:
                weight.add_(0.1 * torch.randn_like(weight))
    steps = ("fold_ln", "center_writing_weights", "center_unembed", "refactor_factored_attn_matrices")
    if not model_name.startswith("attn-only"):
        model.process_weights_(**{step: options[step] for step in steps if step in options})
    return model


def _tokenizer(name: str, *_: Any, **__: Any) -> Any:
    return bert_tokenizer() if "bert" in name else gpt2_tokenizer()


HookedTransformer.from_pretrained = classmethod(from_pretrained)
transformers.AutoTokenizer.from_pretrained = staticmethod(_tokenizer)
del upstream_module
