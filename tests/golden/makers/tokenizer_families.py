"""Tiny tokenizers with the pipelines of the families in use, one function each."""

import io
import json

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from .tokenizer_texts import kTraining

kGpt4Words = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
              r"\s+(?!\S)|\s+")
kQwenWords = kGpt4Words.replace(r"\p{N}{1,3}", r"\p{N}")
kByteAlphabet = pre_tokenizers.ByteLevel.alphabet()
kByteFallback = [f"<0x{byte:02X}>" for byte in range(256)]


def train_bpe(tokenizer: Tokenizer, special: list, size: int = 420, **options) -> Tokenizer:
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False, **options)
    tokenizer.train_from_iterator(kTraining, trainer)
    return tokenizer


def with_model(tokenizer: Tokenizer, **fields) -> Tokenizer:
    """The same tokenizer with other options of its model, which the trainer does not keep."""
    document = json.loads(tokenizer.to_str())
    document["model"].update(fields)
    return Tokenizer.from_str(json.dumps(document))


def byte_level(special: list, pre_tokenizer=None, normalizer=None, size: int = 420) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return train_bpe(tokenizer, special, size, initial_alphabet=kByteAlphabet)


def gpt2() -> Tokenizer:
    tokenizer = byte_level(["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def roberta() -> Tokenizer:
    tokenizer = byte_level(["<s>", "<pad>", "</s>", "<unk>"], pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return tokenizer


def opt() -> Tokenizer:
    tokenizer = byte_level(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(add_prefix_space=False, trim_offsets=True),
        processors.TemplateProcessing(single="</s> $A", pair="</s> $A </s> $B", special_tokens=[("</s>", 2)])])
    return tokenizer


def neox() -> Tokenizer:
    """NFC, and runs of blanks as added tokens that are not special."""
    tokenizer = byte_level(["<|endoftext|>", "<|padding|>"], normalizer=normalizers.NFC())
    tokenizer.add_tokens([AddedToken(" " * n, normalized=n % 2 == 0) for n in range(24, 1, -1)])
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
    return tokenizer


def bytes_missing() -> Tokenizer:
    """Byte-level without a full alphabet and without unknown token: some bytes are left out."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    return train_bpe(tokenizer, [], 200)


def bytes_normalized() -> Tokenizer:
    """Bytes spelled by the normalizer, so that added tokens are looked for among them."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?\w+|[^\w]+"), "isolated")
    tokenizer.decoder = decoders.ByteLevel()
    train_bpe(tokenizer, ["<unk>"], 300)
    tokenizer.add_tokens([AddedToken("\u00e9\u00e8", normalized=True), AddedToken("\u4e16", normalized=True)])
    return tokenizer


def llama2() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    train_bpe(tokenizer, ["<unk>", "<s>", "</s>"] + kByteFallback, 520, max_token_length=12)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]  # the older notation
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return keep(tokenizer, document)


def llama2_metaspace() -> Tokenizer:
    document = json.loads(text_of(llama2()))
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def llama2_unknown() -> Tokenizer:
    """Byte fallback with a byte missing: unknown tokens, not fused."""
    document = json.loads(text_of(llama2()))
    last = document["model"]["vocab"].pop("<0xF0>")
    document["model"]["vocab"]["<0xf0>"] = last
    document["model"]["fuse_unk"] = False
    return Tokenizer.from_str(json.dumps(document))


def gemma() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    train_bpe(tokenizer, ["<pad>", "<eos>", "<bos>", "<unk>"] + kByteFallback, 520, max_token_length=10)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:4]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_tokens([AddedToken("\n" * n, normalized=False) for n in range(2, 8)])
    tokenizer.add_tokens([AddedToken("\u2581" * n, normalized=False) for n in range(2, 8)])
    tokenizer.add_special_tokens(["<start_of_turn>", "<end_of_turn>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    return tokenizer


def llama3() -> Tokenizer:
    words = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(kGpt4Words), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = with_model(byte_level([], words), ignore_merges=True)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(add_prefix_space=True, trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer


def qwen() -> Tokenizer:
    words = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(kQwenWords), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_level([], words, normalizers.NFC())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False)
    return tokenizer


def bloom() -> Tokenizer:
    words = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_level(["<unk>", "<s>", "</s>", "<pad>"], words)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=True, trim_offsets=False)
    return tokenizer


def falcon() -> Tokenizer:
    words = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    return byte_level(["<|endoftext|>"], words)


def starcoder() -> Tokenizer:
    words = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return byte_level(["<|endoftext|>"], words)


def deepseek() -> Tokenizer:
    words = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex("[\r\n]"), "isolated"),
        pre_tokenizers.Split(Regex(r"\s?\p{L}+"), "isolated"), pre_tokenizers.Split(Regex(r"\s?\p{P}+"), "isolated"),
        pre_tokenizers.Split(Regex("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), "isolated"),
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return byte_level(["<|endoftext|>"], words)


def clip() -> Tokenizer:
    """A suffix at the ends of words, a pattern of words to keep, and `|` between alternatives that ignore case."""
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.BPEDecoder("</w>")])
    train_bpe(tokenizer, ["<|startoftext|>", "<|endoftext|>"], 700, initial_alphabet=kByteAlphabet, end_of_word_suffix="</w>")
    tokenizer.post_processor = processors.BertProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0))
    return tokenizer


