"""Patching, against loops of runs and hooks written here."""

import functools
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
    return hooked.HookedTransformer.load(str(ROOT / "examples" / "toy_model"), dtype=torch.float64)


@functools.cache
def pairs() -> hooked.PromptPairs:
    return hooked.PromptPairs.load(model(), ROOT / "examples" / "pairs.jsonl")


@functools.cache
def tokens(text: str) -> torch.Tensor:
    return model().to_tokens(text)


@functools.cache
def answers() -> tuple[int, int]:
    return model().to_token(" Mary"), model().to_token(" John")


def difference(logits: torch.Tensor) -> torch.Tensor:
    mary, john = answers()
    return logits[:, -1, mary] - logits[:, -1, john]


def close(a: torch.Tensor, b: torch.Tensor, to: float = 1e-12) -> bool:
    return bool(((a - b).abs() <= to * b.abs().max().clamp(min=1)).all())


@functools.cache
def clean() -> hooked.ActivationCache:
    return model().run_with_cache(CLEAN, act.everything).cache


def patched(name: str, index: tuple[Any, ...]) -> float:
    """The score of a run with one block of an activation from the clean run."""

    def hook(value: torch.Tensor) -> torch.Tensor:
        value = value.clone()
        value[index] = clean()[name][index]
        return value

    return difference(model().run(CORRUPTED, hooks=[(name, hook)]).logits).item()


EVERY = slice(None)


def test_sweep_over_heads_is_a_loop_of_hooks() -> None:
    grid = hooked.sweep(
        model(),
        site=act.z,
        over=["layer", "head"],
        from_=clean(),
        into=CORRUPTED,
        metric=hooked.logit_difference(" Mary", " John"),
    )
    expected = [[patched(f"blocks.{l}.attn.hook_z", (EVERY, EVERY, h)) for h in range(4)] for l in range(2)]
    assert [axis.name for axis in grid.axes] == ["layer", "head"]
    assert close(grid.values, torch.tensor(expected, dtype=torch.float64))


def test_sweep_over_positions_is_a_loop_of_hooks() -> None:
    length = tokens(CLEAN).shape[1]
    grid = hooked.sweep(
        model(), site=act.resid_pre, over=["layer", ("pos", [3, -1, "last"])], from_=clean(), into=CORRUPTED,
        metric=difference_metric(),
    )
    expected = [
        [patched(f"blocks.{l}.hook_resid_pre", (EVERY, p)) for p in (3, length - 1, length - 1)] for l in range(2)
    ]
    assert close(grid.values, torch.tensor(expected, dtype=torch.float64))


def difference_metric() -> hooked.Metric:
    return hooked.Metric(difference, name="mine")


def test_a_python_metric_is_the_ready_one() -> None:
    ready = hooked.logit_difference(*answers())
    score = ready.score(model(), CLEAN)
    assert close(difference_metric().score(model(), CLEAN), score)  # of two logits or of all: the last bit is the processor's
    assert close(score, difference(model().run(CLEAN).logits))
    assert close(ready(model().run(CLEAN).logits[:, -1:]), score)
    options = {"site": act.z, "over": ["layer", "head"], "from_": clean(), "into": CORRUPTED}
    assert close(
        hooked.sweep(model(), metric=difference, **options).values,  # a plain function
        hooked.sweep(model(), metric=ready, **options).values,
    )
    both = hooked.sweep(model(), metric=[ready, difference_metric()], **options)
    assert both.axes[0].labels == ["logit difference", "mine"] and torch.equal(both[0].values, both[1].values)


def test_a_metric_reads_what_it_asks_for() -> None:
    seen = []

    def mean_stream(cache: hooked.ActivationCache) -> torch.Tensor:
        seen.extend(cache.keys())
        return cache[act.resid_post(1)].mean((1, 2))

    metric = hooked.Metric.of_activations(act.resid_post(1), mean_stream, "mean")
    assert torch.equal(metric.score(model(), CLEAN), clean()[act.resid_post(1)].mean((1, 2)))
    assert seen == ["blocks.1.hook_resid_post"]

    def likeliest(run: hooked.MetricInput) -> torch.Tensor:
        assert run.columns.tolist() == [[tokens(CLEAN).shape[1] - 1]] and run.tokens.tolist() == tokens(CLEAN).tolist()
        return run.logits[:, 0].max(-1).values

    defined = hooked.Metric.of({"name": "largest", "function": likeliest})
    assert close(defined.score(model(), CLEAN), model().run(CLEAN).logits[:, -1].max(-1).values)
    assert defined.definition.name == "largest" and defined.name == "largest"


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("logit", lambda logits, t: logits[:, t]),
        ("probability", lambda logits, t: logits.softmax(-1)[:, t]),
        ("log_probability", lambda logits, t: logits.log_softmax(-1)[:, t]),
        ("rank", lambda logits, t: (logits > logits[:, [t]]).sum(-1)),
        ("top1", lambda logits, t: (logits <= logits[:, [t]]).all(-1)),
    ],
)
def test_ready_metrics_are_their_formulas(name: str, of: Any) -> None:
    token = answers()[0]
    logits = model().run(CLEAN).logits
    make = getattr(hooked, name)
    assert close(make(token).score(model(), CLEAN).double(), of(logits[:, -1], token).double())
    assert close(make(" Mary", 4).score(model(), CLEAN).double(), of(logits[:, 4], token).double())


