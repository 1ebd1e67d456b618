"""Texts and tokens, chat, generated text as an iterator, files, downloading."""

import json
import sys
import threading
import types
from pathlib import Path

import hooked
import pytest
import torch
from hooked import HookedTransformer

PROMPT = "When John and Mary went to the shop"
CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.mood %} ({{ m.mood }}){% endif %}{{ '\\n' }}{% endfor %}{{ style }}"


def test_tokens_of_texts(model: HookedTransformer) -> None:
    ids = model.to_tokens(PROMPT)
    assert ids.dtype == torch.int64 and ids.shape[0] == 1
    assert model.to_str_tokens(ids)[:3] == ["<bos>", "When", " John"] or model.to_str_tokens(ids)[0] == "<bos>"
    assert model.to_string(ids[0, 1:]) == PROMPT
    assert model.to_tokens(PROMPT, prepend_bos="no").equal(ids[:, 1:])
    assert model.to_token(" Mary") in ids[0].tolist()
    batch = model.to_token_batch(["When John", PROMPT], padding_side="left")
    assert batch.attention_mask[0].tolist()[-1] and not batch.attention_mask[0].tolist()[0]
    around = model.tokens_around()
    assert around.before == [ids[0, 0].item()] and "tokenizer" in around.why
    pieces = model.to_pieces(PROMPT)
    assert [piece.id for piece in pieces] == ids[0].tolist()
    begin, end = pieces[2].span
    assert PROMPT[begin:end].strip() == pieces[2].text.strip()
    with pytest.raises(hooked.TokenizerError):
        model.to_token(" Mary went")


def test_the_tokenizer(model: HookedTransformer) -> None:
    tokenizer = model.tokenizer
    assert model.has_tokenizer and tokenizer.vocab_size <= model.config.d_vocab
    encoding = tokenizer.encode(PROMPT, add_special_tokens=True)
    assert encoding.ids == model.to_tokens(PROMPT)[0].tolist()
    assert tokenizer.decode(encoding.ids, skip_special_tokens=True) == PROMPT
    assert [e.ids for e in tokenizer.encode_batch([PROMPT, "When"], threads=2)] == [
        tokenizer.encode(PROMPT).ids,
        tokenizer.encode("When").ids,
    ]
    assert isinstance(tokenizer.decoded_piece(encoding.ids[1]), bytes)


def test_chat(model: HookedTransformer) -> None:
    tokenizer = model.tokenizer.with_chat_template(CHAT)
    messages = [{"role": "user", "content": "went", "mood": "glad"}, hooked.ChatMessage(role="x", content="to")]
    text = tokenizer.chat_text(messages, variables={"style": 3})
    assert text == "user: went (glad)\nx: to\n3"
    assert tokenizer.chat_text(messages, variables=[("style", "3")]) == text
    with pytest.raises(TypeError, match=r"\[tool\] chat_text has no such option"):
        tokenizer.chat_text(messages, tool=[])  # type: ignore[call-arg]
    with pytest.raises(hooked.TokenizerError):
        model.to_chat_tokens(messages)  # the toy model has no template


def test_text_as_an_iterator(model: HookedTransformer) -> None:
    whole = model.generate(PROMPT, max_new_tokens=12, sampling={"seed": 5})
    stream = model.generate_text(PROMPT, max_new_tokens=12, sampling={"seed": 5})
    pieces = list(stream)
    assert "".join(pieces) == whole.texts[0] and len(pieces) > 3
    assert torch.equal(stream.result.tokens, whole.tokens)
    assert torch.equal(model.generate_text(PROMPT, max_new_tokens=12, sampling={"seed": 5}).result.tokens, whole.tokens)


def test_closing_the_iterator_ends_the_generation(model: HookedTransformer) -> None:
    threads = threading.active_count()
    steps: list[int] = []
    stream = model.generate_text("When", max_new_tokens=50, stop={"tokens": []}, hooks=("z1", lambda z: steps.append(1)))
    next(stream)
    stream.close()
    assert len(steps) < 40 and threading.active_count() == threads
    assert list(stream) == []
    with model.generate_text("When", max_new_tokens=50, stop={"tokens": []}) as stream:
        for _ in stream:
            break
    assert threading.active_count() == threads


