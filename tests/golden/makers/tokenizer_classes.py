"""Records what AutoTokenizer makes of a tokenizer.json for every class of tokenizer that transformers knows, and for the files
that may lie beside it: tests/text/files/classes/cases.json. Writes the tables of src/text/classes/*.inc, too.

    python tests/golden/make.py tokenizer-classes

A case is a folder: a tiny tokenizer.json, one of kDocuments, whose pipeline no class has, so that a class that builds its own
shows; a tokenizer_config.json, mostly of one key; and further files. The ids of kTexts with special tokens are what
AutoTokenizer gives; `saved` is the pipeline that a class builds and saves. kWithout names the classes that have no folder, and why.
"""

import json
import pathlib
import tempfile
import textwrap

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.models.auto.tokenization_auto import (MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS, TOKENIZER_MAPPING_NAMES,
                                                        tokenizer_class_from_name)
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as kMbart50Languages
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as kNllbLanguages
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from . import tokenizer_families
from .case_files import kRoot
from .tokenizers import write_json
from .tokenizer_texts import kTraining

kFile = kRoot / "tests" / "text" / "files" / "classes" / "cases.json"

kTexts = [
    "", " ", "The dog's life, isn't it?", "  two  blanks ", "na\u00efve CAF\u00c9 e\u0301", "\ufb01 \u2460 \u4eca\u65e5 abc\u4e2d",
    "<s>a </s> <mask>b [MASK] [CLS]c", "a\nb\tc\r\nd", "12345 x1.5", "``so'' \u201cq\u201d", "\U0001f469\u200d\U0001f4bb ok",
    "<|endoftext|>x <|im_start|> y", "\u2581x \u2581\u2581y\u2581 ", "<cls>[cls] <unk>[UNK]<pad>", "<extra_id_0> en_XX <ent>z",
    "in-word SPL1T-TH1S-Pl3A5E a(b)!!c",
]

kOwnFiles = "reads files of its own and no tokenizer.json"
kWithout = {
    "LayoutLMv2Tokenizer": "takes words with boxes, not a text",
    "LayoutLMv3Tokenizer": "takes words with boxes, not a text",
    "LayoutXLMTokenizer": "takes words with boxes, not a text",
    "UdopTokenizer": "takes words with boxes, not a text",
    "MarkupLMTokenizer": "takes nodes of a document with their paths",
    "RagTokenizer": "is two tokenizers in folders of their own",
    "RoFormerTokenizer": "cuts words with a dictionary that is a package of Python's",
    "EsmcTokenizer": "has a vocabulary of its own in its code",
}

# Classes whose unknown token the documents lack.
kNeeded = {"CLIPTokenizer": {"unk_token": "<unk>"}, "FunnelTokenizer": {"unk_token": "[UNK]"}}

# Of Unigram, in the order of their ids.
kNamed = ["<s>", "<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<mask>", "<sep>", "<cls>", "en_XX"]


def with_file_pipeline(tokenizer: Tokenizer) -> dict:
    """The pipeline of a file that no class builds: words between white space, and a token of its own after a text."""
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <end>", special_tokens=[("<end>", tokenizer.token_to_id("<end>"))])
    return json.loads(tokenizer.to_str())


def bpe(alphabet: list, suffix: str = None, unknown: str = None) -> Tokenizer:
    options = {"unk_token": unknown, "end_of_word_suffix": suffix}
    tokenizer = Tokenizer(models.BPE(**{key: value for key, value in options.items() if value is not None}))
    if suffix is None and alphabet:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif suffix is not None and alphabet:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    elif suffix is not None:
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=560 if alphabet else 420, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], initial_alphabet=alphabet,
                                  show_progress=False, limit_alphabet=400 if alphabet else 130, **({"end_of_word_suffix": suffix} if suffix else {}))
    tokenizer.train_from_iterator(kTraining, trainer)
    return tokenizer


def with_bytes(tokenizer: Tokenizer) -> Tokenizer:
    document = json.loads(tokenizer.to_str())
    vocabulary = document["model"]["vocab"]
    for piece in tokenizer_families.kByteFallback:
        vocabulary.setdefault(piece, len(vocabulary))
    return Tokenizer.from_str(json.dumps(document))


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator(kTraining, trainers.UnigramTrainer(vocab_size=400, special_tokens=kNamed, unk_token="<unk>", show_progress=False))
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = []
    document["model"]["vocab"] = [[piece, round(score, 3)] for piece, score in document["model"]["vocab"]]
    return Tokenizer.from_str(json.dumps(document))


