"""Lenses, attribution, heads and circuits from weights, against torch, TransformerLens and the command line."""

import functools
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import hooked
from hooked import FactoredMatrix, StreamPart, act

ROOT = Path(__file__).resolve().parents[2]
TOY = ROOT / "examples" / "toy_model"
TEXT = "When John and Mary went to the shop, John gave a bag to"


@functools.cache
def model() -> hooked.HookedTransformer:
    return hooked.HookedTransformer.load(str(TOY), dtype=torch.float64)


@functools.cache
def cache() -> hooked.ActivationCache:
    return model().run_with_cache(TEXT, act.everything).cache


def answers() -> tuple[int, int]:
    return model().to_token(" Mary"), model().to_token(" John")


def close(a: torch.Tensor, b: torch.Tensor, to: float = 1e-10) -> bool:
    assert a.shape == b.shape
    return bool(((a - b).abs() <= to * max(1.0, b.abs().max().item())).all())


def test_the_lens_is_the_model_itself_from_that_point() -> None:
    mary, john = answers()
    lens = hooked.logit_lens(model(), cache(), positions=[], tokens=[mary, john], top_k=2)
    points = [cache()[name] for name in (act.resid_pre(0), act.resid_post(0), act.resid_post(1))]
    logits = torch.stack([model().run(hooked.Input.start_at_layer(2, point)).logits[0] for point in points])
    chosen = logits[:, :, [mary, john]].permute(2, 0, 1)  # [token, point, pos]
    assert close(lens.logits.values[0], chosen)
    assert close(lens.probabilities.values[0], logits.softmax(-1)[:, :, [mary, john]].permute(2, 0, 1))
    ranks = (logits.unsqueeze(0) > chosen.unsqueeze(-1)).sum(-1)
    assert torch.equal(lens.ranks.values[0], ranks.double())
    last = lens.top[-1]
    assert last.column == 14 and last.predictions[0].token == logits[-1, -1].argmax().item()
    assert last.predictions[0].logit == pytest.approx(logits[-1, -1].max().item())
    assert "Mary" in str(last) and str(last) in str(lens) and lens.complete


def test_a_tuned_lens_is_its_map() -> None:
    matrix, bias = torch.randn(128, 128, dtype=torch.float64) / 20, torch.randn(128, dtype=torch.float64)
    maps = hooked.LensMaps(by_depth={1: hooked.LensMaps.Map(matrix, bias=bias, adds=True)})
    published = hooked.HookedTransformer.load(
        str(TOY), dtype=torch.float64, processing=hooked.WeightProcessing.none()
    )
    run = published.run_with_cache(TEXT)
    x = run.cache[act.resid_post(0)]
    mapped = x + x @ matrix.T + bias
    assert close(maps.by_depth[1](x), mapped)
    lens = hooked.logit_lens(published, run.cache, maps=maps, tokens=[7])
    expected = published.run(hooked.Input.start_at_layer(2, mapped)).logits[0, -1, 7]
    assert lens.logits.values[0, 0, 0, 0].item() == pytest.approx(expected.item(), rel=1e-9)


def test_attribution_is_linear_reading_of_the_parts() -> None:
    mary, john = answers()
    parts = hooked.direct_logit_attribution(model(), cache(), answer=mary, against=john, grain="head")
    run = model().run(TEXT).logits[0, -1]
    assert parts.values.sum().item() == pytest.approx((run[mary] - run[john]).item(), rel=1e-10)
    w = model().weights
    direction = (w.W_U()[:, mary] - w.W_U()[:, john]) / cache()[act.ln_final_scale][0, -1]
    for layer in range(2):
        for head in range(4):
            wrote = cache()[act.z(layer)][0, -1, head] @ w.W_O(layer)[head]
            found = parts.slice("part", f"head {layer}.{head}").values.item()
            assert found == pytest.approx(((wrote - wrote.mean()) @ direction).item(), abs=1e-10)
    by_text = hooked.direct_logit_attribution(model(), cache(), answer=" Mary", against=" John", grain="head")
    assert torch.equal(by_text.values, parts.values)
    sources = hooked.source_attribution(model(), cache(), answer=mary, against=john)
    of_head = sources.slice("part", "head 1.3").values.nansum().item()
    assert of_head == pytest.approx(parts.slice("part", "head 1.3").values.item(), abs=1e-10)
    paths = hooked.path_expansion(model(), cache(), answer=mary, against=john)
    assert paths.values.nansum().item() == pytest.approx((run[mary] - run[john]).item(), rel=1e-10)


