"""Inputs that have broken encoders, one test for each of 25 kinds.

Rank files are compared with tiktoken, tokenizer.json with `tokenizers`, .model files with
sentencepiece.
"""

import json
import os
import random
import string
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import json_cases as cases
import pytest
import tiny
from gristmill import EMBEDDED, Tokenizer, TokenizerError
from json_cases import Json
from oracles import HuggingFace, SentencePiece
from test_oracle_json import check_text
from test_oracle_tiktoken import made_up_pair_of
from texts import HOSTILE, NOT_WHITE_SPACE, WHITE_SPACE

RANK_FILES = ("gpt2", "cl100k_base", "o200k_base")
QWEN_PATTERN = cases.CL100K_PATTERN.replace("{1,3}", "")
MARKS_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def by_ranks(texts: Iterable[str], names: Iterable[str] = RANK_FILES) -> None:
    """Equal to tiktoken, alone and inside other text."""
    for name in names:
        ours, theirs = Tokenizer(name), made_up_pair_of(name)
        for text in texts:
            for around in (text, f"x{text}", f"{text}x", f" {text} ", f"\n{text}\n", text * 3):
                assert ours.encode(around) == theirs.ids(around), (name, around)
                assert ours.decode(ours.encode(around)) == around


def by_json(content: Json, *texts: str) -> None:
    """Equal to `tokenizers`: ids, places and text, with all policies."""
    data = json.dumps(content)
    ours, theirs = Tokenizer.from_bytes(data.encode()), HuggingFace(data)
    for text in texts:
        check_text(ours, theirs, text)


def with_pattern(pattern: str, **changes: Any) -> Json:
    """A byte-level file that cuts by a pattern, as Llama 3, Qwen and others do."""
    cut = cases.after_bytes(cases.split({"Regex": pattern}))
    return cases.by_bytes(pre_tokenizer=cut, **changes)


def in_all(*texts: str) -> None:
    by_ranks(texts)
    for pattern in (cases.GPT2_PATTERN, cases.CL100K_PATTERN, QWEN_PATTERN, MARKS_PATTERN):
        by_json(with_pattern(pattern), *texts)


def test_01_space_before_a_word_belongs_to_the_word() -> None:
    in_all("a  b", "a \n b", "x \n\n ", " \n ", "a   ", "   a", "\t \tx", "a \u3000 b")
    # The look-ahead at the edge of a block of 64 bytes.
    in_all(*("x" * number + "  y" for number in (61, 62, 63, 64, 65, 127, 128)))


def test_02_newlines() -> None:
    assert Tokenizer("cl100k_base").encode("word\n\nnext") == [1178, 271, 3684]
    in_all("word\n\nnext", "\r\n\r\n", "\n \n\t x", "\n\n\n", " \n\n x", "a\n", "\r\r\n", "a \r b")
    newlines = [a + b + c + d for a in " \n\r" for b in "\n\t " for c in "\n x" for d in "\r\n "]
    in_all(*newlines)


def test_03_contractions() -> None:
    in_all("'ſa", "'RE", "I'M", "can''s", "'s's", "don't", "can'ts", "we'LL'd", "'", "x'", "'ſ'S'İ")
    in_all(*("x" * number + "'s y'RE" for number in range(58, 67)))
    every = [f"a'{a}{b}" for a in "sdmtlvrSDMTLVRſ" for b in "leEL x"]
    by_ranks(every)


def test_04_white_space() -> None:
    in_all(*(f"a{char}b {char} c{char}{char}d" for char in WHITE_SPACE))
    in_all(*(f"a{char}b {char} c{char}{char}d" for char in NOT_WHITE_SPACE))
    in_all("\u2029 \ua3e4")


def test_05_unicode_version() -> None:
    """Letters of Unicode 17 that are unassigned in 16, and letters that are new in 16."""
    new = ["\U00016ea0", "\U00010940", "\U000323b0", "\U00010d50", "\U000105c0", "\ua7cb", "\u1c89"]
    in_all(*(f"a{char}b {char}{char} 1{char}2" for char in new))


