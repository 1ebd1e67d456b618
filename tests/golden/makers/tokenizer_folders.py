"""Makes the golden files in tests/text/files/folders: tokenizers that are not a tokenizer.json, and what the packages that
read them give for hard texts.

    python tests/golden/make.py tokenizer-folders [--wide FOLDER]

One file per folder: the files it holds, tiny and trained here, and for every text of texts.json the ids and the decoded
text by sentencepiece, tiktoken, mistral_common or transformers. `plain` are the ids of the text alone, with nothing in it
taken for a special token; `special` those with special tokens found and put around it, where the oracle does that. With
--wide nothing is written into the tree: the same over many random texts, and with SentencePiece's whole charsmap, goes to
the folder given, for a comparison by hand.
"""

import base64
import io
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece
import tiktoken
import transformers
from sentencepiece import sentencepiece_model_pb2
from tiktoken_ext import openai_public
from tokenizers import normalizers

from . import tokenizer_families, tokenizer_texts
from .tokenizers import kFolder, random_texts, write_json

kTekkenWords = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
                r"\s*[\r\n]+|\s+(?!\S)|\s+")


def train(**options) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(tokenizer_texts.kTraining), model_writer=model, minloglevel=2,
                                             hard_vocab_limit=False, num_threads=1, **options)
    return model.getvalue()


def with_unused(model: bytes, every: int) -> bytes:
    """The same model with some of its pieces marked as unused."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    normal = [piece for piece in proto.pieces if piece.type == piece.NORMAL and len(piece.piece) > 1]
    for piece in normal[::every]:
        piece.type = piece.UNUSED
    return proto.SerializeToString()


def with_equal_scores(model: bytes) -> bytes:
    """The same model with few different scores, so that ties decide."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    for piece in proto.pieces:
        if piece.type == piece.NORMAL:
            piece.score = round(piece.score / 40)
    return proto.SerializeToString()


def with_plain_blanks(model: bytes) -> bytes:
    """The same model for blanks that are not escaped."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.escape_whitespaces = False
    for piece in proto.pieces:
        piece.piece = piece.piece.replace("\u2581", " ")
    return proto.SerializeToString()


class SentencePieceOracle:
    """What the package gives."""

    def __init__(self, model: bytes):
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def row(self, text: str) -> dict:
        ids = self.processor.encode(text)
        return {"plain": ids, "decoded": self.processor.decode(ids)}

    def decodings(self, generator: random.Random) -> list:
        """Any ids, those of control and unknown pieces and parts of characters with them."""
        size = self.processor.get_piece_size()
        bytes_ = [i for i in range(size) if self.processor.is_byte(i)]
        rows = []
        for _ in range(60):
            kinds = [range(size), range(min(size, 8)), bytes_ or range(size)]
            ids = [generator.choice(generator.choice(kinds)) for _ in range(generator.randrange(1, 12))]
            rows.append([ids, self.processor.decode(ids)])
        return rows


def llama_files() -> dict:
    model = llama()
    size = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True, "legacy": False,
              "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "added_tokens_decoder": {
                  "0": added("<unk>"), "1": added("<s>"), "2": added("</s>"), str(size): added("<|im_start|>", rstrip=True),
                  str(size + 1): added("<mask>", lstrip=True)}}
    return {"tokenizer.model": model, "tokenizer_config.json": as_json(config)}


class TransformersOracle:
    def __init__(self, files: dict, columns: tuple):
        self.columns = columns
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                (pathlib.Path(folder) / name).write_bytes(content)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def row(self, text: str) -> dict:
        plain = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        special = self.tokenizer(text)["input_ids"]
        row = {"special": special, "found": plain,
               "shown": self.tokenizer.decode(special, clean_up_tokenization_spaces=False),
               "decoded": self.tokenizer.decode(special, skip_special_tokens=True, clean_up_tokenization_spaces=False)}
        return {column: row[column] for column in self.columns}


class TiktokenOracle:
    """`special`: names in the order of their ids behind the ranks, or with their ids."""

    def __init__(self, words: str, ranks: dict, special, first: int = 0, normalize=lambda text: text):
        ids = special if isinstance(special, dict) else {name: len(ranks) + i for i, name in enumerate(special)}
        self.encoding = tiktoken.Encoding("tiny", pat_str=words, mergeable_ranks=ranks, special_tokens=ids)
        self.first, self.normalize = first, normalize

    def row(self, text: str) -> dict:
        ids = self.encoding.encode_ordinary(self.normalize(text))
        row = {"plain": [self.first + i for i in ids], "decoded": self.encoding.decode(ids)}
        if self.encoding.special_tokens_set:
            row["found"] = self.encoding.encode(self.normalize(text), allowed_special="all")
        return row


class TekkenOracle:
    def __init__(self, file: bytes):
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        self.policies = SpecialTokenPolicy
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tekken.json"
            path.write_bytes(file)
            self.tokenizer = Tekkenizer.from_file(path)

    def row(self, text: str) -> dict:
        ids = self.tokenizer.encode(text, bos=False, eos=False)
        return {"plain": ids, "decoded": self.tokenizer.decode(ids, special_token_policy=self.policies.IGNORE),
                "around": self.tokenizer.encode(text, bos=True, eos=False)}


def ranks_of_gpt2(count: int) -> dict:
    """The first merges of GPT-2 as tiktoken has them: byte strings and ranks."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
    ranks = {bytes([byte]): rank for rank, byte in enumerate(printable + others)}
    for line in (kFolder / "gpt2" / "merges.txt").read_text(encoding="utf-8").splitlines()[1:count + 1]:
        joined = line.replace(" ", "")
        ranks[bytes(byte_of[c] for c in joined)] = len(ranks)
    return ranks


