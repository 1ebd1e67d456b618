"""Downloading models with huggingface_hub, on request. The engine itself downloads nothing."""

import shlex
from pathlib import Path

from hooked._hooked import hub_cache

# Weights for other programs, and forms of which the engine reads none.
_OTHER_WEIGHTS = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "*.onnx_data", "*.tflite", "*.mlmodel", "*.pth", "original/*"]


def fetched(model: str) -> str:
    """The name by which the engine finds `model` (`org/name[@revision][:file]`) once huggingface_hub has fetched it."""
    if Path(model).exists():
        return model
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError as missing:
        raise ImportError(
            "[download] huggingface_hub, which downloads, is not installed; pip install huggingface_hub, or download "
            f"the model yourself: hf download {shlex.quote(model.partition('@')[0].partition(':')[0])}"
        ) from missing
    name, _, file = model.partition(":")
    name, _, revision = name.partition("@")
    cache = hub_cache().path
    if file:
        wanted = [file, "*.json", "tokenizer*"]
        snapshot_download(name, revision=revision or None, cache_dir=cache, allow_patterns=wanted)
        return model
    files = HfApi().list_repo_files(name, revision=revision or None)
    unread = list(_OTHER_WEIGHTS)
    if any(path.endswith(".safetensors") for path in files):
        unread += ["*.bin", "*.pt", "*.gguf"]
    snapshot_download(name, revision=revision or None, cache_dir=cache, ignore_patterns=unread)
    return model
