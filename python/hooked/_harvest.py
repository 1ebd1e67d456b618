"""Corpora of Python's libraries, and harvests of them. pyarrow and datasets are imported where they are used."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Union

from hooked import _hooked
from hooked._hooked import ActivationStore, ActivationStream, Corpus, HarvestSummary, StoreOptions

_FIELDS = ("text", "input_ids", "tokens", "token_ids")
_STORE_OPTIONS = ("unit_tokens", "shard_bytes", "share", "units", "mixed", "reduce", "planning")

CorpusLike = Union[Corpus, str, "os.PathLike[str]", Any]
"""A corpus, a path, a `datasets.Dataset`, or texts or lists of ids."""


def as_corpus(corpus: CorpusLike, *, field: str = "", **options: Any) -> Corpus:
    """A corpus in any of its forms: a path of what `Corpus.open` reads, a Parquet file or a folder of such files, a folder that
    `datasets` saved, a `datasets.Dataset`, or an iterable of texts or lists of ids.

    `field` names the column of a table, or what `CorpusOptions.field` says.
    """
    if isinstance(corpus, Corpus):
        return corpus
    if isinstance(corpus, (str, os.PathLike)):
        path = Path(corpus)
        if path.is_dir() and (path / "state.json").exists() and (path / "dataset_info.json").exists():
            return _of_dataset(_datasets().load_from_disk(str(path)), field)
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path] * (path.suffix == ".parquet")
        if files:
            return _of_parquet(files, field)
        return Corpus.open(path, field=field, **options)
    if hasattr(corpus, "column_names") and hasattr(corpus, "_fingerprint"):
        return _of_dataset(corpus, field)
    return Corpus.of(corpus)


def harvest(
    model: _hooked.HookedTransformer, corpus: CorpusLike, *, out: Union[str, "os.PathLike[str]", None] = None, field: str = "", **options: Any
) -> Union[ActivationStream, HarvestSummary]:
    """Runs the model over a corpus and keeps the activations of its tokens: with `out` in a store on disk, which `ActivationStore`
    reads; without, as an iterator of `ActivationRows`, run by run.

        for rows in hooked.harvest(model, "corpus.jsonl", names="resid_post5"):
            train(rows.activations["blocks.5.hook_resid_post"])
        hooked.harvest(model, "corpus.jsonl", names="resid_post5", out="acts")

    `corpus` is what `as_corpus` takes. Options are those of `HarvestOptions`, and with `out` those of `StoreOptions`.
    """
    documents = as_corpus(corpus, field=field)
    store = {name: options.pop(name) for name in _STORE_OPTIONS if name in options}
    if out is None:
        if store:
            raise TypeError(f"harvest(): {', '.join(store)} {'is' if len(store) == 1 else 'are'} about a store on disk; expected out= with a folder")
        return ActivationStream(model, documents, **options)
    return _hooked.harvest(model, documents, Path(out), store=StoreOptions(**store), **options)


def to_dataset(store: Union[str, "os.PathLike[str]"], out: Union[str, "os.PathLike[str]"], name: str = "") -> Any:
    """Writes one activation of a store as a folder of `datasets`, in the form of SAELens's cached activations: a row for each context,
    with the column of the activation's name, `Array2D((context, d), dtype)`, and `token_ids`. Returns the dataset.

    SAELens trains from it: `cached_activations_path=out`. The store's contexts must be packed, and whole: without tokens that were left
    out.
    """
    folder = Path(store)
    manifest = json.loads((folder / "manifest.json").read_text())
    length = manifest["contexts"]["length"]
    opened = ActivationStore.open(folder)
    held = {each.name: each for each in opened.activations()}
    if not name and len(held) == 1:
        name = next(iter(held))
    if name not in held:
        raise KeyError(f"[{folder}] it is not clear which activation is meant; expected name= with one of {', '.join(held)}, got '{name}'")
    if not manifest["contexts"]["packed"] or opened.rows() != _contexts(folder) * length:
        raise ValueError(f"[{folder}] its contexts are not whole; expected a harvest of packed contexts that leaves out no token")
    datasets = _datasets()
    shape = (length, _product(held[name].shape))
    dtype = str(held[name].dtype).removeprefix("torch.")
    if dtype == "bfloat16":
        dtype = "float32"  # Arrow has no bfloat16
    features = datasets.Features(
        {name: datasets.Array2D(shape=shape, dtype=dtype), "token_ids": datasets.Sequence(datasets.Value("int32"), length=length)}
    )

    with tempfile.TemporaryDirectory() as cache:
        made = {"folder": str(folder), "name": name, "shape": shape, "dtype": dtype}
        datasets.Dataset.from_generator(_dataset_rows, features=features, cache_dir=cache, gen_kwargs=made).save_to_disk(str(out))
    return datasets.load_from_disk(str(out))


def _dataset_rows(folder: str, name: str, shape: tuple[int, int], dtype: str) -> Iterator[dict[str, Any]]:
    opened = ActivationStore.open(folder)
    step = max(1, 4096 // shape[0]) * shape[0]
    for begin in range(0, len(opened), step):
        some = opened.read(begin, min(begin + step, len(opened)), [name])
        values = some.activations[name].flatten(1)
        values = (values.float() if dtype == "float32" else values).reshape(-1, *shape).numpy()
        for value, ids in zip(values, some.tokens.reshape(-1, shape[0]).numpy(), strict=True):
            yield {name: value, "token_ids": ids}


def _contexts(folder: Path) -> int:
    return _hooked.store_status(folder).contexts


def _product(sizes: Iterable[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as missing:
        raise ImportError("[corpus] datasets, which reads and writes such folders, is not installed; pip install datasets") from missing
    return datasets


def _column(names: list[str], field: str, where: str) -> str:
    if field in names:
        return field
    found = [name for name in _FIELDS if name in names] if not field else []
    if not found:
        raise ValueError(f"[{where}] the column '{field or 'text'}' is missing; expected field= with one of {', '.join(names)}")
    return found[0]


def _of_dataset(dataset: Any, field: str) -> Corpus:
    column = _column(dataset.column_names, field, "corpus")
    return Corpus.of_reader(lambda begin, end: dataset[begin:end][column], len(dataset), f"{dataset._fingerprint} {column}")


def _of_parquet(files: list[Path], field: str) -> Corpus:
    try:
        import pyarrow.parquet as parquet
    except ImportError as missing:
        raise ImportError("[corpus] pyarrow, which reads Parquet, is not installed; pip install pyarrow") from missing
    opened = [parquet.ParquetFile(file) for file in files]
    column = _column(opened[0].schema_arrow.names, field, str(files[0]))
    groups = [(file, group, file.metadata.row_group(group).num_rows) for file in opened for group in range(file.metadata.num_row_groups)]
    fingerprint = hashlib.sha1(column.encode())
    for path in files:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 65536))  # the footer, with the place of every column
            fingerprint.update(f"{path.name} {size} ".encode() + file.read())

    held: dict[int, list[Any]] = {}  # the group that was read last

    def documents(begin: int, end: int) -> list[Any]:
        found: list[Any] = []
        at = 0
        for number, (file, group, rows) in enumerate(groups):
            if at < end and at + rows > begin:
                values = held.get(number)
                if values is None:
                    values = file.read_row_group(group, columns=[column])[column].to_pylist()
                    held.clear()
                    held[number] = values
                found += values[max(0, begin - at) : end - at]
            at += rows
        return found

    return Corpus.of_reader(documents, sum(rows for _, _, rows in groups), fingerprint.hexdigest())