def documents() -> dict:
    made = {"byte_level": bpe(tokenizer_families.kByteAlphabet), "byte_suffixes": bpe(tokenizer_families.kByteAlphabet, "</w>", "<unk>"),
            "suffixes": bpe([], "</w>", "<unk>"), "pieces": with_bytes(bpe([], None, "<unk>")), "unigram": unigram(),
            "words": tokenizer_families.bert()}
    return {name: with_file_pipeline(tokenizer) for name, tokenizer in made.items()}


kDocumentOf = {
    "WordPiece": "words", "Unigram": "unigram", "BPE": "byte_level", "CLIPTokenizer": "byte_suffixes", "HerbertTokenizer": "suffixes",
    "OpenAIGPTTokenizer": "suffixes", **dict.fromkeys(["LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "Siglip2Tokenizer", "Tipsv2Tokenizer",
                                                       "NllbTokenizer", "SeamlessM4TTokenizer", "ReformerTokenizer"], "pieces"),
    **dict.fromkeys(["BarthezTokenizer", "CamembertTokenizer", "MLukeTokenizer"], "unigram"),
}


def document_of(name: str) -> str:
    kind = getattr(tokenizer_class_from_name(name), "model", None)
    return kDocumentOf.get(name) or kDocumentOf[kind.__name__ if kind else "BPE"]


def token(content: str, **flags) -> dict:
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True} | flags


def case(name: str, document: str, own: dict = None, **files) -> dict:
    """`own` is tokenizer_config.json, `files` are others by the first word of their names."""
    names = {"config": "config.json", "added": "added_tokens.json", "map": "special_tokens_map.json"}
    made = {names[key]: value for key, value in files.items() if key in names}
    if own is not None:
        made["tokenizer_config.json"] = own
    return {"name": name, "document": document, "files": made} | {key: value for key, value in files.items() if key not in names}


def class_cases() -> list:
    names = sorted({name.removesuffix("Fast") for name in TOKENIZER_MAPPING_NAMES.values() if name and name != "MistralCommonBackend"})
    names += ["BloomTokenizer", "CodeGenTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "LongformerTokenizer", "DPRReaderTokenizer",
              "DPRContextEncoderTokenizer", "ConvBertTokenizer", "SqueezeBertTokenizer"]
    made = []
    for name in names:
        kind = tokenizer_class_from_name(name)
        if name not in kWithout and kind is not None and not issubclass(kind, TokenizersBackend):
            kWithout.setdefault(name, kOwnFiles)
        if name not in kWithout:
            made.append(case(name, document_of(name), {"tokenizer_class": name} | kNeeded.get(name, {})))
    return made


def option_cases() -> list:
    def of(name: str, **options):
        return case(f"{name} {' '.join(options)}", document_of(name), {"tokenizer_class": name} | kNeeded.get(name, {}) | options)

    return [
        of("BertTokenizer", do_lower_case=False, strip_accents=True, tokenize_chinese_chars=False),
        of("MPNetTokenizer", do_lower_case=False), of("FunnelTokenizer", clean_text=False), of("SplinterTokenizer", strip_accents=False),
        of("DPRQuestionEncoderTokenizer", do_lower_case=False), of("DistilBertTokenizer", do_lower_case=False),
        of("GPT2TokenizerFast", add_prefix_space=True), of("GPT2Tokenizer", bos_token=None), of("GPT2Tokenizer", add_bos_token=True),
        of("RobertaTokenizer", add_prefix_space=True), of("BlenderbotTokenizer", add_prefix_space=False),
        of("Qwen2Tokenizer", add_prefix_space=True), of("CohereTokenizer", add_prefix_space=True),
        of("LlamaTokenizer", legacy=True), of("LlamaTokenizer", legacy=None), of("LlamaTokenizer", add_prefix_space=False),
        of("LlamaTokenizerFast", add_bos_token=True, add_eos_token=True), of("CodeLlamaTokenizer", add_prefix_space=False),
        of("Tipsv2Tokenizer", do_lower_case=False), of("NllbTokenizer", legacy_behaviour=True), of("NllbTokenizer", src_lang="fra_Latn"),
        of("SeamlessM4TTokenizer", src_lang="deu", tgt_lang="deu"), of("MBartTokenizer", src_lang="ro_RO"), of("MBart50Tokenizer", src_lang="ro_RO"),
        of("AlbertTokenizer", keep_accents=True, do_lower_case=False), of("AlbertTokenizer", add_prefix_space=False),
        of("XLNetTokenizer", do_lower_case=True, unk_id=3), of("RemBertTokenizer", keep_accents=False, do_lower_case=True),
        of("DebertaV2Tokenizer", split_by_punct=True, do_lower_case=True), of("DebertaV2Tokenizer", add_prefix_space=False),
        of("XLMRobertaTokenizer", add_prefix_space=False), of("CamembertTokenizer", add_prefix_space=False),
        of("T5Tokenizer", extra_ids=3), of("PegasusTokenizer", offset=5), of("XGLMTokenizer", add_prefix_space=False),
        of("WhisperTokenizer", predict_timestamps=True), of("WhisperTokenizer", task="transcribe"),
        of("GPT2Tokenizer", split_special_tokens=True), of("PreTrainedTokenizerFast", split_special_tokens=True),
    ]


