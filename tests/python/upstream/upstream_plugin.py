"""A pytest plugin: TransformerLens's tests get hooked's classes, and random models for the names that they load."""

import atexit
import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

import torch

import hooked.transformer_lens as ours

if os.environ.get("UPSTREAM_ITSELF") != "1":  # else TransformerLens answers its own tests, with the same random models
    ours.install()

import tokenizers  # noqa: E402
import transformers  # noqa: E402
from transformer_lens import HookedTransformer, HookedTransformerConfig  # noqa: E402

assert (HookedTransformer is ours.HookedTransformer) == (os.environ.get("UPSTREAM_ITSELF") != "1")

# What the tests load, in the shapes of those models but for their depths and widths.
SOLU = dict(d_model=64, d_head=8, n_heads=8, n_ctx=1024, act_fn="solu_ln", normalization_type="LN")
SHAPES: dict[str, dict[str, Any]] = {
    "solu-1l": dict(SOLU, n_layers=1),
    "solu-2l": dict(SOLU, n_layers=2),
    "attn-only-2l": dict(SOLU, n_layers=2, act_fn="relu", attn_only=True, positional_embedding_type="shortformer"),
    "tiny-stories-1M": dict(SOLU, n_layers=2, act_fn="gelu_new", n_ctx=512),
    "gpt2": dict(SOLU, n_layers=8, act_fn="gelu_new"),
    "opt-125m": dict(SOLU, n_layers=8, act_fn="relu"),
    "pythia-14m": dict(
        SOLU, n_layers=6, act_fn="gelu", parallel_attn_mlp=True, positional_embedding_type="rotary", rotary_dim=4
    ),
}
SHAPES |= {"gpt2-small": SHAPES["gpt2"], "facebook/opt-125m": SHAPES["opt-125m"]}


MADE = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, MADE, ignore_errors=True)
READ = transformers.AutoTokenizer.from_pretrained


def gpt2_folder() -> pathlib.Path:
    """GPT-2's tokenizer as a folder of transformers."""
    folder = MADE / "gpt2"
    if not folder.exists():
        files = pathlib.Path(os.environ["UPSTREAM_TOKENIZER"])
        lines = (files / "merges.txt").read_text().splitlines()
        merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        byte_level = tokenizers.ByteLevelBPETokenizer(json.loads((files / "vocab.json").read_text()), merges)
        end = "<|endoftext|>"
        transformers.GPT2TokenizerFast(
            tokenizer_object=byte_level._tokenizer, bos_token=end, eos_token=end, unk_token=end, model_max_length=1024
        ).save_pretrained(folder)
    return folder


def bert_folder() -> pathlib.Path:
    """A tokenizer of BERT's class with a few words."""
    folder = MADE / "bert"
    if not folder.exists():
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world"]
        transformers.BertTokenizerFast(vocab={word: index for index, word in enumerate(words)}).save_pretrained(folder)
    return folder


def read_tokenizer(_: Any, name: str, *given: Any, **options: Any) -> Any:
    """AutoTokenizer.from_pretrained without the hub: GPT-2's tokenizer for every name, but for BERT's."""
    options = {key: value for key, value in options.items() if key not in ("token", "trust_remote_code")}
    folder = name if pathlib.Path(name).exists() else bert_folder() if "bert" in name else gpt2_folder()
    return READ(folder, *given, **options)


def from_pretrained(
    cls: Any, model_name: str, default_padding_side: str | None = None, device: str | None = None, **options: Any
) -> Any:
    """A random model of that name's kind, processed as from_pretrained does."""
    if model_name not in SHAPES:
        raise LookupError(f"no random model answers {model_name}")
    torch.manual_seed(sum(map(ord, model_name)))
    tokenizer = transformers.AutoTokenizer.from_pretrained("gpt2")
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


HookedTransformer.from_pretrained = classmethod(from_pretrained)
transformers.AutoTokenizer.from_pretrained = classmethod(read_tokenizer)
