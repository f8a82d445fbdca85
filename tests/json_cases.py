"""Made-up tokenizer.json files, one for each thing that can stand in one.

A case is a whole file and the strings that matter to it. Most cases change one part of one of
two base files: `by_bytes` (byte-level) or `by_characters`. Both are trained on whole lines,
never cut into words, so their merges reach across every place where a pre-tokenizer should have
cut, and a wrong cut changes the ids. `by_characters` knows only frequent characters, so that
hostile texts hold unknown ones.
"""

import base64
import copy
import itertools
import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import oracles
import tiny
import tokenizers
from texts import HOSTILE

Json = dict[str, Any]

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIALS = ["<unk>", "<s>", "</s>", "<|endoftext|>"]


@dataclass(frozen=True)
class Case:
    """One made-up file."""

    content: Json
    """The file."""
    extra: tuple[str, ...] = ()
    """What hostile texts shall hold for it: its added tokens."""
    texts: tuple[str, ...] = field(default=())
    """Texts of its own."""


def lines() -> list[str]:
    """What the vocabularies are trained on: lines as they are, and as normalizers leave them."""
    plain = [*HOSTILE, *tiny.PARAGRAPH.splitlines()] * 2
    normal = [unicodedata.normalize(form, line) for form in ("NFD", "NFKC") for line in plain]
    return [*plain, *normal, *(line.lower() for line in plain)]


def train(content: Json, corpus: list[str], **options: Any) -> Json:
    """The file with a model trained by the library."""
    trainer = tokenizers.trainers.BpeTrainer(show_progress=False, **options)
    tokenizer = oracles.HuggingFace(json.dumps(content)).library
    tokenizer.train_from_iterator(corpus, trainer)
    trained: Json = json.loads(tokenizer.to_str())
    return trained


def empty() -> Json:
    """A file without a vocabulary."""
    content: Json = json.loads(tiny.byte_level_json())
    content["model"] |= {"vocab": {}, "merges": []}
    return content | {"added_tokens": [], "pre_tokenizer": None, "decoder": None}


@cache
def _base(kind: str) -> str:
    content = empty()
    options: Json = {"vocab_size": 900, "max_token_length": 6, "special_tokens": SPECIALS}
    corpus = lines()
    if kind == "bytes":
        content |= {"pre_tokenizer": byte_level(use_regex=False), "decoder": byte_level()}
        options["initial_alphabet"] = list(tiny.ALPHABET.values())
    elif kind == "characters":
        content["model"]["unk_token"] = "<unk>"
        options |= {"limit_alphabet": 130, "initial_alphabet": list(" ▁abcdefghijklmnopqrstuvwxyz")}
        corpus = [*corpus, *(line.replace(" ", "▁") for line in corpus)]
    elif kind == "words":
        content |= {"pre_tokenizer": {"type": "Whitespace"}, "normalizer": {"type": "Lowercase"}}
        content["model"]["unk_token"] = "<unk>"
        options |= {"limit_alphabet": 90, "vocab_size": 500}
    return json.dumps(train(content, corpus, **options))


def by_bytes(**changes: Any) -> Json:
    """A byte-level file that cuts nowhere."""
    content: Json = json.loads(_base("bytes"))
    return content | changes


def by_characters(**changes: Any) -> Json:
    """A file over characters, with `<unk>`, that cuts nowhere."""
    content: Json = json.loads(_base("characters"))
    return content | changes


def with_model(content: Json, **changes: Any) -> Json:
    """The file with some fields of its model replaced."""
    return content | {"model": content["model"] | changes}


def with_tokens(content: Json, *tokens: str, special: bool = False, **flags: bool) -> Json:
    """The file with more added tokens, whose ids follow the vocabulary."""
    added = copy.copy(content["added_tokens"])
    vocab = content["model"]["vocab"]
    free = max([*vocab.values(), *(token["id"] for token in added)]) + 1
    for token in tokens:
        id = vocab.get(token, free)
        free += id == free
        added.append(tiny.added_token(id, token, special, **flags))
    return content | {"added_tokens": added}


