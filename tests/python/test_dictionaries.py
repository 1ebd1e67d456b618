"""Sparse autoencoders and transcoders: against plain torch, hooks by hand, and SAELens where it is installed."""

import copy
import functools
import json
import types
from pathlib import Path

import hooked
import pytest
import torch
from hooked import act

ROOT = Path(__file__).resolve().parents[2]
TOY = str(ROOT / "examples" / "toy_model")
SAE = str(ROOT / "examples" / "toy_sae")
TRANSCODERS = ROOT / "examples" / "toy_transcoders"
PUBLISHED = ROOT / "tests" / "dictionaries" / "golden" / "published"
TEXT = "When John and Mary went to the shop, John gave a bag to"
FEATURES = act.sae_acts_post(act.resid_post(0))


@functools.cache
def sae(dtype: torch.dtype = torch.float32) -> hooked.Dictionary:
    return hooked.Dictionary.load(SAE, dtype=dtype)


@functools.cache
def fitted_model() -> hooked.HookedTransformer:
    """In the basis that the dictionary was fitted to."""
    return hooked.HookedTransformer.load(TOY, without=hooked.steps_that_change(sae()))


def stream(seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 5, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def codes_by_hand(dictionary: hooked.Dictionary, x: torch.Tensor) -> torch.Tensor:
    w = dictionary.weights
    largest = ((x - w.b_dec) @ w.W_enc + w.b_enc).topk(8, dim=-1)
    return torch.zeros(*x.shape[:-1], 384, dtype=x.dtype).scatter(-1, largest.indices, largest.values.relu())


def decoded_by_hand(dictionary: hooked.Dictionary, codes: torch.Tensor) -> torch.Tensor:
    return codes @ dictionary.weights.W_dec + dictionary.weights.b_dec


def close(a: torch.Tensor, b: torch.Tensor, to: float = 1e-10) -> bool:
    assert a.shape == b.shape
    return bool(((a - b).abs() <= to * max(1.0, b.abs().max().item())).all())


def test_codes_and_reconstructions_are_those_of_plain_torch() -> None:
    dictionary, x = sae(torch.float64), stream()
    codes = dictionary.encode(x)
    assert close(codes, codes_by_hand(dictionary, x))
    assert close(dictionary.decode(codes, x), decoded_by_hand(dictionary, codes))
    assert torch.equal(dictionary.reconstruct(x), dictionary.decode(codes, x))
    assert codes.count_nonzero(-1).max().item() == 8
    # The steps one by one.
    read = dictionary.input_of(x)
    assert dictionary.has_preactivations
    assert torch.equal(dictionary.activations(dictionary.preactivations(read), read), codes)
    written = dictionary.reconstruction(codes, read)
    assert torch.equal(dictionary.output_of(written, read, x), dictionary.reconstruct(x))
    assert dictionary.reconstruct(x.float()).dtype == torch.float32


def test_sparse_codes_are_the_same_codes() -> None:
    dictionary, x = sae(torch.float64), stream(1)
    sparse = dictionary.encode_sparse(x)
    assert sparse.indices.shape == sparse.values.shape == (2, 5, 8) and sparse.features == 384
    assert torch.equal(sparse.dense(), dictionary.encode(x))
    assert close(dictionary.decode_sparse(sparse, x), dictionary.reconstruct(x))
    by_hand = hooked.SparseCodes(sparse.indices, 2 * sparse.values, 384)
    assert close(dictionary.decode_sparse(by_hand, x), dictionary.decode(2 * dictionary.encode(x), x))
    with pytest.raises(TypeError, match=r"\[features\] SparseCodes is not given it"):
        hooked.SparseCodes(sparse.indices, sparse.values)  # type: ignore[call-arg]


def test_autograd_goes_through_a_dictionary() -> None:
    dictionary, x = sae(torch.float64), stream(2).requires_grad_()
    (gradient,) = torch.autograd.grad(dictionary.reconstruct(x).sum(), x)
    on = (dictionary.encode(x) != 0).double()
    by_hand = (on * dictionary.weights.W_dec.sum(-1)) @ dictionary.weights.W_enc.T
    assert close(gradient, by_hand)


def test_a_dictionary_says_what_it_is() -> None:
    config = sae().config
    assert (config.d_in, config.d_out, config.features, config.k) == (128, 128, 384, 8)
    assert config.activation == hooked.CodeActivation.top_k and config.subtracts_decoder_bias
    assert config.input == config.output == "blocks.0.hook_resid_post" and config.layer == 0
    assert config.input_norm == hooked.InputNorm.none and not config.basis.centred_writes
    assert json.loads(config.metadata)["model_name"] == config.model_name == "toy_model"
    assert config.format == "SAELens 6" and config.notes == []
    described = hooked.architecture_text(config)
    assert described == "sparse autoencoder; top-k: the 8 largest codes of a token"
    assert repr(sae()) == f"Dictionary of 384 features, {described}, of blocks.0.hook_resid_post"
    assert hooked.is_dictionary(SAE) and not hooked.is_dictionary(TOY)
    files = hooked.describe_dictionary(SAE)
    assert files.members[0].features == 384 and files.parameters == 2 * 128 * 384 + 384 + 128
    with pytest.raises(AttributeError, match="never changes"):
        config.k = 3
    with pytest.raises(AttributeError, match="never changes"):
        sae().weights.b_dec = torch.zeros(128)
    assert sae().config.k == 8 and sae().weights.W_skip is None
    assert torch.equal(sae().decoder_norms(), sae().weights.W_dec.norm(dim=-1))


def test_a_dictionary_is_made_of_config_and_weights() -> None:
    given = sae(torch.float64)
    config, weights = copy.copy(given.config), given.weights
    config.k = 3
    fewer = hooked.Dictionary(config, weights)
    assert fewer.encode(stream()).count_nonzero(-1).max().item() == 3
    assert fewer.weights.W_enc.data_ptr() == weights.W_enc.data_ptr()
    relu = hooked.Dictionary(
        {"d_in": 128, "d_out": 128, "features": 384, "activation": "relu", "dtype": torch.float64},
        {"W_enc": weights.W_enc, "b_enc": weights.b_enc, "W_dec": weights.W_dec, "b_dec": weights.b_dec},
    )
    assert close(relu.encode(stream()), (stream() @ weights.W_enc + weights.b_enc).relu())
    assert torch.equal(copy.deepcopy(relu).encode(stream()), relu.encode(stream()))
    norm = weights.W_dec.norm(dim=-1).clamp_min(1e-8)
    assert close(relu.with_unit_decoder().encode(stream()), relu.encode(stream()) * norm)
    with pytest.raises(hooked.ShapeError, match="W_dec"):
        hooked.Dictionary(config, {"W_enc": weights.W_enc, "b_enc": weights.b_enc, "b_dec": weights.b_dec})
    with pytest.raises(hooked.ConfigError, match="expected one of 'relu'"):
        hooked.DictionaryConfig(activation="rely")
    with pytest.raises(TypeError, match="did you mean features"):
        hooked.DictionaryConfig(feature=3)  # type: ignore[call-arg]


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    sae().save(tmp_path / "saved")
    again = hooked.Dictionary.load(str(tmp_path / "saved"))
    x = stream().float()
    assert torch.equal(again.encode(x), sae().encode(x)) and torch.equal(again.reconstruct(x), sae().reconstruct(x))
    assert again.config.input == sae().config.input and again.config.k == 8
    with pytest.raises(hooked.CheckpointError):
        hooked.Dictionary.load(str(tmp_path / "none"))


def test_sets_have_a_dictionary_for_each_layer() -> None:
    per_layer = hooked.DictionarySet.load(str(PUBLISHED / "circuit_tracer_set"))
    assert per_layer.layers == [0, 1] and not per_layer.crosses_layers and len(per_layer.members) == 2
    first = per_layer.at(0)
    x = torch.randn(3, first.config.d_in, generator=torch.Generator().manual_seed(0))
    assert close(per_layer.decode(0, [first.encode(x), None], x), first.reconstruct(x), 1e-6)
    both = hooked.DictionarySet([hooked.Dictionary.load(str(TRANSCODERS / f"layer_{i}")) for i in (1, 0)], "toy")
    assert both.layers == [0, 1] and both.scan == "toy"
    assert torch.equal(both.decoder(1, 1), both.at(1).weights.W_dec)
    with pytest.raises(hooked.ConfigError):
        both.at(2)
    crossing = hooked.DictionarySet.load(str(PUBLISHED / "circuit_tracer_clt"))
    assert crossing.crosses_layers and crossing.layers == [0, 1, 2]
    x = torch.randn(4, crossing.at(0).config.d_in, generator=torch.Generator().manual_seed(1))
    codes = [crossing.at(layer).encode(x) for layer in crossing.layers]
    by_hand = sum(codes[layer] @ crossing.decoder(layer, 2) for layer in crossing.layers)
    bias = crossing.at(2).weights.b_dec
    assert close(crossing.decode(2, list(codes), x) - bias, torch.as_tensor(by_hand), 1e-5)
    with pytest.raises(hooked.ConfigError):
        crossing.decoder(2, 0)


def test_a_run_with_the_error_term_is_the_plain_run() -> None:
    model = fitted_model()
    spliced = model.with_dictionary(sae(), with_error=True)
    plain = model.run_with_cache(TEXT)
    run = spliced.run_with_cache(TEXT, [act.sae_acts_post, act.sae_error, act.sae_recons, act.resid_post(0)])
    assert torch.equal(run.logits, plain.logits)
    x = plain.cache[act.resid_post(0)]
    assert torch.equal(run.cache[FEATURES], run.cache["blocks.0.hook_resid_post.hook_sae_acts_post"])
    assert close(run.cache[FEATURES], codes_by_hand(sae(), x), 1e-5)
    assert close(run.cache[act.sae_error(act.resid_post(0))] + run.cache[act.sae_recons("resid_post0")], x, 1e-6)


def test_without_it_the_reconstruction_goes_on() -> None:
    model = fitted_model()
    spliced = model.with_dictionary(sae())
    by_hand = model.run(TEXT, hooks=[(act.resid_post(0), sae().reconstruct)]).logits
    assert close(spliced.run(TEXT).logits, by_hand, 1e-5)
    assert not torch.equal(spliced.run(TEXT).logits, model.run(TEXT).logits)
    elsewhere = model.with_dictionary(sae(), input=act.resid_post(1), with_error=False)
    assert close(
        elsewhere.run(TEXT).logits, model.run(TEXT, hooks=[(act.resid_post(1), sae().reconstruct)]).logits, 1e-5
    )


def test_edits_of_features_are_edits_by_hand() -> None:
    model = fitted_model()
    spliced = model.with_dictionary(sae(), with_error=True)
    codes = spliced.run_with_cache(TEXT, FEATURES).cache[FEATURES]
    feature = int(codes[0, -1].argmax())

    def by_hand(x: torch.Tensor) -> torch.Tensor:
        edited = codes.clone()
        edited[..., feature] = 0
        return x + (decoded_by_hand(sae(), edited) - decoded_by_hand(sae(), codes))

    expected = model.run(TEXT, hooks=[(act.resid_post(0), by_hand)]).logits
    edited = spliced.run(TEXT, edits=[hooked.zero(FEATURES.feature(feature))]).logits
    assert close(edited, expected, 1e-5) and not close(edited, model.run(TEXT).logits, 1e-3)
    as_text = hooked.zero(f"blocks.0.hook_resid_post.hook_sae_acts_post[feature={feature}]")
    assert torch.equal(spliced.run(TEXT, edits=as_text).logits, edited)

    def without(values: torch.Tensor, name: hooked.ActivationName) -> torch.Tensor:
        assert name.word == "sae_acts_post" and name.host == "resid_post"
        assert str(name.place) == "blocks.0.hook_resid_post" and name.scope == hooked.SiteScope.block
        values = values.clone()
        values[..., feature] = 0
        return values

    assert torch.equal(spliced.run(TEXT, hooks=[(act.sae_acts_post, without)]).logits, edited)
    assert torch.equal(spliced.run(TEXT, edits=hooked.scale(FEATURES, 1.0)).logits, model.run(TEXT).logits)


def test_a_model_says_which_dictionaries_it_has() -> None:
    model = fitted_model()
    assert model.dictionaries == []
    transcoder = hooked.Dictionary.load(str(TRANSCODERS / "layer_1"))
    raw = hooked.HookedTransformer.load(
        TOY, without=[*hooked.steps_that_change(sae()), *hooked.steps_that_change(transcoder)]
    )
    both = raw.with_dictionary(sae()).with_dictionary(transcoder, with_error=True)
    first, second = both.dictionaries
    assert str(first.output) == "blocks.0.hook_resid_post" and not first.with_error
    assert str(second.input) == "blocks.1.mlp.hook_in" and str(second.output) == "blocks.1.hook_mlp_out"
    assert second.with_error and second.dictionary.config.transcodes
    names = [name for name in both.names if name.host]
    assert len(names) == 12 and len(both.names) == len(raw.names) + 12
    alone = both.without_dictionary("resid_post0")
    assert [str(each.output) for each in alone.dictionaries] == ["blocks.1.hook_mlp_out"]
    assert torch.equal(alone.run(TEXT).logits, raw.run(TEXT).logits)
    with pytest.raises(hooked.HookError):
        alone.without_dictionary(act.resid_post(0))
    with pytest.raises(hooked.HookError, match="sae_acts_post"):
        model.run(TEXT, capture=act.sae_acts_post)


def test_loading_leaves_out_the_steps_that_change_what_a_dictionary_was_fitted_to() -> None:
    steps = hooked.steps_that_change(sae(), with_error=True)
    assert steps and all(isinstance(step, hooked.ProcessingStep) for step in steps)
    processed = hooked.HookedTransformer.load(TOY)
    applied = {report.step for report in processed.processing if report.outcome == "applied"}
    left = {report.step for report in fitted_model().processing if report.outcome == "applied"}
    assert left == applied - set(steps)
    by_name = hooked.HookedTransformer.load(TOY, without=[step.name for step in steps])
    assert {report.step for report in by_name.processing if report.outcome == "applied"} == left
    assert torch.equal(by_name.run(TEXT).logits, fitted_model().run(TEXT).logits)
    nowhere = hooked.Dictionary(
        {"d_in": 128, "d_out": 128, "features": 384, "activation": "top_k", "k": 8}, sae().weights
    )
    with pytest.raises(hooked.HookError):
        hooked.steps_that_change(nowhere)
    assert hooked.steps_that_change(nowhere, input="resid_post0") == steps


def test_sites_say_which_steps_change_them() -> None:
    assert hooked.row("resid_post").changed_by.centred and not hooked.row("resid_post").changed_by.value_bias
    assert hooked.row("z").changed_by.value_bias and not hooked.row("z").changed_by.centred
    assert hooked.row("sae_acts_post").scope == hooked.SiteScope.dictionary
    step = hooked.ProcessingStep.center_writing_weights
    assert hooked.WeightProcessing().wants(step) and not hooked.WeightProcessing().without(step).wants(step)
    assert not hooked.WeightProcessing().without(step.name).wants(step)
    tokenizer = fitted_model().tokenizer
    assert tokenizer.special_id("eos_token") == tokenizer.eos_id and tokenizer.special_id("none_token") is None


def test_firing_features_are_those_of_the_codes() -> None:
    spliced = fitted_model().with_dictionary(sae(), with_error=True)
    cache = spliced.run_with_cache(TEXT, act.sae_acts_post).cache
    codes = cache[FEATURES][0]
    fired = hooked.firing_features(cache, FEATURES, count=0)
    largest = codes.max(0)
    assert {each.feature for each in fired} == set(codes.count_nonzero(0).nonzero().flatten().tolist())
    assert [each.largest for each in fired] == sorted((each.largest for each in fired), reverse=True)
    for each in fired:
        assert each.largest == pytest.approx(largest.values[each.feature].item()) and each.row == 0
        assert each.column == largest.indices[each.feature].item()
        assert each.tokens == codes[:, each.feature].count_nonzero().item()
        assert each.mean == pytest.approx(codes[:, each.feature].sum().item() / each.tokens)
    last = hooked.firing_features(cache, FEATURES, positions=["last"], count=3)
    assert [each.feature for each in last] == codes[-1].topk(3).indices.tolist()
    with pytest.raises(hooked.HookError):
        hooked.firing_features(cache, act.resid_post(0))


def test_feature_logits_are_decoder_rows_times_the_unembedding() -> None:
    model = fitted_model()
    spliced = model.with_dictionary(sae(), with_error=True)
    found = hooked.feature_logits(spliced, FEATURES, [3, 7])
    assert found.shape == (2, model.config.d_vocab) and found.dtype == torch.float64
    scale = model.run_with_cache(TEXT, "ln_final.hook_scale").cache["ln_final.hook_scale"]
    at_end = model.with_dictionary(sae(), input=act.resid_post(1), with_error=True)
    end = act.sae_acts_post(act.resid_post(1))
    held = [hooked.set("ln_final.hook_scale", scale)]
    moved = at_end.run(TEXT, edits=[*held, hooked.add(end.feature(3), 1.0)]).logits
    change = ((moved - at_end.run(TEXT, edits=held).logits) * scale)[0, -1].double()
    assert close(hooked.feature_logits(at_end, end, [3])[0], change, 1e-3)
    assert close(found[0], hooked.feature_logits(at_end, end, [3])[0])  # whatever layer writes it


def test_features_are_parts_of_a_logit_and_nodes_that_are_patched() -> None:
    spliced = fitted_model().with_dictionary(sae(), with_error=True)
    run = spliced.run_with_cache(TEXT, act.everything)
    parts = hooked.direct_logit_attribution(spliced, run.cache, answer=5, against=6, grain="feature")
    last = run.logits[0, -1]
    assert parts.values.sum().item() == pytest.approx((last[5] - last[6]).item(), abs=1e-3)
    fired = run.cache[FEATURES][0, -1].nonzero().flatten().tolist()
    labels = [label for label in parts.axis("part").labels if "feature" in label]
    assert labels == [f"resid_post feature 0.{feature}" for feature in fired]
    nodes = hooked.FeatureNodes(features=FEATURES, by_position=False, errors=False)
    metric = hooked.logit_difference(5, 6)
    ablated = hooked.sweep(spliced, nodes, from_=hooked.PatchSource.zero(), into=TEXT, metric=metric)
    feature = int(ablated.axis("feature").labels[0])
    without = spliced.run(TEXT, edits=[hooked.zero(FEATURES.feature(feature))]).logits[0, -1]
    assert ablated.values[0].item() == pytest.approx((without[5] - without[6]).item(), abs=1e-4)
    by_site = hooked.sweep(
        spliced,
        site=act.sae_acts_post,
        over=[("layer", [0]), "feature"],
        from_=hooked.PatchSource.zero(),
        into=TEXT,
        metric=metric,
    )
    assert torch.equal(by_site.values[0], ablated.values)
    estimates = hooked.attribution_patching(
        spliced, hooked.FeatureNodes(features=FEATURES), sweep={"from_": run.cache, "into": TEXT, "metric": metric}
    )
    assert estimates.axis("feature").labels[-1] == "error" and not estimates.values.any()


def test_quality_is_that_of_the_runs() -> None:
    model = fitted_model()
    spliced = model.with_dictionary(sae())
    seen: list[int] = []
    quality = hooked.dictionary_quality(spliced, FEATURES, TEXT, progress=lambda now: seen.append(now.done))
    tokens = model.to_tokens(TEXT)
    x = model.run_with_cache(TEXT, act.resid_post(0)).cache[act.resid_post(0)][0].double()
    codes = sae().encode(x)
    error = x - sae().decode(codes, x)
    assert quality.tokens == tokens.numel() and seen and quality.complete
    assert quality.l0 == pytest.approx((codes != 0).sum(-1).double().mean().item())
    assert torch.equal(quality.fired, (codes != 0).sum(0)) and quality.dead == (quality.fired == 0).sum().item()
    variance = 1 - error.square().sum().item() / (x - x.mean(0)).square().sum().item()
    assert quality.explained_variance == pytest.approx(variance, abs=1e-5)
    assert quality.spliced_loss == pytest.approx(
        hooked.next_token_loss(spliced.run(TEXT).logits, tokens).item(), abs=1e-5
    )
    zeros = model.run(TEXT, edits=hooked.zero(act.resid_post(0))).logits
    assert quality.zero_loss == pytest.approx(hooked.next_token_loss(zeros, tokens).item(), abs=1e-5)
    recovered = (quality.zero_loss - quality.spliced_loss) / (quality.zero_loss - quality.loss)
    assert quality.recovered == pytest.approx(recovered)


@pytest.mark.parametrize("folder", ["toy_sae", "toy_transcoders/layer_0", "toy_transcoders/layer_1"])
def test_sae_lens_reads_the_same(folder: str, sae_lens: types.ModuleType, tmp_path: Path) -> None:
    ours = hooked.Dictionary.load(str(ROOT / "examples" / folder))
    ours.save(tmp_path / "saved")
    x = stream().float()
    for path in (ROOT / "examples" / folder, tmp_path / "saved"):
        theirs = sae_lens.SAE.load_from_disk(str(path))
        assert close(ours.encode(x), theirs.encode(x).detach(), 1e-6)
        assert close(ours.reconstruct(x), theirs.decode(theirs.encode(x)).detach(), 1e-6)