def test_06_normal_forms_are_of_unicode_9() -> None:
    pairs = ["\u0eb9\u0eba", "\u1df8\u1df9", "\U00010f84\U00010f85", "\U00011839\U0001183a"]
    pairs += ["\U0001611e\U0001611f", "\U00016d67\U00016d68", "\U0001e5ee\U0001e5ef"]
    pairs += ["\u1fbd", "e\u0301", "\u212b", "\uac00\u11a8", "\u1100\u1161\u11a8", "\ufb01\u0301"]
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        content = cases.by_bytes(normalizer={"type": form}, pre_tokenizer=cases.byte_level())
        by_json(content, *pairs, *(pair[::-1] for pair in pairs), "".join(pairs))


def test_07_numbers() -> None:
    in_all(
        "1234567", "٢1234", "½²Ⅷ", "12３45", "1" * 200, "١٢٣٤٥٦٧", "a1b22c333d4444", "1,234.5e10"
    )
    in_all(*("x" * number + "1234567" for number in range(58, 68)))


def test_08_marks() -> None:
    in_all(
        "e\u0301a",
        "हिन्दी",
        "สวัสดี",
        "\u0301",
        "a\u0301\u0302b",
        " \u0301a",
        "1\u0301",
        "\u0301\u0301 x",
    )


def test_09_cases() -> None:
    in_all(
        "HTTPResponse",
        "AxxB",
        "ǅa",
        "ªº",
        "中A文b",
        ".\n//",
        " /\n",
        "aB",
        "Ab",
        "ABc",
        "ÀÉîÕ",
        "Ⅷⅷ",
    )
    letters = "aA中ªǅ\u0301ß"
    by_ranks([a + b + c for a in letters for b in letters for c in letters], ["o200k_base"])


def test_10_one_symbol_before_a_word() -> None:
    in_all(
        "(foo", "\tfoo", "\u3000中", "  foo", "__foo", "!!foo", "\u200bfoo", "\n foo", "-\u0301foo"
    )


def test_11_the_first_alternative_wins() -> None:
    """Leftmost first, not leftmost longest; possessive and greedy forms differ."""
    texts = ["'s", "'ss", "  \n", "aab", "abab", "foo foo", "  \n  x", "aaa"]
    for pattern in (
        r"a|ab|abc",
        r"ab?|abab",
        r"\s++x|\s",
        r"\s+x|\s",
        r"a*+a|a",
        r"(?>a+)b|a",
        r"a??b|a",
    ):
        by_json(with_pattern(pattern), *texts, *HOSTILE)


def test_12_ignore_merges_and_tokens_that_merges_do_not_reach() -> None:
    vocab = cases.by_bytes()["model"]["vocab"]
    words = [" Arthropoda", " Japón", "<|endoftext|>", "the quick"]
    more = {tiny.to_alphabet(word): len(vocab) + n for n, word in enumerate(words)}
    found = []
    for ignore in (True, False):
        content = cases.with_model(
            with_pattern(cases.CL100K_PATTERN), vocab=vocab | more, ignore_merges=ignore
        )
        by_json(content, *words, *HOSTILE)
        found.append(Tokenizer.from_bytes(json.dumps(content).encode()).encode(words[0]))
    assert found[0] == [len(vocab)]
    assert len(found[1]) > 1
    assert len(Tokenizer("gpt2").encode("<|endoftext|>")) == 7


def test_13_ranks_are_not_merges() -> None:
    bytes_ = cases.by_bytes()
    merges = bytes_["model"]["merges"]
    again = [*merges, *merges[:50]]
    by_json(cases.with_model(bytes_, merges=again), *HOSTILE)
    by_json(cases.with_model(bytes_, merges=merges[::-1]), *HOSTILE)
    # Merges that make the same token in two ways, of which ranks would know only one.
    pairs = [["b", "c"], ["a", "bc"], ["a", "b"], ["ab", "c"]]
    abc = {**{char: n for n, char in enumerate(tiny.ALPHABET.values())}}
    abc |= {token: 300 + n for n, token in enumerate(["bc", "abc", "ab"])}
    content = cases.with_model(bytes_, vocab=abc, merges=pairs) | {"added_tokens": []}
    by_json(content, "abc", "aabcc", "abab", "cabc", "bcbc", "abcabc")
    by_json(cases.without_vocab(bytes_, "ĉ", "ê", "Ā"), *HOSTILE)
    # Ids in an order of their own, and with gaps.
    vocab = bytes_["model"]["vocab"]
    names = sorted(vocab, key=lambda token: (token not in cases.SPECIALS, token[::-1]))
    for step in (1, 3):
        ids = {token: number * step for number, token in enumerate(names)}
        by_json(cases.with_model(bytes_, vocab=ids), *HOSTILE)


