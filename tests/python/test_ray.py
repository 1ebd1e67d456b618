"""A harvest on a Ray cluster of this machine: the store of one process, also when a node is lost in the middle."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import hooked
import pytest
from conftest import ROOT, TOY_MODEL

ray = pytest.importorskip("ray", reason="ray is not installed: scripts/test_ray.sh")
cluster_utils = pytest.importorskip("ray.cluster_utils")

OPTIONS: dict[str, Any] = dict(names="resid_post1", contexts={"length": 16}, unit_tokens=40, threads=1)


@pytest.fixture(scope="module")
def cluster() -> Any:
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 * 2**20})
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    path.write_text((ROOT / "examples/pairs.jsonl").read_text() * 8)
    return path


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def expected_store(corpus: Path, folder: Path) -> dict[str, bytes]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = hooked.HookedTransformer.load(str(TOY_MODEL))
        hooked.harvest(model, corpus, field="clean", out=folder, progress=False, **OPTIONS)
    finally:
        torch.set_num_threads(threads)
    return bytes_in(folder)


def test_a_lost_node_changes_nothing(cluster: Any, corpus: Path, tmp_path: Path) -> None:
    from hooked import ray as hooked_ray

    expected = expected_store(corpus, tmp_path / "whole")
    worker = cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    out = tmp_path / "acts"
    found: list[hooked.StoreStatus] = []

    def work() -> None:
        found.append(hooked_ray.harvest(str(TOY_MODEL), str(corpus), out=out, field="clean", actors=(1, 2), cpus=1, **OPTIONS))

    working = threading.Thread(target=work)
    working.start()
    while working.is_alive() and len(list(out.glob("unit-*.json"))) < 3:
        time.sleep(0.02)
    assert working.is_alive(), "the harvest was over before a node was lost"
    cluster.remove_node(worker, allow_graceful=False)
    cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    working.join()
    assert found and found[0].complete() and found[0].joined
    assert bytes_in(out) == expected


@pytest.mark.parametrize("calls", [1, 5])
def test_several_units_a_call_make_the_same(cluster: Any, corpus: Path, tmp_path: Path, calls: int) -> None:
    from hooked import ray as hooked_ray

    expected = expected_store(corpus, tmp_path / "whole")
    out = tmp_path / "acts"
    status = hooked_ray.harvest(str(TOY_MODEL), str(corpus), out=out, field="clean", calls=calls, **OPTIONS)
    assert status.complete() and bytes_in(out) == expected


def test_an_object_store_holds_the_same(cluster: Any, corpus: Path, tmp_path: Path) -> None:
    from hooked import ray as hooked_ray

    pytest.importorskip("fsspec")
    expected = expected_store(corpus, tmp_path / "whole")
    url = f"local://{tmp_path}/bucket/acts"
    status = hooked_ray.harvest(str(TOY_MODEL), str(corpus), out=url, field="clean", actors=1, **OPTIONS)
    assert status.complete() and bytes_in(tmp_path / "bucket/acts") == expected
    again = hooked_ray.harvest(str(TOY_MODEL), str(corpus), out=url, field="clean", actors=1, **OPTIONS)
    together = hooked_ray.harvest(str(TOY_MODEL), str(corpus), out=f"{url}2", field="clean", calls=4, **OPTIONS)
    assert together.complete() and bytes_in(tmp_path / "bucket/acts2") == expected
    assert again.complete() and bytes_in(tmp_path / "bucket/acts") == expected


def test_sweeps_over_pairs_are_those_of_one_process(cluster: Any) -> None:
    from hooked import ray as hooked_ray

    # Inside the test, so that Ray sends the function itself: its workers cannot import the module of a test.
    def scores(model: hooked.HookedTransformer, pairs: list[dict[str, Any]]) -> list[float]:
        metric = hooked.logit_difference
        return [float(metric(pair["answers"], pair["against"]).score(model, pair["clean"])[0]) for pair in pairs]

    pairs = [json.loads(line) for line in (ROOT / "examples/pairs.jsonl").read_text().splitlines()]
    parts = hooked_ray.sweep(scores, str(TOY_MODEL), pairs, chunk=2)
    model = hooked.HookedTransformer.load(str(TOY_MODEL))
    assert [len(part) for part in parts] == [2, 2, 2]
    assert [score for part in parts for score in part] == pytest.approx(scores(model, pairs), abs=1e-4)
