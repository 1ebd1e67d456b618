"""What goes wrong around a run leaves the model as it was: exceptions, signals, threads, forks, memory."""

import gc
import os
import resource
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hooked
import pytest
import torch
from hooked import HookedTransformer, act

PROMPT = "When John and Mary went to the shop, John gave a bag to"


def fails(*_: Any) -> Any:
    raise ValueError("from Python")


def interrupts(*_: Any) -> Any:
    signal.raise_signal(signal.SIGINT)
    return None


# Where Python code is called from inside a run.
CALLS: dict[str, Callable[[HookedTransformer, Callable[..., Any]], Any]] = {
    "hook": lambda model, f: model.run(PROMPT, hooks=("resid_pre1", f)),
    "scoped hook": lambda model, f: _with_hook(model, f),
    "backward hook": lambda model, f: model.run(
        PROMPT, hooks=("z0", f, "backward"), gradients={"of": "z0", "metric": lambda logits: logits.sum()}
    ),
    "metric": lambda model, f: model.run(PROMPT, gradients={"of": "z0", "metric": f}),
    "metric of a run": lambda model, f: model.run(
        PROMPT, gradients={"of": "z0", "of_run": {"reads": "z1", "function": f}}
    ),
    "predicate": lambda model, f: model.run_with_cache(PROMPT, f),
    "on_text": lambda model, f: model.generate(PROMPT, on_text=f),
    "on_tokens": lambda model, f: model.generate(PROMPT, on_tokens=f),
    "hook of a generation": lambda model, f: model.generate(PROMPT, hooks=("z1", f)),
    "progress": lambda model, f: HookedTransformer.load(model.provenance.model, progress=f),
}


def _with_hook(model: HookedTransformer, f: Callable[..., Any]) -> Any:
    with model.hook("resid_pre1", f):
        return model.run(PROMPT)


@pytest.mark.parametrize("where", CALLS)
def test_an_exception_travels_with_its_traceback(model: HookedTransformer, where: str) -> None:
    before = model(PROMPT)
    with pytest.raises(ValueError, match="^from Python$") as raised:
        CALLS[where](model, fails)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "fails"
    assert torch.equal(model(PROMPT), before)
    assert model.hooks() == []


@pytest.mark.parametrize("where", CALLS)
def test_an_interrupt_ends_the_call(model: HookedTransformer, where: str) -> None:
    before = model(PROMPT)
    with pytest.raises(KeyboardInterrupt) as raised:
        CALLS[where](model, interrupts)
    assert any(frame.name == "interrupts" for frame in traceback.extract_tb(raised.value.__traceback__))
    assert torch.equal(model(PROMPT), before)
    assert model.hooks() == []


def test_an_interrupt_ends_a_generation_that_calls_no_python(tiny: HookedTransformer) -> None:
    config = tiny.config
    large = hooked.ModelConfig.from_dict({**config.to_dict(), "n_ctx": 4096})
    slow = HookedTransformer.create(large, dtype=torch.float64)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        slow.generate([[1, 2]], max_new_tokens=4000, stop={"tokens": []})
    timer.join()
    assert slow([[1, 2]]).shape == (1, 2, 11)


def test_an_in_place_write_is_an_error(model: HookedTransformer) -> None:
    def writes(z: torch.Tensor) -> None:
        z[:] = 0

    before = model(PROMPT)
    with pytest.raises(hooked.HookError, match=r"blocks\.1\.attn\.hook_z.*in place") as raised:
        model.run(PROMPT, hooks=("z1", writes))
    assert "hook_z" in raised.value.where and raised.value.message in str(raised.value)
    assert torch.equal(model(PROMPT), before)


def test_a_hook_that_returns_something_else_is_an_error(model: HookedTransformer) -> None:
    with pytest.raises(hooked.HookError, match="returned float; expected a torch.Tensor"):
        model.run(PROMPT, hooks=("z1", lambda z: 3.0))
    with pytest.raises(hooked.HookError, match="hook_z"):
        model.run(PROMPT, hooks=("z1", lambda z: z[..., :1]))


def test_eight_threads_with_hooks_of_their_own_give_the_serial_numbers(model: HookedTransformer) -> None:
    def work(number: int) -> list[torch.Tensor]:
        mine = HookedTransformer(model)
        found = []
        with mine.hook(act.z(number % 2), lambda z: z * (number / 8)):
            for _ in range(5):
                run = mine.run_with_cache(PROMPT, edits=hooked.scale(f"mlp_out0[pos={number}]", 0.5), threads=1)
                found += [run.logits, run.cache["resid_post1"]]
        return found

    serial = [work(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(work, range(8)))
    for one, other in zip(serial, parallel, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert not torch.equal(serial[1][0], serial[3][0])  # the hooks did something


def test_one_handle_runs_in_several_threads_at_once(model: HookedTransformer) -> None:
    alone = [model.run(PROMPT, hooks=("z1", lambda z, n=n: z * n), threads=1).logits for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        runs = pool.map(lambda n: model.run(PROMPT, hooks=("z1", lambda z: z * n), threads=1).logits, range(4))
    assert all(torch.equal(a, b) for a, b in zip(alone, runs, strict=True))


def _resident() -> int:
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * resource.getpagesize()


def test_ten_thousand_runs_and_hooks_take_no_memory(tiny: HookedTransformer) -> None:
    ids = torch.tensor([[1, 2, 3]])

    def work(times: int) -> None:
        for i in range(times):
            with tiny.hook("z0", lambda z: None):
                run = tiny.run_with_cache(ids, "resid_post", hooks=("z1", lambda z: z * 1), threads=1)
            run.cache["resid_post1"].sum()
            if i % 10 == 0:
                with pytest.raises(ValueError):
                    tiny.run(ids, hooks=("z1", fails))

    work(500)
    gc.collect()
    before = _resident()
    work(10_000)
    gc.collect()
    assert _resident() - before < 4 << 20


def _in_child(work: Callable[[], bool]) -> str:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 2
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "hung"
    return {0: "yes", 1: "no"}.get(os.WEXITSTATUS(status), "threw")


def test_a_forked_child_runs_as_its_parent(model: HookedTransformer) -> None:
    before = model(PROMPT)
    assert _in_child(lambda: torch.allclose(model(PROMPT), before, atol=1e-4)) == "yes"
    assert _in_child(lambda: model.run(PROMPT, hooks=("z1", lambda z: z * 1)).logits.isfinite().all().item()) == "yes"
    assert torch.equal(model(PROMPT), before)


def test_a_model_is_copied_as_a_handle_and_not_pickled(model: HookedTransformer) -> None:
    import copy
    import pickle

    handle = model.hook("z1", lambda z: z * 0)
    for other in (copy.copy(model), copy.deepcopy(model), HookedTransformer(model)):
        assert other.identity == model.identity and other.hooks() == []
    handle.remove()
    with pytest.raises(TypeError, match=r"not pickled.*model\.save\(folder\)"):
        pickle.dumps(model)