def test_what_a_hook_throws_is_raised_by_the_iterator(model: HookedTransformer) -> None:
    def fails(z: torch.Tensor) -> None:
        raise ValueError("in a hook")

    stream = model.generate_text(PROMPT, hooks=("z1", fails))
    with pytest.raises(ValueError, match="in a hook"):
        list(stream)
    with pytest.raises(hooked.ShapeError, match="max_new_tokens"):
        list(model.generate_text(PROMPT, max_new_tokens=1000))
    with pytest.raises(TypeError, match=r"\[on_text\]"):
        model.generate_text(PROMPT, on_text=print)


def test_the_iterator_keeps_the_hooks_that_were_attached(model: HookedTransformer) -> None:
    with model.hook("resid_post1", lambda stream: stream * 0):
        inside = model.generate_text(PROMPT, max_new_tokens=4, sampling={"greedy": True})
    outside = model.generate_text(PROMPT, max_new_tokens=4, sampling={"greedy": True})
    assert inside.result.texts != outside.result.texts


def test_saving(model: HookedTransformer, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    folder = tmp_path / "saved"
    model.save(folder, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1]
    again = HookedTransformer.load(str(folder))
    assert torch.equal(again(PROMPT), model(PROMPT)) and again.identity == model.identity
    with pytest.raises(hooked.IoError):
        HookedTransformer.require_can_save(str(folder), folder)
    assert hooked.describe(str(folder)).config == again.config
    assert hooked.outline(str(folder)).parameters == hooked.describe(str(folder)).parameters
    assert hooked.load_tokenizer(str(folder)).encode("When").ids == model.tokenizer.encode("When").ids


def test_files_of_tensors(model: HookedTransformer, tmp_path: Path) -> None:
    run = model.run_with_cache(PROMPT, "resid_post")
    file = tmp_path / "run.safetensors"
    run.cache.save(file, provenance=model.provenance, beside=[hooked.TensorBeside("logits", run.logits)])
    opened = hooked.SafetensorsFile.open(file)
    assert torch.equal(opened.read("logits"), run.logits)
    assert hooked.read_provenance(opened).fingerprint == model.identity.fingerprint
    assert hooked.read_axes(opened)["blocks.0.hook_resid_post"] == ["batch", "pos", "d_model"]
    assert torch.equal(hooked.ActivationCache.load(file)["resid_post1"], run.cache["resid_post1"])
    assert {info.name for info in opened.tensors} == set(hooked.load_safetensors(file))
    hooked.save_safetensors(tmp_path / "own.safetensors", {"a": torch.arange(3)}, metadata={"by": "us"})
    assert hooked.SafetensorsFile.open(tmp_path / "own.safetensors").metadata["by"] == "us"


def test_a_model_that_is_not_there_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(hooked.CheckpointError, match="hf download some/model"):
        HookedTransformer.load("some/model")
    assert hooked.hub_cache().path == tmp_path and hooked.cached_models() == []


def test_downloading(model: HookedTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    asked: list[tuple[str, str | None]] = []

    class HfApi:
        def list_repo_files(self, name: str, revision: str | None = None) -> list[str]:
            return ["config.json", "model.safetensors", "pytorch_model.bin"]

    def snapshot_download(name: str, *, revision: str | None, cache_dir: Path, ignore_patterns: list[str]) -> None:
        asked.append((name, revision))
        assert "*.bin" in ignore_patterns and cache_dir == tmp_path
        folder = tmp_path / f"models--{name.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / (revision or "main")).write_text("c0ffee")
        _save(model, folder / "snapshots" / "c0ffee")

    hub = types.SimpleNamespace(HfApi=HfApi, snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    fetched = HookedTransformer.load("some/model", download=True)
    assert asked == [("some/model", None)] and torch.equal(fetched(PROMPT), model(PROMPT))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub.*hf download other/model"):
        HookedTransformer.load("other/model@v1", download=True)


def _save(model: HookedTransformer, folder: Path) -> None:
    """The engine does not write into a hub cache, so this copies."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        model.save(Path(made) / "model")
        shutil.copytree(Path(made) / "model", folder)
    assert json.loads((folder / "config.json").read_text())
