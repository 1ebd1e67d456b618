"""Harvests: contexts as SAELens packs them, rows as runs have them, stores that plain safetensors reads and SAELens trains from."""

import json
import os
import signal
import subprocess
import sys
import time
import types
import zlib
from pathlib import Path
from typing import Any

import hooked
import numpy as np
import pytest
import torch
from conftest import ROOT, TOY_MODEL
from safetensors.numpy import load_file

NAME = "blocks.1.hook_resid_post"
PACKED = {"length": 8, "packing": "packed"}


def documents(seed: int, count: int = 60, vocabulary: int = 11) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, vocabulary, draw.integers(0, 20)).tolist() for _ in range(count)]


def corpus_file(folder: Path, content: list[Any]) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": one}) + "\n" for one in content))
    return path


def contexts_of(model: hooked.HookedTransformer, corpus: Any, contexts: dict[str, Any]) -> list[list[int]]:
    stream = hooked.harvest(model, corpus, names="blocks.0.hook_resid_pre", contexts=contexts)
    return [row for rows in stream for row in rows.tokens.reshape(-1, contexts["length"]).tolist()]


@pytest.mark.parametrize(
    ("begin_context", "begin_document", "separator"),
    [(-1, -1, -1), (0, -1, 0), (0, -1, 3), (-1, 4, -1), (0, 4, 3), (4, 4, 4), (0, 4, 4), (4, 3, 4), (3, 4, 0)],
)
def test_contexts_are_packed_as_sae_lens_packs_them(
    tiny: hooked.HookedTransformer, sae_lens: types.ModuleType, begin_context: int, begin_document: int, separator: int
) -> None:
    from sae_lens.tokenization_and_batching import concat_and_batch_sequences

    for seed in range(8):
        for length in (3, 5, 16):
            texts = [ids for ids in documents(seed) if ids]
            tokens = [None if token < 0 else token for token in (begin_context, begin_document, separator)]
            theirs = [row.tolist() for row in concat_and_batch_sequences(map(torch.tensor, texts), length, *tokens)]
            options = dict(begin_context=begin_context, begin_document=begin_document, separator=separator)
            assert contexts_of(tiny, texts, {"length": length, "packing": "packed", **options}) == theirs


def test_texts_are_packed_as_sae_lens_packs_them(model: hooked.HookedTransformer, sae_lens: types.ModuleType) -> None:
    from sae_lens.tokenization_and_batching import concat_and_batch_sequences

    lines = [json.loads(line)["clean"] for line in (ROOT / "examples/pairs.jsonl").read_text().splitlines()] * 5
    bos = model.tokens_around().before[0]
    ids = [model.to_tokens(line, prepend_bos="no")[0].cpu() for line in lines]
    theirs = [row.tolist() for row in concat_and_batch_sequences(iter(ids), 16, bos, None, bos)]
    assert contexts_of(model, lines, {"length": 16}) == theirs and len(theirs) > 10


