"""Records what transformers takes for keys that a config.json lacks, in tests/golden/absent_keys.json.

Each config.json of a golden case is read by transformers as it stands and without each of its keys in turn, also
those inside its groups. A row says which key was left out of which file (none: the file as it stands), which keys then have other
values in what transformers writes, and which it no longer writes. The test AbsentKeys reads both configs and expects the
same model.
"""
import copy
import json
import pathlib
import tempfile

import transformers

from .case_files import kGoldens

# In every file, and without effect on the model.
kSkipped = {"architectures", "dtype", "torch_dtype", "transformers_version", "use_cache", "initializer_range", "_name_or_path",
            "id2label", "label2id"}


def paths(config: dict, prefix=()) -> list:
    """The keys of a config as tuples, those of its groups included."""
    found = []
    for key, value in config.items():
        found.append(prefix + (key,))
        if isinstance(value, dict):
            found += paths(value, prefix + (key,))
    return found


def without(config: dict, path: tuple) -> dict:
    config = copy.deepcopy(config)
    group = config
    for key in path[:-1]:
        group = group[key]
    del group[path[-1]]
    return config


def as_transformers_means(config: dict):
    """What transformers writes for the config, or None where it does not accept it."""
    given = copy.deepcopy({key: value for key, value in config.items() if key != "model_type"})
    try:
        made = transformers.CONFIG_MAPPING[config["model_type"]].from_dict(given)
        with tempfile.TemporaryDirectory() as folder:
            made.save_pretrained(folder)
            return json.loads((pathlib.Path(folder) / "config.json").read_text())
    except Exception:  # whatever the class checks
        return None


def changes(before: dict, after: dict) -> dict:
    now = {key: value for key, value in after.items() if key not in kSkipped and (key not in before or before[key] != value)}
    gone = [key for key in before if key not in after and key not in kSkipped]
    return now | ({"<gone>": gone} if gone else {})


def main(_arguments: list) -> None:
    rows, seen = {}, set()
    for file in sorted((kGoldens / "cases").glob("*/config.json")):
        config = json.loads(file.read_text())
        family = config.get("model_type")
        if family not in transformers.CONFIG_MAPPING or {"text_config", "quantization_config"} & set(config):
            continue  # of training code, native, or only stored differently; text parts are in text_parts.py
        for path in [()] + paths(config):
            if kSkipped & set(path) or path[-1:] == ("model_type",):
                continue
            cut = without(config, path) if path else config
            meant = as_transformers_means(cut)
            if meant is None:
                continue
            key = ".".join(path)
            change = changes(config, meant)
            identity = (family, key, json.dumps(change, sort_keys=True))
            if identity in seen and path:
                continue
            seen.add(identity)
            rows.setdefault(file.parent.name, {})[key] = change
    lines = ",\n".join(f'"{name}":' + json.dumps(keys, separators=(",", ":")) for name, keys in rows.items())
    (kGoldens / "absent_keys.json").write_text(f"{{\n{lines}\n}}\n")
