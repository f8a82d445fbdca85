"""Merges equal to those of the trainers that Gristmill follows, and of the definitions.

rustbpe, tokenizers and sentencepiece are the packages themselves. minbpe's and CS336's rules are in
`trainers.py`, which is held to the packages here.
"""

import io
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import gristmill
import pytest
import regex
import rustbpe
import sentencepiece
import tiny
import tokenizers
import trainers
from gristmill import Tokenizer, TokenizerError, WordCounts, extend, prune
from gristmill.compat import rustbpe as stand_in
from oracles import TikToken
from tokenizers import decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

# Its options are parameters of tests, whose types are not followed.
Trainer: Any = gristmill.Trainer
EMOJI = "🙂🙃😀 👩‍👩‍👧‍👦 🏳️‍🌈 ☃☃☃ 🙂🙂🙂🙂 👍🏽👍🏽 ❤️❤️ e\u0301\u0301 "
RUNS = " ".join(char * n for n in range(1, 40) for char in "ab =\n\t中🙂")
CODE = "".join(
    f"def f{n}(x, y):\n    if x[{n}] != {n * 37}:\n        return x + {n % 7}  # {n:#x}\n\n\n"
    for n in range(60)
)
TEXTS: dict[str, list[str]] = {
    "english": Path(__file__).read_text(encoding="utf-8").splitlines(True),
    "paragraph": tiny.PARAGRAPH.splitlines(True) * 3,
    "chinese": ["水车磨面粉,磨坊主在睡觉。水车水車。小麦在磨坊里磨成面粉,面粉做成面包。" * 2] * 3,
    "japanese": ["水車は小麦を挽く。粉屋は眠っている。コムギをひいてパンをやくコムギコ。"] * 4,
    "code": [CODE],
    "runs": [RUNS, "a" * 333, " " * 700, "ab" * 200, "aab" * 99],
    "emoji": [EMOJI * 5, EMOJI[::-1]],
    "empty": [],
    "empty texts": ["", "", "x"],
}


def tokens_of(tok: Tokenizer, special: int = 0) -> list[bytes]:
    return [tok.token_bytes(id) for id in range(tok.vocab_size - special)]


def of_rustbpe(texts: list[str], size: int, **options: Any) -> list[bytes]:
    theirs = rustbpe.Tokenizer()
    theirs.train_from_iterator(iter(texts), size, **options)
    ranks = {bytes(token): rank for token, rank in theirs.get_mergeable_ranks()}
    return sorted(ranks, key=lambda token: ranks[token])


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [256, 300, 2000, 32_768])
def test_rustbpe(name: str, size: int) -> None:
    assert tokens_of(Trainer(size).train(TEXTS[name])) == of_rustbpe(TEXTS[name], size)


@pytest.mark.parametrize("pattern", [trainers.GPT2, trainers.PLAIN, r"\w+", r"zzz", r"[\s\S]+"])
def test_rustbpe_with_a_pattern(pattern: str) -> None:
    texts = [text for texts in TEXTS.values() for text in texts]
    ours = Trainer(700, pattern=pattern).train(texts)
    assert tokens_of(ours) == of_rustbpe(texts, 700, pattern=pattern)


# --- tokenizers


def of_tokenizers(texts: list[str], pattern: str | None, byte_level: bool, **options: Any) -> Any:
    theirs = tokenizers.Tokenizer(models.BPE())
    steps: list[Any] = []
    if pattern is not None:
        steps.append(pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"))
    if byte_level:
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        theirs.decoder = decoders.ByteLevel()
    theirs.pre_tokenizer = pre_tokenizers.Sequence(steps)
    theirs.train_from_iterator(texts, BpeTrainer(show_progress=False, **options))
    return theirs


def parts_of(tok: Tokenizer, tmp_path: Path) -> tuple[dict[str, int], list[Any]]:
    import json

    tok.save(tmp_path / "tokenizer.json")
    model = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    return model["vocab"], model["merges"]


def theirs_of(theirs: Any) -> tuple[dict[str, int], list[Any]]:
    import json

    model = json.loads(theirs.to_str())["model"]
    return model["vocab"], model["merges"]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [300, 2000, 32_768])
