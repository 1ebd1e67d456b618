#!/usr/bin/env python3
"""Writes what fuzz targets begin with, files of the tests and what earlier runs have found (tests/fuzz/corpus), into a folder for
each target: seeds.py FOLDER"""
import json
import pathlib
import re
import struct
import sys

kTests = pathlib.Path(__file__).resolve().parents[1]
kSmallest = 40_000  # bytes: larger files make slow runs


def small(paths) -> list:
    return [path for path in sorted(paths) if path.stat().st_size <= kSmallest]


def header_of(path: pathlib.Path) -> bytes:
    """The header of a safetensors file, without its length."""
    with path.open("rb") as file:
        return file.read(struct.unpack("<Q", file.read(8))[0])


def dictionary_files() -> dict:
    """The files that dictionary_property.h has a number for, each after that number."""
    rows = re.findall(r'^    {"([^"]+)", "([^"]+)"},$', (kTests / "fuzz/dictionary_property.h").read_text(), re.MULTILINE)
    return {str(i): bytes([i]) + (kTests / "dictionaries/golden" / folder / file).read_bytes() for i, (folder, file) in enumerate(rows)}


def seeds() -> dict:
    """Target -> name -> bytes."""
    cases = kTests / "golden/cases"
    gguf = {path.name: path.read_bytes() for path in small((kTests / "golden/gguf").glob("*.gguf"))}
    texts = json.loads((kTests / "text/files/texts.json").read_text())
    tokenizers = {path.stem: json.loads(path.read_text()).get("tokenizer") for path in (kTests / "text/files").glob("*.json")
                  if path.stem != "texts"}
    vocabulary = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n##b\n"
    return {
        "safetensors": {name: b"\0" + header_of(cases / name / "model.safetensors") for name in ("gpt2_bare", "llama_nf4", "llama_gptq")},
        "gguf": gguf, "gguf_model": gguf, "gguf_tokenizer": gguf,
        "zip_checkpoint": {path.name: b"\1" + path.read_bytes() for path in small((kTests / "io/files").glob("*.pt"))},
        "chat_template": {path.name: path.read_bytes() for path in (kTests / "text/chat/templates").glob("*.jinja")},
        "tokenizer_json": {name: text for name, document in tokenizers.items()
                           if document and len(text := json.dumps(document, ensure_ascii=False).encode()) <= kSmallest},
        "encode": {str(i): bytes([i % 256]) + text.encode() for i, text in enumerate(texts)},
        "dictionary": dictionary_files(),
        "tokenizer_files": {"vocab": b"\3" + vocabulary.encode(), "ranks": b"\1YQ== 0\nYg== 1\nYWI= 2\n"},
    }


def main() -> None:
    targets = seeds()
    for path in sorted((kTests / "fuzz/corpus").glob("*/*")):
        targets.setdefault(path.parent.name, {})[path.name] = path.read_bytes()
    for target, files in targets.items():
        folder = pathlib.Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / f"seed_{name}").write_bytes(content)


if __name__ == "__main__":
    main()
