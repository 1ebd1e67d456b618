"""Gradients into a run: what the caller puts in by a hook, an edit or a start residual is in autograd's graph."""

from collections.abc import Callable

import hooked
import pytest
import torch
from hooked import HookedTransformer, Input, act

IDS = torch.tensor([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])


def _by_hook(model: HookedTransformer, steering: torch.Tensor) -> hooked.RunResult:
    return model.run(IDS, hooks=("resid_pre1", lambda stream: stream + steering), differentiable=True)


def _by_edit(model: HookedTransformer, steering: torch.Tensor) -> hooked.RunResult:
    return model.run(IDS, edits=hooked.add(act.resid_pre(1), steering), differentiable=True)


def _by_residual(model: HookedTransformer, steering: torch.Tensor) -> hooked.RunResult:
    stream = model.run(IDS, stop_at_layer=1, output="residual").residual
    return model.run(Input.start_at_layer(1, stream + steering), differentiable=True)


WAYS: dict[str, Callable[[HookedTransformer, torch.Tensor], hooked.RunResult]] = {
    "hook": _by_hook,
    "edit": _by_edit,
    "residual": _by_residual,
}


def _leaf(model: HookedTransformer) -> torch.Tensor:
    torch.manual_seed(0)
    return (0.1 * torch.randn(model.config.d_model, dtype=torch.float64)).requires_grad_()


@pytest.mark.parametrize("way", WAYS)
def test_gradcheck(tiny: HookedTransformer, way: str) -> None:
    assert torch.autograd.gradcheck(lambda steering: WAYS[way](tiny, steering).logits, (_leaf(tiny),))


def test_the_ways_agree(tiny: HookedTransformer) -> None:
    gradients = []
    for run in WAYS.values():
        steering = _leaf(tiny)
        run(tiny, steering).logits[:, -1].log_softmax(-1)[:, 3].sum().backward()
        assert steering.grad is not None
        gradients.append(steering.grad)
    assert torch.allclose(gradients[0], gradients[1], rtol=1e-12)
    assert torch.allclose(gradients[0], gradients[2], rtol=1e-12)
    assert gradients[0].abs().max() > 1e-6


@pytest.mark.parametrize("way", WAYS)
def test_a_second_backward_pass_gives_the_same(tiny: HookedTransformer, way: str) -> None:
    steering = _leaf(tiny)
    loss = WAYS[way](tiny, steering).logits.square().sum()
    (first,) = torch.autograd.grad(loss, steering, retain_graph=True)
    (second,) = torch.autograd.grad(loss, steering)
    assert torch.equal(first, second)


@pytest.mark.parametrize("way", WAYS)
def test_an_optimizer_learns_it(tiny: HookedTransformer, way: str) -> None:
    steering = torch.zeros(tiny.config.d_model, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([steering], lr=0.1)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = -WAYS[way](tiny, steering).logits[:, -1].log_softmax(-1)[:, 3].mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("way", WAYS)
def test_the_numbers_do_not_depend_on_the_grad_mode(tiny: HookedTransformer, way: str) -> None:
    steering = _leaf(tiny)
    with_graph = WAYS[way](tiny, steering).logits
    with torch.no_grad():
        without = WAYS[way](tiny, steering).logits
    assert with_graph.requires_grad
    assert torch.equal(with_graph.detach(), without.detach())


def test_captured_activations_are_in_the_graph(tiny: HookedTransformer) -> None:
    steering = _leaf(tiny)
    run = tiny.run_with_cache(
        IDS, act.resid_post, hooks=("resid_pre1", lambda stream: stream + steering), differentiable=True
    )
    (gradient,) = torch.autograd.grad(run.cache["resid_post1"].sum(), steering)
    assert gradient.shape == steering.shape and gradient.abs().max() > 0
    assert not run.cache["resid_post0"].requires_grad  # before the steering


def test_an_ordinary_run_has_no_graph(tiny: HookedTransformer) -> None:
    steering = _leaf(tiny)
    run = tiny.run_with_cache(IDS, "resid_post1", hooks=("resid_pre1", lambda stream: stream + steering))
    assert not run.logits.requires_grad and not run.cache["resid_post1"].requires_grad


def test_gradients_of_a_python_metric_equal_those_of_autograd(tiny: HookedTransformer) -> None:
    def metric(logits: torch.Tensor) -> torch.Tensor:
        return logits[:, -1, 3].sum()

    run = tiny.run(IDS, gradients={"of": "resid_pre1", "metric": metric})
    offset = torch.zeros(2, 5, 8, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(metric(_by_hook(tiny, offset).logits), offset)
    assert torch.allclose(run.gradients["resid_pre1"], expected, rtol=1e-12)
    assert torch.allclose(run.metric, metric(run.logits))


def test_training(tiny: HookedTransformer) -> None:
    model = hooked.TrainableTransformer.from_model(tiny)
    assert all(p.is_leaf and p.requires_grad for p in model.parameters())
    assert "blocks.0.attn.W_QKV" in dict(model.named_parameters())
    before = tiny(IDS)
    assert torch.allclose(model.forward(IDS), before, rtol=1e-12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    first = model.loss(IDS)
    for _ in range(30):
        optimizer.zero_grad()
        loss = model.loss(IDS)
        loss.backward()
        optimizer.step()
    assert loss < 0.7 * first
    frozen = model.freeze()
    expected = hooked.next_token_loss(frozen(IDS), IDS)
    assert torch.allclose(model.loss(IDS), expected, rtol=1e-12)
    assert torch.equal(tiny(IDS), before)
    with pytest.raises(TypeError):
        hooked.TrainableTransformer(model)  # type: ignore[call-arg]