def test_tokenizers(name: str, size: int, tmp_path: Path) -> None:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    theirs = of_tokenizers(
        TEXTS[name], trainers.GPT2, True, vocab_size=size, initial_alphabet=alphabet
    )
    ours = Trainer(size, parity="hf").train(TEXTS[name])
    assert parts_of(ours, tmp_path) == theirs_of(theirs)
    for text in [*TEXTS[name], "The miller 水車 🙂\n\n  x"]:
        assert ours.encode(text) == theirs.encode(text).ids
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text).ids)


OPTIONS: list[dict[str, Any]] = [
    {"special_tokens": ["<s>", "the", "Ġthe", "a", "</s>"]},
    {"min_frequency": 3},
    {"max_token_length": 2},
    {"max_token_length": 3},
    {"max_token_length": 8},
    {"initial_alphabet": []},
    {"initial_alphabet": ["a", "Ġ", "中"], "limit_alphabet": 9},
    {"vocab_size": 20},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_of_tokenizers(options: dict[str, Any], tmp_path: Path) -> None:
    # Counts that differ, so that a limited alphabet is cut where nothing is left to chance.
    texts = [*TEXTS["paragraph"], "".join(chr(97 + n) * (n * n + 40) + " " for n in range(26))]
    given = {"vocab_size": 900, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()} | options
    theirs = of_tokenizers(texts, trainers.GPT2, True, **given)
    ours = Trainer(**{"vocab_size": 900, "parity": "hf"} | options).train(texts)
    assert parts_of(ours, tmp_path) == theirs_of(theirs)


def test_characters_of_tokenizers(tmp_path: Path) -> None:
    texts = TEXTS["paragraph"] + TEXTS["emoji"]
    theirs = of_tokenizers(texts, trainers.GPT2, False, vocab_size=900)
    ours = Trainer(900, parity="hf", units="chars").train(texts)
    assert parts_of(ours, tmp_path) == theirs_of(theirs)


@pytest.mark.parametrize("affixes", [("##", ""), ("", "</w>"), ("##", "</w>")])
def test_affixes_by_the_definition(affixes: tuple[str, str], tmp_path: Path) -> None:
    prefix, suffix = affixes
    text = " ".join(TEXTS["paragraph"])
    words, alphabet = trainers.hf_words(Counter(text.split()), prefix, suffix)
    options = {
        "continuing_subword_prefix": prefix or None,
        "end_of_word_suffix": suffix or None,
    }
    ours = Trainer(600, parity="hf", units="chars", pattern="whitespace", **options).train([text])
    vocab, merges = parts_of(ours, tmp_path)
    expected = prefixed(words, 600 - len(alphabet), alphabet, prefix.encode())
    assert [tuple(merge) for merge in merges] == expected
    numbered = sorted(vocab, key=lambda token: vocab[token])
    assert numbered[: len(alphabet)] == [symbol.decode() for symbol in alphabet]
    reloaded = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert ours.encode(text) == reloaded.encode(text).ids


def prefixed(
    words: list[tuple[trainers.Row, int]], number: int, alphabet: list[bytes], prefix: bytes
) -> list[tuple[str, str]]:
    """`naive` with tokenizers' way to join symbols that begin with a prefix."""
    ids = {symbol: id for id, symbol in enumerate(alphabet)}
    merges: list[tuple[str, str]] = []
    while len(merges) < number:
        counts: Counter[tuple[bytes, bytes]] = Counter()
        for row, count in words:
            for pair in itertools.pairwise(row):
                counts[pair] += count
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], ids[pair[0]], ids[pair[1]]))
        joined = best[0] + best[1].removeprefix(prefix)
        ids.setdefault(joined, len(ids))
        merges.append((best[0].decode(), best[1].decode()))
        fresh = []
        for row, count in words:
            out: list[bytes] = []
            at = 0
            while at < len(row):
                found = row[at : at + 2] == best
                out.append(joined if found else row[at])
                at += 2 if found else 1
            fresh.append((tuple(out), count))
        words = fresh
    return merges


# --- sentencepiece


def of_sentencepiece(lines: list[str], **options: Any) -> Any:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def pieces_of(theirs: Any) -> list[str]:
    return [theirs.id_to_piece(id) for id in range(theirs.get_piece_size())]