def without_vocab(content: Json, *tokens: str) -> Json:
    """The file without these tokens and the merges that need them."""
    gone = set(tokens)
    merges = []
    for left, right in content["model"]["merges"]:
        if gone.isdisjoint((left, right, left + right)):
            merges.append([left, right])
        else:
            gone.add(left + right)
    vocab = {token: id for token, id in content["model"]["vocab"].items() if token not in gone}
    return with_model(content, vocab=vocab, merges=merges)


def sequence(kind: str, *parts: Json) -> Json:
    """A Sequence of normalizers, pre-tokenizers, decoders or processors."""
    return {"type": "Sequence", kind: list(parts)}


def byte_level(prefix: bool = False, trim: bool = True, use_regex: bool = True) -> Json:
    return {
        "type": "ByteLevel",
        "add_prefix_space": prefix,
        "trim_offsets": trim,
        "use_regex": use_regex,
    }


def split(pattern: Json, behavior: str = "Isolated", invert: bool = False) -> Json:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def replace(pattern: Json, content: str) -> Json:
    return {"type": "Replace", "pattern": pattern, "content": content}


def metaspace(scheme: str = "always", cut: bool = True, replacement: str = "▁") -> Json:
    return {
        "type": "Metaspace",
        "replacement": replacement,
        "prepend_scheme": scheme,
        "split": cut,
    }


def strip(left: bool, right: bool) -> Json:
    return {"type": "Strip", "strip_left": left, "strip_right": right}


def bert(clean: bool, chinese: bool, accents: bool | None, lowercase: bool) -> Json:
    return {
        "type": "BertNormalizer",
        "clean_text": clean,
        "handle_chinese_chars": chinese,
        "strip_accents": accents,
        "lowercase": lowercase,
    }


@cache
def charsmap(rule: str = "nmt_nfkc") -> str:
    """The character map that sentencepiece puts into its models, in base64."""
    model = oracles.train_sentencepiece(lines(), normalization_rule_name=rule)
    normalizer = dict(oracles.fields(dict(oracles.fields(model))[3]))
    return base64.b64encode(normalizer[2]).decode()


BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
WORD_SPACE = {"Regex": r"\s+"}


def normalizers() -> dict[str, Json | None]:
    accents: Json = sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"})
    llama = sequence(
        "normalizers", {"type": "Prepend", "prepend": "▁"}, replace({"String": " "}, "▁")
    )
    flags = itertools.product([True, False], [True, False], [None, True, False], [True, False])
    berts: dict[str, Json | None] = {f"bert {flag}": bert(*flag) for flag in flags}
    return berts | {
        "nfc": {"type": "NFC"},
        "nfd": {"type": "NFD"},
        "nfkc": {"type": "NFKC"},
        "nfkd": {"type": "NFKD"},
        "lowercase": {"type": "Lowercase"},
        "strip both": strip(True, True),
        "strip left": strip(True, False),
        "strip right": strip(False, True),
        "strip neither": strip(False, False),
        "strip accents": {"type": "StripAccents"},
        "nfd, strip accents": accents,
        "replace a string": replace({"String": " "}, "▁"),
        "replace by nothing": replace({"String": "e"}, ""),
        "replace by more": replace({"String": "th"}, "t h"),
        "replace by itself": replace({"String": "a"}, "aa"),
        "replace a class": replace(WORD_SPACE, " "),
        "replace what repeats": replace({"Regex": r"(.)\1"}, "x"),
        "replace what precedes": replace({"Regex": r" (?=\S)"}, "▁"),
        "replace digits": replace({"Regex": r"\p{N}"}, "0"),
        "replace ends": replace({"Regex": r"^\s+|\s+$"}, ""),
        "replace runs of spaces": replace({"Regex": " {2,}"}, "▁"),
        "prepend": {"type": "Prepend", "prepend": "▁"},
        "prepend more": {"type": "Prepend", "prepend": "the "},
        "prepend nothing": {"type": "Prepend", "prepend": ""},
        "nmt": {"type": "Nmt"},
        "byte level": {"type": "ByteLevel"},
        "empty sequence": sequence("normalizers"),
        "llama": llama,
        "lowercase, nfc": sequence("normalizers", {"type": "Lowercase"}, {"type": "NFC"}),
        "nested": sequence("normalizers", accents, strip(True, True), llama),
        "precompiled": {"type": "Precompiled", "precompiled_charsmap": charsmap()},
        "precompiled case folding": {
            "type": "Precompiled",
            "precompiled_charsmap": charsmap("nmt_nfkc_cf"),
        },
        "precompiled, collapse": sequence(
            "normalizers",
            {"type": "Precompiled", "precompiled_charsmap": charsmap()},
            replace({"Regex": " {2,}"}, " "),
        ),
    }