def test_divergences_loss_attention_and_projection() -> None:
    reference = hooked.logits_at(model(), CORRUPTED)
    p, q = (x[:, -1].log_softmax(-1) for x in (reference, model().run(CLEAN).logits))
    kl = (p.exp() * (p - q)).sum(-1)
    assert close(hooked.kl_divergence(reference).score(model(), CLEAN), kl, 1e-10)
    m = ((p.exp() + q.exp()) / 2).log()
    js = ((p.exp() * (p - m)).sum(-1) + (q.exp() * (q - m)).sum(-1)) / 2
    assert close(hooked.js_divergence(reference).score(model(), CLEAN), js, 1e-10)
    assert close(hooked.loss().score(model(), CLEAN), model().run(CLEAN, output="loss").loss.double())
    attends = hooked.attention(act.pattern(1).head(3), "last", 4).score(model(), CLEAN)
    assert close(attends, clean()["pattern1"][:, 3, -1, 4])
    direction = torch.randn(model().config.d_model, dtype=torch.float64)
    along = hooked.projection(act.resid_post(0), direction, 5).score(model(), CLEAN)
    assert close(along, clean()["resid_post0"][:, 5] @ direction)


def test_gradients_through_a_metric() -> None:
    metric = hooked.logit_difference(*answers())
    for given in (metric.on(model(), CLEAN), metric, difference_sum):
        run = model().run(CLEAN, gradients={"of": act.resid_pre, "metric": given})
        stream = run.gradients[act.resid_pre(1)]
        start = clean()[act.resid_pre(1)].clone().requires_grad_()
        input = hooked.Input.start_at_layer(1, start)
        difference(model().run(input, differentiable=True).logits).sum().backward()
        assert close(stream, start.grad, 1e-10)
    bound = hooked.Metric.of_activations(act.z(1), lambda cache: cache[act.z(1)].square().sum((1, 2, 3)), "size")
    run = model().run(CLEAN, gradients={"of": act.z(1), "of_run": bound.on(model(), CLEAN)})
    assert close(run.gradients[act.z(1)], 2 * clean()[act.z(1)])


def difference_sum(logits: torch.Tensor) -> torch.Tensor:
    return difference(logits).sum()


@pytest.mark.parametrize("python", [False, True])
def test_attribution_patching_is_gradient_times_change(python: bool) -> None:
    metric = hooked.logit_difference(*answers())
    grid = hooked.attribution_patching(
        model(),
        sweep={
            "site": act.z,
            "over": ["layer", "head"],
            "from_": clean(),
            "into": CORRUPTED,
            "metric": difference if python else metric,
        },
    )
    run = model().run(CORRUPTED, capture=act.z, gradients={"of": act.z, "metric": metric.on(model(), CORRUPTED)})
    expected = torch.stack(
        [((clean()[act.z(l)] - run.cache[act.z(l)]) * run.gradients[act.z(l)]).sum((0, 1, 3)) for l in range(2)]
    )
    assert close(grid.values, expected, 1e-10)


def test_sources_say_what_is_put_in() -> None:
    options = {"site": act.z, "over": ["layer", "head"], "into": CORRUPTED, "metric": difference}

    def run_with(value: Any, layer: int, head: int) -> float:
        def hook(z: torch.Tensor) -> torch.Tensor:
            z = z.clone()
            z[:, :, head] = value
            return z

        return difference(model().run(CORRUPTED, hooks=[(act.z(layer), hook)]).logits).item()

    for source, value in (
        (hooked.PatchSource.zero(), 0.0),
        (hooked.PatchSource.value(0.25), 0.25),
        (hooked.PatchSource.mixture(hooked.PatchSource.zero(), hooked.PatchSource.value(1.0), 0.5), 0.5),
    ):
        grid = hooked.sweep(model(), from_=source, **options)
        expected = torch.tensor([[run_with(value, l, h) for h in range(4)] for l in range(2)], dtype=torch.float64)
        assert close(grid.values, expected)
        assert source.description in grid.title
    data = model().run_with_cache(pairs().clean, act.z).cache
    assert hooked.PatchSource.mean(data, "rows").description == "the mean over 6 rows, by position"
    with pytest.raises(hooked.ConfigError, match="rows_and_positions"):
        hooked.PatchSource.mean(data, "everything")
    with pytest.raises(hooked.HookError):
        hooked.sweep(model(), **options)  # no source


