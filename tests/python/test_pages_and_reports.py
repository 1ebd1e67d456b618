"""Pages and reports from Python: the same as C++'s, shown in notebooks, and the code inside them runs."""

import copy
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import hooked

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "When John and Mary went to the shop, John gave a bag to"
OTHER = "When John and Mary went to the shop, Mary gave a bag to"


@pytest.fixture(scope="module")
def toy() -> hooked.HookedTransformer:
    return hooked.HookedTransformer.load(str(ROOT / "examples/toy_model"))


def data_of(page: hooked.Page) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html(), re.S)
    assert found
    return json.loads(found[1])


def test_a_report_is_a_page(toy: hooked.HookedTransformer, tmp_path: Path) -> None:
    page = hooked.report(toy, PROMPT, corrupted=OTHER, answers=[" Mary"], against=[" John"], title="Names")
    assert page.sections()[-1] == "Activation patching"
    data = data_of(page)
    assert data["title"] == "Names"
    assert [data["pieces"][str(id)] for id in data["tokens"]][-1] == "to"
    page.save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == page.html()
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(hooked.IoError):
        page.save(tmp_path / "mine.html")
    page.save(tmp_path / "mine.html", overwrite="any")


def test_code_of_sections_runs(toy: hooked.HookedTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    sae = hooked.Dictionary.load("examples/toy_sae")
    model = hooked.HookedTransformer.load("examples/toy_model", without=hooked.steps_that_change(sae))
    transcoders = hooked.DictionarySet.load("examples/toy_transcoders")
    spliced = model.with_dictionary(sae, with_error=True)
    examples = tmp_path / "examples"
    codes = "blocks.0.hook_resid_post.hook_sae_acts_post"
    hooked.harvest(spliced, [PROMPT, OTHER], out=examples, names=codes, reduce={"examples": 3}, contexts={"length": 7})
    page = hooked.report(
        spliced,
        PROMPT,
        model_name="examples/toy_model",
        corrupted=OTHER,
        answers=[" Mary"],
        against=[" John"],
        graph=hooked.GraphFeatures.neurons(),
        examples=[examples, examples],
    )
    sections = data_of(page)["sections"]
    assert len(sections) == 8
    for section in sections:
        code = section["code"]["python"]
        names: dict[str, Any] = {"hooked": hooked, "torch": torch, "dictionary": sae, "transcoders": transcoders}
        exec(compile(code, section["title"], "exec"), names)
        for part in section["parts"]:
            if part["kind"] == "features":
                found = names["examples"]
                assert section["code"]["cpp"].count("const auto examples = ") == 1
                assert part["rows"] == found.rows
                for feature in part["features"]:
                    assert feature["fired"] == found.fired[int(feature["name"])].item()
                    assert [each["value"] for each in feature["examples"]] == pytest.approx(
                        [x for x in found.values[int(feature["name"])].tolist() if x], rel=1e-4
                    )
    with pytest.raises(hooked.HookError, match="no dictionary of the model"):
        hooked.report(model, PROMPT, examples=[examples])
    raw = hooked.HookedTransformer.load("examples/toy_model", processing=hooked.WeightProcessing.none())
    with pytest.raises(hooked.HookError, match="another model"):
        hooked.report(raw.with_dictionary(sae), PROMPT, examples=[examples])
    weights = copy.copy(sae.weights)
    weights.W_dec = weights.W_dec * 2
    changed = hooked.Dictionary(sae.config, weights)
    with pytest.raises(hooked.HookError, match="another dictionary"):
        hooked.report(model.with_dictionary(changed), PROMPT, examples=[examples])


def test_a_page_of_ones_own(toy: hooked.HookedTransformer) -> None:
    run = toy.run_with_cache(PROMPT)
    page = hooked.Page(toy, run.cache, title="Mine")
    page.begin(hooked.PageSection(title="Attention", code={"python": "..."}))
    page.add_attention(run.cache)
    page.begin({"title": "Parts"})
    parts = hooked.direct_logit_attribution(toy, run.cache, answer=" Mary").mean("row").mean("pos")
    page.add_bars(parts)
    page.add_heat_map(parts)
    page.add_lens(hooked.logit_lens(toy, run.cache, positions=[]))
    page.add_next(run.logits, top_k=2)
    page.add_text("text")
    page.add_note("note")
    page.add_picture(hooked.line_plot_svg(parts))
    data = data_of(page)
    assert [len(section["parts"]) for section in data["sections"]] == [1, 6]
    assert data["sections"][0]["code"] == {"python": "..."}
    assert data["sections"][1]["parts"][0]["svg"] == hooked.bar_plot_svg(parts)
    assert len(data["sections"][1]["parts"][3]["top"][0]) == 2
    frame = page._repr_html_()
    shown = re.search(r'srcdoc="(.*?)"', frame, re.S)
    assert shown and html.unescape(shown[1]) == page.html()
    assert repr(page) == "Page of 2 sections"
    with pytest.raises(hooked.ConfigError):
        page.add_picture("<svg/>")


def test_features(toy: hooked.HookedTransformer) -> None:
    sae = hooked.Dictionary.load(str(ROOT / "examples/toy_sae"))
    model = hooked.HookedTransformer.load(str(ROOT / "examples/toy_model"), without=hooked.steps_that_change(sae))
    spliced = model.with_dictionary(sae, with_error=True)
    run = spliced.run_with_cache(PROMPT, hooked.act.sae_acts_post)
    page = hooked.Page(spliced, run.cache)
    place = "blocks.0.hook_resid_post.hook_sae_acts_post"
    page.add_features(run.cache, place, count=3, top_k=2)
    features = data_of(page)["sections"][0]["parts"][0]["features"]
    assert [f["name"] for f in features] == [str(f.feature) for f in hooked.firing_features(run.cache, place, count=3)]
    assert all(len(f["raises"]) == 2 for f in features)


def test_links(toy: hooked.HookedTransformer) -> None:
    graph = hooked.pruned(hooked.attribute_graph(toy, hooked.GraphFeatures.neurons(), PROMPT))
    figure = hooked.node_links(graph, 10)
    assert len(figure.links) == 10
    assert figure._repr_svg_() == hooked.node_link_svg(figure)
    circuit = hooked.Circuit.of_edges(toy, [hooked.CircuitEdge(writer="head 0.1", reader="head 1.2 q")])
    scores = hooked.Grid(
        torch.tensor([[2.0]]),
        [hooked.GridAxis(name="writer", labels=["head 0.1"]), hooked.GridAxis(name="reader", labels=["head 1.2 q"])],
        title="t",
        unit="u",
    )
    assert hooked.node_links(circuit, scores).links[0].weight == 2.0


def test_the_progress_ends_it(toy: hooked.HookedTransformer) -> None:
    page = hooked.report(toy, PROMPT, progress=lambda done: False)
    assert page.sections() == []
    assert "ended early" in data_of(page)["notes"][0]