def pre_tokenizers() -> dict[str, Json | None]:
    patterns: dict[str, Json] = {
        "space": {"String": " "},
        "the": {"String": "the"},
        "class": WORD_SPACE,
        "gpt2": {"Regex": GPT2_PATTERN},
        "cl100k": {"Regex": CL100K_PATTERN},
        "digits": {"Regex": r"\p{N}{1,3}"},
        "words": {"Regex": r"\w+|[^\w\s]+"},
    }
    every = itertools.product(patterns, BEHAVIORS, [False, True])
    found: dict[str, Json | None] = {
        f"split {name} {behavior} {'inverted' if invert else ''}".strip(): split(
            patterns[name], behavior, invert
        )
        for name, behavior, invert in every
    }
    found |= {f"punctuation {b}": {"type": "Punctuation", "behavior": b} for b in BEHAVIORS}
    for scheme, cut in itertools.product(["always", "first", "never"], [True, False]):
        found[f"metaspace {scheme} {'split' if cut else 'whole'}"] = metaspace(scheme, cut)
    deepseek = sequence(
        "pretokenizers",
        split({"Regex": r"\p{N}{1,3}"}),
        split({"Regex": "[一-龥぀-ゟ゠-ヿ]+"}),
        split({"Regex": r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                        r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"}),
    )  # fmt: skip
    return found | {
        "none": None,
        "digits": {"type": "Digits", "individual_digits": False},
        "each digit": {"type": "Digits", "individual_digits": True},
        "whitespace": {"type": "Whitespace"},
        "whitespace split": {"type": "WhitespaceSplit"},
        "bert": {"type": "BertPreTokenizer"},
        "delimiter": {"type": "CharDelimiterSplit", "delimiter": "e"},
        "delimiter of two bytes": {"type": "CharDelimiterSplit", "delimiter": "é"},
        "unicode scripts": {"type": "UnicodeScripts"},
        "fixed length 1": {"type": "FixedLength", "length": 1},
        "fixed length 5": {"type": "FixedLength", "length": 5},
        "metaspace another": metaspace("always", True, "_"),
        "metaspace after digits": sequence(
            "pretokenizers", {"type": "Digits", "individual_digits": True}, metaspace("first")
        ),
        "deepseek": deepseek,
        "empty sequence": sequence("pretokenizers"),
        "nested sequence": sequence("pretokenizers", {"type": "WhitespaceSplit"}, deepseek),
        "contractions": split({"Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"}),
        "possessive": split({"Regex": r"\s++$|\s*[\r\n]|\s+(?!\S)|\s"}),
        "look behind": split({"Regex": r"(?<=[a-z])(?=[A-Z])|(?<!\w)\p{L}+"}),
        "atomic": split({"Regex": r"(?>a|ab)c|\p{L}"}),
        "lazy": split({"Regex": r"a+?b|\s+?x"}),
        "back reference": split({"Regex": r"(\p{L})\1"}),
        "intersection": split({"Regex": r"[\p{L}&&[^a-z]]+"}),
        "posix": split({"Regex": r"[[:punct:]]+|[[:alpha:]]+"}),
        "hex": split({"Regex": r"\h+"}),
        "dot": split({"Regex": r".+"}),
        "anchors": split({"Regex": r"^\s*\S|\S\s*$"}),
        "word boundary": split({"Regex": r"\b\w|\w\b"}),
        "empty matches": split({"Regex": r"x*"}),
        "empty pattern": split({"Regex": ""}),
        "empty string": split({"String": ""}),
        "special characters": split({"String": ".*"}),
    }


def after_bytes(pre_tokenizer: Json | None) -> Json:
    """Byte level after another pre-tokenizer."""
    bytes_ = byte_level(use_regex=False)
    return bytes_ if pre_tokenizer is None else sequence("pretokenizers", pre_tokenizer, bytes_)


def byte_levels() -> Iterator[tuple[str, Case]]:
    for flags in itertools.product([True, False], repeat=3):
        name = "byte level prefix={} trim={} regex={}".format(*flags)
        yield name, Case(by_bytes(pre_tokenizer=byte_level(*flags), decoder=byte_level(*flags)))
    falcon = sequence(
        "pretokenizers",
        {"type": "Punctuation", "behavior": "Contiguous"},
        byte_level(),
        {"type": "Digits", "individual_digits": False},
        split({"Regex": "[0-9][0-9][0-9]"}),
    )
    yield "byte level, falcon", Case(by_bytes(pre_tokenizer=falcon))
    twice = sequence("pretokenizers", byte_level(True), byte_level())
    yield "byte level twice", Case(by_bytes(pre_tokenizer=twice))
    normalized = by_bytes(normalizer={"type": "ByteLevel"}, pre_tokenizer=None)
    yield "byte level as normalizer", Case(normalized)
    starcoder = sequence(
        "pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level(True)
    )
    yield "byte level, starcoder", Case(by_bytes(pre_tokenizer=starcoder))


def decoders() -> dict[str, Json | None]:
    ways = [True, False]
    metaspaces = {
        f"metaspace {scheme}": metaspace(scheme) for scheme in ("always", "first", "never")
    }
    strips = {
        f"strip {start} {stop}": {"type": "Strip", "content": "e", "start": start, "stop": stop}
        for start, stop in [(1, 0), (0, 1), (2, 2), (0, 0)]
    }
    pieces = {f"wordpiece {c}": {"type": "WordPiece", "prefix": "##", "cleanup": c} for c in ways}
    ctcs = {
        f"ctc {c}": {"type": "CTC", "pad_token": "a", "word_delimiter_token": "e", "cleanup": c}
        for c in ways
    }
    space = replace({"String": "▁"}, " ")
    llama = sequence(
        "decoders",
        space,
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    )
    return metaspaces | strips | pieces | ctcs | {
        "none": None,
        "byte level": byte_level(),
        "byte fallback": {"type": "ByteFallback"},
        "fuse": {"type": "Fuse"},
        "replace": space,
        "replace a class": replace({"Regex": r"[aeiou]+"}, "_"),
        "replace ends": replace({"Regex": r"^t|e$"}, ""),
        "bpe": {"type": "BPEDecoder", "suffix": "</w>"},
        "bpe of a letter": {"type": "BPEDecoder", "suffix": "e"},
        "llama": llama,
        "empty sequence": sequence("decoders"),
        "fuse, replace": sequence("decoders", {"type": "Fuse"}, replace({"String": "th"}, "")),
        "fuse, byte level": sequence("decoders", {"type": "Fuse"}, byte_level()),
        "byte level, strip": sequence(
            "decoders", byte_level(), {"type": "Strip", "content": " ", "start": 1, "stop": 1}
        ),
        "nested": sequence("decoders", sequence("decoders", space), llama),
    }  # fmt: skip


def template(single: list[Json], **special: list[int]) -> Json:
    tokens = {
        token: {"id": token, "ids": ids, "tokens": [f"{token}{id}" for id in ids]}
        for token, ids in special.items()
    }
    return {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": tokens}


def place(token: str | None = None, type_id: int = 0) -> Json:
    if token is None:
        return {"Sequence": {"id": "A", "type_id": type_id}}
    return {"SpecialToken": {"id": token, "type_id": type_id}}


def post_processors() -> dict[str, Json | None]:
    text = place()
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}
    found: dict[str, Json | None] = {
        f"roberta trim={trim} prefix={prefix}": roberta
        | {"trim_offsets": trim, "add_prefix_space": prefix}
        for trim, prefix in itertools.product([True, False], repeat=2)
    }
    for trim, prefix in itertools.product([True, False], repeat=2):
        found[f"byte level trim={trim} prefix={prefix}"] = byte_level(prefix, trim)
    around = template([place("bos"), text, place("eos")], bos=[1], eos=[2])
    return found | {
        "bert": {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
        "template around": around,
        "template before": template([place("bos"), text], bos=[1]),
        "template after": template([text, place("eos", 1)], eos=[2]),
        "template of nothing": template([text]),
        "template of many": template([place("x"), place("x"), text, place("y")], x=[1, 2], y=[3]),
        "template without text": template([place("bos")], bos=[1]),
        "template with the text twice": template([text, place("bos"), text], bos=[1]),
        "sequence": sequence("processors", byte_level(trim=False), around),
        "sequence of two": sequence("processors", around, byte_level()),
        "sequence of bert": sequence(
            "processors",
            {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
            byte_level(True),
        ),
        "sequence of roberta": sequence(
            "processors",
            roberta | {"trim_offsets": True, "add_prefix_space": True},
            byte_level(True),
        ),
        "sequence of two, prefix": sequence("processors", around, byte_level(True)),
        "sequence with the text twice": sequence(
            "processors", template([text, place("bos"), text], bos=[1]), byte_level(True)
        ),
        "two templates": sequence("processors", around, template([text, place("e")], e=[3])),
        "empty sequence": sequence("processors"),
    }


def models() -> Iterator[tuple[str, Case]]:
    plain = by_characters()
    vocab: dict[str, int] = plain["model"]["vocab"]
    all_bytes = {f"<0x{byte:02X}>": len(vocab) + byte for byte in range(256)}
    some_bytes = {token: id for token, id in all_bytes.items() if id % 3}
    for unk, fuse in itertools.product(["<unk>", None], [False, True]):
        options = {"unk_token": unk, "fuse_unk": fuse}
        name = f"unk={unk} fuse={fuse}"
        yield name, Case(with_model(plain, **options))
        words = with_model(plain, **options) | {"pre_tokenizer": {"type": "WhitespaceSplit"}}
        yield f"{name}, words", Case(words)
        for kind, tokens in [("full", all_bytes), ("partial", some_bytes), ("no", {})]:
            fallback = with_model(plain, **options, byte_fallback=True, vocab=vocab | tokens)
            fallback["decoder"] = decoders()["llama"]
            yield f"{name}, {kind} byte fallback", Case(fallback, ("<0x0A>", "☃☃", "\t"))
    off = with_model(plain, vocab=vocab | all_bytes)
    yield "byte tokens without byte fallback", Case(off, ("<0x0A>",))

    bytes_ = by_bytes()
    merges = bytes_["model"]["merges"]
    vocab = bytes_["model"]["vocab"]
    whole = {to: len(vocab) + n for n, to in enumerate(map(tiny.to_alphabet, WHOLE))}
    for ignore in [True, False]:
        changed = with_model(bytes_, ignore_merges=ignore, vocab=vocab | whole)
        changed["pre_tokenizer"] = byte_level()
        yield f"ignore_merges={ignore}", Case(changed, tuple(WHOLE))
        spaced = with_model(plain, ignore_merges=ignore) | {"pre_tokenizer": metaspace()}
        yield f"ignore_merges={ignore}, characters", Case(spaced)
    for unk in [None, "<unk>"]:
        gaps = without_vocab(bytes_, "ĉ", "e", "Ã", "ð", "Ġ")
        yield f"missing bytes, unk={unk}", Case(with_model(gaps, unk_token=unk))
    twice = [*merges, *merges[5:60:7], *reversed(merges[:4])]
    yield "duplicate merges", Case(with_model(bytes_, merges=twice))
    order = [*SPECIALS, *sorted(vocab.keys() - SPECIALS, key=lambda token: token[::-1])]
    mixed = {token: id for id, token in enumerate(order)}
    yield "ids not in merge order", Case(with_model(bytes_, vocab=mixed))
    sparse = {token: id if id < 300 else id * 3 for token, id in vocab.items()}
    yield "ids with gaps", Case(with_model(bytes_, vocab=sparse))
    yield "merges backwards", Case(with_model(bytes_, merges=merges[::-1]))
    spelled = [f"{left} {right}" for left, right in merges]
    yield "merges as strings", Case(with_model(bytes_, merges=spelled))
    yield "no merges", Case(with_model(bytes_, merges=[]))
    untyped = with_model(bytes_)
    for key in ("type", "dropout", "ignore_merges", "byte_fallback", "fuse_unk"):
        del untyped["model"][key]
    yield "old model", Case(untyped)
    yield "dropout of 0", Case(with_model(bytes_, dropout=0.0))
    yield (
        "truncation and padding",
        Case(
            by_bytes(pre_tokenizer=byte_level(use_regex=False))
            | {"truncation": None, "padding": None}
        ),
    )


WHOLE = [" Arthropoda", "the quick", " x", "Hello", "中文", "don", "<|im_end|>", "  ", "☃☃"]


def affixes() -> Iterator[tuple[str, Case]]:
    """Models whose symbols carry a prefix inside words or a suffix at their end."""
    for prefix, suffix in [("##", None), (None, "</w>"), ("##", "</w>"), ("▁▁", None)]:
        for pre_tokenizer in ("Whitespace", "BertPreTokenizer", None):
            content = empty() | {"normalizer": {"type": "Lowercase"}}
            if pre_tokenizer is not None:
                content["pre_tokenizer"] = {"type": pre_tokenizer}
            content["model"] |= {
                "continuing_subword_prefix": prefix,
                "end_of_word_suffix": suffix,
                "unk_token": "<unk>",
            }
            options = {"continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
            given = {key: value for key, value in options.items() if value is not None}
            content = train(
                content,
                lines(),
                vocab_size=700,
                special_tokens=SPECIALS,
                limit_alphabet=120,
                max_token_length=12,
                **given,
            )
            content["model"] |= options
            content["decoder"] = (
                {"type": "WordPiece", "prefix": "##", "cleanup": True}
                if prefix
                else {"type": "BPEDecoder", "suffix": "</w>"}
            )
            yield f"prefix={prefix} suffix={suffix} {pre_tokenizer}", Case(content)
            fused = with_model(content, fuse_unk=True)
            yield f"prefix={prefix} suffix={suffix} {pre_tokenizer}, fused", Case(fused)


# Added tokens among everything that lstrip, rstrip and single_word look at.
AROUND = tuple(
    before + token + after
    for token in ("<tok>", "<TOK>", "<tok><tok>", "<tok> <tok>")
    for before, after in [
        ("", ""),
        (" ", " "),
        ("a", "b"),
        ("a ", " b"),
        ("  a  ", "  b  "),
        ("\n\u3000", "\xa0\t"),
        ("é", "é"),
        ("_", "_"),
        ("1", "2"),
        (".", "."),
        ("\u200b", "\u0301"),
        ("<", ">"),
    ]
)


def added_tokens() -> Iterator[tuple[str, Case]]:
    bases: dict[str, Json] = {
        "bytes": by_bytes(pre_tokenizer=byte_level()),
        "prefix space": by_bytes(pre_tokenizer=byte_level(True)),
        "llama": by_characters(normalizer=normalizers()["llama"]),
        "lowercase": by_bytes(
            normalizer={"type": "Lowercase"}, pre_tokenizer=byte_level(use_regex=False)
        ),
        "metaspace first": by_characters(pre_tokenizer=metaspace("first")),
        "metaspace always": by_characters(pre_tokenizer=metaspace("always")),
    }
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    for base, values in itertools.product(bases, itertools.product([True, False], repeat=5)):
        flags = dict(zip(names, values, strict=True))
        content = with_tokens(bases[base], "<tok>", **flags)
        name = "+".join(flag for flag, value in flags.items() if value) or "plain"
        yield f"token {name}, {base}", Case(content, ("<tok>", "<TOK>", " <tok> "), AROUND)

    overlapping = ("<|a|>", "<|a|>b", "a", "ab", "b c", "<|", "|>", "abc<|a|>")
    texts = ("<|a|>b", "<|a|><|a|>b c", "abc<|a|>b", "xabc<|a|", "<|<|a|>|>", "ab c<|a|>bb c")
    runs = ("  ", "    ", "\n\n", "\t", "\n\n\n\n", " \n")
    several: dict[str, tuple[str, ...]] = {
        "overlapping": overlapping,
        "runs of white space": runs,
        "words of the vocabulary": ("the", "e", " ", "Ġ", "miller"),
        "cased": ("THE", "The", "the", "É", "e\u0301", "ﬁ", "İ"),
        "letters of any script": ("中文", "水", "é", "ß", "☃☃", "\u0301", "👨‍👩"),
    }
    for (name, tokens), base in itertools.product(several.items(), bases):
        for special, normalized in itertools.product([True, False], repeat=2):
            content = with_tokens(bases[base], *tokens, special=special, normalized=normalized)
            label = f"tokens {name} special={special} normalized={normalized}, {base}"
            yield label, Case(content, tokens, texts)
    mixed = bases["lowercase"]
    for number, token in enumerate(overlapping):
        flags = {name: bool(number >> bit & 1) for bit, name in enumerate(names[:4])}
        mixed = with_tokens(mixed, token, special=number % 3 == 0, **flags)
    yield "tokens of every kind", Case(mixed, overlapping, texts)
    same = with_tokens(by_bytes(normalizer={"type": "NFC"}), "é", "e\u0301", normalized=True)
    yield "tokens that are the same after normalisation", Case(same)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        tokens = ("e\u0301", "ﬁ", "½", "Å", "中")
        content = with_tokens(by_bytes(normalizer={"type": form}), *tokens, normalized=True)
        yield f"tokens seen after {form}", Case(content, tokens, ("caf\u00e9 cafe\u0301 1½ ﬁ fi",))
    stripped = with_tokens(by_bytes(normalizer=strip(True, True)), "<a>", " b", normalized=True)
    yield "tokens after strip", Case(stripped, ("<a>", " b"), (" <a> b ", "x <a>  b"))
    taker = with_tokens(by_bytes(), "<a>", normalized=False, rstrip=True)
    taken = with_tokens(taker, " ", "\n", normalized=False, lstrip=True)
    # Of more than one space after a token that takes them, `tokenizers` panics.
    yield (
        "spaces after what takes them",
        Case(taken, (), ("<a> b", "x<a>\n<a> <a>", "a b \n c <a>")),
    )
    visible = by_characters(
        normalizer=replace({"String": " "}, "▁"),
        post_processor=post_processors()["byte level trim=True prefix=False"],
    )
    yield "tokens of visible spaces", Case(with_tokens(visible, "  ", " x", normalized=True))
    bare = by_characters(normalizer={"type": "StripAccents"}, pre_tokenizer=metaspace("first"))
    yield (
        "tokens after what was dropped",
        Case(with_tokens(bare, "<a>"), ("\u0301a", "\u0301\u0301 b")),
    )
    many = with_tokens(by_bytes(), *(f"<unused{number}>" for number in range(2000)))
    yield "2000 tokens", Case(many, ("<unused7>", "<unused77>", "<unused"))


def cases() -> dict[str, Case]:
    """Every case by name."""
    words = {"type": "WhitespaceSplit"}
    found: dict[str, Case] = {}
    for name, part in normalizers().items():
        found[f"normalizer {name}"] = Case(by_characters(normalizer=part, pre_tokenizer=words))
        found[f"normalizer {name}, bytes"] = Case(
            by_bytes(normalizer=part, pre_tokenizer=byte_level())
        )
    for name, part in pre_tokenizers().items():
        found[f"pre-tokenizer {name}"] = Case(by_characters(pre_tokenizer=part))
        found[f"pre-tokenizer {name}, bytes"] = Case(by_bytes(pre_tokenizer=after_bytes(part)))
    for name, part in decoders().items():
        found[f"decoder {name}"] = Case(by_characters(decoder=part))
        found[f"decoder {name}, bytes"] = Case(by_bytes(decoder=part))
    for name, part in post_processors().items():
        found[f"post-processor {name}"] = Case(by_characters(post_processor=part))
        found[f"post-processor {name}, bytes"] = Case(
            by_bytes(post_processor=part, pre_tokenizer=byte_level(True))
        )
    for group in (byte_levels(), models(), affixes(), added_tokens()):
        found |= dict(group)
    return found