def test_presets_are_their_sweeps() -> None:
    metric = difference_metric()
    preset = hooked.sweep(model(), "attn_head_out_all_pos", from_=clean(), into=CORRUPTED, metric=metric)
    plain = hooked.sweep(
        model(), site=act.z, over=["layer", "head"], from_=clean(), into=CORRUPTED, metric=metric
    )
    assert torch.equal(preset.values, plain.values)
    names = [preset.name for preset in hooked.patching_presets()]
    assert "resid_pre" in names and hooked.patching_preset("resid_pre").over == ["layer", "pos"]
    with pytest.raises(hooked.HookError, match="attn_head_out"):
        hooked.sweep(model(), "attn_head_outs", from_=clean(), into=CORRUPTED, metric=metric)


def test_tables_and_ablation_take_addresses_in_any_form() -> None:
    cells = [[act.z(0).head(1)], ["z1[head=2]", ("mlp_out", 0)]]
    table = hooked.sweep(model(), table=cells, from_=hooked.PatchSource.zero(), into=CORRUPTED, metric=difference)
    sets = hooked.ablate(
        model(), sets=cells, sweep={"from_": hooked.PatchSource.zero(), "into": CORRUPTED, "metric": difference}
    )
    edits = [[hooked.zero(address) for address in cell] for cell in cells]
    expected = [difference(model().run(CORRUPTED, edits=edit).logits).item() for edit in edits]
    assert close(table.values, torch.tensor(expected, dtype=torch.float64))
    assert torch.equal(table.values, sets.values)
    parts = hooked.model_parts(model())
    assert [part.name for part in parts[:5]] == ["head 0.0", "head 0.1", "head 0.2", "head 0.3", "mlp 0"]
    assert len(hooked.parts_besides(model(), [act.z(0)])) == len(parts) - 4


def test_a_partial_sweep_goes_on(tmp_path: Path) -> None:
    over = ["layer", "pos", "head"]
    options = {"site": act.z, "over": over, "from_": clean(), "into": CORRUPTED, "metric": difference}
    options["tokens_per_run"] = 30
    whole = hooked.sweep(model(), **options)
    file = tmp_path / "part.safetensors"
    ended = hooked.sweep_report(model(), partial=file, progress=lambda now: now.done < 40, **options)
    assert not ended.complete and ended.grid.values.isnan().any()
    again = hooked.sweep_report(model(), partial=file, progress=False, **options)
    assert again.complete and again.runs < 104 and torch.equal(again.grid.values, whole.values)


def test_judging_a_circuit_counts_what_it_says() -> None:
    sweep = {
        "from_": model().run_with_cache(pairs().corrupted).cache,
        "into": pairs().clean,
        "metric": hooked.logit_difference(pairs().answers(), pairs().against()),
    }
    everything = hooked.Circuit.of_nodes(model(), [part.name for part in hooked.model_parts(model())])
    judged = hooked.judge_circuit(model(), everything, sweep=sweep, sets=0)
    assert judged.circuit == pytest.approx(judged.whole, abs=1e-12) and judged.faithfulness == pytest.approx(1)
    nodes = hooked.node_attribution(model(), sweep=sweep).mean("row")
    circuit = hooked.choose_circuit(model(), nodes, count=3)
    largest = [cell.labels[0] for cell in nodes.largest(3, "size")]
    assert sorted(circuit.nodes) == sorted(largest) and len(circuit) == 3
    assert circuit == hooked.Circuit.of_nodes(model(), largest)
    edge = hooked.Circuit.of_edges(model(), [("head 0.1", "head 1.3 q")])
    assert edge.edges == [hooked.CircuitEdge("head 0.1", "head 1.3 q")] and edge.kind == hooked.CircuitKind.edges
    edges = hooked.edge_attribution(model(), sweep=sweep).mean("row")
    whole = edges.slice("writer", "head 0.1").values.nansum().item()
    assert whole == pytest.approx(nodes[nodes.axis("node").labels.index("head 0.1")], rel=1e-9)


def test_direct_paths_from_a_head_to_the_logits() -> None:
    options = {"from_": clean(), "into": CORRUPTED, "metric": difference}
    senders = [act.z(1).head(0), act.z(1).head(3)]
    grid = hooked.path_patching(model(), senders=senders, cells="each_sender", sweep=options)
    # From the last layer the only part on the way is its MLP, which direct paths hold.
    mlp = model().run_with_cache(CORRUPTED, act.mlp_out).cache[act.mlp_out(1)]
    held = hooked.set(act.mlp_out(1), mlp)
    expected = []
    for head in (0, 3):
        edit = hooked.set(act.z(1).head(head), clean()[act.z(1)][:, :, head])
        expected.append(difference(model().run(CORRUPTED, edits=[edit, held]).logits).item())
    assert close(grid.values, torch.tensor(expected, dtype=torch.float64), 1e-10)


def test_what_a_list_of_answers_means_must_be_said() -> None:
    with pytest.raises(hooked.ShapeError, match="by_row"):
        hooked.logit([1, 2])
    assert hooked.Answers.by_row([1, 2]).rows() == 2
    with pytest.raises(hooked.ShapeError, match="'first' is not a position"):
        hooked.logit(1, "first")
