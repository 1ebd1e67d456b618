#!/usr/bin/env python3
"""Compares hooked with the packages that it follows, on inputs that nobody chose.

    python tests/fuzz/differential.py [KIND ...] [--minutes 5] [--first 0] [--cases N]

| kind          | drawn at random                                             | compared with, by                                |
|---------------|-------------------------------------------------------------|--------------------------------------------------|
| tokenizers    | the parts and options of a tokenizer.json, and texts        | tokenizers: ids, offsets, decoded texts          |
| sentencepiece | how a small model is trained, and texts                     | sentencepiece: ids, decoded texts                |
| templates     | chat templates, conversations and variables                 | Jinja as transformers sets it up: text, refusal  |
| gguf          | small models, a type of blocks for each tensor, vocabulary  | gguf: config, pieces, each number                |
| configs       | configs of every family (fuzz_configs.py)                   | transformers: every activation in float64        |

It needs the Python package (scripts/python.sh builds it) and what tests/golden/requirements.txt lists. A case follows from its kind and
number alone: `templates --first 17 --cases 1` draws that one again. Each difference is made smaller before it is printed, as long as it
stays one. What hooked refuses is counted with its reason, because refusing is allowed where the documents say so. Fails if anything
differs.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import sys
import tempfile
import time
import unicodedata
import warnings

import hooked
import numpy as np
import torch

# Panics of tokenizers write on the second file, Python's errors on a copy of it.
os.environ["RUST_BACKTRACE"] = "0"
sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
warnings.simplefilter("ignore")  # of templates
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

kRoot = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(kRoot / "tests" / "golden"))
from makers import chat, chat_snippets, tokenizer_families, tokenizer_texts  # noqa: E402

Refused = (hooked.TokenizerError, hooked.CheckpointError, hooked.ConfigError)


class Differs(Exception):
    """What differs, made as small as it could be."""


class Skipped(Exception):
    """The package itself does not take the input."""


def smaller(parts: list, differs) -> list:
    """The parts without those whose absence leaves the difference."""
    step = max(1, len(parts) // 2)
    while step:
        at = 0
        while at < len(parts):
            without = parts[:at] + parts[at + step:]
            if differs(without):
                parts = without
            else:
                at += step
        step //= 2
    return parts


def smaller_text(text: str, differs) -> str:
    return "".join(smaller(list(text), lambda parts: differs("".join(parts))))


# Characters that Oniguruma of Debian 12 knows as well (docs/unicode-differences.md): those of Unicode 14.
kCharacters = [chr(c) for c in range(1, 0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
kCommon = "".join(tokenizer_texts.kTraining) + "".join(tokenizer_texts.kAlphabets)


def any_text(rng: random.Random) -> str:
    if rng.random() < 0.3:
        text = rng.choice(tokenizer_texts.kHand) + rng.choice(["", " ", "\n"]) + rng.choice(tokenizer_texts.kHand)
        return "".join(character for character in text if unicodedata.category(character) != "Cn")
    return "".join(rng.choice(kCharacters if rng.random() < 0.1 else kCommon) for _ in range(rng.randrange(40)))


# tokenizers

def families() -> dict:
    """The documents of the golden tokenizers, by family."""
    if not hasattr(families, "made"):
        with tempfile.TemporaryDirectory() as scratch:
            made = tokenizer_families.families(pathlib.Path(scratch))
        families.made = {name: json.loads(tokenizer_families.text_of(each)) for name, each in sorted(made.items())}
    return families.made


def flag(rng) -> bool:
    return rng.random() < 0.5


def pattern(rng) -> dict:
    return rng.choice([{"String": rng.choice([" ", "a", "ab", "\u2581", "\n", ".", "\u00e9"])},
                       {"Regex": rng.choice([r"\s+", r"\d", r"[a-c]+", r"\p{L}+", r" ?\p{N}{1,3}", r"(?i:'s|'t)|\S", r"[^\r\n\p{L}]+",
                                             r"\w+|[^\w\s]+", r"(?<=a)b", r"\s+(?!\S)|\s+"])}])


def any_normalizer(rng) -> dict:
    return rng.choice([
        lambda: {"type": rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"])},
        lambda: {"type": "Replace", "pattern": pattern(rng), "content": rng.choice(["", "b", "\u2581", "  "])},
        lambda: {"type": "Prepend", "prepend": rng.choice(["\u2581", "_", "ab"])},
        lambda: {"type": "Strip", "strip_left": flag(rng), "strip_right": flag(rng)},
        lambda: {"type": "BertNormalizer", "clean_text": flag(rng), "handle_chinese_chars": flag(rng),
                 "strip_accents": rng.choice([None, True, False]), "lowercase": flag(rng)},
        lambda: {"type": "Sequence", "normalizers": [any_normalizer(rng) for _ in range(rng.randrange(3))]}])()


def any_pre_tokenizer(rng) -> dict:
    return rng.choice([
        lambda: {"type": rng.choice(["Whitespace", "WhitespaceSplit", "BertPreTokenizer"])},
        lambda: {"type": "ByteLevel", "add_prefix_space": flag(rng), "trim_offsets": flag(rng), "use_regex": flag(rng)},
        lambda: {"type": "Split", "pattern": pattern(rng), "invert": flag(rng),
                 "behavior": rng.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])},
        lambda: {"type": "Digits", "individual_digits": flag(rng)},
        lambda: {"type": "Punctuation", "behavior": rng.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])},
        lambda: {"type": "Metaspace", "replacement": rng.choice(["\u2581", "_"]), "split": flag(rng),
                 "prepend_scheme": rng.choice(["always", "never", "first"])},
        lambda: {"type": "CharDelimiterSplit", "delimiter": rng.choice([" ", "a", "\u2581"])},
        lambda: {"type": "FixedLength", "length": rng.choice([1, 2, 5])},
        lambda: {"type": "Sequence", "pretokenizers": [any_pre_tokenizer(rng) for _ in range(rng.randrange(3))]}])()


def any_decoder(rng) -> dict:
    return rng.choice([
        lambda: {"type": rng.choice(["Fuse", "ByteFallback"])},
        lambda: {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        lambda: {"type": "WordPiece", "prefix": rng.choice(["##", "a"]), "cleanup": flag(rng)},
        lambda: {"type": "Metaspace", "replacement": "\u2581", "split": flag(rng), "prepend_scheme": rng.choice(["always", "never", "first"])},
        lambda: {"type": "Strip", "content": rng.choice([" ", "a"]), "start": rng.randrange(3), "stop": rng.randrange(3)},
        lambda: {"type": "Replace", "pattern": pattern(rng), "content": rng.choice(["", " ", "x"])},
        lambda: {"type": "BPEDecoder", "suffix": rng.choice(["</w>", "a"])},
        lambda: {"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": flag(rng)},
        lambda: {"type": "Sequence", "decoders": [any_decoder(rng) for _ in range(rng.randrange(3))]}])()


def any_tokenizer(rng) -> dict:
    """The document of a family with parts and options exchanged."""
    document = json.loads(json.dumps(rng.choice(list(families().values()))))
    for key, draw in (("normalizer", any_normalizer), ("pre_tokenizer", any_pre_tokenizer), ("decoder", any_decoder)):
        luck = rng.random()
        if luck < 0.3:
            document[key] = draw(rng)
        elif luck < 0.4:
            document[key] = None
    model = document["model"]
    if rng.random() < 0.3:
        document["post_processor"] = None
    for key in ("fuse_unk", "byte_fallback", "ignore_merges"):
        if key in model and rng.random() < 0.3:
            model[key] = flag(rng)
    if model["type"] == "WordPiece" and rng.random() < 0.3:
        model["max_input_chars_per_word"] = rng.choice([1, 3, 10])
    # With byte_fallback too, tokenizers gives the bytes of the suffix offsets outside the text.
    if model["type"] == "BPE" and not model.get("byte_fallback") and rng.random() < 0.2:
        model["end_of_word_suffix"] = rng.choice([None, "</w>"])
    for token in document["added_tokens"]:
        for key in ("lstrip", "rstrip", "single_word", "normalized"):
            if rng.random() < 0.15:
                token[key] = flag(rng)
    document["added_tokens"] = list({token["content"]: token for token in document["added_tokens"]}.values())
    if rng.random() < 0.3:
        last = max([token["id"] for token in document["added_tokens"]] + [len(model["vocab"]) - 1])
        for content in rng.sample(["abc", "the", " the", "\u00e9", "\u4e16", "  ", "A"], 2):
            last += 1
            document["added_tokens"].append({"id": last, "content": content, **{key: flag(rng) for key in (
                "lstrip", "rstrip", "single_word", "normalized", "special")}})
    return document


def bytes_of(text: str, offsets: list) -> list:
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    return [(at[begin], at[end]) for begin, end in offsets]


class Panic:
    """Where the package broke down, which says nothing about what is right: equal to anything."""
    def __eq__(self, other):
        return True


def outcome(call):
    """What a call gives; an error by that alone."""
    try:
        return call()
    except (Exception, hooked.TokenizerError):  # pylint: disable=broad-except
        return "refused"
    except BaseException as error:  # pylint: disable=broad-except
        if type(error).__name__ != "PanicException":
            raise
        return Panic()


def tokenized(theirs, ours, text: str):
    """What each makes of a text, theirs first."""
    def of(encode, decode):
        made = []
        for special in (False, True):
            ids, offsets = encode(special)
            made.append([ids, offsets, outcome(lambda ids=ids: decode(ids, False)), outcome(lambda ids=ids: decode(ids, True))])
        return made

    def theirs_of(special):
        encoding = theirs.encode(text, add_special_tokens=special)
        return encoding.ids, bytes_of(text, encoding.offsets)

    def ours_of(special):
        encoding = ours.encode(text, add_special_tokens=special)
        return list(encoding.ids), [tuple(pair) for pair in encoding.offsets]

    return (outcome(lambda: of(theirs_of, lambda ids, skip: theirs.decode(ids, skip_special_tokens=skip))),
            outcome(lambda: of(ours_of, lambda ids, skip: ours.decode(ids, skip_special_tokens=skip))))


def tokenizers_case(rng) -> str:
    import tokenizers
    document = any_tokenizer(rng)

    def both(document):
        text = json.dumps(document, ensure_ascii=False)
        try:
            theirs = tokenizers.Tokenizer.from_str(text)
        except BaseException as error:  # pylint: disable=broad-except
            raise Skipped(str(error)) from error
        if theirs.normalizer:
            # Of added tokens that the normalizer makes equal, tokenizers takes any, and it finds an empty one before words.
            contents = [outcome(lambda token=token: theirs.normalizer.normalize_str(token["content"]))
                        for token in document["added_tokens"] if token["normalized"]]
            if "" in contents or len({str(content) for content in contents}) < len(contents):
                raise Skipped("added tokens that are not told apart")
        return theirs, hooked.Tokenizer.parse(text)

    def differs(document, text):
        try:
            one, other = tokenized(*both(document), text)
        except (Skipped, *Refused):
            return False
        return one != other

    theirs, ours = both(document)
    for _ in range(6):
        text = any_text(rng)
        one, other = tokenized(theirs, ours, text)
        if one == other:
            continue
        for key in ("normalizer", "pre_tokenizer", "decoder", "post_processor"):
            if document[key] and differs({**document, key: None}, text):
                document = {**document, key: None}
        text = smaller_text(text, lambda shorter, document=document: differs(document, shorter))
        document["added_tokens"] = smaller(document["added_tokens"], lambda some: differs({**document, "added_tokens": some}, text))
        one, other = tokenized(*both(document), text)
        shown = {key: document[key] for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens")}
        shown["model"] = {key: value for key, value in document["model"].items() if key not in ("vocab", "merges")}
        raise Differs(f"{text!r}: tokenizers {one}, hooked {other}\n    {json.dumps(shown)}")
    return "same"


# sentencepiece

def sentencepiece_case(rng) -> str:
    import io
    import sentencepiece
    options = {"model_type": rng.choice(["unigram", "bpe"]), "vocab_size": rng.choice([150, 250, 400]),
               "byte_fallback": flag(rng), "add_dummy_prefix": flag(rng), "remove_extra_whitespaces": flag(rng),
               "normalization_rule_name": rng.choice(["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"]),
               "split_digits": flag(rng), "split_by_whitespace": flag(rng), "split_by_unicode_script": flag(rng), "split_by_number": flag(rng),
               "treat_whitespace_as_suffix": rng.random() < 0.2, "character_coverage": rng.choice([1.0, 0.98, 0.9]),
               "user_defined_symbols": rng.sample(["<sep>", "ab", "\u4e16", " x"], rng.randrange(3)),
               "max_sentencepiece_length": rng.choice([4, 16])}
    if options["byte_fallback"]:
        options["vocab_size"] += 256
    file = io.BytesIO()
    sentences = rng.sample(tokenizer_texts.kTraining, rng.randint(6, len(tokenizer_texts.kTraining)))
    try:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=file, hard_vocab_limit=False,
                                                 minloglevel=9, num_threads=1, **options)
    except Exception as error:
        raise Skipped(str(error)) from error
    theirs = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "tokenizer.model"
        path.write_bytes(file.getvalue())
        ours = hooked.Tokenizer.load(path)

    def outcomes(text):
        ids = theirs.encode(text)
        encoding = ours.encode(text, added_tokens="as_text")
        return [ids, theirs.decode(ids)], [list(encoding.ids), ours.decode(encoding.ids, skip_special_tokens=True)]

    for _ in range(12):
        text = any_text(rng)
        one, other = outcomes(text)
        if one == other:
            continue
        text = smaller_text(text, lambda shorter: outcomes(shorter)[0] != outcomes(shorter)[1])
        one, other = outcomes(text)
        pieces = [[tokenizer.id_to_piece(i) for i in ids] for tokenizer, ids in ((theirs, one[0]), (theirs, other[0]))]
        raise Differs(f"{text!r}: sentencepiece {one} {pieces[0]}, hooked {other} {pieces[1]}\n    {options}")
    return "same"


# templates

kNames = [*chat_snippets.kVariables, "messages", "bos_token", "missing", "loop.index", "m.role", "m.content", "m"]
kExpressions = chat_snippets.kExpressions
kFilters = ["upper", "lower", "trim", "length", "list", "first", "last", "join('-')", "tojson", "string", "default('d')", "replace('o', '0')", "sort",
            "reverse | list", "unique | list", "map('upper') | list", "select | list", "int", "float", "indent(2)", "title", "capitalize",
            "items | list", "dictsort", "escape", "safe", "groupby('age')", "selectattr('age')| list"]
kTests = ["defined", "none", "string", "number", "mapping", "iterable", "sequence", "boolean", "true", "odd", "undefined", "integer", "float"]
kLiterals = ["0", "1", "-1", "2.5", "'a'", "'o'", "\"it's\"", "true", "none", "[]", "{}", "''", "' x '", "[1, 'b', none]", "{'a': 1}", "(1, 2)", "'\\n'"]


def expression(rng, depth: int = 0) -> str:
    if depth > 2 or rng.random() < 0.25:
        return rng.choice([rng.choice(kNames), rng.choice(kLiterals), rng.choice(kExpressions)])
    def inner():
        return expression(rng, depth + 1)
    return rng.choice([
        lambda: f"({inner()}) {rng.choice(['+', '-', '*', '/', '//', '%', '~', '==', '!=', '<', '>=', 'in', 'not in', 'and', 'or'])} ({inner()})",
        lambda: f"({inner()}) | {rng.choice(kFilters)}",
        lambda: f"({inner()}) is {rng.choice(['', 'not '])}{rng.choice(kTests)}",
        lambda: f"({inner()}) if ({inner()}) else ({inner()})",
        lambda: f"({inner()})[{rng.choice(['0', '-1', '1:', '::-1', ':2', chr(39) + 'name' + chr(39), inner()])}]",
        lambda: f"({inner()}).{rng.choice(['name', 'items()', 'strip()', 'upper()', 'split()', 'keys() | list', 'x', 'startswith(' + chr(39) + 'H' + chr(39) + ')'])}",
        lambda: f"[{inner()}, {inner()}]",
        lambda: f"{{'k': {inner()}, 'j': {inner()}}}",
        lambda: f"not ({inner()})"])()


def template_parts(rng, depth: int = 0) -> list:
    """The lines of a template. Each can be left out separately."""
    def tag(text):
        return f"{{%{rng.choice(['', '-'])} {text} {rng.choice(['', '-'])}%}}"

    def body():
        return "".join(template_parts(rng, depth + 1))
    parts = []
    for _ in range(rng.randint(1, 4 if depth == 0 else 2)):
        kind = rng.random()
        if kind < 0.35 or depth > 2:
            parts.append(f"{{{{{rng.choice(['', '-', ' '])} {expression(rng)} {rng.choice(['', '-'])}}}}}")
        elif kind < 0.5:
            parts.append(rng.choice(["text", "\n", "  \n", " a ", "{# c #}", "{#- c -#}\n", "<|im_start|>", "\u00e9\n\n"]))
        elif kind < 0.65:
            over = rng.choice(["messages", "list", "words", "users", "range(3)", "dict.items()", expression(rng)])
            name = "k, v" if over == "dict.items()" else "m"
            inner = body() + rng.choice(["", "{{ loop.index }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.index0 }},", "{% if loop.index == 2 %}{% continue %}{% endif %}",
                                         "{{ loop.previtem }}", "{{ loop.length }}"])
            parts.append(tag(f"for {name} in {over}{rng.choice(['', '', ' if ' + expression(rng)])}") + inner
                         + rng.choice(["", tag("else") + "none"]) + tag("endfor"))
        elif kind < 0.8:
            parts.append(tag(f"if {expression(rng)}") + body() + rng.choice(["", tag("else") + body(), tag(f"elif {expression(rng)}") + body()]) + tag("endif"))
        elif kind < 0.92:
            parts.append(rng.choice([lambda: tag(f"set x = {expression(rng)}") + "{{ x }}",
                                     lambda: tag("set ns = namespace(n=0)") + tag(f"set ns.n = {expression(rng)}") + "{{ ns.n }}",
                                     lambda: tag("set x") + body() + tag("endset") + "{{ x | trim }}"])())
        else:
            parts.append(rng.choice([lambda: tag("macro f(a, b=1)") + "{{ a }}{{ b }}" + tag("endmacro") + f"{{{{ f({expression(rng)}) }}}}",
                                     lambda: tag("filter upper") + body() + tag("endfilter"),
                                     lambda: f"{{{{ raise_exception({expression(rng)}) }}}}",
                                     lambda: tag("raw") + "{{ x }}" + tag("endraw"),
                                     lambda: tag("generation") + body() + tag("endgeneration")])())
    return parts


def templates_case(rng) -> str:
    from transformers.utils import chat_template_utils
    messages = [{"role": rng.choice(["user", "assistant", "system", "tool"]), "content": any_text(rng)} for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.5:
        parts = template_parts(rng)
    else:  # a published one, cut and changed
        path = rng.choice(sorted((kRoot / "tests/text/chat/templates").glob("*.jinja")))
        parts = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for _ in range(rng.randrange(3)):
            parts.insert(rng.randrange(len(parts) + 1), "".join(template_parts(rng, 2)))
        if rng.random() < 0.3:
            del parts[rng.randrange(len(parts))]
    base = templates_case.base = getattr(templates_case, "base", None) or hooked.Tokenizer.parse(json.dumps(chat.golden_tokenizer()))
    variables = {**chat_snippets.kVariables, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": flag(rng)}

    def theirs(text):
        render = chat_template_utils._compile_jinja_template  # pylint: disable=protected-access
        outcome = chat.outcome(lambda: render(text).render(messages=messages, tools=None, documents=None, **variables))
        return outcome.get("text"), outcome

    def ours(text):
        try:
            given = {key: value for key, value in variables.items() if key != "add_generation_prompt"}
            return base.with_chat_template(text).chat_text(messages, add_generation_prompt=variables["add_generation_prompt"], variables=given), None
        except hooked.TokenizerError as error:
            return None, str(error)

    text = "".join(parts)
    (one, how), (other, why) = theirs(text), ours(text)
    if other is not None and ("syntax" in how or "fails" in how):
        return "fail in Jinja alone"  # for a name that is unknown in a part that does not run, or a list that is looked for in a dict

    def differs(parts):
        (one, now), (other, _) = theirs("".join(parts)), ours("".join(parts))
        return other is not None and other != one and now.keys() == how.keys()

    if other is not None and other != one:
        text = smaller_text("".join(smaller(parts, differs)), lambda shorter: differs([shorter]))
        (one, how), (other, why) = theirs(text), ours(text)
        if "markup(" in one.lower():
            return "print in Jinja alone that a text is markup"  # decision 63: `safe` and `escape` give plain texts
        raise Differs(f"{text!r}: Jinja {how}, hooked {other!r}\n    {messages}")
    if one is None:
        return "refused by both"
    if other is None:
        templates_case.refused = text
        raise hooked.TokenizerError(why)
    return "same"


# gguf

def gguf_case(rng) -> str:
    import gguf
    from gguf import GGMLQuantizationType as Type, quants
    from makers.gguf_blocks import kHalves, random_blocks
    numbers = np.random.default_rng(rng.randrange(1 << 32))
    heads = rng.choice([2, 4])
    kv_heads = rng.choice([1, 2, heads])
    width, inner, layers, vocabulary = 768, 768, rng.choice([1, 2]), rng.randint(5, 40)
    d_head = width // heads
    types = [Type.F32, Type.F16, Type.BF16, *kHalves]
    expected = {}
    theta, eps, context = rng.choice([1e4, 5e5, 123.5]), rng.choice([1e-5, 1e-6, 0.25]), rng.randint(1, 5000)
    pieces = ["<unk>", "<s>", "</s>"] + [f"\u2581p{i}\u00e9" for i in range(vocabulary - 3)]
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "m.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        if rng.random() < 0.5:
            writer.add_custom_alignment(rng.choice([32, 64, 128]))
        writer.add_context_length(context)
        writer.add_embedding_length(width)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(inner)
        writer.add_head_count(heads)
        writer.add_head_count_kv(kv_heads)
        writer.add_vocab_size(vocabulary)
        writer.add_layer_norm_rms_eps(eps)
        writer.add_rope_freq_base(theta)
        writer.add_rope_dimension_count(d_head)
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(pieces)
        writer.add_token_scores([-float(i) for i in range(vocabulary)])
        writer.add_token_types([2, 3, 3] + [1] * (vocabulary - 3))
        for i in range(rng.randrange(4)):  # keys that nothing reads
            rng.choice([lambda i=i: writer.add_string(f"x.{i}", any_text(rng)), lambda i=i: writer.add_array(f"x.{i}", [1, -2, 3]),
                        lambda i=i: writer.add_float64(f"x.{i}", 0.1), lambda i=i: writer.add_bool(f"x.{i}", True)])()

        def add(name, rows, columns):
            kind = rng.choice(types)
            if kind in kHalves and rng.random() < 0.5:
                stored = random_blocks(kind, numbers, rows)[:, :columns // 768 * random_blocks(kind, numbers, 1).shape[1]]
            else:
                values = numbers.standard_normal((rows, columns)).astype(np.float32)
                try:
                    stored = quants.quantize(values, kind)
                except NotImplementedError:  # a type that the package only reads
                    stored = random_blocks(kind, numbers, rows)
            writer.add_tensor(name, np.ascontiguousarray(stored), raw_dtype=kind)
            with np.errstate(all="ignore"):
                expected[name] = torch.from_numpy(np.ascontiguousarray(quants.dequantize(stored, kind)).astype(np.float32))

        add("token_embd.weight", vocabulary, width)
        add("output.weight", vocabulary, width)
        for name in ["output_norm.weight"] + [f"blk.{i}.{norm}_norm.weight" for i in range(layers) for norm in ("attn", "ffn")]:
            values = numbers.standard_normal(width).astype(np.float32)
            writer.add_tensor(name, values)
            expected[name] = torch.from_numpy(values)
        for i in range(layers):
            for name, rows in (("attn_q", width), ("attn_k", kv_heads * d_head), ("attn_v", kv_heads * d_head), ("attn_output", width),
                               ("ffn_gate", inner), ("ffn_up", inner), ("ffn_down", width)):
                add(f"blk.{i}.{name}.weight", rows, width)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        model = hooked.HookedTransformer.load(str(path), processing=hooked.WeightProcessing.none(), dtype=torch.float32)
        weights = {key: value.clone() for key, value in model.state_dict().items()}
        config, tokenizer = model.config, model.tokenizer
        wanted = dict(n_layers=layers, d_model=width, n_heads=heads, n_kv_heads=kv_heads, d_head=d_head, d_mlp=inner, d_vocab=vocabulary, n_ctx=context)
        for key, value in wanted.items():
            if getattr(config, key) != value:
                raise Differs(f"{key}: gguf {value}, hooked {getattr(config, key)}")
        if abs(config.eps - eps) > 1e-6 * eps or abs(config.positions.base - theta) > 1e-6 * theta:
            raise Differs(f"eps {eps}, theta {theta}: hooked {config.eps}, {config.positions.base}")
        got = [tokenizer.piece(i) for i in range(vocabulary)]
        if got != pieces:
            raise Differs(f"pieces: gguf {pieces}, hooked {got}")

    def by_heads(matrix, count):  # llama.cpp turns neighbouring rows: undone
        return matrix.reshape(count, d_head // 2, 2, width).transpose(1, 2).reshape(count, d_head, width).transpose(1, 2)

    def compare(name, wanted, key):
        have = weights[key]
        same = have.shape == wanted.shape and torch.equal(have.contiguous().view(torch.int32), wanted.contiguous().view(torch.int32))
        if not same and not (have.shape == wanted.shape and torch.equal(torch.nan_to_num(have, 7.0), torch.nan_to_num(wanted, 7.0))
                             and torch.equal(have.isnan(), wanted.isnan())):
            raise Differs(f"{name} ({key}): {tuple(wanted.shape)}, hooked {tuple(have.shape)}: "
                          f"{(have != wanted).sum().item() if have.shape == wanted.shape else 'all'} numbers differ")
    compare("token_embd.weight", expected["token_embd.weight"], "embed.W_E")
    compare("output.weight", expected["output.weight"].T, "unembed.W_U")
    for i in range(layers):
        def of(name, i=i):
            return expected[f"blk.{i}.{name}.weight"]
        compare("attn_q", by_heads(of("attn_q"), heads), f"blocks.{i}.attn.W_Q")
        for letter in "kv":
            matrix = of(f"attn_{letter}")
            ours = by_heads(matrix, kv_heads) if letter == "k" else matrix.reshape(kv_heads, d_head, width).transpose(1, 2)
            key = f"blocks.{i}.attn._W_{letter.upper()}"
            compare(f"attn_{letter}", ours, key if key in weights else f"blocks.{i}.attn.W_{letter.upper()}")
        compare("attn_output", of("attn_output").T.reshape(heads, d_head, width), f"blocks.{i}.attn.W_O")
        for name, key in (("ffn_gate", "W_gate"), ("ffn_up", "W_in"), ("ffn_down", "W_out")):
            compare(name, of(name).T, f"blocks.{i}.mlp.{key}")
    return "same"


# configs

def configs_case(rng) -> str:
    """One family of fuzz_configs.py, which prints what differs."""
    sys.path.insert(0, str(kRoot / "tests" / "fuzz"))
    import fuzz_configs
    torch.set_num_threads(1)
    family, number = rng.choice(fuzz_configs.kFamilies), rng.randrange(1 << 20)
    outcome = fuzz_configs.run_one(family, number, fuzz_configs.kProgram)
    if outcome == "differs":
        raise Differs(f"fuzz_configs.py {family} --first {number} --count 1")
    if outcome == "refused":
        raise hooked.ConfigError("config", f"{family}: refused; fuzz_configs.py prints it")
    if outcome == "none":
        raise Skipped(family)
    return "same"


kKinds = {"tokenizers": tokenizers_case, "sentencepiece": sentencepiece_case, "templates": templates_case, "gguf": gguf_case,
          "configs": configs_case}


def run(kind: str, options) -> int:
    counts, reasons, differences = collections.Counter(), collections.Counter(), 0
    end, number = time.monotonic() + 60 * options.minutes, options.first
    while time.monotonic() < end and (options.cases is None or number < options.first + options.cases):
        try:
            counts[kKinds[kind](random.Random(f"{kind}/{number}"))] += 1
        except Skipped:
            counts["not taken by the package"] += 1
        except Differs as difference:
            counts["differ"] += 1
            differences += 1
            if differences <= options.show:
                print(f"[differential] {kind} {number}: {difference}", flush=True)
        except Refused as error:
            counts["refused by hooked"] += 1
            reasons[str(error)[:options.width]] += 1
        number += 1
    print(f"[differential] {kind}: {number - options.first} cases: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())),
          flush=True)
    if options.reasons:
        for reason, count in reasons.most_common(40):
            print(f"    {count:5} {reason}")
    return differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*kKinds, []], help="all, if none is named")
    parser.add_argument("--minutes", type=float, default=5, help="for each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, help="the most cases of each kind")
    parser.add_argument("--show", type=int, default=5, help="differences that are printed")
    parser.add_argument("--reasons", action="store_true", help="print why hooked refused inputs")
    parser.add_argument("--width", type=int, default=150, help=argparse.SUPPRESS)
    options = parser.parse_args()
    return 1 if sum([run(kind, options) for kind in options.kinds or kKinds]) else 0


if __name__ == "__main__":
    sys.exit(main())
