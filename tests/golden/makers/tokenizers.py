"""Makes the golden files in tests/text/files: what the PyPI package `tokenizers` gives for hard texts.

    python tests/golden/make.py tokenizers [--wide FOLDER]

One file per family: a tiny tokenizer with that family's pipeline (tokenizer_families.py), trained here, and the
expected ids, offsets and decoded texts for texts.json (tokenizer_texts.py). The file gpt2_pair.json has the
expectations for GPT-2's own vocabulary, which the tests build from gpt2/merges.txt. With --wide nothing is written: the
same files, over many random texts and with the full charsmap of SentencePiece besides, go to the folder given, for a
comparison by hand.
"""

import json
import pathlib
import random
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from . import tokenizer_families, tokenizer_texts
from .case_files import kRoot

kFolder = kRoot / "tests" / "text" / "files"


def byte_lengths(text: str, offsets: list) -> list:
    """The lengths, in bytes of UTF-8, of pieces whose offsets are in characters. Each piece begins where the one before it
    ends; [n] stands before one that begins n bytes after that."""
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    lengths, reached = [], 0
    for begin, end in offsets:
        lengths += [[at[begin] - reached]] * (at[begin] != reached) + [at[end] - at[begin]]
        reached = at[end]
    return lengths


def expectations(tokenizer: Tokenizer, text: str, surround: tuple) -> list:
    """[ids, lengths of the pieces, decoded, decoded without special tokens] of a text. The decoded texts are those of the ids with special
    tokens; null stands for the text itself, and for the one before."""
    plain = tokenizer.encode(text, add_special_tokens=False)
    special = tokenizer.encode(text, add_special_tokens=True)
    before, behind = surround
    assert special.ids == before + plain.ids + behind, text
    assert special.offsets == [(0, 0)] * len(before) + plain.offsets + [(0, 0)] * len(behind), text
    decoded = tokenizer.decode(special.ids, skip_special_tokens=False)
    skipped = tokenizer.decode(special.ids, skip_special_tokens=True)
    return [plain.ids, byte_lengths(text, plain.offsets), None if decoded == text else decoded,
            None if skipped == decoded else skipped]


def surrounding(tokenizer: Tokenizer) -> tuple:
    """The special tokens that are put before and behind a text."""
    text = "dog"
    plain = tokenizer.encode(text, add_special_tokens=False).ids
    special = tokenizer.encode(text, add_special_tokens=True).ids
    begin = next(i for i in range(len(special)) if special[i:i + len(plain)] == plain)
    return special[:begin], special[begin + len(plain):]


def write_json(path: pathlib.Path, value) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def gpt2_pair() -> Tokenizer:
    """GPT-2's own tokenizer: its vocabulary follows from its merges."""
    lines = (kFolder / "gpt2" / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = [chr(byte) for byte in printable] + [chr(0x100 + i) for i in range(256 - len(printable))]
    vocabulary = {piece: i for i, piece in enumerate(alphabet + [a + b for a, b in merges] + ["<|endoftext|>"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def random_texts(count: int) -> list:
    generator = random.Random(11)
    # Characters that Oniguruma of Debian 12 knows as well (docs/unicode-differences.md): those of Unicode 14.
    assert unicodedata.unidata_version == "14.0.0"
    characters = [chr(c) for c in range(1, 0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    common = "".join(tokenizer_texts.kTraining) + "".join(tokenizer_texts.kAlphabets)
    return ["".join(generator.choice(characters if generator.random() < 0.2 else common) for _ in range(generator.randrange(40)))
            for _ in range(count)]


def main(arguments: list) -> None:
    folder, texts = kFolder, tokenizer_texts.texts()
    with tempfile.TemporaryDirectory() as scratch:
        made = tokenizer_families.families(pathlib.Path(scratch))
    if arguments[:1] == ["--wide"]:
        folder = pathlib.Path(arguments[1])
        texts += random_texts(6000)
        made["t5_full"] = tokenizer_families.t5(tokenizer_families.charsmap(normalization_rule_name="nmt_nfkc"))
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "texts.json", texts)
    made["gpt2_pair"] = gpt2_pair()
    for name, tokenizer in made.items():
        document = None if name == "gpt2_pair" else json.loads(tokenizer_families.text_of(tokenizer))
        surround = surrounding(tokenizer)
        write_json(folder / f"{name}.json", {"tokenizer": document, "before": surround[0], "behind": surround[1],
                                             "expected": [expectations(tokenizer, text, surround) for text in texts]})
    total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{len(made)} families, {len(texts)} texts, {total / 1e6:.2f} MB", file=sys.stderr)
