"""Structs: configs and options are plain values."""

import copy
import pickle
from pathlib import Path

import hooked
import pytest
import torch
from hooked import HookedTransformer, ModelConfig


def _full() -> ModelConfig:
    return ModelConfig(
        n_layers=2,
        d_model=16,
        n_ctx=32,
        n_heads=4,
        n_kv_heads=2,
        d_head=4,
        d_mlp=8,
        d_vocab=50,
        unembedding={"d_vocab": 50, "soft_cap": 30.0},
        norm="rms_norm",
        final_norm="rms_norm",
        mlp=hooked.MlpKind.gated,
        activation="silu",
        positions=hooked.RotaryPositions(base=5e5, scaling=hooked.Llama3Scaling(factor=8.0)),
        experts=hooked.Experts(n_experts=4, per_token=2, d_expert=8, router="sigmoid_then_choose"),
        window={"size": 8, "layers": [True, False], "kind": "sliding"},
        qk_norm={"span": "whole_projection"},
        dtype=torch.bfloat16,
    )


def test_members_in_every_form() -> None:
    config = _full()
    config.validate()
    assert config.norm is hooked.NormKind.rms_norm and config.mlp == hooked.MlpKind.gated
    assert config.activation == "silu" and str(config.activation) == "silu"
    assert config.qk_norm is not None and config.qk_norm.span == hooked.QkNormSpan.whole_projection
    assert config.window is not None and config.window.kind == hooked.WindowKind.sliding
    assert config.experts is not None and config.experts.router == hooked.RouterKind.sigmoid_then_choose
    assert config.latent is None and config.dtype == torch.bfloat16
    assert config.kv_heads(0) == 2 and config.mixture(1) and config.windowed(0) and not config.windowed(1)
    assert hooked.has(config, hooked.Part.mixture, hooked.BlockPlace(layer=0)) == config.mixture(0)
    with pytest.raises(hooked.ConfigError, match="expected 0 to 1"):
        config.windowed(2)


def test_a_config_is_a_value() -> None:
    config = _full()
    assert config == _full() and config != ModelConfig()
    for other in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert other == config
        other.n_layers = 3
        assert config.n_layers == 2
    config.activation = hooked.Activation.swish_with(2.0)
    assert pickle.loads(pickle.dumps(config)) == config and "swish_with(2" in repr(config)


def test_setting_a_member_of_a_member_sets_it() -> None:
    config = _full()
    assert isinstance(config.positions, hooked.RotaryPositions)
    config.positions.base = 1e6
    assert config.positions.base == 1e6
    assert isinstance(config.positions.scaling, hooked.Llama3Scaling)
    config.positions.scaling.factor = 4.0
    assert config.positions.scaling.factor == 4.0 and config != _full()
    config.experts = None
    assert config.experts is None
    config.n_layers = None  # its default
    assert config.n_layers == 0


def test_a_model_keeps_its_config(tiny: HookedTransformer) -> None:
    with pytest.raises(AttributeError, match=r"a model never changes.*copy\.copy"):
        tiny.config.n_ctx = 3
    assert tiny.config.n_ctx == 16


def test_configs_as_dicts(model: HookedTransformer) -> None:
    config = model.config
    assert ModelConfig.from_dict(config.to_dict()) == config
    assert config.to_dict()["n_layers"] == 2
    other = _full()
    other.experts = None
    assert ModelConfig.from_dict(other.to_dict()) == other
    with pytest.raises(hooked.ConfigError):
        ModelConfig.from_dict({"model_type": "unheard of"})


def test_options_are_checked_by_name(model: HookedTransformer) -> None:
    with pytest.raises(TypeError, match=r"^\[hoks\] run has no such option; expected .*; did you mean hooks\?$"):
        model.run("When", hoks=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^\[n_layer\] ModelConfig has no such option; .* did you mean n_layers\?$"):
        ModelConfig(n_layer=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^\[stop_at_layer\] .* given to run; expected int.*, got str$"):
        model.run("When", stop_at_layer="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^\[temperature\] .*SamplingOptions; expected float, got str$"):
        model.generate("When", sampling={"temperature": "hot"})
    with pytest.raises(hooked.ConfigError, match="'logit' is not known; expected one of 'logits', 'loss'"):
        model.run("When", output="logit")


def test_signatures_show_defaults() -> None:
    text = (HookedTransformer.generate.__doc__ or "").splitlines()[0]
    assert "max_new_tokens: int = 16" in text and "eager: bool = False" in text and "-> GenerateResult" in text
    assert "output: Output | str = 'logits'" in (HookedTransformer.run.__doc__ or "")
    assert HookedTransformer.__module__ == "hooked" and hooked.HookError.__module__ == "hooked"


def test_tables(model: HookedTransformer) -> None:
    rows = hooked.site_table()
    assert {row.word for row in rows} >= {"pattern", "z", "resid_pre", "embed"}
    pattern = hooked.row("pattern")
    assert pattern.axes == ["batch", "head", "query", "key"] and pattern.changes_plan and not pattern.wide
    assert hooked.size_of("d_head", model.config) == model.config.d_head
    assert hooked.activation_names(model.config) == model.names
    assert str(hooked.from_shorthand("k", 1, "a")) == "blocks.1.attn.hook_k"
    assert hooked.kernel_set() in hooked.kernel_sets()
    assert hooked.version() == hooked.__version__
    assert {step.step: step.outcome for step in model.processing}[hooked.ProcessingStep.fold_ln] == "applied"


def test_quantised_weights_stay_stored() -> None:
    file = str(Path(__file__).parents[1] / "golden" / "gguf" / "quantised.gguf")
    expanded = HookedTransformer.load(file, processing=hooked.WeightProcessing.none())
    stored = HookedTransformer.load(file, weights="stored")
    assert stored.weight_storage == hooked.WeightStorage.stored
    tokens = torch.tensor([[1, 2, 3, 4]])
    assert torch.allclose(stored.run(tokens).logits, expanded.run(tokens).logits, atol=1e-4)
    assert torch.equal(stored.state_dict()["blocks.0.attn.W_Q"], expanded.state_dict()["blocks.0.attn.W_Q"])
    with pytest.raises(hooked.ConfigError, match="cannot stay as they are stored"):
        HookedTransformer.load(
            file,
            weights=hooked.WeightStorage.stored,
            processing=hooked.WeightProcessing.only([hooked.ProcessingStep.fold_ln]),
        )
