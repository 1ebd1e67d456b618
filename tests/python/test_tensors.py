"""Tensors cross without a copy, and live as long as somebody holds them."""

import gc

import hooked
import numpy as np
import pytest
import torch
from hooked import HookedTransformer, act

PROMPT = "When John and Mary went to the shop"


def test_a_hook_sees_the_memory_that_it_returned_elsewhere(model: HookedTransformer) -> None:
    replaced: list[torch.Tensor] = []

    def replace(z: torch.Tensor) -> torch.Tensor:
        replaced.append(z * 2)
        return replaced[0]

    run = model.run_with_cache(PROMPT, "z1", hooks=("z1", replace))
    assert run.cache["z1"].data_ptr() == replaced[0].data_ptr()


def test_reading_twice_gives_the_same_memory(model: HookedTransformer) -> None:
    run = model.run_with_cache(PROMPT)
    assert run.cache["pattern1"].data_ptr() == run.cache[act.pattern(1)].data_ptr()
    assert run.logits.data_ptr() == run.logits.data_ptr()
    assert run.cache["z1[head=2]"].data_ptr() == run.cache["z1"][:, :, 2].data_ptr()
    assert model.weights.W_U().data_ptr() == model.weights.W_U().data_ptr()


def test_what_was_read_outlives_the_model() -> None:
    model = HookedTransformer.create(small())
    run = model.run_with_cache([[1, 2, 3]])
    kept = {name: value for name, value in run.cache.items()}
    copies = {name: value.clone() for name, value in kept.items()}
    weight, expected = model.weights.W_E(), model.weights.W_E().clone()
    handle = model.hook("z0", lambda z: None)
    del model, run
    gc.collect()
    assert all(torch.equal(kept[name], copies[name]) for name in kept)
    assert torch.equal(weight, expected)
    handle.remove()


def test_inputs_in_every_form_give_the_same(model: HookedTransformer) -> None:
    ids = model.to_tokens(PROMPT)
    expected = model(ids)
    forms = [PROMPT, ids[0], ids.tolist(), ids[0].tolist(), ids.numpy(), np.asarray(ids[0].tolist()), [PROMPT], hooked.Input(ids)]
    for form in forms:
        assert torch.equal(model(form), expected)


def test_several_texts_are_padded(model: HookedTransformer) -> None:
    texts = ["When John", PROMPT]
    logits = model.run(texts).logits
    for row, text in enumerate(texts):
        alone = model(text)[0]
        assert torch.allclose(logits[row, : len(alone)], alone, atol=1e-5)
    together = model.generate(texts, sampling={"greedy": True}, max_new_tokens=5).texts
    assert together == [model.generate(t, sampling={"greedy": True}, max_new_tokens=5).texts[0] for t in texts]
    with pytest.raises(TypeError, match="more than texts"):
        model.run(["When John", 3])  # type: ignore[list-item]


def test_a_wrong_input_is_one_sentence(model: HookedTransformer) -> None:
    with pytest.raises(TypeError, match=r"^\[input\] .*expected a text, token ids.*got float$"):
        model.run(3.5)  # type: ignore[arg-type]


def small() -> hooked.ModelConfig:
    return hooked.ModelConfig(
        n_layers=1, d_model=8, n_ctx=8, n_heads=2, n_kv_heads=2, d_head=4, d_mlp=16, d_vocab=11,
        unembedding=hooked.Unembedding(d_vocab=11),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_dtypes_and_devices(dtype: torch.dtype) -> None:
    model = HookedTransformer.create(small(), dtype=dtype, device=torch.device("cpu"))
    run = model.run_with_cache([[1, 2, 3]])
    assert model.dtype == dtype and model.device == torch.device("cpu")
    assert run.cache["resid_post0"].dtype == dtype
    assert run.logits.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert run.to("cpu").cache["z0"].device == torch.device("cpu")
    with pytest.raises(hooked.ShapeError, match="float"):
        model.run(torch.tensor([[0.5]]))


def test_state_dicts_go_in_and_out(tiny: HookedTransformer) -> None:
    weights = tiny.state_dict()
    raw = hooked.WeightProcessing.none()
    again = HookedTransformer.from_state_dict(weights, tiny.config, dtype=torch.float64, processing=raw)
    ids = [[1, 2, 3]]
    assert torch.equal(tiny(ids), again(ids))
    processed = hooked.process_weights(weights, tiny.config, hooked.WeightProcessing.only(["center_unembed"]))
    assert processed.weights["embed.W_E"].data_ptr() == weights["embed.W_E"].data_ptr()  # unchanged: not copied
    assert processed.weights["unembed.W_U"].mean(1).abs().max() < 1e-12
    with pytest.raises(hooked.CheckpointError, match="embed.W_E"):
        HookedTransformer.from_state_dict({k: v for k, v in weights.items() if k != "embed.W_E"}, tiny.config)


def test_weights_by_name(tiny: HookedTransformer) -> None:
    weights = tiny.weights
    named = tiny.state_dict()
    assert torch.equal(weights.W_Q(0), named["blocks.0.attn.W_Q"])
    assert torch.equal(weights.W_Q(0, 1), named["blocks.0.attn.W_Q"][1])
    assert torch.equal(weights.W_Q(), torch.stack([named["blocks.0.attn.W_Q"], named["blocks.1.attn.W_Q"]]))
    assert torch.equal(weights.W_in(-1), named["blocks.1.mlp.W_in"])
    assert torch.equal(weights["blocks.1.mlp.b_out"], weights.b_out(1))
    w, b = weights.ln_final()
    assert torch.equal(w, named["ln_final.w"]) and torch.equal(b, named["ln_final.b"])
    with pytest.raises(hooked.ConfigError, match="W_gate"):
        weights.W_gate(0)