@pytest.mark.parametrize("normalization", ["identity", "nmt_nfkc"])
@pytest.mark.parametrize("name", [name for name in TEXTS if not name.startswith("empty")])
@pytest.mark.parametrize("size", [300, 2000])
def test_sentencepiece(name: str, size: int, normalization: str, tmp_path: Path) -> None:
    lines = TEXTS[name] + ["ａｂｃ ﬁn ㎏ x\u0301", "left <s> out </s> <unk>", "a\tb\u001fc \x00 d"]
    options = {"character_coverage": 1.0} if name == "chinese" else {}
    theirs = of_sentencepiece(
        lines, vocab_size=size, normalization_rule_name=normalization, **options
    )
    ours = Trainer(size, parity="sentencepiece", normalization=normalization, **options).train(
        lines
    )
    tokens = [ours.id_to_token(id) for id in range(ours.vocab_size)]
    compare_pieces(tokens, pieces_of(theirs), size)
    ours.save(tmp_path / "our.model")
    again = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "our.model"))
    for line in [*lines, "unseen ☂ ｘ"]:
        assert again.encode(line) == ours.encode(line)
        assert again.decode(again.encode(line)) == ours.decode(ours.encode(line))


def compare_pieces(ours: list[str], theirs: list[str], size: int) -> None:
    """Equal, or if training ran out of pairs, equal but for the pairs of no text that follow."""
    if len(ours) == size:
        assert ours == theirs
        return
    same = [one == other for one, other in zip(ours, theirs, strict=False)]
    merges = same.index(False) if False in same else len(same)
    # Theirs go on with merges that no text has; the characters after them are the same.
    extra = len(theirs) - len(ours)
    assert extra >= 0
    assert theirs[:merges] + theirs[merges + extra :] == ours


def test_options_of_sentencepiece() -> None:
    lines = TEXTS["paragraph"] * 3 + TEXTS["japanese"]
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"byte_fallback": True}, {"byte_fallback": True}),
        ({"special_tokens": ["<pad>", "<|x|>"]}, {"control_symbols": ["<pad>", "<|x|>"]}),
        ({"character_coverage": 0.98}, {"character_coverage": 0.98}),
        ({"max_token_length": 5}, {"max_sentencepiece_length": 5}),
        ({"max_sentence_length": 100}, {"max_sentence_length": 100}),
    ]
    for given, named in cases:
        theirs = of_sentencepiece(lines, vocab_size=450, **named)
        ours = Trainer(450, parity="sentencepiece", **given).train(lines)
        tokens = [ours.id_to_token(id) for id in range(ours.vocab_size)]
        compare_pieces(tokens, pieces_of(theirs), 450)


