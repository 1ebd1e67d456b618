"""What oracles say of models by one kind of analysis: a folder beside cases/ with an index.json, and files of tensors by model.

Every index has `oracle`, perhaps what else the analysis has to say, and `models`, a row each: `model`; `folder`, where the model is; and
`processing`, the steps that were taken before what begins with `raw` or `folded` was recorded. The files of a model are
`<analysis>/<model>/<file>.safetensors`. tests/analysis/analysis_goldens.h reads them all.
"""

import fnmatch
import json
import shutil
import sys

from safetensors.torch import save_file

from .case_files import check, kGoldens
from .drawn import tensors_of
from .projections import save_expected


def read_model(folder: str) -> tuple:
    """Config fields and native weights."""
    fields = json.loads((kGoldens / folder / "config.json").read_text())
    del fields["model_type"]
    return fields, tensors_of(folder)


class Analysis:
    """Writes one of these folders."""

    def __init__(self, name: str):
        self.name, self.folder = name, kGoldens / name

    def clear(self, model: str = "") -> None:
        """Removes what is there, of one model or of all."""
        shutil.rmtree(self.folder / model, ignore_errors=True)
        (self.folder / model).mkdir(parents=True)

    def write(self, model: str, file: str, tensors: dict, left_out=None, with_gaps: str = "") -> None:
        """A file of a model, of projections where `left_out` says which places are not compared (projections.py). Tensors that the glob
        `with_gaps` matches are NaN where there is nothing."""
        whole = {name: t.masked_fill(t.isnan(), 0) if fnmatch.fnmatch(name, with_gaps) else t for name, t in tensors.items()}
        check(whole, f"{self.name}/{model}/{file}")
        path = self.folder / model / f"{file}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        if left_out is None:
            save_file({name: t.detach().clone().contiguous() for name, t in sorted(tensors.items())}, path)
            path.chmod(0o644)
        else:
            save_expected(path, tensors, left_out)

    def index(self) -> dict:
        path = self.folder / "index.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def write_index(self, head: dict, models: list, **tables: list) -> None:
        """Each entry of `head` is a line, and each row of the models and of the other tables."""
        entries = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        for name, rows in {"models": models, **tables}.items():
            lines = ",\n".join(" " + json.dumps(row, separators=(",", ":")) for row in rows)
            entries.append(f"{json.dumps(name)}: [\n{lines}\n]")
        (self.folder / "index.json").write_text("{\n" + ",\n".join(entries) + "\n}\n")
        total = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
        print(f"{self.name}: {len(models)} models, {total / 1e6:.2f} MB", file=sys.stderr)
