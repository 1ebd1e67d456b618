"""The texts of the tokenizer goldens: hard strings of our own making, and what the tiny vocabularies are trained on."""

import random

kTraining = [
    "The quick brown fox jumps over the lazy dog. It's a dog's life, isn't it? We're here; they've gone, I'm sure you'll say.",
    "When John and Mary went to the shop, John gave a bag to Mary. Then Mary gave the bag back to John, and they went home.",
    "def tokenize(text, *, limit=10):\n    for index, word in enumerate(text.split()):\n        if index >= limit:\n            return\n        yield word.lower()\n",
    "int main(int argc, char** argv) {\n\tstd::vector<int> numbers = {1, 22, 333, 4444};\n\treturn numbers.empty() ? 1 : 0;\n}\n",
    "Numbers: 0 1 12 123 1234 12345 3.14159 1,000,000 2024-11-21 10:30 0x7F 1e-5 50% $9.99 #42",
    "Der Fluß fließt über die Brücke. Où est la bibliothèque ? ¿Dónde está el niño? Ça va, naïve café façade.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ελληνικά γράμματα και λέξεις.",
    "今日は天気がいいですね。東京都に住んでいます。我们今天去北京，明天回来。한국어 문장을 나누어 봅시다.",
    "مرحبا بالعالم، كيف حالك اليوم؟ שלום עולם. नमस्ते दुनिया। สวัสดีชาวโลก",
    "Emoji 😀😃 and 👩‍👩‍👧‍👦 families, flags 🇩🇪🇫🇷, skin 👍🏽 and hearts ❤️ are here.",
    "Spaces   in    the     middle      of       lines\tand\ttabs\t\tand\n\nblank lines.\r\nWindows lines.\r\n",
    "under_score camelCase PascalCase kebab-case SCREAMING_CASE snake_case_again path/to/file.txt user@example.org",
]

