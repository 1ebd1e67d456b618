"""Harvests and sweeps on a Ray cluster: Ray places the work, tries it again where a node is lost, and adds nodes.

Needs `ray` (pip install "ray[data]"). Each actor holds a model, and does whole units: a harvest's units (docs/harvest.md), or some prompt
pairs of a sweep. A unit that is done twice, since a node was lost, gives the same bytes.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Union

import hooked

ModelLike = Union[str, "os.PathLike[str]", Callable[[], "hooked.HookedTransformer"]]
"""What `HookedTransformer.load` takes, or a function that makes the model; every actor makes its own."""


def harvest(
    model: ModelLike,
    corpus: Any,
    *,
    out: Union[str, "os.PathLike[str]"],
    load: dict[str, Any] | None = None,
    field: str = "",
    actors: Union[int, tuple[int, int]] = 1,
    cpus: float = 1,
    gpus: float = 0,
    calls: int = 1000,
    **options: Any,
) -> "hooked.StoreStatus":
    """`hooked.harvest` as a stage of Ray Data: the store of one process, made by many.

    `corpus` is a path that every node sees, or a function that makes a corpus. `out` is a folder that every node sees, or a URL of
    `fsspec` (`s3://bucket/acts`): there, a unit's record is put after its files, and objects appear as a whole. `actors` is how many hold
    the model, or the fewest and the most; each has `cpus` processors, as many threads, and `gpus` devices. `load` are options of
    `HookedTransformer.load`, and `options` those of `hooked.harvest`. Actors are called at most `calls` times, with as many units each
    time, since every call reads which units there are.

    Returns what the store holds. What was done before is not done again.
    """
    import ray
    from ray import data

    place = _Place(os.fspath(out))
    work = (model, load or {}, corpus, field, place, max(1, int(cpus)), options)
    units = ray.get(ray.remote(_plan).options(num_cpus=cpus, num_gpus=gpus, max_retries=-1).remote(*work))
    there = place.records()
    missing = [{"unit": unit} for unit in range(units) if unit not in there]
    if missing:
        together = -(-len(missing) // calls)
        stage = data.from_items(missing, override_num_blocks=-(-len(missing) // together)).map_batches(
            _Harvester, batch_size=together, concurrency=actors, num_cpus=cpus, num_gpus=gpus, fn_constructor_args=work
        )
        for _ in stage.iter_batches(batch_size=together):
            pass
    return place.join()


def sweep(
    analysis: Callable[..., "hooked.Grid"],
    model: ModelLike,
    pairs: "Sequence[dict[str, Any]]",
    *,
    load: dict[str, Any] | None = None,
    chunk: int = 16,
    actors: Union[int, tuple[int, int]] = 1,
    cpus: float = 1,
    gpus: float = 0,
) -> "list[Any]":
    """`analysis(model, pairs)` over many prompt pairs, some at a time: the list of what it returns for each `chunk` of them, in their order.

    `analysis` is a function of a model and of some of `pairs` whose result can be pickled, such as a `Grid` or the numbers of one.
    It is one of your script, or of a module that the workers can import.
    """
    from ray import data

    chunks = [{"number": number, "pairs": json.dumps(list(pairs[begin : begin + chunk]))} for number, begin in enumerate(range(0, len(pairs), chunk))]
    stage = data.from_items(chunks, override_num_blocks=max(1, len(chunks))).map_batches(
        _Analyst, batch_size=1, concurrency=actors, num_cpus=cpus, num_gpus=gpus, fn_constructor_args=(analysis, model, load or {}, max(1, int(cpus)))
    )
    from ray import cloudpickle

    found = {int(row["number"]): cloudpickle.loads(row["result"]) for row in stage.iter_rows()}
    return [found[number] for number in range(len(chunks))]


def _made(model: ModelLike, load: dict[str, Any], threads: int) -> "hooked.HookedTransformer":
    import torch

    torch.set_num_threads(threads)
    return model() if callable(model) else hooked.HookedTransformer.load(os.fspath(model), **load)


def _plan(model: ModelLike, load: dict[str, Any], corpus: Any, field: str, place: "_Place", threads: int, options: dict[str, Any]) -> int:
    """Writes the manifest if there is none; the number of units."""
    harvester = _Harvester(model, load, corpus, field, place, threads, options)
    return harvester.plan()


class _Harvester:
    """An actor that holds a model."""

    def __init__(self, model: ModelLike, load: dict[str, Any], corpus: Any, field: str, place: "_Place", threads: int, options: dict[str, Any]) -> None:
        self._model = _made(model, load, threads)
        self._corpus = hooked.as_corpus(corpus() if callable(corpus) else corpus, field=field)
        self._place = place
        self._options = {"progress": False, "planning": False, **options}

    def plan(self) -> int:
        with self._place.folder() as folder:
            self._harvest(folder, [])
            self._place.put(folder, ["manifest.json"], replace=False)
            return len(json.loads((folder / "manifest.json").read_text())["plan"])

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        for units in self._place.at_once([int(unit) for unit in batch["unit"]]):
            with self._place.folder() as folder:
                self._harvest(folder, units)
                for unit in units:
                    self._place.put_unit(folder, unit)
        return batch

    def _harvest(self, folder: Path, units: list[int]) -> None:
        hooked.harvest(self._model, self._corpus, out=folder, units=units, **self._options)


class _Analyst:
    def __init__(self, analysis: Callable[..., Any], model: ModelLike, load: dict[str, Any], threads: int) -> None:
        self._analysis = analysis
        self._model = _made(model, load, threads)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        from ray import cloudpickle

        results = [cloudpickle.dumps(self._analysis(self._model, json.loads(pairs))) for pairs in batch["pairs"]]
        return {"number": batch["number"], "result": results}


class _Place:
    """Where a store is: a folder, or a URL, for which units are made in a folder of the node and put there."""

    def __init__(self, out: str) -> None:
        self._out = out.rstrip("/")
        self._remote = "://" in out

    def _system(self) -> Any:
        import fsspec

        return fsspec.core.url_to_fs(self._out)

    def at_once(self, units: list[int]) -> list[list[int]]:
        """The units of a call, in the parts that a node makes before it puts them."""
        return [[unit] for unit in units] if self._remote else [units]

    def folder(self) -> "_Folder":
        if not self._remote:
            return _Folder(Path(self._out), remove=False)
        folder = Path(tempfile.mkdtemp(prefix="hooked_units_"))
        system, root = self._system()
        if system.exists(f"{root}/manifest.json"):
            system.get(f"{root}/manifest.json", str(folder / "manifest.json"))
        return _Folder(folder, remove=True)

    def put(self, folder: Path, names: list[str], replace: bool = True) -> None:
        if not self._remote:
            return
        system, root = self._system()
        system.makedirs(root, exist_ok=True)
        for name in names:
            if replace or not system.exists(f"{root}/{name}"):
                system.put(str(folder / name), f"{root}/{name}")

    def put_unit(self, folder: Path, unit: int) -> None:
        record = f"unit-{unit:06}.json"
        if self._remote:
            shards = sorted(path.name for path in folder.glob(f"unit-{unit:06}-*.safetensors"))
            self.put(folder, [*shards, record])

    def records(self) -> dict[int, str]:
        """The units that are there, and their records' names."""
        if not self._remote:
            status = hooked.store_status(self._out)
            return dict.fromkeys(set(range(status.units)) - set(status.missing), "")
        system, root = self._system()
        manifest = json.loads(system.cat_file(f"{root}/manifest.json"))
        if "units" in manifest:
            return {unit["unit"]: "" for unit in manifest["units"]}
        names = [path.rsplit("/", 1)[-1] for path in system.ls(root, detail=False)]
        return {int(name[5:-5]): name for name in names if name.startswith("unit-") and name.endswith(".json")}

    def join(self) -> "hooked.StoreStatus":
        if not self._remote:
            return hooked.join_store(self._out)
        system, root = self._system()
        records = self.records()
        with self.folder() as folder:
            for name in filter(None, records.values()):
                system.get(f"{root}/{name}", str(folder / name))
            status = hooked.store_status(folder)
            if status.missing or status.joined:
                return status
            manifest = json.loads((folder / "manifest.json").read_text())
            reduces = "reduce" in manifest
            for name in records.values():
                for shard in json.loads((folder / name).read_text())["shards"]:
                    if reduces:
                        system.get(f"{root}/{shard['file']}", str(folder / shard["file"]))
                    else:  # joining looks at sizes alone
                        with (folder / shard["file"]).open("wb") as file:
                            file.truncate(system.info(f"{root}/{shard['file']}")["size"])
            status = hooked.join_store(folder)
            self.put(folder, [name for name in ("moments.safetensors", "examples.safetensors") if (folder / name).exists()])
            self.put(folder, ["manifest.json"])
            for name in filter(None, records.values()):
                system.rm_file(f"{root}/{name}")
            return status


class _Folder:
    def __init__(self, path: Path, remove: bool) -> None:
        self._path = path
        self._remove = remove

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        if self._remove:
            shutil.rmtree(self._path, ignore_errors=True)
