"""Long work: Ctrl-C, progress, and what callbacks and metrics raise."""

import functools
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import hooked
from hooked import act

ROOT = Path(__file__).resolve().parents[2]
CLEAN = "When John and Mary went to the shop, John gave a bag to"
CORRUPTED = "When John and Mary went to the shop, Mary gave a bag to"


@functools.cache
def model() -> hooked.HookedTransformer:
    return hooked.HookedTransformer.load(str(ROOT / "examples" / "toy_model"))


@functools.cache
def clean() -> hooked.ActivationCache:
    return model().run_with_cache(CLEAN).cache


def sweep_options(**more: Any) -> dict[str, Any]:
    return {
        "site": act.z,
        "over": ["layer", "pos", "head"],
        "from_": clean(),
        "into": CORRUPTED,
        "metric": hooked.logit(" Mary"),
        "tokens_per_run": 1,
    } | more


def analyses(**more: Any) -> dict[str, Callable[[], Any]]:
    """Every kind of analysis that counts its steps."""
    options = sweep_options(**more)
    parts = {"from_": clean(), "into": CORRUPTED, "metric": hooked.logit(" Mary")} | more
    nodes = [part.name for part in hooked.model_parts(model())][:4]
    cache = clean()
    return {
        "sweep": lambda: hooked.sweep(model(), **options),
        "sweep by threads": lambda: hooked.sweep(model(), threads=2, **options),
        "attribution patching": lambda: hooked.attribution_patching(model(), sweep=options, check=50),
        "judge": lambda: hooked.judge_circuit(model(), hooked.Circuit.of_nodes(model(), nodes), sweep=parts, sets=100),
        "edges": lambda: hooked.edge_attribution_report(model(), sweep=parts, check=50),
        "ablate": lambda: hooked.ablate(model(), sets=[[act.z(0)], [act.z(1)]] * 20, sweep=parts),
        "lens": lambda: hooked.logit_lens(model(), cache, positions=[], **more),
        "attribution": lambda: hooked.direct_logit_attribution(model(), cache, answer=" Mary", grain="neuron", **more),
        "composition": lambda: hooked.composition_scores(model(), "key", random_draws=5, **more),
        "copying": lambda: hooked.copying_scores(model(), **more),
        "heads": lambda: hooked.head_scores_report(model(), repeated(), scores=["induction", "entropy"], **more),
        "repetition": lambda: hooked.repetition_scores(model(), hooked.repeated_tokens_of(model()), **more),
    }


