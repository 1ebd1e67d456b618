"""hooked.transformer_lens against TransformerLens 3.9: the same weights, the same numbers."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

theirs = pytest.importorskip("transformer_lens", reason="TransformerLens is not installed")
if not hasattr(theirs, "HookedTransformer"):
    pytest.skip("TransformerLens 4 has no HookedTransformer to compare with", allow_module_level=True)

import hooked  # noqa: E402
import hooked.transformer_lens as ours  # noqa: E402

BASE: dict[str, Any] = dict(
    n_layers=2, d_model=16, d_head=4, n_heads=4, n_ctx=12, d_vocab=11, act_fn="gelu", dtype=torch.float64, seed=3
)
GATED = BASE | dict(
    act_fn="silu", gated_mlp=True, normalization_type="RMS", positional_embedding_type="rotary", n_key_value_heads=2
)
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": BASE,
    "gated, rotary, grouped": GATED,
    "normed queries": GATED | dict(use_qk_norm=True),
    "parallel, alibi": BASE | dict(parallel_attn_mlp=True, positional_embedding_type="alibi"),
    "attention only, shortformer": BASE | dict(attn_only=True, positional_embedding_type="shortformer"),
    "solu, last norm RMS": BASE | dict(act_fn="solu_ln", final_rms=True),
    "norms before and after": BASE
    | dict(normalization_type="RMS", use_normalization_before_and_after=True, post_embedding_ln=True),
    "norms after": GATED | dict(original_architecture="Olmo2ForCausalLM"),
    "no norms": BASE | dict(normalization_type=None),
    "folded": BASE | dict(normalization_type="LNPre"),
    "sinks, clipped, capped": BASE
    | dict(use_attention_sinks=True, clip_qkv=1.0, attn_scores_soft_cap=5.0, output_logits_soft_cap=3.0),
    "local": BASE | dict(use_local_attn=True, window_size=3, attn_types=["local", "global"]),
    "mixture": GATED | dict(num_experts=3, experts_per_token=2, dtype=torch.float32),  # its float64 fails in theirs
    "results": BASE | dict(use_attn_result=True, use_hook_mlp_in=True),
    "split inputs": GATED | dict(use_split_qkv_input=True),
    "attention inputs, tokens": BASE | dict(use_attn_in=True, use_hook_tokens=True),
    "ungrouped": GATED | dict(ungroup_grouped_query_attention=True, use_split_qkv_input=True),
}
TOKENS = torch.tensor([[1, 4, 2, 8, 5, 7], [3, 1, 4, 1, 5, 9]])


def pair(config: dict[str, Any], **more: Any) -> tuple[Any, Any]:
    """The two models of a config, with the same random weights, biases and norms."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        his = theirs.HookedTransformer(theirs.HookedTransformerConfig(**config, **more))
    mine = ours.HookedTransformer(ours.HookedTransformerConfig(**copy.deepcopy(config), **more))
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in his.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    mine.load_state_dict(his.state_dict())
    return his, mine