def bpe_prefix() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKD(), normalizers.StripAccents(),
                                                 normalizers.Lowercase(), normalizers.Strip(left=True, right=True)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous")])
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    train_bpe(tokenizer, ["[UNK]"], 300, continuing_subword_prefix="##")
    tokenizer.add_tokens([AddedToken("dog", single_word=True, normalized=True), AddedToken("Mary", rstrip=True, normalized=True)])
    return tokenizer


def bpe_plain() -> Tokenizer:
    """Neither unknown token nor prefix: other characters vanish. Blanks go to the pieces behind them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_next")
    tokenizer.decoder = decoders.Fuse()
    return train_bpe(tokenizer, [], 260)


def word_piece(**normalizer) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=60))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(kTraining, trainers.WordPieceTrainer(vocab_size=420, special_tokens=special, show_progress=False))
    return tokenizer


def bert() -> Tokenizer:
    tokenizer = word_piece(lowercase=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def bert_cased() -> Tokenizer:
    tokenizer = word_piece(lowercase=False, strip_accents=False, handle_chinese_chars=True, clean_text=True)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def word_level() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(kTraining, trainers.WordLevelTrainer(vocab_size=150, special_tokens=["<unk>", "<s>"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def delimiters() -> Tokenizer:
    """Pre-tokenizers that no family in use has."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Split(Regex("[aiou]+"), "merged_with_next"),
        pre_tokenizers.Split("th", "contiguous"), pre_tokenizers.Punctuation("removed"), pre_tokenizers.FixedLength(length=7)])
    tokenizer.decoder = decoders.CTC(pad_token="[PAD]", word_delimiter_token="|", cleanup=True)
    tokenizer.train_from_iterator(kTraining, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[PAD]", "[UNK]"], show_progress=False))
    return tokenizer


def train_unigram(tokenizer: Tokenizer, special: list, size: int = 400) -> Tokenizer:
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(kTraining, trainer)
    return tokenizer


def charsmap(**options) -> bytes:
    """The rules that SentencePiece compiles for a model."""
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(kTraining), model_writer=model, vocab_size=300,
                                             hard_vocab_limit=False, minloglevel=2, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


kRules = [("\u00e9", "e"), ("e\u0301", "e"), ("\ufb01", "fi"), ("\u00a0", " "), ("\u3000", " "), ("\u200b", ""), ("\u2026", "..."),
          ("\u00df", "ss"), ("\u212b", "\u00e5"), ("\uff21", "A"), ("\uff22", "B"), ("\uff11", "1"), ("\u2460", "1"), ("\t", " "),
          ("\n", " "), ("\r", ""), ("\u0301", ""), ("\u4e2d", "\u4e2d\u570b"), ("\U0001f600", ":)"), ("\u1100\u1161", "\uac00"),
          ("\u2764\ufe0f", "<3"), ("\u0130", "i\u0307"), ("\u0130s", "is")]


def small_charsmap(folder) -> bytes:
    rules = folder / "rules.tsv"
    rules.write_text("".join(" ".join(f"{ord(c):X}" for c in old) + "\t" + " ".join(f"{ord(c):X}" for c in new) + "\n"
                             for old, new in kRules), encoding="utf-8")
    return charsmap(normalization_rule_tsv=str(rules))


def t5(rules: bytes) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(rules), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    train_unigram(tokenizer, ["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def xglm() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    train_unigram(tokenizer, ["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="</s> $A", special_tokens=[("</s>", 2)])
    return tokenizer


def unigram_bytes() -> Tokenizer:
    """Unigram with byte fallback, offsets trimmed, and added tokens that strip."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Nmt()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")])
    train_unigram(tokenizer, ["<unk>"])
    document = json.loads(tokenizer.to_str())
    document["model"]["vocab"] += [[piece, -20.0] for piece in kByteFallback]
    document["model"]["byte_fallback"] = True
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("dog", single_word=True, rstrip=True)])
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
    return tokenizer


kKept = {}


def keep(tokenizer: Tokenizer, document: dict) -> Tokenizer:
    """Remembers a file's own notation, which the package does not write."""
    written = json.loads(tokenizer.to_str())
    written["model"]["merges"] = document["model"]["merges"]
    kKept[id(tokenizer)] = (tokenizer, json.dumps(written, ensure_ascii=False))
    return tokenizer


def text_of(tokenizer: Tokenizer) -> str:
    """The tokenizer's tokenizer.json."""
    return kKept[id(tokenizer)][1] if id(tokenizer) in kKept else tokenizer.to_str()


def families(folder) -> dict:
    plain = [gpt2, roberta, opt, neox, bytes_missing, bytes_normalized, llama2, llama2_metaspace, llama2_unknown, gemma, llama3,
             qwen, bloom, falcon, starcoder, deepseek, clip, bpe_prefix, bpe_plain, bert, bert_cased, word_level, delimiters,
             xglm, unigram_bytes]
    made = {make.__name__: make() for make in plain}
    made["t5"] = t5(small_charsmap(folder))
    return made