def tiktoken_file(ranks: dict) -> bytes:
    return b"".join(base64.b64encode(token) + b" " + str(rank).encode() + b"\n" for token, rank in ranks.items())


def tekken_file(ranks: dict) -> bytes:
    """More ranks than are used, as in Mistral's files, and fewer special tokens than there are ids for."""
    special = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
    return json.dumps({
        "config": {"pattern": kTekkenWords, "num_vocab_tokens": len(ranks), "default_vocab_size": len(ranks),
                   "default_num_special_tokens": 20, "version": "v3"},
        "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for token, rank in ranks.items()],
        "special_tokens": [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(special)]}).encode()


def openai_folders(ranks: dict) -> dict:
    """OpenAI's names for files, with the patterns and special tokens that the package has for them, and fewer ranks."""
    made, load = {}, openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = lambda *_, **__: {}
    try:
        for name in ("cl100k_base", "o200k_base"):
            known = getattr(openai_public, name)()
            made[f"{name.removesuffix('_base')}_ranks"] = ({f"{name}.tiktoken": tiktoken_file(ranks)}, TiktokenOracle(
                known["pat_str"], ranks, known["special_tokens"]))
    finally:
        openai_public.load_tiktoken_bpe = load
    return made


def as_json(value) -> bytes:
    return json.dumps(value).encode()


def added(content: str, **flags) -> dict:
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True} | flags


def llama(**options) -> bytes:
    return train(model_type="bpe", vocab_size=640, character_coverage=0.98, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                 split_digits=True, **options)


