"""Hostile texts: a fixed list, and strategies that make up more.

Everything known to have broken an encoder somewhere stands in `HOSTILE`: white space of every
kind, marks, digits of every category, case changes, contractions, bytes' edges, runs of every
length class, characters that normalisation changes, and things written like tokens. Lone
surrogates are absent: they are no text, and the tests of errors cover them.
"""

from hypothesis import strategies as st

# White_Space of Unicode, and what other engines wrongly count as such.
WHITE_SPACE = [chr(code) for code in (9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680)] + [
    chr(code) for code in (*range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
]
NOT_WHITE_SPACE = ["\x1c", "\x1d", "\x1e", "\x1f", "\u180e", "\u200b", "\u2060", "\ufeff"]

SPECIAL_LOOKALIKES = [
    "<s>",
    "</s>",
    "<unk>",
    "<mask>",
    "<|endoftext|>",
    "<|endofprompt|>",
    "<|im_end|>",
    "<0x0A>",
    "[CLS]",
    "[INST]",
]

HOSTILE: list[str] = [
    "",
    " ",
    "  ",
    "\n",
    "\r\n",
    "a",
    "a  b",
    "a \n b",
    "x \n\n ",
    " \n ",
    "word\n\nnext",
    "\r\n\r\n",
    "\n \n\t x",
    "\n\n  \n",
    "a\tb\t\tc",
    "  \n",
    " x",
    "   x   y   ",
    "Hello, world! How are you?",
    " leading and trailing ",
    "I'm you're he'll I'd can't WE'VE I'M o'clock",
    "'ſa 'RE can''s 's's don't can'ts ''",
    "HTTPResponse AxxB camelCaseString XMLHttp2Request",
    "ǅa ªº 中A文b ßẞ",
    ".\n//  /\n */\r\n\r\n!",
    "(foo \tfoo \u3000中   foo __foo !!foo",
    "1234567 12345678901 1 12 123 1234",
    "٢1234 ½²Ⅷ 12３45 १२३४",
    "e\u0301a e\u0301\u0302\u0303 a\u0300\u0315",
    "हिन्दी สวัสดีครับ ภาษาไทย",
    "中文123abc ァ9中 x 12 中 日本語テキスト",
    "한국어 텍스트 \u1112\u1161\u11ab",
    "naïve café Ünïcödé ÅÅÅ",
    "🙂👨‍👩‍👧‍👦🏳️‍🌈 emoji☃☃☃",
    "العربية עברית русский ελληνικά",
    "ﬁ ﬂ ﾊﾟ ｶﾞ ㎏ Ⅷ ½ ，．！",
    "İstanbul ıI ŞŞ ΑΣ ΑΣ. ǅ ŉ",
    "\u1fbd\u1fef\u2000\u2001 \u0344\u0343",
    "\u0eb9\u0eba \u1df8\u1df9 \U00010f84\U00010f85 \U00011839\U0001183a",
    "\U0001611e\U0001611f \U00016d67\U00016d68 \U0001e5ee\U0001e5ef",
    "\U00016ea0 \U00010940 \U000323b0 \U0003ffff \U0010ffff \ue000",
    "a\u200bb a\u200db a\u2060b a\ufeffb \u00ad",
    "a\x00b \x00 \x00\x00\x00 \x7f \x1b[0m",
    "\ufffd \ufffd\ufffd",
    "▁ ▁a a▁b ▁▁ \u2581",
    "Ġhello Ċ Ã© ġ",
    "<0x0A> <0xE2><0x98><0x83> <0x00>",
    "a</w> </w> ##a a## @@",
    "<s><s> <s>x <s> x x<s> </s>",
    "foo<mask>bar foo <mask> bar <mask>  <mask>",
    "<|endoftext|> <|endoftext|><|endoftext|>x<|endoftext|",
    "<|endo<|endoftext|>ftext|> <|a|>b <|a|>",
    "……… … --- ——— ''' ``` === ***",
    "a,b;c.d!e?f:g",
    "$100.50 50% #tag @user a&b x^2 [1] {2} (3)",
    "https://example.com/a/b?c=d&e=f#g user@example.com",
    "def f(x):\n    return x  # comment\n\n\n\tif y:\n\t\tpass\n",
    '{"key": "va\\"lue", "n": [1, 2.5, -3e10]}',
    "\u2029 \ua3e4 \u2028x",
    "aaaaaaa aaaaaaaa aaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa",
    "the quick brown fox the quick brown fox",
    "ababababab abcabcabc lowlowerlowest",
    "a" * 65,
    " " * 65 + "x",
    "\n" * 33,
    "中" * 40,
    "\u0301" * 20,
    "1" * 31,
    "^" * 64,
    "=" * 127,
    "x" * 63 + " y",
    "x" * 61 + "'s y",
    "".join(f"a{char}b" for char in WHITE_SPACE),
    "".join(f"a{char}b" for char in NOT_WHITE_SPACE),
    "".join(f" {char}{char} " for char in WHITE_SPACE),
]

_FRAGMENTS = st.sampled_from(
    [
        *WHITE_SPACE,
        *NOT_WHITE_SPACE,
        *SPECIAL_LOOKALIKES,
        *"aAbeEstxX019'’.,!?-_/\\#<>|[]()=^~",
        *[
            "'s",
            "'RE",
            "'ſ",
            "n't",
            "the",
            " the",
            "ing",
            " lower",
            "  ",
            "\n\n",
            "\r\n",
            "12",
            "000",
        ],
        *[
            "é",
            "e\u0301",
            "\u0301",
            "ß",
            "ſ",
            "İ",
            "ǅ",
            "ª",
            "Σ",
            "ﬁ",
            "½",
            "²",
            "Ⅷ",
            "٣",
            "３",
            "₂",
        ],
        *["中", "文", "の", "カ", "ﾊ", "ﾟ", "한", "\u1112\u1161", "ไ", "ท", "ह", "\u093f", "ش", "ש"],
        *[
            "🙂",
            "☃",
            "\u200d",
            "\ufe0f",
            "🏽",
            "▁",
            "Ġ",
            "Ċ",
            "</w>",
            "##",
            "\x00",
            "\ufffd",
            "\xad",
        ],
        *["\u0eb9\u0eba", "\U00016ea0", "\U00010940", "\ue000", "\U0010ffff", "\U0001d400", "㎏"],
    ]
)
_CHARACTERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_RUNS = st.builds(lambda part, times: part * times, _FRAGMENTS, st.integers(1, 40))
_PARTS = st.one_of(_FRAGMENTS, _FRAGMENTS, _FRAGMENTS, st.sampled_from(HOSTILE), _CHARACTERS, _RUNS)


def texts(max_parts: int = 12, *extra: str) -> st.SearchStrategy[str]:
    """Hostile texts; `extra` are strings that shall stand in them often, such as added tokens."""
    parts = st.one_of(_PARTS, st.sampled_from(extra)) if extra else _PARTS
    return st.lists(parts, max_size=max_parts).map("".join)