def test_14_byte_fallback_and_unknown_characters() -> None:
    plain = cases.by_characters()
    vocab = plain["model"]["vocab"]
    every = {f"<0x{byte:02X}>": len(vocab) + byte for byte in range(256)}
    texts = ["\t", "🙂", "\U000e0fff", "☃☃", "☃a☃", "<0x0A>", "\n☃\n", "☃\t☃", "a☃☃🙂b", "\0"]
    for tokens in (every, {k: v for k, v in every.items() if k[3] in "0F9"}, {}):
        for unk in ("<unk>", None):
            for fuse in (False, True):
                for fallback in (False, True):
                    content = cases.with_model(
                        plain,
                        vocab=vocab | tokens,
                        unk_token=unk,
                        fuse_unk=fuse,
                        byte_fallback=fallback,
                    )
                    by_json(content | {"decoder": cases.decoders()["llama"]}, *texts)


def test_15_added_tokens() -> None:
    base = cases.by_bytes(normalizer={"type": "Lowercase"}, pre_tokenizer=cases.byte_level())
    content = cases.with_tokens(base, "<mask>", special=True, lstrip=True)
    content = cases.with_tokens(content, "<|im_end|>", special=True, rstrip=True)
    content = cases.with_tokens(content, "<tok>", single_word=True, normalized=False)
    content = cases.with_tokens(content, "<|a|>", "<|a|>b", normalized=False)
    content = cases.with_tokens(content, "Loud", normalized=True)
    content = cases.with_tokens(content, "the", special=True)
    content = cases.with_tokens(content, *(" " * n for n in range(2, 12)), normalized=False)
    by_json(
        content,
        *("<s><s>", "a<mask> b", "a <mask> b", "a\u3000\xa0<mask>", "x <|im_end|>\n y"),
        *("foobar<tok>baz", "foobar <tok> baz", "<tok><tok>", "_<tok>", "é<tok>", "<|a|>b<|a|>"),
        *("LOUD loud Loud", "the other", "other", "a" + " " * 7 + "b", "  <mask>  ", " " * 40),
        *HOSTILE,
    )


def test_16_policies_of_tiktoken() -> None:
    text = " <|endoftext|> x<|endoftext|><|endofprompt|>\n<|endoftext"
    for name in RANK_FILES:
        ours, theirs = Tokenizer(name), made_up_pair_of(name)
        assert ours.encode(text) == theirs.ids(text)
        assert ours.encode(text, special="parse") == theirs.ids(text, "parse")
        for some in ({"<|endoftext|>"}, set[str]()):
            assert ours.encode(text, special=some) == theirs.ids(text, some)
        with pytest.raises(ValueError, match="disallowed special token"):
            theirs.ids(text, "forbid")
        with pytest.raises(TokenizerError, match="at byte 1"):
            ours.encode(text, special="forbid")
    # Of tokens that start at one place tiktoken takes the first in an order of its own; here it is
    # the longest.
    longest = {"<a>": 900, "<a><b>": 901, "<b>": 902}
    ours = Tokenizer.from_bytes(tiny.rank_file(), pattern=tiny.PATTERN, special_tokens=longest)
    assert ours.encode("<a><b><a><b", special="parse")[:2] == [901, 900]