kHand = [
    "", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\r", " \n ", "a", "A", " a", "a ", " a ", "  a  ", "ab", "é", "e\u0301",
    "Hello, world!", "hello world", "HELLO WORLD", "Hello  world", "It's John's; we'll, they'd, I've, you're, I'm",
    "IT'S JOHN'S WE'LL THEY'D I'VE YOU'RE I'M", "'\u017f '\u017fomething it'\u017f", "don\u2019t can\u2019t",
    "'s's's 't 're've'm'll'd", "''", "'", " '", "' s", "x'S x'T x'RE",
    "The quick brown fox jumps over the lazy dog.", "John gave a bag to Mary", "tokenization untokenizable",
    "1", "12", "123", "1234", "12345678901234567890", "3.14159", "1,234,567.89", "-1", "1e10", "0x1F", "2024-11-21T10:30:00Z",
    "\u0661\u0662\u0663 \u0967\u0968\u0969", "\u00bd \u00b2 \u2163 \u2460 \u3007", "1st 2nd 3rd", "a1b2c3", "100%",
    "a  b   c    d     e", "        indented", "trailing        ", "\t\ttabs\tand \t mixed", "line\nline\r\nline\rline\n\n\nend",
    "a \n b", "a\n b", "a \nb", "\u00a0", "a\u00a0b", "a\u2003b\u3000c", "\u2028a\u2029b", "\u200b", "a\u200bb", "\ufeffa", "a\u0085b",
    "\x00", "a\x00b", "\x01\x02\x1f\x7f", "a\x07b\x1bc", "\x1c\x1d\x1e\x1f",
    "\u00e9\u00e8\u00ea", "Stra\u00dfe \u1e9e STRASSE", "\u0130stanbul \u0131 I i", "\u01c5 \u01c4 \u01c6", "\ufb01 \ufb03 \u2122 \u2026",
    "\u212b \u00c5 A\u030a", "\u1e69 s\u0323\u0307 s\u0307\u0323 \u1e0b\u0323", "q\u0307\u0323 q\u0323\u0307", "\u0344 \u0385", "\u0958 \u0929",
    "\u1100\u1161\u11a8 \uac01 \uac00\u11a8", "\u3131 \uffa1 \u3371", "\uff21\uff22\uff23 \uff11\uff12\uff13 \uff76\uff9e", "\u2460\u2461 \u337f",
    "\u0301", "\u0301a", "a\u0301\u0302\u0303\u0304\u0305\u0306", "Z\u0351\u036b\u0343\u036aA\u0334\u0335L\u0321\u0322G\u0344\u0345O\u0346",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\u4eca\u65e5\u306f\u3044\u3044\u5929\u6c17\u3067\u3059\u306d\u3002", "\u30c6\u30b9\u30c8\u30fc", "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8",
    "abc\u4e2d\u6587def", "\U00020000\U0002a6d6\U0002b740", "\u3400\u4dbf\uf900", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u202eabc\u202c", "\u05e9\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u1019\u103c\u1014\u103a\u1019\u102c", "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd", "\u17a2\u17d2\u1793\u1780", "\u0f56\u0f7c\u0f51\u0f0b",
    "\U0001f600", "\U0001f600\U0001f603 \U0001f604", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\u00a9\u00ae\u2120", "\u20ac\u00a3\u00a5 $5", "\u221e \u2211 \u222b \u2202x", "\u2192\u21d2\u2194",
    "\U0001d4d7\U0001d4ee\U0001d4f5\U0001d4f5\U0001d4f8", "\U00010400\U00010428", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\ue000\U000f0000", "\u0378", "\U00012345",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "...", "!!!???", "(a)[b]{c}<d>", "\u00bfQu\u00e9? \u00a1No!", "\u2018\u2019\u201c\u201d\u2013\u2014", "\u3001\u3002\u300c\u300d", "a-b_c.d,e;f:g", "$$$ ^^^ ~~~ ```",
    "def f(x):\n    return x + 1\n", "if (a && b || !c) { x->y = z[0]; }", "#include <vector>\n\nint main() {}\n", "<html><body class=\"x\">&amp;</body></html>",
    "https://example.org/a/b?c=d&e=f#g", "user@example.org", "C:\\path\\to\\file", "/usr/local/bin", "--flag=value", "\\n\\t\\u0041", "%s %d %n", "${jndi:x}", "'; DROP TABLE users; --", "../../etc", "NULL null nil None undefined NaN inf", "true false",
    "<s>", "</s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", " <|endoftext|> ", "<|endoftext", "endoftext|>",
    "Hello <mask> world", "Hello<mask>world", "Hello   <mask>   world", "<mask>  ", "  <mask>", "a <s> b </s> c", "<s><s>", "[MASK]s", "the [MASK] sat", "x[CLS]y", "<|im_start|>user\nHi<|im_end|>", "<start_of_turn>user", "special words: dog dogs dog, hotdog dog",
    "<0x41>", "<0x0A>", "<0xZZ>", "\u2581", "a\u2581b", " \u2581 \u2581\u2581", "\u0120a", "\u010a", "##a", "a##b", "a</w>b", "@@", "|",
    "antidisestablishmentarianism", "supercalifragilisticexpialidocious " * 3, "a" * 120, "ab" * 30, " " * 70, "\n" * 20, "\u4e2d" * 31, "\U0001f600" * 5, "e\u0301" * 16, "-" * 40, "=" * 33 + "\n", "word " * 12, "1" * 20, "." * 30, "\u0301" * 10, "aA" * 15, "x y " * 8,
    "\u0e33\u0e33 \u0eb3", "\u1ea0\u0306 \u1eb6 A\u0323\u0306", "\u2126 \u03a9 K \u212a", "\u0149 \u017f\u0307 \u1e9b\u0323", "\u00aa \u00ba \u02b0", "\u3000\u3000\u4f60\u597d\u3000", "a\u00adb", "\u180e", "\u2060x\u2061", "\u061c\u0627",
    "\u0898x\u08d3 \u1abf\u1ac0", "a\u1ac1\u0323", "\U00011938 \U00011935\U00011930", "\u32ff \ua7f2 \uab69", "\U00010780\U00010781 \U0001fbf0", "\u166d \u061d \u0a76", "\u1734 \u180f \u1df9", "\u0890\u08e2", "\ua7cb \u1c89 \U00010d50",
]

kAlphabets = [
    "abcdefghijklmnopqrstuvwxyz    ", "abcXYZ 0123456789  .,!?'\"", "  \n\t\r\u00a0\u3000ab", "\u00e9e\u0301\u0302n\u0303 \u00f1\u0323o\u0308\u0304",
    "\u4e2d\u6587\u5b57 a1,\u3002\uff01", "\U0001f600\U0001f468\u200d\U0001f469\ufe0f\U0001f3fd a", "\u0627\u0644\u0633\u0644\u0627\u0645 \u064b\u0650", "\uac00\u1100\u1161\u11a8 \u3131x",
    "'sStTrReEvVmMlLdD\u017f ", "(){}[];=+-*/<>&|!_ \n    ax0", "\x00\x01\x1f\x7f\u0080\u009f\u200b\u200d\ufeffa ", "\u0301\u0323\u0334\u0345\u0f71\u0f72\u3099a",
]


def texts() -> list:
    """Every text once: those written by hand, the training texts, and random ones over alphabets that clash."""
    generator = random.Random(5)
    made = list(kHand) + list(kTraining)
    for alphabet in kAlphabets:
        for length in (6, 20):
            made.append("".join(generator.choice(alphabet) for _ in range(length)))
    everything = "".join(kAlphabets)
    for _ in range(12):
        made.append("".join(generator.choice(everything) for _ in range(25)))
    return list(dict.fromkeys(made))