def folders(scratch: pathlib.Path, wide: bool) -> dict:
    """Name: (files, oracle)."""
    made = {}
    rules = scratch / "rules.tsv"
    tokenizer_families.small_charsmap(scratch)

    def sentencepiece_folder(name: str, model: bytes, file: str = "tokenizer.model"):
        made[name] = ({file: model}, SentencePieceOracle(model))

    sentencepiece_folder("sentencepiece_llama", llama())
    sentencepiece_folder("sentencepiece_ties", with_equal_scores(llama(user_defined_symbols=["dog", "\u2581\u2581", "<0x", "a b"])))
    sentencepiece_folder("sentencepiece_unused", with_unused(train(
        model_type="bpe", vocab_size=420, character_coverage=0.98, normalization_rule_tsv=str(rules), user_defined_symbols=["dogs", "\u00e9", "1"], control_symbols=["<ctl>"],
        unk_surface="??"), 4))
    unigram = train(model_type="unigram", vocab_size=380, normalization_rule_tsv=str(rules), pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    sentencepiece_folder("sentencepiece_t5", unigram, "spiece.model")
    sentencepiece_folder("sentencepiece_suffix", with_unused(train(
        model_type="unigram", vocab_size=600, byte_fallback=True, treat_whitespace_as_suffix=True, normalization_rule_name="identity",
        user_defined_symbols=["dog", "The quick", "\n"]), 7))
    sentencepiece_folder("sentencepiece_blanks", with_plain_blanks(train(
        model_type="unigram", vocab_size=380, normalization_rule_tsv=str(rules), add_dummy_prefix=False)))
    fairseq = train(model_type="unigram", vocab_size=380, normalization_rule_tsv=str(rules))
    if wide:
        sentencepiece_folder("sentencepiece_nfkc", train(model_type="unigram", vocab_size=380, normalization_rule_name="nmt_nfkc"))
        sentencepiece_folder("sentencepiece_nfkc_bpe", train(model_type="bpe", vocab_size=600, normalization_rule_name="nfkc_cf"))

    def transformers_folder(name: str, files: dict, columns: tuple = ("special", "found", "shown", "decoded")):
        made[name] = (files, TransformersOracle(files, columns))

    transformers_folder("llama_slow", llama_files(), ("special", "decoded"))
    transformers_folder("xlm_roberta", {"sentencepiece.bpe.model": fairseq, "tokenizer_config.json": as_json({"tokenizer_class": "XLMRobertaTokenizer"})},
                        ("special", "decoded"))
    bert = tokenizer_families.bert()
    vocab = "".join(piece + "\n" for piece, _ in sorted(bert.get_vocab().items(), key=lambda row: row[1])).encode()
    transformers_folder("bert_words", {"vocab.txt": vocab, "tokenizer_config.json": as_json({"tokenizer_class": "BertTokenizer"})})
    transformers_folder("bert_words_cased", {"vocab.txt": vocab, "tokenizer_config.json": as_json({
        "tokenizer_class": "DistilBertTokenizer", "do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}),
        "added_tokens.json": as_json({"hotdog": 420})})
    for name, family, config in [
            ("gpt2_slow", tokenizer_families.gpt2(), {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True, "pad_token": "<pad>"}),
            ("roberta_slow", tokenizer_families.roberta(), {"tokenizer_class": "RobertaTokenizer",
                                                                     "mask_token": added("<mask>", lstrip=True, __type="AddedToken")}),
            ("qwen2_slow", tokenizer_families.qwen(), {"tokenizer_class": "Qwen2Tokenizer", "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})]:
        model = json.loads(family.to_str())["model"]
        merges = "#version: 0.2\n" + "".join(" ".join(merge) + "\n" for merge in model["merges"])
        transformers_folder(name, {"vocab.json": as_json(model["vocab"]), "merges.txt": merges.encode(), "tokenizer_config.json": as_json(config)})

    ranks = ranks_of_gpt2(600)
    llama3 = (["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(4)] +
              ["<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_4|>", "<|eot_id|>"] +
              [f"<|reserved_special_token_{i}|>" for i in range(5, 251)])
    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
    made["llama3_ranks"] = ({"tokenizer.model": tiktoken_file(ranks)}, TiktokenOracle(
        tokenizer_families.kGpt4Words, ranks, llama3))
    made["qwen_ranks"] = ({"qwen.tiktoken": tiktoken_file(ranks)}, TiktokenOracle(
        tokenizer_families.kQwenWords, ranks, qwen, normalize=normalizers.NFC().normalize_str))
    made |= openai_folders(ranks)
    in_order = [bytes([byte]) for byte in range(256)] + [token for token in ranks if len(token) > 1]
    tekken = tekken_file({token: rank for rank, token in enumerate(in_order)})
    made["tekken"] = ({"tekken.json": tekken}, TekkenOracle(tekken))
    return made


def main(arguments: list) -> None:
    wide = arguments[:1] == ["--wide"]
    folder = pathlib.Path(arguments[1]) if wide else kFolder / "folders"
    texts = tokenizer_texts.texts() + (random_texts(3000) if wide else [])
    folder.mkdir(parents=True, exist_ok=True)
    if wide:
        write_json(folder / "texts.json", texts)
    with tempfile.TemporaryDirectory() as scratch:
        made = folders(pathlib.Path(scratch), wide)
    for name, (files, oracle) in made.items():
        rows = [oracle.row(text) for text in texts]
        for row, text in zip(rows, texts):
            if row["decoded"] == text:
                del row["decoded"]
        golden = {"files": {file: base64.b64encode(content).decode() for file, content in files.items()},
                  "before": getattr(oracle, "before", []), "behind": getattr(oracle, "behind", []),
                  "decodings": oracle.decodings(random.Random(3)) if hasattr(oracle, "decodings") else [],
                  "columns": sorted({key for row in rows for key in row}), "expected": rows}
        write_json(folder / f"{name}.json", golden)
    total = sum(file.stat().st_size for file in folder.glob("*.json"))
    print(f"{len(made)} folders, {len(texts)} texts, {total / 1e6:.2f} MB", file=sys.stderr)