def test_17_prefix_space() -> None:
    texts = [
        "x",
        " x",
        "",
        "\tx",
        "\u3000x",
        "<s>x",
        "<s> x",
        "x<s>x",
        "<s>",
        " <s>",
        "<s><s>x",
        "▁",
        "▁x",
    ]
    texts += ["a <s> b", "\nx", "a▁b", "<s>▁x"]
    by_json(cases.by_bytes(pre_tokenizer=cases.byte_level(True)), *texts)
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            by_json(cases.by_characters(pre_tokenizer=cases.metaspace(scheme, cut)), *texts)
    by_json(cases.by_characters(normalizer=cases.normalizers()["llama"]), *texts)
    for prefix in (True, False):
        model = tiny.sentencepiece(prefix=prefix)
        for text in texts:
            assert Tokenizer.from_bytes(model).encode(text) == SentencePiece(model).ids(text)


def test_18_the_file_says_what_to_do(tmp_path: Path) -> None:
    """What stands beside it, such as the name of a class that does otherwise, does not count."""
    content = with_pattern(cases.CL100K_PATTERN)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    config = {"tokenizer_class": "LlamaTokenizerFast", "add_prefix_space": True, "legacy": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    theirs = HuggingFace(json.dumps(content))
    for text in HOSTILE:
        assert Tokenizer(tmp_path).encode(text) == theirs.ids(text)


def test_19_pre_tokenizers() -> None:
    by_json(cases.by_bytes(normalizer={"type": "ByteLevel"}, pre_tokenizer=None), *HOSTILE)
    deepseek = cases.pre_tokenizers()["deepseek"]
    content = cases.by_bytes(pre_tokenizer=cases.after_bytes(deepseek))
    by_json(content, "中文123abc", "ァ9中 x", "12 中", "1 中 2  中", "ab\n中\n", *HOSTILE)
    for behavior in cases.BEHAVIORS:
        for invert in (True, False):
            cut = cases.split({"Regex": r"\s+"}, behavior, invert)
            by_json(cases.by_bytes(pre_tokenizer=cases.after_bytes(cut)), *HOSTILE)


def test_20_text_that_is_none() -> None:
    for name in RANK_FILES:
        ours, theirs = Tokenizer(name), made_up_pair_of(name)
        for data in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"a\xe4\xbd", b"\xbf"):
            with pytest.raises(UnicodeDecodeError):
                ours.encode(data)
        with pytest.raises(UnicodeEncodeError):
            ours.encode("\ud83d")
        bytes_ = [ours.token_to_id(bytes([byte])) for byte in range(256)]
        ids = [id for id in bytes_ if id is not None]
        assert len(ids) == 256
        # Pairs of bytes of every kind, then bytes that leave characters unfinished.
        pairs = [id for first in ids[::5] for second in ids[::3] for id in (first, second)]
        for some in (
            ids,
            ids[::-1],
            pairs,
            [ids[0xE4], ids[0xBD], ids[0x41], ids[0xF0], ids[0x9F]],
        ):
            assert ours.decode(some) == theirs.decode(some)
            assert ours.decode_bytes(some) == theirs.decode_bytes(some)
        for unknown in (-1, ours.vocab_size, 2**40):
            with pytest.raises(KeyError):
                ours.decode([*ids[:2], unknown])
        text = "\ufffd a\ufffd"
        assert ours.decode(ours.encode(text)) == text


def test_21_lengths() -> None:
    lengths = [*range(1, 40), 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000]
    for character in ("a", "^", " ", "\n", "=", "中", "\u0301", "1", "☃"):
        texts = [character * number for number in lengths]
        by_json(with_pattern(cases.CL100K_PATTERN), *texts)
        by_json(cases.by_characters(), *texts[:42])
        by_ranks(texts[::3], ["o200k_base"])
    ours, theirs = Tokenizer("o200k_base"), made_up_pair_of("o200k_base")
    for character in ("a", "^", " ", "\n", "\t", "=", "中", "\u0301", "1"):
        for number in (*range(1, 131), 65535, 65536, 65537, 1_000_000):
            text = character * number
            if number == 1_000_000 and character in " \t":
                # tiktoken's engine overflows its stack; all of it is known to be one piece.
                ids = ours.encode(text)
                assert ours.decode(ids) == text
                assert set(ids[:-2]) == {ids[0]}
                continue
            assert ours.encode(text) == theirs.ids(text), (character, number)
    zeros = ["a" + "\0" * number for number in range(20)]
    by_ranks(zeros, ["gpt2"])
    by_json(with_pattern(cases.GPT2_PATTERN), *zeros, "\0" * 15, "\0" * 14)