def test_parts_add_up_to_the_stream() -> None:
    parts = hooked.residual_parts(model(), cache(), of=act.resid_post(1), grain="head", positions=[])
    assert close(parts.values.nansum(1), cache()[act.resid_post(1)])
    assert close(parts.slice("part", "mlp 0").values, cache()[act.mlp_out(0)])
    points = hooked.accumulated_residual(model(), cache(), positions=[])
    assert close(points.slice("point", 1).values, cache()[act.resid_pre(1)])
    norm = {"norm": act.ln1_scale(1), "scale": "of_run"}
    normed = hooked.normed_stack(model(), cache(), points, norm=norm, positions=[])
    assert close(normed.slice("point", 1).values, cache()[act.ln1_normalized(1)])
    with pytest.raises(TypeError, match=r"\[norm\] normed_stack is not given it"):
        hooked.normed_stack(model(), cache(), points)
    shares = hooked.norm_shares(model(), cache(), answer=answers()[0])
    assert shares.length.values.nansum().item() == pytest.approx(1, rel=1e-10)
    scores = hooked.score_attribution(model(), cache(), scores=act.attn_scores(1).head(3), keys=[4])
    assert scores.values.nansum().item() == pytest.approx(cache()[act.attn_scores(1)][0, 3, -1, 4].item(), rel=1e-9)


def test_scores_of_heads_are_their_formulas() -> None:
    pattern = torch.stack([cache()[act.pattern(layer)][0] for layer in range(2)])  # [layer, head, query, key]
    previous = hooked.head_scores(cache(), "previous_token")
    assert close(previous.values, pattern.diagonal(-1, -2, -1).mean(-1))
    entropy = hooked.head_scores(cache(), hooked.HeadScore.entropy)
    assert close(entropy.values, -(pattern.xlogy(pattern)).sum(-1).mean(-1))
    size = pattern.shape[-1]
    mine = torch.ones(size, size, dtype=torch.float64).tril(-1).triu(-2)
    own = hooked.head_scores(cache(), mine, measure="mul")
    assert close(own.values, (pattern * mine).sum((-1, -2)) / pattern.sum((-1, -2)))
    report = hooked.head_scores_report(model(), TEXT, scores=["previous_token", "entropy"])
    assert close(report.scores[0].values, previous.values) and close(report.scores[1].values, entropy.values)
    assert [row.name for row in hooked.head_score_rows()] == [name.name for name in hooked.HeadScore]
    assert hooked.head_score_row("entropy").unit == "nats"
    with pytest.raises(hooked.ConfigError, match="previous_token"):
        hooked.head_scores(cache(), "prev")
    shown = hooked.attention_grid(model(), cache(), act.pattern(1).head(3))
    assert torch.equal(shown.values, cache()["pattern1"][0, 3]) and shown.axes[1].labels[4].split() == ["4", "Mary"]


def test_repetition_is_the_loss_of_the_second_half() -> None:
    options = hooked.repeated_tokens_of(model())
    options.rows, options.half, options.seed = 2, 9, 5
    tokens = hooked.repeated_random_tokens(options)
    assert tokens.shape == (2, 19) and torch.equal(tokens[:, 1:10], tokens[:, 10:])
    assert torch.equal(tokens, hooked.repeated_random_tokens(rows=2, half=9, seed=5, vocab_end=784, bos=options.bos))
    scores = hooked.repetition_scores(model(), options)
    logits = model().run(tokens).logits.double().log_softmax(-1)
    losses = -logits[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    assert close(scores.loss.values, torch.stack([losses[:, 1:9].mean(-1), losses[:, 10:].mean(-1)], -1), 1e-6)


def random_matrix() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randn(3, 6, 2, generator=generator, dtype=torch.float64),
        torch.randn(3, 2, 6, generator=generator, dtype=torch.float64),
    )


def test_factored_matrix_is_its_product() -> None:
    A, B = random_matrix()
    matrix, product = FactoredMatrix(A, B), A @ B
    assert close(matrix.AB, product) and matrix.sizes == [3, 6, 6] and matrix.inner == 2
    assert close(matrix.norm(), product.norm(dim=(-2, -1)))
    found = matrix.svd()
    assert close(found.S, torch.linalg.svdvals(product)[:, :2])
    assert close(found.U @ found.S.diag_embed() @ found.V.mT, product)
    other = torch.randn(6, 4, dtype=torch.float64)
    assert close((matrix @ other).AB, product @ other) and close((other.T @ matrix).AB, other.T @ product)
    assert close((matrix @ matrix).AB, product @ product) and close((2 * matrix).AB, 2 * product)
    assert close(hooked.matmul(other.T, matrix).AB, other.T @ product)
    assert close(matrix[1].AB, product[1]) and close(matrix.t().AB, product.mT)
    assert close(matrix.at(2, 3), product[:, 2, 3]) and close(matrix.rows(1, 3).AB, product[:, 1:3])
    assert close(matrix.eigenvalues().sum(-1).real, product.diagonal(0, -2, -1).sum(-1))
    with pytest.raises(hooked.ShapeError):
        FactoredMatrix(A, A)