def chosen_cases() -> list:
    """Which class is chosen, by model_type and by what the files name."""
    def of(name: str, document: str, model_type: str, named: str = None, **more):
        config = {"tokenizer_class": named} if named else {}
        return case("chosen: " + name, document, config | more, config={"model_type": model_type})

    return [
        of("by model_type", "byte_level", "gpt2"), of("by model_type, of words", "words", "bert"), of("by model_type, no class", "byte_level", "llama"),
        of("another class is trusted", "byte_level", "gpt2", "Qwen2Tokenizer"), of("a backend in place of a class", "byte_level", "gpt2", "PreTrainedTokenizerFast"),
        of("a class in place of a backend", "byte_level", "olmo2", "GPT2Tokenizer"), of("not trusted", "byte_level", "qwen2", "GPT2Tokenizer"),
        of("not trusted, a backend", "byte_level", "qwen2", "PreTrainedTokenizerFast"), of("Llama's for bytes", "byte_level", "llama", "LlamaTokenizer"),
        of("Llama's for pieces", "pieces", "llama", "LlamaTokenizerFast"), of("Mistral", "pieces", "mistral", "LlamaTokenizer"),
        of("the same", "unigram", "t5", "T5TokenizerFast"), of("unknown", "byte_level", "gpt2", "NoSuchTokenizer"),
        of("Phi-3", "pieces", "phi3", "LlamaTokenizer"), of("code of its own", "pieces", "llama", "LlamaTokenizer", auto_map={"AutoProcessor": "x.Y"}),
        case("chosen: by config.json", "byte_level", None, config={"model_type": "no_such_type", "tokenizer_class": "GPT2Tokenizer"}),
        case("chosen: nothing", "byte_level", None, config={"model_type": "no_such_type"}),
        case("chosen: no files", "byte_level", None),
    ]


def token_cases(size: int, named: dict) -> list:
    """Added tokens. `size` is how many ids the document byte_level has."""
    fast, slow = {"tokenizer_class": "PreTrainedTokenizerFast"}, {"tokenizer_class": "GPT2Tokenizer"}
    new = {str(size): token("<|im_start|>"), str(size + 1): token("dog", special=False, normalized=True, single_word=True)}
    gap = {str(size + 9): token("<|im_start|>"), str(size + 4): token("life", special=False, normalized=True)}
    made = []
    for label, kind in [("file", fast), ("class", slow)]:
        made += [
            case(f"tokens, {label}: added_tokens_decoder", "byte_level", kind | {"added_tokens_decoder": new}),
            case(f"tokens, {label}: ids with gaps", "byte_level", kind | {"added_tokens_decoder": gap}),
            case(f"tokens, {label}: other flags", "byte_level", kind | {"added_tokens_decoder": {str(named["<end>"]): token("<end>", rstrip=True), "0": token("<s>", lstrip=True)}}),
            case(f"tokens, {label}: added_tokens.json", "byte_level", kind, added={"<|im_start|>": size, "dog": size + 1}),
            case(f"tokens, {label}: special_tokens_map.json", "byte_level", kind | {"bos_token": "<s>"},
                 map={"bos_token": "</s>", "mask_token": token("<mask>", lstrip=True), "additional_special_tokens": ["<|im_start|>"]}),
            case(f"tokens, {label}: special_tokens_map.json is not read", "byte_level", kind | {"added_tokens_decoder": {"0": token("<s>")}},
                 map={"mask_token": "<mask>"}),
            case(f"tokens, {label}: named", "byte_level", kind | {"pad_token": "<pad>", "mask_token": "<mask>", "cls_token": token("[CLS]", rstrip=True, __type="AddedToken")}),
            case(f"tokens, {label}: extra", "byte_level", kind | {"extra_special_tokens": ["<|im_start|>", "<mask>"]}),
            case(f"tokens, {label}: additional", "byte_level", kind | {"additional_special_tokens": ["<|im_start|>", token("<mask>", lstrip=True, __type="AddedToken")]}),
            case(f"tokens, {label}: of its own", "byte_level", kind | {"image_token": "<|im_start|>", "extra_special_tokens": {"audio_token": "<mask>"}}),
            case(f"tokens, {label}: no class", "byte_level", {"bos_token": "<bos>", "eos_token": "</s>"}),
        ]
    return made