def close(his: torch.Tensor, mine: torch.Tensor) -> None:
    """Equal but for rounding, -inf in the same places."""
    wide = his.dtype == torch.float64
    torch.testing.assert_close(mine, his.to(mine.dtype), atol=1e-9 if wide else 2e-5, rtol=1e-9 if wide else 1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_caches(name: str) -> None:
    his, mine = pair(CONFIGS[name])
    assert [n for n, _ in mine.named_parameters()] == [n for n, _ in his.named_parameters()]
    assert set(mine.hook_dict) == set(his.hook_dict)
    his_logits, his_cache = his.run_with_cache(TOKENS)
    my_logits, my_cache = mine.run_with_cache(TOKENS)
    close(his_logits, my_logits)
    assert set(my_cache.keys()) == set(his_cache.keys())
    for key, value in his_cache.items():
        per_head = ".ln1." in key and value.ndim == 4  # theirs norms once for each head where inputs are split
        close(value[:, :, 0] if per_head else value, my_cache[key])
    close(his(TOKENS, return_type="loss"), mine(TOKENS, return_type="loss"))
    close(
        his(TOKENS, return_type="loss", loss_per_token=True), mine(TOKENS, return_type="both", loss_per_token=True).loss
    )


def test_seeds_draw_the_same_weights() -> None:
    for mode in ("gpt2", "xavier_normal", "kaiming_uniform"):
        his = theirs.HookedTransformer(theirs.HookedTransformerConfig(**BASE, init_mode=mode))
        mine = ours.HookedTransformer(ours.HookedTransformerConfig(**BASE, init_mode=mode))
        for (name, a), (_, b) in zip(his.named_parameters(), mine.named_parameters(), strict=True):
            assert torch.equal(a, b), name


def in_place(value: torch.Tensor, hook: Any) -> None:
    value[:, -1] *= 0.5
    hook.ctx["seen"] = value.shape


def returned(value: torch.Tensor, hook: Any) -> torch.Tensor:
    assert hook.layer() == 1
    return value + 1


@pytest.mark.parametrize("name", ["gpt2", "gated, rotary, grouped"])
def test_hooks_that_write_or_return(name: str) -> None:
    results = []
    for model in pair(CONFIGS[name]):
        first = model.run_with_hooks(
            TOKENS,
            fwd_hooks=[
                ("blocks.0.hook_resid_mid", in_place),
                (lambda n: n.endswith("1.attn.hook_z"), returned),
                ("blocks.1.mlp.hook_post", in_place),
                ("blocks.1.mlp.hook_post", returned),
            ],
        )
        assert model.hook_dict["blocks.0.hook_resid_mid"].ctx["seen"] == (2, 6, 16)
        model.add_hook("blocks.1.attn.hook_pattern", in_place)
        attached, cache = model.run_with_cache(TOKENS, names_filter="blocks.1.attn.hook_pattern")
        assert list(cache.keys()) == ["blocks.1.attn.hook_pattern"]
        model.reset_hooks()
        results.append([first, attached, cache["blocks.1.attn.hook_pattern"], model(TOKENS)])
    for his, mine in zip(*results, strict=True):
        close(his, mine)


def test_a_hook_does_not_change_what_the_caller_or_the_weights_hold() -> None:
    _, mine = pair(BASE)
    before = mine(TOKENS)
    tokens, positions = TOKENS.clone(), mine.W_pos.clone()
    mine.run_with_hooks(TOKENS, fwd_hooks=[("hook_pos_embed", lambda v, hook: v.zero_()), ("hook_embed", in_place)])
    assert torch.equal(TOKENS, tokens) and torch.equal(mine.W_pos, positions)
    assert torch.equal(mine(TOKENS), before)


def gradients(model: Any, metric: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}

    def keep(gradient: torch.Tensor, hook: Any) -> None:
        found[hook.name] = gradient.clone()

    model.add_hook(
        lambda name: not name.endswith(("tokens", "_input", "_in", "result")) or name == "unembed.hook_in", keep, "bwd"
    )
    metric(model(TOKENS)).backward()
    model.reset_hooks()
    return found


@pytest.mark.parametrize(
    "name", ["gpt2", "gated, rotary, grouped", "norms before and after", "norms after", "solu, last norm RMS"]
)
def test_gradients_of_activations(name: str) -> None:
    his, mine = (gradients(model, lambda logits: logits[:, -1, 3].sum()) for model in pair(CONFIGS[name]))
    early = {key for key in his if key.startswith("embed.")}  # before what gradients lead to
    assert set(mine) == set(his) - early
    for key, value in mine.items():
        # A norm's input reaches the output through its scale, too; theirs counts ln1 three times, of which the last is v.
        if ".ln1.hook" not in key:
            close(his[key], value)


def test_gradients_with_a_cache() -> None:
    caches = [model.run_with_cache(TOKENS, return_type="loss", incl_bwd=True)[1] for model in pair(BASE)]
    assert set(caches[1].keys()) == set(caches[0].keys())
    for key in (
        "blocks.0.hook_resid_pre_grad",
        "blocks.1.attn.hook_pattern_grad",
        "hook_embed_grad",
        "hook_pos_embed_grad",
    ):
        close(caches[0][key], caches[1][key])


def test_a_steering_vector_is_learned() -> None:
    found = []
    for model in pair(BASE):
        vector = torch.full((16,), 0.1, dtype=torch.float64, requires_grad=True)
        loss = model.run_with_hooks(
            TOKENS,
            return_type="loss",
            fwd_hooks=[("blocks.0.hook_resid_post", lambda value, hook, v=vector: value + v)],
        )
        loss.backward()
        found.append(vector.grad)
    close(*found)


def test_layers_to_start_and_stop_at() -> None:
    his, mine = pair(CONFIGS["gated, rotary, grouped"])
    close(his(TOKENS, stop_at_layer=-1), mine(TOKENS, stop_at_layer=-1))
    stream = his(TOKENS, stop_at_layer=1)
    close(his(stream, start_at_layer=1), mine(stream, start_at_layer=1))
    given = stream.detach().clone().requires_grad_()
    mine(given, start_at_layer=1).sum().backward()
    again = stream.detach().clone().requires_grad_()
    his(again, start_at_layer=1).sum().backward()
    close(again.grad, given.grad)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    rows = mask.bool()
    close(his(TOKENS, attention_mask=mask)[rows], mine(TOKENS, attention_mask=mask)[rows])


@pytest.mark.parametrize("name", ["gpt2", "gated, rotary, grouped", "attention only, shortformer"])
def test_continuing_from_a_cache(name: str) -> None:
    from transformer_lens.cache.key_value_cache import TransformerLensKeyValueCache

    outputs = []
    for model, kind in zip(
        pair(CONFIGS[name]), (TransformerLensKeyValueCache, ours.TransformerLensKeyValueCache), strict=True
    ):
        cache = kind.init_cache(model.cfg, "cpu", 2)
        ones = torch.ones(2, 4, dtype=torch.int)
        model(TOKENS[:, :4], attention_mask=ones, past_kv_cache=cache)
        cache.freeze()
        frozen = [model(TOKENS[:, 4:], attention_mask=ones[:, :2], past_kv_cache=cache) for _ in range(2)]
        outputs.append([*frozen, cache[1].past_keys, cache[0].past_values])
        close(model(TOKENS)[:, 4:], frozen[1])
    for his, mine in zip(*outputs, strict=True):
        close(his, mine)


def test_generation() -> None:
    his, mine = pair(CONFIGS["gated, rotary, grouped"])
    options: dict[str, Any] = dict(max_new_tokens=5, stop_at_eos=False, verbose=False)
    for more in (dict(do_sample=False), dict(do_sample=False, use_past_kv_cache=False), dict(top_k=4, temperature=0.7)):
        torch.manual_seed(0)
        expected = his.generate(TOKENS, **options, **more)
        torch.manual_seed(0)
        assert torch.equal(mine.generate(TOKENS, **options, **more), expected)
    stops = dict(max_new_tokens=5, do_sample=False, eos_token_id=[2, 7], verbose=False)
    assert torch.equal(mine.generate(TOKENS, **stops), his.generate(TOKENS, **stops))


def test_processing() -> None:
    for name in ("gpt2", "gated, rotary, grouped", "parallel, alibi"):
        _, mine = pair(CONFIGS[name])
        before = mine(TOKENS).log_softmax(-1)
        raw = mine.W_U.clone()
        mine.process_weights_()
        assert not torch.equal(mine.W_U, raw) and not hasattr(mine.blocks[0].ln1, "w")
        close(before, mine(TOKENS).log_softmax(-1))
        assert mine.blocks[0].ln1(torch.ones(1, 1, 16, dtype=torch.float64)).shape == (1, 1, 16)
    his, mine = pair(BASE | dict(dtype=torch.float32))
    his.process_weights_()
    mine.process_weights_()
    for (name, a), (_, b) in zip(his.named_parameters(), mine.named_parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5, msg=name)


@pytest.mark.parametrize("write", ["copy_", "data", "replaced", "to"])
def test_writing_weights_changes_the_next_run(write: str) -> None:
    his, mine = pair(BASE)
    before = mine(TOKENS)
    for model in (his, mine):
        weight = model.blocks[1].mlp.W_in
        with torch.no_grad():
            if write == "copy_":
                weight.mul_(2)
            elif write == "data":
                weight.data[:] = 2 * weight.data
            elif write == "replaced":
                model.blocks[1].mlp.W_in = torch.nn.Parameter(2 * weight)
            else:
                model.to(torch.float32).to(torch.float64)
    assert not torch.equal(mine(TOKENS), before)
    close(his(TOKENS), mine(TOKENS))


def test_a_module_in_the_place_of_a_hook_point() -> None:
    class Halves(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hook_inner = ours.HookPoint()

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return self.hook_inner(value / 2)

    results = []
    for model in pair(BASE):
        model.blocks[0].hook_mlp_out = Halves()
        model.setup()
        logits, cache = model.run_with_cache(TOKENS)
        edited = model.run_with_hooks(TOKENS, fwd_hooks=[("blocks.0.hook_mlp_out.hook_inner", in_place)])
        assert "blocks.0.hook_mlp_out" not in cache.keys()
        results.append([logits, cache["blocks.0.hook_mlp_out.hook_inner"], edited])
    for his, mine in zip(*results, strict=True):
        close(his, mine)


def test_gradients_of_weights_raise_and_are_never_none() -> None:
    _, mine = pair(BASE)
    weights = list(mine.parameters())
    assert all(weight.grad is None for weight in weights)  # nobody asked yet
    vector = torch.full((16,), 0.1, dtype=torch.float64, requires_grad=True)
    steer = [("blocks.0.hook_resid_post", lambda value, hook: value + vector)]
    mine.run_with_hooks(TOKENS, return_type="loss", fwd_hooks=steer).backward()
    assert vector.grad is not None
    for read in (lambda: weights[0].grad, torch.optim.SGD(weights, lr=0.1).step):
        with pytest.raises(ours.NotBridged, match="TrainableTransformer"):
            read()
    mine.zero_grad()
    assert all(weight.grad is None for weight in weights)
    mine.run_with_hooks(TOKENS, return_type="loss", fwd_hooks=steer).backward()
    mine.to("cpu")  # torch itself looks at gradients here
    with pytest.raises(ours.NotBridged, match="TrainableTransformer"):
        torch.autograd.grad(mine(TOKENS).sum(), mine.W_E)
    mine.requires_grad_(False)
    mine.run_with_hooks(TOKENS, return_type="loss", fwd_hooks=steer).backward()
    assert weights[0].grad is None  # nobody asked


def test_outputs_of_hooked_runs_can_be_written_in_place() -> None:
    for model in pair(BASE):
        logits = model.run_with_hooks(TOKENS, fwd_hooks=[("hook_embed", lambda value, hook: value * 2)])
        logits[:, 0] = 0
        logits.sum().backward()


def test_what_is_not_bridged_says_what_to_use() -> None:
    with pytest.raises(ours.NotBridged, match="hooked.HookedTransformer.load"):
        ours.HookedEncoder.from_pretrained("bert-base-cased")
    _, mine = pair(BASE)
    with pytest.raises(ours.NotBridged, match="TrainableTransformer"):
        mine(TOKENS, return_type="loss").backward()
    with pytest.raises(ours.NotBridged, match="run the model"):
        mine.blocks[0].attn(torch.zeros(1, 1, 16))
    mine.blocks[0].mlp.hook_in, mine.blocks[0].mlp.forward = ours.HookPoint(), lambda x: x * 0
    mine.blocks[0].mlp.hook_in.add_hook(lambda value, hook: None)
    with pytest.raises(ours.NotBridged, match="forward was replaced"):
        mine(TOKENS)
    del mine.blocks[0].mlp.forward, mine.blocks[0].mlp.hook_in
    mine.blocks[0].attn = torch.nn.Linear(16, 16)
    with pytest.raises(ours.NotBridged, match=r"blocks\.0\.attn.*was replaced by a Linear"):
        mine(TOKENS)


def test_an_error_in_a_hook_leaves_the_model_usable() -> None:
    _, mine = pair(BASE)
    before = mine(TOKENS)

    def fails(value: torch.Tensor, hook: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mine.run_with_hooks(TOKENS, fwd_hooks=[("blocks.0.hook_resid_pre", fails)])
    assert not any(point.fwd_hooks for point in mine.hook_dict.values())
    assert torch.equal(mine(TOKENS), before)


def test_an_encoder() -> None:
    config = BASE | dict(act_fn="gelu", eps=1e-12)
    his = theirs.HookedEncoder(theirs.HookedTransformerConfig(**config))
    mine = ours.HookedEncoder(ours.HookedTransformerConfig(**config))
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in his.parameters():
            torch.nn.init.normal_(weight, std=0.5)
    mine.load_state_dict(his.state_dict())
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6])
    details = dict(token_type_ids=(TOKENS > 4).long(), one_zero_attention_mask=mask)
    his_logits, his_cache = his.run_with_cache(TOKENS, **details)
    my_logits, my_cache = mine.run_with_cache(TOKENS, **details)
    close(his_logits[mask.bool()], my_logits[mask.bool()])
    assert set(my_cache.keys()) == set(his_cache.keys())
    for key, value in his_cache.items():
        close(value[1:], my_cache[key][1:])  # the row without padding
    close(his.encoder_output(TOKENS), mine.encoder_output(TOKENS))


def test_a_model_in_memory() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    hf = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_layer=2, n_embd=16, n_head=4, n_positions=12, vocab_size=11)
    ).eval()
    mine = ours.HookedTransformer.from_pretrained("gpt2", hf_model=hf)
    with torch.no_grad():
        torch.testing.assert_close(
            mine(TOKENS).log_softmax(-1), hf(TOKENS).logits.log_softmax(-1), atol=2e-5, rtol=1e-5
        )
    assert mine.cfg.normalization_type == "LNPre" and mine.cfg.n_ctx == 12
    with pytest.raises(hooked.Error, match="hf download"):
        ours.HookedTransformer.from_pretrained("pythia-70m-deduped-v0")