def test_factored_matrix_is_transformer_lens_s() -> None:
    lens = pytest.importorskip("transformer_lens")
    A, B = random_matrix()
    ours, theirs = FactoredMatrix(A, B), lens.FactoredMatrix(A, B)
    assert close(ours.svd().S, theirs.svd()[1]) and close(ours.norm(), theirs.norm())
    assert close(ours.make_even().AB, theirs.make_even().AB)
    assert close(ours.collapse_l().abs(), theirs.collapse_l().abs())
    scores = lens.utilities.composition_scores(theirs, theirs, broadcast_dims=False)
    assert close(hooked.composition(ours, ours), scores)


def test_circuits_from_weights_are_products_of_weights() -> None:
    w = model().weights
    bare = {"norms": False}
    ov, qk = hooked.ov_circuits(model(), **bare), hooked.qk_circuits(model(), **bare)
    assert close(ov[1][3].AB, w.W_V(1)[3] @ w.W_O(1)[3]) and close(qk[0][2].AB, w.W_Q(0)[2] @ w.W_K(0)[2].T)
    composed = hooked.composition_scores(model(), "value", circuits=bare, random_draws=4)
    left, right = ov[0][1].AB, ov[1][3].AB
    expected = (left @ right).norm() / left.norm() / right.norm()
    assert composed.scores[0, 1, 1, 3] == pytest.approx(expected.item(), rel=1e-9) and composed.draws == 4
    assert math.isnan(composed.scores[1, 1, 0, 3])
    full = hooked.full_ov_circuit(model(), (1, 3), **bare)
    assert close(full.at(5, 9), (w.W_E()[5] @ right @ w.W_U()[:, 9]))
    reader = {"matrix": "value", "layer": 1, "index": 3}
    between = hooked.virtual_weights(model(), StreamPart("head_out", layer=0, index=1), reader, **bare)
    assert close(between.AB, w.W_O(0)[1] @ w.W_V(1)[3])
    written = hooked.stream_matrix(model(), {"matrix": "head_out", "layer": 0, "index": 1}, **bare)
    assert close(written, w.W_O(0)[1])
    directions = hooked.singular_directions(model(), layer=1, index=3, directions=4, top_k=2, circuits=bare)
    assert close(directions.values, torch.linalg.svdvals(right)[:4])
    assert len(directions.top) == 4 and directions.top[0].raised[0].piece in str(directions)


def test_superposition_is_its_formulas() -> None:
    directions = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    unit = directions / directions.norm(dim=-1, keepdim=True)
    found = hooked.superposition(directions)
    assert close(found.squared_length, directions.square().sum(-1))
    cosines = unit @ unit.T
    assert close(hooked.pairwise_cosines(directions), cosines)
    assert found.largest_cosine == pytest.approx((cosines - torch.eye(7)).abs().max().item())
    assert hooked.welch_bound(7, 3) == pytest.approx(math.sqrt((7 - 3) / (3 * 6))) == found.welch_bound
    active = hooked.expected_interference(directions, sparsity=0.75)
    along = (unit @ directions.T) * (1 - torch.eye(7))
    assert close(active.mean, 0.25 * 0.5 * along.sum(-1))


BINARIES = [ROOT / "build" / preset / "bin" / "hooked" for preset in ("release", "dev", "python")]


def command(*arguments: str) -> Any:
    program = next((binary for binary in BINARIES if binary.exists()), None)
    if program is None:
        pytest.skip("the program `hooked` is not built")
    done = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_command_line_has_the_same_bits() -> None:
    single = hooked.HookedTransformer.load(str(TOY))
    run = single.run_with_cache(TEXT)
    mary, john = single.to_token(" Mary"), single.to_token(" John")
    told = command("lens", str(TOY), "--text", TEXT)
    rows = [
        [(p.token, p.logit, p.probability) for p in row.predictions] for row in hooked.logit_lens(single, run.cache).top
    ]
    assert rows == [[(n["id"], n["logit"], n["probability"]) for n in row["next"]] for row in told["rows"]]
    told = command("heads", str(TOY), "--text", TEXT, "--score", "previous_token,entropy")["scores"]
    for name in ("previous_token", "entropy"):
        assert json.loads(hooked.head_scores(run.cache, name).to_json())["values"] == told[name]["values"]
    pairs = hooked.PromptPairs.load(single, ROOT / "examples" / "pairs.jsonl")
    file = str(ROOT / "examples" / "pairs.jsonl")
    told = command("patch", str(TOY), "--pairs", file, "--sweep", "attn_head_out_all_pos")
    grid = hooked.sweep(
        single,
        "attn_head_out_all_pos",
        from_=single.run_with_cache(pairs.clean).cache,
        into=pairs.corrupted,
        metric=hooked.logit_difference(pairs.answers(), pairs.against()),
    ).mean("row")
    assert json.loads(grid.to_json())["values"] == told["sweeps"][0]["grids"][0]["scores"]["values"]
    told = command("attribute", str(TOY), "--text", TEXT, "--answer", " Mary", "--against", " John", "--grain", "head")
    parts = hooked.direct_logit_attribution(single, run.cache, answer=mary, against=john, grain="head")
    assert json.loads(parts.to_json())["values"] == told["parts"]["values"]