def test_every_form_of_a_corpus_gives_the_same_rows(tiny: hooked.HookedTransformer, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    parquet = pytest.importorskip("pyarrow.parquet")
    content = [ids for ids in documents(1) if ids]
    table = datasets.Dataset.from_dict({"input_ids": content, "other": [0] * len(content)})
    table.save_to_disk(str(tmp_path / "saved"))
    (tmp_path / "tables").mkdir()
    for part, rows in enumerate((slice(0, 20), slice(20, None))):
        parquet.write_table(table.data.table.slice(rows.start, len(content[rows])), tmp_path / "tables" / f"{part}.parquet", row_group_size=7)
    forms = [
        corpus_file(tmp_path, content),
        content,
        [torch.tensor(ids) for ids in content],
        table,
        tmp_path / "saved",
        tmp_path / "tables",
        hooked.Corpus.of_reader(lambda begin, end: content[begin:end], len(content), "mine"),
    ]
    expected = contexts_of(tiny, forms[0], PACKED)
    assert len(expected) > 20
    for form in forms[1:]:
        assert contexts_of(tiny, form, PACKED) == expected
    with pytest.raises(ValueError, match="column 'nothing' is missing.*input_ids"):
        hooked.as_corpus(table, field="nothing")
    with pytest.raises(hooked.CheckpointError, match="hooked.harvest"):
        hooked.Corpus.open(tmp_path / "tables")


def test_rows_are_those_of_runs_and_open_without_hooked(tiny: hooked.HookedTransformer, tmp_path: Path) -> None:
    store = tmp_path / "acts"
    names = [NAME, "blocks.0.attn.hook_z"]
    summary = hooked.harvest(tiny, documents(2), out=store, names=names, contexts={**PACKED, "begin_context": 0}, unit_tokens=4096, shard_bytes=20_000)
    assert isinstance(summary, hooked.HarvestSummary) and summary.status.complete() and summary.status.joined
    manifest = json.loads((store / "manifest.json").read_text())
    shards = [shard for unit in manifest["units"] for shard in unit["shards"]]
    assert len(shards) == summary.status.shards > 1
    for shard in shards:
        content = (store / shard["file"]).read_bytes()
        assert len(content) == shard["bytes"] and zlib.crc32(content) == shard["crc32"]
    tensors = [load_file(store / shard["file"]) for shard in shards]
    whole = {key: np.concatenate([each[key] for each in tensors]) for key in tensors[0]}
    tokens = torch.from_numpy(whole["tokens"]).long().reshape(-1, 8)
    cache = tiny.run(tokens, capture=names).cache
    for name in names:
        assert torch.allclose(torch.from_numpy(whole[name]), cache[name].flatten(0, 1), atol=1e-12)
    content = documents(2)
    for token, document, offset in zip(whole["tokens"], whole["documents"], whole["offsets"], strict=True):
        assert offset == -1 or content[document][offset] == token
    assert [(each["name"], each["shape"], each["dtype"]) for each in manifest["activations"]] == [
        ("blocks.0.attn.hook_z", [2, 4], "float64"),
        (NAME, [8], "float64"),
    ]
    opened = hooked.ActivationStore.open(store)
    assert len(opened) == len(tokens) * 8
    assert torch.equal(opened.rows_at(torch.tensor([5, 1])).activations[NAME], torch.from_numpy(whole[NAME][[5, 1]]))
    seen = sorted(row for batch in opened.minibatches(rows=10, seed=3) for row in zip(batch.documents.tolist(), batch.offsets.tolist(), strict=True))
    assert seen == sorted(zip(whole["documents"].tolist(), whole["offsets"].tolist(), strict=True))


def test_what_ends_a_harvest_leaves_whole_units(tiny: hooked.HookedTransformer, tmp_path: Path) -> None:
    corpus = corpus_file(tmp_path, documents(3))
    options: dict[str, Any] = dict(names=NAME, contexts=PACKED, batch_tokens=8, unit_tokens=64)
    hooked.harvest(tiny, corpus, out=tmp_path / "whole", **options)
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    left = 6

    def ends(progress: hooked.HarvestProgress) -> bool:
        nonlocal left
        left -= 1
        if left == 3:
            raise ZeroDivisionError("mine")
        return left > 0

    with pytest.raises(ZeroDivisionError, match="mine"):
        hooked.harvest(tiny, corpus, out=tmp_path / "acts", progress=ends, **options)
    left = 2
    early = hooked.harvest(tiny, corpus, out=tmp_path / "acts", progress=ends, **options)
    assert isinstance(early, hooked.HarvestSummary) and early.ended_early and early.status.missing
    hooked.harvest(tiny, corpus, out=tmp_path / "acts", **options)
    assert {path.name: path.read_bytes() for path in (tmp_path / "acts").iterdir()} == files


def test_a_stream_may_be_left(tiny: hooked.HookedTransformer) -> None:
    """Its thread, which reads documents from Python, ends with it."""
    for _ in range(20):
        content = documents(4, 3000)
        stream = hooked.harvest(tiny, hooked.Corpus.of_reader(lambda begin, end: content[begin:end], 3000, ""), names=NAME, contexts=PACKED)
        next(iter(stream))
        del stream


def test_errors_of_documents_keep_their_type(tiny: hooked.HookedTransformer) -> None:
    def reader(begin: int, end: int) -> list[list[int]]:
        if begin > 100:
            raise KeyError("gone")
        return [[1, 2, 3]] * (end - begin)

    with pytest.raises(KeyError, match="gone"):
        for _ in hooked.harvest(tiny, hooked.Corpus.of_reader(reader, 1000, ""), names=NAME, contexts=PACKED):
            pass
    with pytest.raises(TypeError, match="unit_tokens.*expected out="):
        hooked.harvest(tiny, [[1]], names=NAME, unit_tokens=3)
    with pytest.raises(TypeError, match="nothing"):
        hooked.harvest(tiny, [[1]], names=NAME, nothing=3)


def test_moments_and_examples(model: hooked.HookedTransformer, tmp_path: Path) -> None:
    lines = [json.loads(line)["clean"] for line in (ROOT / "examples/pairs.jsonl").read_text().splitlines()]
    hooked.harvest(model, lines, out=tmp_path / "moments", names=NAME, contexts={"length": 16}, reduce={"moments": True})
    rows = torch.cat([rows.activations[NAME] for rows in hooked.harvest(model, lines, names=NAME, contexts={"length": 16})])
    found = hooked.ActivationMoments.load(tmp_path / "moments")[NAME]
    assert np.allclose(found.covariance(), np.cov(rows.double().numpy().T, bias=True), atol=1e-9)
    raw = hooked.HookedTransformer.load(str(TOY_MODEL), processing=hooked.WeightProcessing.none())
    spliced = raw.with_dictionary(hooked.Dictionary.load(str(ROOT / "examples/toy_sae")))
    codes = next(name for name in map(str, spliced.names) if name.endswith("hook_sae_acts_post"))
    hooked.harvest(spliced, lines, out=tmp_path / "examples", names=codes, contexts={"length": 16}, reduce={"examples": 2})
    examples = hooked.FeatureExamples.load(tmp_path / "examples")[codes]
    rows = torch.cat([rows.activations[codes] for rows in hooked.harvest(spliced, lines, names=codes, contexts={"length": 16})])
    assert torch.equal(examples.values[:, 0], rows.max(0).values) and torch.equal(examples.fired, (rows != 0).sum(0))


def test_sae_lens_trains_from_a_store(sae_lens: types.ModuleType, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    transformer_lens = pytest.importorskip("transformer_lens")
    model = hooked.HookedTransformer.load(str(TOY_MODEL), processing=hooked.WeightProcessing.none())
    lines = [json.loads(line)["clean"] for line in (ROOT / "examples/pairs.jsonl").read_text().splitlines()] * 20
    hooked.harvest(model, lines, out=tmp_path / "acts", names=NAME, contexts={"length": 16})
    dataset = hooked.to_dataset(tmp_path / "acts", tmp_path / "dataset")
    assert dataset.column_names == [NAME, "token_ids"] and len(dataset) == hooked.store_status(tmp_path / "acts").contexts
    first = model.run(torch.tensor(dataset[:2]["token_ids"]), capture=NAME).cache[NAME]
    assert torch.allclose(torch.tensor(dataset[:2][NAME]), first, atol=1e-5)

    cfg = transformer_lens.HookedTransformerConfig(n_layers=2, d_model=128, n_ctx=64, d_head=32, n_heads=4, d_vocab=model.config.d_vocab, act_fn="gelu")
    runner = sae_lens.LanguageModelSAETrainingRunner(
        sae_lens.LanguageModelSAERunnerConfig(
            sae=sae_lens.StandardTrainingSAEConfig(d_in=128, d_sae=256, l1_coefficient=1e-3, normalize_activations="none"),
            model_name="none",
            hook_name=NAME,
            dataset_path="none",
            is_dataset_tokenized=True,
            streaming=False,
            context_size=16,
            prepend_bos=True,
            use_cached_activations=True,
            cached_activations_path=str(tmp_path / "dataset"),
            store_batch_size_prompts=4,
            n_batches_in_buffer=4,
            train_batch_size_tokens=64,
            training_tokens=64 * 50,
            n_eval_batches=0,
            n_checkpoints=0,
            logger=sae_lens.LoggingConfig(log_to_wandb=False),
            output_path=str(tmp_path / "sae"),
            device="cpu",
        ),
        override_dataset=datasets.Dataset.from_dict({"input_ids": dataset["token_ids"]}),
        override_model=transformer_lens.HookedTransformer(cfg),
    )
    before = runner.sae.W_dec.detach().clone()
    trained = runner.run()
    assert not torch.equal(trained.W_dec, before)
    held = torch.tensor(dataset[:8][NAME]).reshape(-1, 128)
    assert (trained(held) - held).square().mean() < 0.5 * held.square().mean()


def test_a_store_that_is_not_whole_is_no_dataset(tiny: hooked.HookedTransformer, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    hooked.harvest(tiny, documents(5), out=tmp_path / "acts", names=[NAME, "hook_embed"], contexts=PACKED, rows={"skip_first": 1})
    with pytest.raises(KeyError, match="hook_embed, " + NAME):
        hooked.to_dataset(tmp_path / "acts", tmp_path / "dataset")
    with pytest.raises(ValueError, match="not whole"):
        hooked.to_dataset(tmp_path / "acts", tmp_path / "dataset", NAME)


def test_kills_lose_nothing(tmp_path: Path) -> None:
    """The process is killed at random moments until it has finished: the bytes are those of an unbroken run."""
    corpus = corpus_file(tmp_path, documents(6, 400, 300))
    program = (
        "import sys, time, hooked\n"
        f"model = hooked.HookedTransformer.load({str(TOY_MODEL)!r})\n"
        "print('ready', flush=True)\n"
        f"hooked.harvest(model, {str(corpus)!r}, out=sys.argv[1], names='resid_post', contexts={{'length': 16, 'packing': 'packed'}}, "
        "unit_tokens=800, shard_bytes=60_000, batch_tokens=128, threads=1, progress=False)\n"
        "print('done', flush=True)\n"
    )

    def start(out: Path) -> "subprocess.Popen[str]":
        process = subprocess.Popen([sys.executable, "-c", program, str(out)], stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_WAIT_POLICY": "passive"})
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    def bytes_in(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    began = time.monotonic()
    with start(tmp_path / "whole") as process:
        assert process.wait() == 0
    duration = time.monotonic() - began
    expected = bytes_in(tmp_path / "whole")
    assert len(expected) > 30
    draw = np.random.default_rng(int.from_bytes(os.urandom(4)))
    kills = int(os.environ.get("HOOKED_KILLS", "4"))
    done = 0
    while done < kills:
        out = tmp_path / f"acts{done}"
        while True:
            with start(out) as process:
                try:
                    process.wait(draw.uniform(0, duration / 3))
                    assert process.returncode == 0
                    break
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    done += 1
        assert bytes_in(out) == expected