@functools.cache
def repeated() -> torch.Tensor:
    options = hooked.repeated_tokens_of(model())
    options.rows = 40
    return hooked.repeated_random_tokens(options)


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C raises, and so does the timer."""
    before = {of: signal.signal(of, signal.default_int_handler) for of in (signal.SIGINT, signal.SIGALRM)}
    yield
    for of, handler in before.items():
        signal.signal(of, handler)


def still_works() -> None:
    assert model().run(CLEAN).logits.isfinite().all()


class Given(Exception):
    """What a callback raises."""


@pytest.mark.parametrize("name", list(analyses()))
def test_progress_is_told_ends_and_raises(name: str) -> None:
    seen: list[hooked.SweepProgress] = []
    analyses(progress=seen.append)[name]()  # returns None: to go on
    assert seen and all(a.done <= b.done for a, b in zip(seen, seen[1:])) and seen[-1].done == seen[-1].total

    ended: list[int] = []

    def end(now: hooked.SweepProgress) -> bool:
        ended.append(now.done)
        return False

    analyses(progress=end)[name]()
    if len(seen) > 2:
        assert len(ended) < len(seen)

    def fail(_: hooked.SweepProgress) -> None:
        raise Given(name)

    with pytest.raises(Given, match=name) as raised:
        analyses(progress=fail)[name]()
    assert "fail" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    still_works()


@pytest.mark.parametrize("name", list(analyses()))
def test_ctrl_c_ends_an_analysis(name: str, interrupts: None) -> None:
    work = analyses(progress=False)[name]
    work()  # what is computed once is not in the way

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    # A signal that comes while C++ computes is seen at the next step.
    with pytest.raises(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.003)
        for _ in range(2000):
            work()
    with pytest.raises(KeyboardInterrupt):
        analyses(progress=interrupt)[name]()
    still_works()


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_one_long_call(threads: int, interrupts: None) -> None:
    options = sweep_options(progress=False, threads=threads)
    parts = {name: options[name] for name in options if name not in ("site", "over")}
    sets = [[act.z(0).head(1).pos(i % 13)] for i in range(20000)]
    began = time.time()
    with pytest.raises(KeyboardInterrupt) as raised:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        hooked.ablate(model(), sets=sets, sweep=parts)
    assert raised.traceback[-1].name == "test_ctrl_c_ends_one_long_call"  # not in Python code below it
    assert time.time() - began < 5
    still_works()


def test_ctrl_c_keeps_what_a_partial_sweep_has(tmp_path: Path, interrupts: None) -> None:
    whole = hooked.sweep(model(), **sweep_options(progress=False))
    file = tmp_path / "part.safetensors"
    steps: list[int] = []

    def progress(now: hooked.SweepProgress) -> None:
        steps.append(now.done)
        if now.done >= 30:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        hooked.sweep(model(), partial=file, **sweep_options(progress=progress))
    assert file.exists()
    again = hooked.sweep_report(model(), partial=file, **sweep_options(progress=False))
    assert again.runs <= 120 - 30 and torch.equal(again.grid.values, whole.values)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_metric_raises_travels(threads: int) -> None:
    calls: list[int] = []

    def metric(logits: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 4:
            raise Given("in a metric")
        return logits[:, -1, 0]

    with pytest.raises(Given) as raised:
        hooked.sweep(model(), **sweep_options(metric=metric), threads=threads)
    assert "metric" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    calls.clear()
    report = hooked.sweep_report(model(), **sweep_options(metric=metric), threads=threads)
    assert report.failed and "Given: in a metric" in report.failed[0].error

    def interrupted(logits: torch.Tensor) -> torch.Tensor:
        if len(calls) > 8:
            raise KeyboardInterrupt
        return metric(logits)

    calls[:] = [1] * 9
    with pytest.raises(KeyboardInterrupt):  # not a cell that failed
        hooked.sweep_report(model(), **sweep_options(metric=interrupted), threads=threads)
    with pytest.raises(hooked.ShapeError, match="returned float; expected a torch.Tensor"):
        hooked.sweep(model(), **sweep_options(metric=lambda logits: 1.0), threads=threads)
    still_works()


class FakeBar:
    """Stands in for tqdm.auto.tqdm."""

    made: list["FakeBar"] = []

    def __init__(self, total: int, **_: Any) -> None:
        self.n, self.total, self.closed, self.start_t = 0, total, False, time.time()
        FakeBar.made.append(self)

    def update(self, by: int) -> None:
        self.n += by

    def close(self) -> None:
        self.closed = True


def test_a_bar_appears_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("tqdm.auto")
    module.tqdm = FakeBar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    began = time.monotonic()
    hooked.sweep(model(), **sweep_options())
    assert not FakeBar.made or time.monotonic() - began > 1  # a busy machine is not quick
    FakeBar.made.clear()

    def slow(logits: torch.Tensor) -> torch.Tensor:
        time.sleep(0.3)
        return logits[:, -1, 0]

    hooked.sweep(model(), **sweep_options(metric=slow))
    (bar,) = FakeBar.made
    assert bar.total == bar.n == 120 and bar.closed and time.time() - bar.start_t > 1.5
    hooked.sweep(model(), **sweep_options(metric=slow, progress=False))
    assert len(FakeBar.made) == 1

    def fails(logits: torch.Tensor) -> torch.Tensor:
        if len(FakeBar.made) == 2:
            raise Given
        return slow(logits)

    with pytest.raises(Given):
        hooked.sweep(model(), **sweep_options(metric=fails))
    assert FakeBar.made[1].closed


def test_no_bar_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    from hooked._progress import StepBar

    StepBar()(1, 10, 2.0)