def test_22_where_a_text_stands_does_not_matter() -> None:
    ours, theirs = Tokenizer("cl100k_base"), made_up_pair_of("cl100k_base")
    for padding in ("y", "中", " "):
        for text in HOSTILE[1:]:
            whole = [padding * number + text + padding for number in range(131)]
            expected = [theirs.ids(text) for text in whole]
            for threads in (1, 2, 5):
                assert ours.encode_batch(whole, threads=threads) == expected


def test_22_what_the_processor_can_do_does_not_matter() -> None:
    """The same ids with every instruction set, each in a process of its own."""
    program = (
        "import hashlib, gristmill, texts\n"
        "whole = [c * n + t + c for c in 'y中 ' for t in texts.HOSTILE for n in range(0, 131, 7)]\n"
        "whole += [''.join(texts.HOSTILE) * 3]\n"
        "for name in gristmill.EMBEDDED:\n"
        "    ids = gristmill.Tokenizer(name).encode_batch(whole)\n"
        "    print(hashlib.sha256(repr(ids).encode()).hexdigest())\n"
    )
    found = set()
    for tier in ("avx512", "avx2", "neon", "plain"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "GRISTMILL_SIMD": tier, "PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1
    assert len(found.pop().split()) == len(EMBEDDED)


def test_23_ends_of_lines_and_marks_of_byte_order(tmp_path: Path) -> None:
    texts = ["\ufeffa", "a\r\nb\r\n", "a\nb", "a\n\n", "", "\ufeff"]
    by_ranks(texts)
    ours = Tokenizer("gpt2")
    assert ours.encode_batch(texts)[4] == []
    assert ours.encode_batch_numpy(texts)[1].tolist()[4] == ours.encode_batch_numpy(texts)[1][5]
    assert ours.decode(ours.encode(b"\xef\xbb\xbfa")) == "\ufeffa"
    content = json.loads(tiny.byte_level_json())
    for ensure_ascii in (True, False):
        data = json.dumps(content, ensure_ascii=ensure_ascii).encode()
        assert Tokenizer.from_bytes(data).encode("Mühle 水車") == HuggingFace(data).ids(
            "Mühle 水車"
        )
    with pytest.raises(TokenizerError):
        Tokenizer.from_bytes(json.dumps(content).replace("<|fim|>", "\\ud83d").encode())


@pytest.mark.parametrize("kind", ["WordPiece", "Unigram", "WordLevel"])
def test_24_other_models_are_refused_by_name(kind: str) -> None:
    """Their traps wait for the day on which they are added."""
    content = cases.with_model(cases.by_bytes(), type=kind)
    with pytest.raises(TokenizerError, match=kind):
        Tokenizer.from_bytes(json.dumps(content).encode())


def test_25_the_cache_is_not_seen() -> None:
    texts = [*HOSTILE, *tiny.PARAGRAPH.split(), *string.printable]
    for name in RANK_FILES:
        ours, theirs = Tokenizer(name), made_up_pair_of(name)
        expected = [theirs.ids(text) for text in texts]
        for _ in range(2):
            assert [ours.encode(text) for text in texts] == expected
            assert [ours.encode(text) for text in texts[::-1]] == expected[::-1]
            assert ours.encode_batch(texts * 3, threads=8) == expected * 3
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(ours.encode_batch, [texts] * 16):
                assert found == expected
        # More different pieces than the cache holds.
        source = random.Random(0)
        many = " ".join(f"{source.getrandbits(80):x}" for _ in range(60_000))
        assert ours.encode(many) == theirs.ids(many)
        assert [ours.encode(text) for text in texts] == expected
        assert ours.encode(many) == theirs.ids(many)
