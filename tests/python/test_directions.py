"""Linear fits, probes, directions and interchanges, against plain torch and on the model of the examples."""

from pathlib import Path

import hooked
import pytest
import torch
from hooked import act

ROOT = Path(__file__).resolve().parents[2]
JOHN = "When John and Mary went to the shop, John gave a bag to"
MARY = "When Mary and John went to the shop, Mary gave a bag to"


def rows(model: hooked.HookedTransformer) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts in which one of two names is there twice, and which."""
    ids = torch.cat([model.to_tokens(JOHN), model.to_tokens(MARY)]).repeat(20, 1)
    return ids, torch.arange(40) % 2


def vectors(seed: int = 0) -> torch.Tensor:
    return torch.randn(30, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_fits_are_those_of_plain_torch() -> None:
    x = vectors()
    targets = x @ torch.tensor([1.0, -2.0, 0.0, 0.5], dtype=torch.float64) + 3
    exact = hooked.ridge_regression(x, targets, alpha=0)
    assert torch.allclose(exact.scores(x)[:, 0], targets) and exact.intercept.item() == pytest.approx(3)
    plain = hooked.ridge_regression(x, targets, alpha=2, intercept=False)
    by_hand = torch.linalg.solve(x.T @ x + 2 * torch.eye(4, dtype=x.dtype), x.T @ targets)
    assert torch.allclose(plain.weight[0], by_hand)
    labels = (x[:, 0] > 0).long()
    for fit in (
        hooked.ridge_classifier(x, labels),
        hooked.logistic_regression(x, labels, c=1000, standardize=True),
        hooked.mean_difference(x, labels),
    ):
        assert fit.classes_of(x).eq(labels).double().mean() > 0.8
    means = x[labels == 1].mean(0) - x[labels == 0].mean(0)
    assert torch.allclose(hooked.mean_difference(x, labels).weight[0], means)
    assert hooked.separating_features(x, labels, 1).tolist() == [0]
    made = hooked.LinearFit(torch.ones(1, 4, dtype=x.dtype), torch.zeros(1, dtype=x.dtype))
    assert made.converged and torch.allclose(made.scores(x)[:, 0], x.sum(1))
    with pytest.raises(hooked.ConfigError):
        hooked.ridge_regression(x, targets, alpha=-1)
    with pytest.raises(TypeError, match="alpa"):
        hooked.ridge_regression(x, targets, alpa=1)  # type: ignore[call-arg]


def test_components_are_those_of_plain_torch() -> None:
    x = vectors(1)
    found = hooked.principal_components(x, 2)
    _, sizes, axes = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    assert torch.allclose((found.vectors @ axes[:2].T).abs(), torch.eye(2, dtype=x.dtype), atol=1e-9)
    assert torch.allclose(found.variance, sizes[:2] ** 2 / 29) and torch.allclose(found.mean, x.mean(0))
    other = vectors(2)
    assert torch.allclose(hooked.contrast_mean(x, other), (x - other).mean(0))
    assert hooked.contrast_components(x, other, 3).share.sum() < 1


def test_probes_read_steer_and_are_saved(model: hooked.HookedTransformer, tmp_path: Path) -> None:
    ids, labels = rows(model)
    report = hooked.fit_probes(
        model,
        ids,
        labels,
        at={"of": act.resid_pre | act.resid_post, "progress": False},
        method="ridge",
        classes=["John", "Mary"],
    )
    assert report.complete and len(report.held_out) == 8 and report.largest_class == 0.5
    assert report.accuracy[-1].values.tolist() == [1.0] and report.accuracy.interval is not None
    probe = report.probes[-1]
    assert probe.classes == ["John", "Mary"] and str(probe.place) == "blocks.1.hook_resid_post"
    assert probe.position == "last" and probe.facts.rows == 32
    assert probe.direction().norm().item() == pytest.approx(1)
    measure = probe.measure()
    before = measure.score(model, JOHN)
    assert (measure.score(model, JOHN, edits=probe.steer(model, 2)) - before).item() == pytest.approx(2, abs=1e-4)
    at_last = probe.steer(model, 2, where=probe.place.pos(-1))
    assert (measure.score(model, JOHN, edits=at_last) - before).item() == pytest.approx(2, abs=1e-4)
    gone = probe.project_out(model)
    assert measure.score(model, JOHN, edits=gone).item() == pytest.approx(0, abs=1e-3)
    assert probe.score("last").score(model, MARY).item() > 0 > probe.score().score(model, JOHN).item()

    probe.save(tmp_path / "names.safetensors")
    again = hooked.Probe.load(tmp_path / "names.safetensors")
    assert torch.equal(again.fit.weight, probe.fit.weight) and again.facts.method == "ridge"
    other_file = tmp_path / "other.safetensors"
    other_file.write_text("no probe")
    with pytest.raises(hooked.IoError):
        again.save(other_file)
    hooked.Probe.require_can_save(other_file, overwrite="any")
    toy = str(ROOT / "examples" / "toy_model")
    other = hooked.HookedTransformer.load(toy, processing=hooked.WeightProcessing.none())
    with pytest.raises(hooked.HookError):
        again.steer(other, 1)
    again.assigned_to(other).require_fits(other)


def test_probes_of_a_cache_are_those_of_runs(model: hooked.HookedTransformer) -> None:
    ids, labels = rows(model)
    ids = ids.clone()
    ids[:, 1] = torch.arange(40)  # so that rows differ
    method = hooked.ProbeMethod.mean_difference
    of_runs = hooked.fit_probes(model, ids, labels, method=method, seed=3)
    of_cache = hooked.fit_probes(model, model.run_with_cache(ids).cache, labels, method=method, seed=3)
    assert of_runs.held_out == of_cache.held_out
    for one, other in zip(of_runs.probes, of_cache.probes, strict=True):
        assert torch.allclose(one.fit.weight, other.fit.weight, atol=1e-5)


def test_a_probe_is_made_by_hand(model: hooked.HookedTransformer) -> None:
    x, y = model.run_with_cache([JOHN, MARY]).cache["resid_post0"][:, -1].double()
    fit = hooked.LinearFit((y - x)[None], torch.zeros(1, dtype=torch.float64))
    probe = hooked.Probe(fit, place="resid_post0", origin=model.provenance)
    assert torch.allclose(probe.direction(), (y - x) / (y - x).norm())
    with pytest.raises(TypeError, match=r"\[fit\] Probe"):
        hooked.Probe()  # type: ignore[call-arg]


def test_components_and_contrasts_of_runs(model: hooked.HookedTransformer) -> None:
    ids, _ = rows(model)
    ids[:, 1] = torch.arange(40)
    found = hooked.fit_components(model, ids, 2, of=act.resid_post(0), positions=["last"])
    x = model.run_with_cache(ids).cache["resid_post0"][:, -1].double()
    by_hand = hooked.principal_components(x, 2)
    assert torch.allclose(found.share.values.flatten(), by_hand.share, atol=1e-5)
    contrast = hooked.contrast_directions(model, [JOHN], [MARY], of=act.resid_post(0))
    pair = model.run_with_cache([JOHN, MARY]).cache["resid_post0"][:, -1].double()
    assert torch.allclose(contrast.means[0].fit.weight[0], pair[0] - pair[1], atol=1e-5)
    assert contrast.share.values.item() == pytest.approx(1)


def test_interchanges_carry_the_name(model: hooked.HookedTransformer) -> None:
    john, mary = model.to_token(" John"), model.to_token(" Mary")
    base = torch.cat([model.to_tokens(JOHN), model.to_tokens(MARY)]).repeat(4, 1)
    pairs = hooked.InterchangePairs(base, base.flip(0), hooked.Answers.by_row([john, mary] * 4))
    width = model.config.d_model
    whole = hooked.Subspace("resid_post1", torch.eye(width, dtype=torch.float64))
    assert torch.equal(whole.projection(), torch.eye(width, dtype=torch.float64))
    judged = hooked.judge_interchange(model, pairs, whole)
    assert judged.accuracy.at([]) == 1 and judged.correct.values.tolist() == [1.0] * 8

    found = hooked.align_subspace(model, pairs, place=act.resid_post(1), epochs=2, pairs_per_step=4, progress=False)
    assert found.complete and found.subspace.basis.shape == (width, 1) and len(found.rows) == 2
    assert found.whole.accuracy.at([]) == 1 and found.loss.values.shape == (2,)
    assert found.subspace.distance(found.subspace) == pytest.approx(0, abs=1e-6)

    stream = model.run_with_cache(base.flip(0)).cache["resid_post1"][:, -1:]
    edits = hooked.interchange(model, whole, stream, base)
    swapped = model.run(base, edits=edits).logits[:, -1]
    assert torch.allclose(swapped, model.run(base.flip(0)).logits[:, -1], atol=1e-3)


def test_progress_ends_the_work(model: hooked.HookedTransformer) -> None:
    ids, labels = rows(model)
    many, which = ids.repeat(10, 1), labels.repeat(10)  # more than one step
    ended = hooked.fit_probes(model, many, which, at=hooked.DirectionOptions(progress=lambda now: False))
    assert not ended.complete and ended.probes == []
