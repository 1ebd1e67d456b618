"""Configs as dicts: the content of a native folder's config.json."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hooked._hooked import ModelConfig, read_model_config


def from_dict(config: Mapping[str, Any]) -> ModelConfig:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(dict(config)))
        return read_model_config(folder)
