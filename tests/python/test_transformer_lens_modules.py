"""hooked.transformer_lens against TransformerLens 3.9 with modules of the user's in the place of the model's own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from test_transformer_lens import BASE, CONFIGS, GATED, TOKENS, close, in_place, ours, pair
from upstream.without_wandb import put_stub

GEMMA = GATED | dict(
    act_fn="gelu_pytorch_tanh",
    use_normalization_before_and_after=True,
    attn_scores_soft_cap=5.0,
    output_logits_soft_cap=3.0,
)
REPLACED = {
    name: config
    for name, config in (CONFIGS | {"Gemma 2": GEMMA}).items()
    if not config.get("attn_only") and not config.get("num_experts")
}


class Around(torch.nn.Module):
    """A module that calls the one that was there, with a HookPoint before and after."""

    def __init__(self, old: torch.nn.Module) -> None:
        super().__init__()
        self.old = old
        self.hook_in = ours.HookPoint()
        self.hook_out = ours.HookPoint()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.hook_out(self.old(self.hook_in(x)))


def replace(model: Any, layers: tuple[int, ...] = (0, 1), unembed: bool = True) -> Any:
    """The model with modules around its MLPs and its unembedding."""
    for layer in layers:
        model.blocks[layer].mlp = Around(model.blocks[layer].mlp)
    if unembed:
        model.unembed = Around(model.unembed)
    model.setup()
    return model


@pytest.mark.parametrize("name", REPLACED)
def test_modules_around_the_mlps_and_the_unembedding(name: str) -> None:
    his, mine = (replace(model) for model in pair(REPLACED[name]))
    assert set(mine.hook_dict) == set(his.hook_dict)
    assert [n for n, _ in mine.named_parameters()] == [n for n, _ in his.named_parameters()]
    (his_logits, his_cache), (my_logits, my_cache) = (model.run_with_cache(TOKENS) for model in (his, mine))
    close(his_logits, my_logits)
    assert set(my_cache.keys()) == set(his_cache.keys())
    for key, value in his_cache.items():
        per_head = ".ln1." in key and value.ndim == 4  # theirs norms once for each head where inputs are split
        close(value[:, :, 0] if per_head else value, my_cache[key])
    edits: list[Any] = [
        ("blocks.0.mlp.hook_in", lambda value, hook: value / 2),  # theirs is the stream itself where no norm is before
        ("blocks.0.mlp.old.hook_post", in_place),
        ("blocks.1.mlp.hook_out", lambda value, hook: value * 2),
        ("blocks.1.hook_mlp_out", in_place),
        ("unembed.hook_in", in_place),
    ]
    close(*(model.run_with_hooks(TOKENS, fwd_hooks=edits) for model in (his, mine)))
    close(his(TOKENS, return_type="loss"), mine(TOKENS, return_type="loss"))
    close(his(TOKENS, stop_at_layer=1), mine(TOKENS, stop_at_layer=1))
    assert mine(TOKENS, return_type=None) is None


@pytest.mark.parametrize("replaced", [((0, 1), False), ((1,), False), ((), True)])
def test_some_modules_replaced(replaced: tuple[tuple[int, ...], bool]) -> None:
    his, mine = (replace(model, *replaced) for model in pair(GATED))
    (his_logits, his_cache), (my_logits, my_cache) = (model.run_with_cache(TOKENS) for model in (his, mine))
    close(his_logits, my_logits)
    assert set(my_cache.keys()) == set(his_cache.keys())
    for key, value in his_cache.items():
        close(value, my_cache[key])


def test_weights_of_replaced_modules_and_of_new_ones() -> None:
    found = []
    for model in pair(BASE):
        replace(model, (0,))
        torch.manual_seed(5)
        model.blocks[1].mlp = torch.nn.Linear(16, 16, dtype=torch.float64)
        first = model(TOKENS)
        with torch.no_grad():
            model.blocks[0].mlp.old.W_in.mul_(2)
        second = model(TOKENS, return_type="loss")
        second.backward()
        weights = (model.blocks[0].mlp.old.W_out, model.blocks[1].mlp.weight, model.unembed.old.W_U)
        assert not torch.equal(first, model(TOKENS))
        model.unembed, kept = model.unembed.old, model.unembed
        back = model(TOKENS)
        model.unembed = kept
        found.append([first, second, back, *(weight.grad for weight in weights)])
    for his, mine in zip(*found, strict=True):
        close(his, mine)


def test_a_forward_put_in_the_place_of_a_modules_own() -> None:
    found = []
    for model in pair(BASE):
        own, last = model.blocks[0].mlp.forward, model.unembed.forward
        model.blocks[0].mlp.forward = lambda x, own=own: own(x) + x
        model.blocks[1].mlp.forward = lambda x: x * 0
        model.unembed.forward = lambda x, last=last: last(x).flip(-1)
        logits, cache = model.run_with_cache(TOKENS)
        del model.blocks[0].mlp.forward, model.blocks[1].mlp.forward, model.unembed.forward
        found.append([logits, cache["blocks.0.mlp.hook_post"], cache["blocks.1.hook_mlp_out"], model(TOKENS)])
        assert "blocks.1.mlp.hook_post" not in cache.keys()
    for his, mine in zip(*found, strict=True):
        close(his, mine)


def test_torchs_own_hooks_on_an_mlp() -> None:
    found = []
    for model in pair(BASE):
        handle = model.blocks[1].mlp.register_forward_hook(lambda module, given, made: made + given[0])
        with_hook = model(TOKENS)
        handle.remove()
        found.append([with_hook, model(TOKENS)])
    for his, mine in zip(*found, strict=True):
        close(his, mine)


def test_mlps_by_themselves() -> None:
    torch.manual_seed(2)
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    for name in ("gpt2", "gated, rotary, grouped", "solu, last norm RMS"):
        his, mine = (model.blocks[1].mlp(x) for model in pair(CONFIGS[name]))
        close(his, mine)
    for act_fn in ("gelu_new", "gelu_fast", "relu", "silu", "gelu_pytorch_tanh"):
        his, mine = (model.blocks[1].mlp(x) for model in pair(BASE | dict(act_fn=act_fn)))
        close(his, mine)
    _, mine = pair(GATED | dict(normalization_type="LN"))  # folding its biases changes where they are added
    normed = mine.blocks[1].ln2(x)
    before = mine.blocks[1].mlp(normed)
    mine.process_weights_(center_writing_weights=False, fold_value_biases=False)
    assert hasattr(mine.blocks[1].mlp, "b_gate")
    close(before, mine.blocks[1].mlp(mine.blocks[1].ln2(x)))


@pytest.mark.parametrize("name", ["gpt2", "gated, rotary, grouped", "Gemma 2", "norms after"])
def test_gradients_that_are_stopped_injected_and_taken_again(name: str) -> None:
    """What an attribution graph needs: frozen weights, detached patterns and scales, gradients put in at activations
    that a hook kept, several backward passes through one run."""
    found = []
    for model in (replace(model) for model in pair(REPLACED[name])):
        model.requires_grad_(False)
        model.hook_embed.add_hook(lambda value, hook: value.requires_grad_(), is_permanent=True)
        stopped = [n for n in model.hook_dict if n.endswith(("hook_scale", "hook_pattern"))]
        for point in stopped:
            model.hook_dict[point].add_hook(lambda value, hook: value.detach(), is_permanent=True)
        places = ["blocks.0.mlp.hook_in", "blocks.0.mlp.hook_out", "blocks.1.hook_resid_mid", "hook_embed"]
        kept: dict[str, torch.Tensor] = {}
        grads: list[torch.Tensor] = []

        def keep(value: torch.Tensor, hook: Any, kept: dict[str, torch.Tensor] = kept) -> torch.Tensor:
            kept[hook.name] = value
            return value

        def take(gradient: torch.Tensor, hook: Any, grads: list[torch.Tensor] = grads) -> None:
            grads.append(gradient.clone())

        with model.hooks(
            fwd_hooks=[(place, keep) for place in places], bwd_hooks=[("hook_embed", take), (places[1], take)]
        ):
            stream = model(TOKENS[:1].expand(3, -1), stop_at_layer=2)
            kept["last"] = model.ln_final(stream)
        for at in ("last", "blocks.1.hook_resid_mid", "blocks.0.mlp.hook_in", "last"):
            inject = torch.zeros_like(kept[at])
            inject[1, 2] = torch.arange(16.0, dtype=inject.dtype)
            handle = kept[at].register_hook(lambda gradient, put=inject: put)
            kept[at].backward(gradient=torch.zeros_like(inject), retain_graph=True)
            handle.remove()
        found.append([stream, *grads])
        model.reset_hooks(including_permanent=True)
    assert len(found[0]) > 5
    for his, mine in zip(*found, strict=True):
        close(his, mine)


def test_nothing_requires_gradients_where_nobody_asks() -> None:
    for model in pair(BASE):
        model.requires_grad_(False)
        asked = []
        model.add_hook("hook_embed", lambda value, hook, asked=asked: asked.append(value.requires_grad))
        assert not model(TOKENS).requires_grad and asked == [False]


def test_inference_mode() -> None:
    found = []
    for model in pair(BASE):
        replace(model, (0,))
        seen: list[torch.Tensor] = []

        def keep(value: torch.Tensor, hook: Any, seen: list[torch.Tensor] = seen) -> None:
            value[:, 0] *= 2
            seen.append(value)
            seen[0] += 1  # which is a tensor of inference

        hooks: list[Any] = [("blocks.0.mlp.hook_in", keep), ("blocks.1.hook_resid_mid", keep)]
        with torch.inference_mode():
            logits = model.run_with_hooks(TOKENS, fwd_hooks=hooks)
        after = model.run_with_cache(TOKENS, return_type="loss", incl_bwd=True)[1]["blocks.0.hook_resid_mid_grad"]
        found.append([logits.clone(), *(value.clone() for value in seen), after])
    for his, mine in zip(*found, strict=True):
        close(his, mine)


def test_a_continuation_with_replaced_modules() -> None:
    his, mine = (replace(model) for model in pair(GATED))
    how: dict[str, Any] = dict(max_new_tokens=5, do_sample=False, stop_at_eos=False, verbose=False)
    assert torch.equal(his.generate(TOKENS, **how), mine.generate(TOKENS, **how))


def test_points_that_a_wrapper_adds_are_called_once() -> None:
    _, mine = pair(BASE)
    mlp = mine.blocks[0].mlp
    mlp.hook_in, own = ours.HookPoint(), mlp.forward
    mlp.forward = lambda x: own(mlp.hook_in(x))
    mine.setup()
    mine.process_weights_()  # replaces norms
    calls: list[int] = []
    mine.run_with_hooks(TOKENS, fwd_hooks=[("blocks.0.mlp.hook_in", lambda value, hook: calls.append(1))])
    assert calls == [1]


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda model: setattr(model.blocks[0], "attn", Around(model.blocks[0].attn)), "in the place of an MLP"),
        (lambda model: setattr(model, "embed", Around(model.embed)), "in the place of an MLP"),
        (lambda model: setattr(model.blocks[0].attn, "forward", lambda *x, **_: 0), "edit its activations by hooks"),
    ],
)
def test_what_cannot_be_replaced_says_what_to_use(change: Callable[[Any], None], says: str) -> None:
    _, mine = pair(BASE)
    change(mine)
    with pytest.raises(ours.NotBridged, match=says):
        mine(TOKENS)


def test_processing_comes_before_replacing() -> None:
    _, mine = pair(BASE)
    replace(mine)
    with pytest.raises(ours.NotBridged, match=r"blocks\.0\.mlp, blocks\.1\.mlp, unembed was replaced.*before"):
        mine.process_weights_()


@pytest.mark.parametrize(
    "package, script", [("circuit_tracer", "run_circuit_tracer.py"), ("sae_lens", "run_sae_lens.py")]
)
def test_packages_on_both(package: str, script: str) -> None:
    put_stub()
    pytest.importorskip(package, reason=f"{package} is not installed")
    file = Path(__file__).parent / "upstream" / script
    done = subprocess.run([sys.executable, "-W", "ignore", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