def mistral_cases() -> list:
    """More than 100,000 pieces: `pieces` more are `p0`, `p1`, ..."""
    old, fix = {"model_type": "mistral", "transformers_version": "4.57.3"}, {"tokenizer_class": "PreTrainedTokenizerFast", "fix_mistral_regex": True}
    return [
        case("words of Mistral", "byte_level", fix, config=old, pieces=100000),
        case("words of Mistral, too few pieces", "byte_level", fix, config=old),
        case("words of Mistral, of version 5", "byte_level", fix, config=old | {"transformers_version": "5.1.0"}, pieces=100000),
        case("words of Mistral, another model", "byte_level", fix, config=old | {"model_type": "qwen3"}, pieces=100000),
        case("words of Mistral, not asked for", "byte_level", fix | {"fix_mistral_regex": False}, config=old, pieces=100000),
    ]


def ids_of(made: dict, all_documents: dict) -> list:
    document = json.loads(json.dumps(all_documents[made["document"]]))
    vocabulary = document["model"]["vocab"]
    for i in range(made.get("pieces", 0)):
        vocabulary[f"p{i}"] = 1000 + i
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
        for file, content in made["files"].items():
            (folder / file).write_text(json.dumps(content), encoding="utf-8")
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        if made["name"] in TOKENIZER_MAPPING_NAMES.values():
            saved = json.loads(tokenizer.backend_tokenizer.to_str())
            made["saved"] = {key: saved[key] for key in ("normalizer", "pre_tokenizer")}
        return [tokenizer(text)["input_ids"] for text in kTexts]


def write_tables() -> None:
    """What src/text needs to know of transformers' tables."""
    by_class = {}
    for model_type in sorted(TOKENIZER_MAPPING_NAMES):
        name = TOKENIZER_MAPPING_NAMES[model_type]
        if name is not None:
            name = "TokenizersBackend" if name == "MistralCommonBackend" else name.removesuffix("Fast")
            by_class.setdefault(name, []).append(model_type)

    def literal(words, indent: int) -> str:
        lines = textwrap.wrap(" ".join(words), 100 - indent, break_on_hyphens=False)
        return ("\n" + " " * indent).join('"%s%s"' % (line, " " if i + 1 < len(lines) else "") for i, line in enumerate(lines))

    def row(name: str) -> str:
        types = literal(by_class[name], 5)
        line = '    {"%s", %s},\n' % (name, types)
        return line if "\n" not in types and len(line) <= 111 else '    {"%s",\n     %s},\n' % (name, types)

    rows = "".join(row(name) for name in sorted(by_class))
    made = f"transformers {transformers.__version__}; written by tests/golden/make.py tokenizer-classes."
    (kRoot / "src" / "text" / "classes" / "model_types.inc").write_text(
        f"// TOKENIZER_MAPPING_NAMES of {made}\nconstexpr ModelTypes kModelTypes[] = {{\n{rows}}};\n"
        "// Those whose own tokenizer_config.json it does not believe.\n"
        f"constexpr std::string_view kMistaken =\n    {literal(sorted(MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS), 4)};\n")
    (kRoot / "src" / "text" / "classes" / "language_codes.inc").write_text(
        f"// The languages of MBart-50 and of NLLB, in the order of {made}\n"
        f"constexpr std::string_view kMbart50Languages =\n    {literal(kMbart50Languages, 4)};\n"
        f"constexpr std::string_view kNllbLanguages =\n    {literal(kNllbLanguages, 4)};\n")


def main(arguments: list) -> None:
    write_tables()
    all_documents = documents()
    named = {added["content"]: added["id"] for added in all_documents["byte_level"]["added_tokens"]}
    size = max(max(all_documents["byte_level"]["model"]["vocab"].values()), max(named.values())) + 1
    cases = class_cases() + option_cases() + chosen_cases() + token_cases(size, named) + mistral_cases()
    failed = []
    for made in cases:
        try:
            made["ids"] = ids_of(made, all_documents)
        except Exception as error:
            failed.append(f"{made['name']}: {error!r}")
    if failed:
        raise RuntimeError("\n".join(failed))
    classes = sorted({name.removesuffix("Fast") for name in TOKENIZER_MAPPING_NAMES.values() if name and name != "MistralCommonBackend"})
    kFile.parent.mkdir(parents=True, exist_ok=True)
    write_json(kFile, {"classes": classes, "without": dict(sorted(kWithout.items())), "texts": kTexts, "documents": all_documents, "cases": cases})
