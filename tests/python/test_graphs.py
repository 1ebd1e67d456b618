"""Attribution graphs: edges that add up, what is pruned, files, and interventions, on the model of the examples."""

import functools
import json
from pathlib import Path

import hooked
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
TEXT = "When John and Mary went to the shop, John gave a bag to"


@functools.cache
def raw(dtype: torch.dtype = torch.float64) -> hooked.HookedTransformer:
    """In the basis that the transcoders were fitted to."""
    return hooked.HookedTransformer.load(
        str(ROOT / "examples" / "toy_model"), processing=hooked.WeightProcessing.none(), dtype=dtype
    )


@functools.cache
def transcoders() -> hooked.DictionarySet:
    return hooked.DictionarySet.load(str(ROOT / "examples" / "toy_transcoders"), dtype=torch.float64)


@functools.cache
def graph() -> hooked.AttributionGraph:
    return hooked.attribute_graph(raw(), transcoders(), TEXT)


def gap(of: hooked.AttributionGraph) -> float:
    """How far edges and constants are from adding up to what targets read."""
    sums = of.edges.double().sum(1) + of.constants
    return ((sums - of.preactivations).abs().max() / of.preactivations.abs().max()).item()


def test_edges_and_constants_add_up_to_preactivations() -> None:
    whole = graph()
    assert whole.features == whole.active > 10 and whole.layers == 2
    assert gap(whole) < 1e-6
    assert len(whole.nodes) == whole.features + whole.errors + whole.tokens + whole.logits
    assert whole.edges.shape == (whole.features + whole.logits, whole.features + whole.errors + whole.tokens)
    assert whole.prompt_tokens[-2:] == ["bag", "to"]
    assert f"{whole.features} features" in repr(whole)
    # An active feature of a ReLU is its pre-activation.
    values = torch.tensor([node.value for node in whole.nodes[: whole.features]], dtype=torch.float64)
    assert torch.allclose(values, whole.preactivations[: whole.features].double(), atol=1e-5)
    # The logit is that of a run, minus the mean of all.
    logits = raw().run(TEXT).logits[0, -1]
    first = whole.nodes[-whole.logits]
    assert first.kind == hooked.GraphNodeKind.logit and first.id == int(logits.argmax())
    assert whole.preactivations[whole.features].item() == pytest.approx((logits[first.id] - logits.mean()).item(), 1e-6)


def test_nodes_have_rows_columns_names_and_edges() -> None:
    whole = graph()
    logit, token = len(whole.nodes) - 1, whole.features + whole.errors
    assert whole.row_of(logit) == whole.edges.shape[0] - 1 and whole.target(whole.row_of(logit)) == logit
    assert whole.column_of(token) == token
    assert whole.edge(token, logit) == pytest.approx(whole.edges[-1, token].item())
    assert hooked.node_name(whole.nodes[token]) == "token @0"
    assert hooked.node_name(hooked.GraphNode(kind="feature", layer=3, id=1024, pos=5)) == "feature 3.1024 @5"
    assert whole.nodes[0] == graph().nodes[0] != whole.nodes[1]
    with pytest.raises(hooked.ShapeError):
        whole.row_of(token)


def test_transcoders_are_a_set_a_list_or_features() -> None:
    members = transcoders().members
    for form in (members, tuple(members), hooked.GraphFeatures(members), hooked.GraphFeatures(transcoders())):
        assert torch.equal(hooked.attribute_graph(raw(), form, TEXT).edges, graph().edges)
    features = hooked.GraphFeatures(members)
    assert not features.are_neurons and len(features.transcoders) == 2 and "2 transcoders" in repr(features)
    with pytest.raises(TypeError, match="attribute_graph"):
        hooked.attribute_graph(raw(), "neurons", TEXT)  # type: ignore[arg-type]


def test_neurons_leave_no_error() -> None:
    neurons = hooked.GraphFeatures.neurons()
    assert neurons.are_neurons and neurons.transcoders == []
    exact = hooked.attribute_graph(raw(), neurons, TEXT, max_logits=2)
    assert exact.errors == 0 and exact.features > 100 and gap(exact) < 1e-6
    assert hooked.graph_scores(exact).replacement == 1 > hooked.graph_scores(graph()).replacement > 0


