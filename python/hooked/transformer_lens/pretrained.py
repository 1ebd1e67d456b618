"""from_pretrained: a checkpoint that the engine loads, as a tree of modules."""

import tempfile
from typing import Any

import torch

import hooked
from hooked._hooked import _native_config, _repository_of
from hooked.transformer_lens.config import from_engine
from hooked.transformer_lens.errors import NotBridged

STEPS = ("fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases", "refactor_factored_attn_matrices")


def _dtype(name: Any) -> torch.dtype:
    if isinstance(name, torch.dtype):
        return name
    short = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
    return getattr(torch, short.get(name, name))


def load(
    cls: Any,
    model_name: str,
    fold_ln: bool = True,
    center_writing_weights: bool = True,
    center_unembed: bool = True,
    refactor_factored_attn_matrices: bool = False,
    fold_value_biases: bool = True,
    hf_model: Any = None,
    tokenizer: Any = None,
    device: Any = None,
    n_devices: int = 1,
    dtype: Any = "float32",
    default_prepend_bos: bool | None = None,
    default_padding_side: str | None = None,
    move_to_device: bool = True,
    revision: str | None = None,
    torch_dtype: Any = None,
    **others: Any,
) -> Any:
    """A model by a name of TransformerLens's, a repository or a folder; or the one in memory that `hf_model` is.

    Nothing is downloaded: a missing model is an error that names the command. Steps of processing are applied where
    they leave log-probabilities unchanged.
    """
    if given := {name: value for name, value in others.items() if value is not None}:
        raise NotBridged(
            "from_pretrained",
            f"{', '.join(given)} is not supported",
            "load the checkpoint that you mean by its repository",
        )
    if n_devices != 1:
        raise NotBridged(
            "from_pretrained", "n_devices is not supported", "spread the model by hooked.HookedTransformer.load"
        )
    repository = _repository_of(model_name) or model_name
    options = {
        "device": str(device or "cpu"),
        "dtype": _dtype(torch_dtype or dtype),
        "processing": hooked.WeightProcessing.none(),
    }
    with tempfile.TemporaryDirectory() as folder:
        source = f"{repository}@{revision}" if revision else repository
        if hf_model is not None:
            hf_model.save_pretrained(folder)
            source = folder
        engine = hooked.HookedTransformer.load(source, **options)
        cfg = from_engine(_native_config(engine))
        cfg.device, cfg.init_weights = options["device"], False
        cfg.model_name = repository.rpartition("/")[2]
        if default_prepend_bos is not None:
            cfg.default_prepend_bos = default_prepend_bos
        if tokenizer is None and hf_model is None:
            cfg.tokenizer_name = repository
        model = cls(cfg, tokenizer, move_to_device=move_to_device, default_padding_side=default_padding_side)
        model._take(engine)
    wanted = dict(
        fold_ln=fold_ln,
        center_writing_weights=center_writing_weights,
        center_unembed=center_unembed,
        fold_value_biases=fold_value_biases,
        refactor_factored_attn_matrices=refactor_factored_attn_matrices,
    )
    if any(wanted.values()):
        model.process_weights_(**wanted)
    return model