def test_words_and_counts_of_sentencepiece(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("ｍiller\t7\nmill\t12\nmilling\t3\nthe mill\t2\n", encoding="utf-8")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(path),
        input_format="tsv",
        model_writer=model,
        model_type="bpe",
        vocab_size=24,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    trainer = Trainer(24, parity="sentencepiece")
    counts = WordCounts(trainer)
    counts.add_tsv(path)
    ours = trainer.train(counts)
    compare_pieces([ours.id_to_token(id) for id in range(ours.vocab_size)], pieces_of(theirs), 24)


# --- the definitions


@pytest.mark.parametrize("name", TEXTS)
def test_the_definition_is_rustbpe(name: str) -> None:
    words = trainers.rows(trainers.words_of(TEXTS[name]))
    merges = trainers.naive(words, 120, trainers.RULES["rustbpe"]())
    expected = of_rustbpe(TEXTS[name], 256 + 120, pattern=trainers.PLAIN)
    assert [left + right for left, right in merges] == expected[256:]


@pytest.mark.parametrize("rule", trainers.RULES)
@pytest.mark.parametrize("name", TEXTS)
def test_the_incremental_definition_is_the_naive_one(name: str, rule: str) -> None:
    words = trainers.rows(trainers.words_of(TEXTS[name]))
    make = trainers.RULES[rule]
    assert trainers.incremental(words, 150, make()) == trainers.naive(words, 150, make())


def minbpe_merges(texts: list[str], pattern: str, number: int) -> list[bytes]:
    """minbpe's RegexTokenizer, by its rule: every chunk of the text, in order, counted anew."""
    chunks = [list(word.encode()) for text in texts for word in regex.findall(pattern, text)]
    tokens = list(trainers.BYTES)
    for _ in range(number):
        stats: dict[tuple[int, int], int] = {}
        for chunk in chunks:
            for pair in itertools.pairwise(chunk):
                stats[pair] = stats.get(pair, 0) + 1
        if not stats:
            break
        best = max(stats, key=lambda pair: stats[pair])
        for chunk in chunks:
            at = 0
            while at + 1 < len(chunk):
                if (chunk[at], chunk[at + 1]) == best:
                    chunk[at : at + 2] = [len(tokens)]
                at += 1
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return tokens


@pytest.mark.parametrize("name", TEXTS)
def test_minbpe_on_whole_texts(name: str) -> None:
    expected = minbpe_merges(TEXTS[name], trainers.GPT4, 60)
    ours = Trainer(316, parity="minbpe").train(TEXTS[name])
    assert tokens_of(ours) == expected


def of_tiktoken_edu(text: str, size: int) -> list[bytes]:
    import tiktoken._educational as educational

    ranks = educational.bpe_train(data=text, vocab_size=size, pat_str=trainers.GPT4, visualise=None)
    return sorted(ranks, key=lambda token: ranks[token])


def test_minbpe_is_tiktokens_educational_trainer() -> None:
    text = "".join(TEXTS["paragraph"])
    assert tokens_of(Trainer(400, parity="minbpe").train([text])) == of_tiktoken_edu(text, 400)


@pytest.mark.parametrize("parity", ["minbpe", "cs336", "rustbpe"])
@pytest.mark.parametrize("name", TEXTS)
def test_many_merges_by_the_definition(name: str, parity: str) -> None:
    words = trainers.rows(trainers.words_of(TEXTS[name]))
    merges = trainers.incremental(words, 1744, trainers.RULES[parity]())
    ours = Trainer(2000, parity=parity, pattern=trainers.PLAIN).train(TEXTS[name])
    assert tokens_of(ours)[256:] == [left + right for left, right in merges]


@pytest.mark.parametrize("parity", ["minbpe", "cs336", "rustbpe"])
def test_no_pattern_by_the_definition(parity: str) -> None:
    texts = ["".join(TEXTS["paragraph"][:9]), "ab" * 150 + "a" * 77, "x", CODE[:700]]
    words = trainers.rows(trainers.words_of(texts, None))
    merges = trainers.incremental(words, 400, trainers.RULES[parity]())
    ours = Trainer(656, parity=parity, pattern=None).train(texts)
    assert tokens_of(ours)[256:] == [left + right for left, right in merges]


def test_cs336_cuts_at_special_tokens() -> None:
    texts = ["ab<|end|>ab ab<|end|>b", "<|end|>"]
    ours = Trainer(270, parity="cs336", pattern=r"[\s\S]+", special_tokens=["<|end|>"]).train(texts)
    apart = [part for text in texts for part in text.split("<|end|>")]
    words = trainers.rows(trainers.words_of(apart, None))
    merges = trainers.naive(words, 13, trainers.RULES["cs336"]())
    assert tokens_of(ours, special=1)[256:] == [left + right for left, right in merges]
    assert ours.special_tokens == {"<|end|>": ours.vocab_size - 1}


# --- written files, read by the libraries

HOSTILE = "The miller's flour, 水車は 🙂\n\n\t x  12345 <|a|> <|b|>é ſ'S  \u00a0\u3000 don'T "


def mixed() -> list[str]:
    return [text for texts in TEXTS.values() for text in texts]


def same_as_tokenizers(ours: Tokenizer, path: Path) -> None:
    ours.save(path)
    theirs = tokenizers.Tokenizer.from_file(str(path))
    for text in [HOSTILE, HOSTILE[::-1], *mixed()]:
        assert theirs.encode(text).ids == ours.encode(text, special="parse")


def same_as_tiktoken(ours: Tokenizer, path: Path, pattern: str) -> None:
    ours.save(path)
    theirs = TikToken(path.read_bytes(), pattern, ours.special_tokens)
    for text in [HOSTILE, HOSTILE[::-1], *mixed()]:
        assert theirs.ids(text, "parse") == ours.encode(text, special="parse")


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "o200k", "llama3", "qwen2", "nanochat", None])
def test_every_format_gives_the_same_ids(pattern: str | None, tmp_path: Path) -> None:
    options: dict[str, Any] = {"pattern": pattern, "special_tokens": ["<|a|>", "<|b|>"]}
    if pattern is None:
        options["max_token_length"] = 100
    ranks = Trainer(900, **options).train(mixed())
    same_as_tokenizers(ranks, tmp_path / "ranks.json")
    same_as_tiktoken(ranks, tmp_path / "ranks.tiktoken", ranks.info["pattern"])
    hf = Trainer(900, parity="hf", **options).train(mixed())
    same_as_tokenizers(hf, tmp_path / "hf.json")
    same_as_tiktoken(hf, tmp_path / "hf.tiktoken", ranks.info["pattern"])