def test_options_are_keywords() -> None:
    mary, john = raw().to_token(" Mary"), raw().to_token(" John")
    unembed = raw().weights.W_U()
    direction = unembed[:, mary] - unembed[:, john]
    seen: list[int] = []

    def watch(now: hooked.SweepProgress) -> None:
        seen.append(now.done)

    small = hooked.attribute_graph(
        raw(),
        transcoders(),
        TEXT,
        max_features=10,
        logit_tokens=[mary],
        directions=[("Mary - John", direction)],
        watch=watch,
    )
    assert small.features == 10 < small.active and small.logits == 2 and seen
    assert [node.text for node in small.nodes[-2:]] == ["Mary", "Mary - John"]
    with pytest.raises(TypeError, match="max_featurs"):
        hooked.attribute_graph(raw(), transcoders(), TEXT, max_featurs=3)  # type: ignore[call-overload]


def test_pruned_graphs_are_smaller_and_have_paths() -> None:
    small = hooked.pruned(graph())
    assert 0 < small.features < graph().features
    assert small.features < hooked.pruned(graph(), node_share=0.95).features
    assert all(node.influence is not None for node in small.nodes[: small.features])
    scores = hooked.graph_scores(small)
    assert 0 < scores.completeness <= 1
    paths = hooked.strongest_paths(small, 5)
    assert len(paths) == 5 and paths[0].influence >= paths[4].influence > 0
    assert small.nodes[paths[0].nodes[-1]].kind == hooked.GraphNodeKind.logit
    with pytest.raises(hooked.HookError):
        hooked.pruned(graph(), node_share=2)


def test_files_hold_the_graph(tmp_path: Path) -> None:
    small = hooked.pruned(graph())
    file = tmp_path / "toy.json"
    hooked.save_graph(small, file, scan="toy", node_share=0.8)
    loaded = hooked.load_graph(file)
    assert json.loads(file.read_text())["metadata"]["scan"] == "toy"
    assert json.loads((tmp_path / "graph-metadata.json").read_text())
    assert [hooked.node_name(node) for node in loaded.nodes[: loaded.features]] == [
        hooked.node_name(node) for node in small.nodes[: small.features]
    ]
    assert loaded.edges.count_nonzero() == small.edges.count_nonzero()
    assert json.loads(hooked.graph_json(small, slug="toy", scan="toy")) == json.loads(file.read_text())
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(hooked.IoError):
        hooked.save_graph(small, other)
    hooked.save_graph(small, other, overwrite="any", add_to_list=False)
    with pytest.raises(hooked.IoError):
        hooked.require_can_save_graph(tmp_path / "graph.txt")


def test_interventions_do_what_edges_say() -> None:
    whole = graph()
    number = max(range(whole.features), key=lambda at: abs(whole.edge(at, len(whole.nodes) - whole.logits)))
    node = whole.nodes[number]
    effect = hooked.intervene(raw(), transcoders(), TEXT, whole, [(node.layer, node.pos, node.id, 0.0)])
    values = effect.preactivations.values
    assert torch.allclose(values[:, 0], whole.preactivations.double(), atol=1e-5)
    assert torch.allclose(values[:, 0] - values[:, 1], whole.edges[:, number].double(), atol=1e-5)
    change = {"layer": node.layer, "pos": node.pos, "feature": node.id, "value": 0}
    free = hooked.intervene(raw(), transcoders(), TEXT, whole, [change], "nothing")
    assert free.logits.shape == (raw().config.d_vocab,) and not torch.equal(free.logits, effect.logits)


def test_heads_carry_edges() -> None:
    whole = graph()
    token, logit = whole.features + whole.errors + 4, len(whole.nodes) - 1
    parts = hooked.edge_heads(raw(), transcoders(), TEXT, whole, [(token, logit), hooked.GraphEdge(0, logit)])
    assert [axis.name for axis in parts.axes] == ["edge", "layer", "part"]
    for number, source in enumerate((token, 0)):
        for layer in range(2):
            assert parts.values[number, layer].sum().item() == pytest.approx(whole.edge(source, logit), abs=1e-5)