@pytest.mark.parametrize("name", ["gpt2", "cl100k_base"])
def test_patterns_that_the_engines_read_differently_are_refused(name: str, tmp_path: Path) -> None:
    # What is possessive in one is a repetition of a repetition in the other.
    with pytest.raises(TokenizerError, match="may mean something else"):
        Tokenizer(name).save(tmp_path / "t.json")


def test_published_ranks_as_tokenizer_json(tmp_path: Path) -> None:
    same_as_tokenizers(Tokenizer("o200k_base"), tmp_path / "t.json")


def test_longer_and_shorter(tmp_path: Path) -> None:
    for parity in ["rustbpe", "hf"]:
        options: dict[str, Any] = {"pattern": "gpt4", "special_tokens": ["<|a|>", "<|b|>"]}
        tok = Trainer(600, parity=parity, **options).train(TEXTS["paragraph"])
        longer = extend(tok, TEXTS["japanese"] + TEXTS["code"], tokens=20)
        size = longer.vocab_size
        assert size == tok.vocab_size + 20
        for number, made in enumerate([longer, prune(longer, size - 9), prune(tok, 333)]):
            same_as_tokenizers(made, tmp_path / f"{parity}{number}.json")
            same_as_tiktoken(made, tmp_path / f"{parity}{number}.tiktoken", trainers.GPT4)


# --- the stand-in for rustbpe


def test_stand_in_for_rustbpe() -> None:
    ours, theirs = stand_in.Tokenizer(), rustbpe.Tokenizer()
    names = [name for name in dir(theirs) if not name.startswith("_")]
    assert set(names) <= set(dir(ours))
    for tok in (ours, theirs):
        assert tok.vocab_size == 256
        assert tok.get_pattern() == ""
        assert tok.encode("abc") == []
        assert tok.decode([104, 105]) == "hi"
    ways: list[dict[str, Any]] = [
        {},
        {"pattern": trainers.GPT2},
        {"buffer_size": 1, "pattern": None},
    ]
    for options in ways:
        for tok in (ours, theirs):
            tok.train_from_iterator(iter(mixed()), 777, **options)
        assert ours.get_pattern() == theirs.get_pattern()
        assert ours.vocab_size == theirs.vocab_size
        ranks = [(bytes(token), rank) for token, rank in theirs.get_mergeable_ranks()]
        assert ours.get_mergeable_ranks() == ranks
        assert isinstance(theirs.get_mergeable_ranks()[0][0], (bytes, list))
        for text in [HOSTILE, *TEXTS["paragraph"]]:
            assert ours.encode(text) == theirs.encode(text)
            assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text)) == text
        assert ours.batch_encode(["a", HOSTILE]) == theirs.batch_encode(["a", HOSTILE])
    for tok in (ours, theirs):
        with pytest.raises(ValueError, match="Unknown token id"):
            tok.decode([100_000])
    with pytest.raises(UnicodeDecodeError):
        ours.decode([255])
    with pytest.raises(ValueError, match="at least 256"):
        ours.train_from_iterator(iter([]), 255)


def test_nanochats_way(tmp_path: Path) -> None:
    """What nanochat does with the module: train, and hand the ranks to tiktoken."""
    tok = stand_in.Tokenizer()
    tok.train_from_iterator(iter(mixed()), 600, pattern=gristmill_pattern())
    ranks = {bytes(token): rank for token, rank in tok.get_mergeable_ranks()}
    specials = {name: len(ranks) + at for at, name in enumerate(["<|bos|>", "<|user_start|>"])}
    theirs = TikToken(ranks, tok.get_pattern(), specials)
    assert theirs.ids(HOSTILE) == tok.encode(HOSTILE)


def gristmill_pattern() -> str:
    pattern: str = Trainer(300, pattern="nanochat").train([]).info["pattern"]
    return pattern
