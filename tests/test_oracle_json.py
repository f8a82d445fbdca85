"""Made-up tokenizer.json files against `tokenizers`: ids, offsets, text and vocabulary are equal.

Every case of json_cases.py and every shape of json_models.py on every fixed hostile text, under
both policies that `tokenizers` has, with and without the post-processor; then hostile texts that
Hypothesis makes up, and lists of ids that no text encodes to.
"""

import functools
import json
from typing import Any

import json_cases
import json_models
import oracles
import pytest
from gristmill import Tokenizer, TokenizerError
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import HuggingFace
from texts import HOSTILE, texts

CASES = json_cases.cases() | {
    f"shape of {name}": case for name, case in json_models.models().items()
}
# What `tokenizers` loads but panics on, for some texts or ids. There is nothing to be equal to.
PANICS = {
    "normalizer prepend nothing, bytes",
    "decoder strip 2 2",
    "decoder strip 2 2, bytes",
    "decoder byte level, strip",
    "decoder byte level, strip, bytes",
    "post-processor two templates",
    "post-processor two templates, bytes",
}
# What `tokenizers` loads and Gristmill refuses, and what the refusal names.
UNSUPPORTED = {
    "pre-tokenizer back reference": "back-reference",
    "pre-tokenizer back reference, bytes": "back-reference",
    "normalizer replace what repeats": "back-reference",
    "normalizer replace what repeats, bytes": "back-reference",
    # Which of the tokens `tokenizers` finds differs from one load to the next.
    "tokens that are the same after normalisation": "the same after normalisation",
    "tokens cased special=True normalized=True, lowercase": "the same after normalisation",
    "tokens cased special=False normalized=True, lowercase": "the same after normalisation",
}
EQUAL = [name for name in CASES if name not in PANICS and name not in UNSUPPORTED]
GROUPS = {
    group: [name for name in EQUAL if name.startswith(group)]
    for group in ("normalizer", "pre-tokenizer", "decoder", "post-processor", "token", "shape")
}
GROUPS["model"] = [name for name in EQUAL if not name.startswith(tuple(GROUPS))]
POLICIES: list[tuple[oracles.Policy, bool]] = [
    ("text", False),
    ("text", True),
    ("parse", False),
    ("parse", True),
]


@functools.cache
def pair(name: str) -> tuple[Tokenizer, HuggingFace]:
    """Gristmill and `tokenizers` with the same file."""
    content = json.dumps(CASES[name].content)
    return Tokenizer.from_bytes(content.encode()), HuggingFace(content)


def check_text(ours: Tokenizer, theirs: HuggingFace, text: str) -> None:
    """All that can be asked about a text."""
    for special, add in POLICIES:
        ids, offsets = theirs.encode(text, special, add)
        found = ours.encode_with_offsets(text, special=special, add_special_tokens=add)
        assert found == (ids, offsets), (text, special, add)
        assert ours.encode(text, special=special, add_special_tokens=add) == ids
        assert ours.encode(text.encode(), special=special, add_special_tokens=add) == ids
        assert ours.count(text, special=special, add_special_tokens=add) == len(ids)
    # The ids of "parse" with the post-processor hold the most special tokens.
    check_ids(ours, theirs, ids)


def check_ids(ours: Tokenizer, theirs: HuggingFace, ids: list[int]) -> None:
    """All that can be asked about ids."""
    for skip in (False, True):
        decoded = theirs.decode(ids, skip)
        assert ours.decode(ids, skip_special_tokens=skip) == decoded, (ids, skip)


def check_policies(ours: Tokenizer, text: str) -> None:
    """What ties the policies that `tokenizers` lacks to those that it has."""
    every = set(ours.special_tokens)
    as_text = ours.encode(text, special="text")
    assert ours.encode(text, special=set()) == as_text
    assert ours.encode(text, special=every) == ours.encode(text, special="parse")
    try:
        ids = ours.encode(text, special="forbid")
    except TokenizerError:
        special = set(ours.special_tokens.values())
        assert not special.isdisjoint(ours.encode(text, special="parse"))
    else:
        assert ids == as_text == ours.encode(text, special="parse")


@pytest.mark.parametrize("name", EQUAL)
def test_hostile_texts(name: str) -> None:
    ours, theirs = pair(name)
    for text in [*HOSTILE, *CASES[name].extra, *CASES[name].texts]:
        check_text(ours, theirs, text)


@pytest.mark.parametrize("name", EQUAL)
def test_vocabulary(name: str) -> None:
    ours, theirs = pair(name)
    vocab = theirs.vocab()
    assert ours.vocab_size == theirs.vocab_size()
    assert ours.special_tokens == theirs.special_tokens()
    assert {token: ours.token_to_id(token) for token in vocab} == vocab
    for id in set(vocab.values()):
        assert ours.id_to_token(id) == theirs.library.id_to_token(id)
    assert ours.token_to_id("no such token") is None


@st.composite
def named_texts(draw: st.DrawFn, names: list[str]) -> tuple[str, str]:
    name = draw(st.sampled_from(names))
    return name, draw(texts(12, *CASES[name].extra))


@pytest.mark.parametrize("group", GROUPS)
def test_made_up_texts(group: str) -> None:
    @settings(max_examples=settings().max_examples * 5)
    @given(named_texts(GROUPS[group]))
    def run(named: tuple[str, str]) -> None:
        name, text = named
        check_text(*pair(name), text)
        check_policies(pair(name)[0], text)

    run()


@st.composite
def named_ids(draw: st.DrawFn) -> tuple[str, list[int]]:
    name = draw(st.sampled_from(GROUPS["decoder"] + GROUPS["model"]))
    ids = sorted(pair(name)[1].vocab().values())
    bytes_ = [id for token, id in pair(name)[1].vocab().items() if token.startswith("<0x")]
    some = st.one_of(st.sampled_from(ids), st.sampled_from(ids[:4]))
    if bytes_:
        some = st.one_of(some, st.sampled_from(bytes_))
    return name, draw(st.lists(some, max_size=12))


@settings(max_examples=settings().max_examples * 10)
@given(named_ids())
def test_made_up_ids(named: tuple[str, list[int]]) -> None:
    name, ids = named
    check_ids(*pair(name), ids)


@pytest.mark.parametrize("name", sorted(PANICS))
def test_what_the_reference_panics_on_is_refused_or_works(name: str) -> None:
    content = json.dumps(CASES[name].content).encode()
    try:
        ours = Tokenizer.from_bytes(content)
    except TokenizerError:
        return
    for text in HOSTILE:
        ids = ours.encode(text, special="parse", add_special_tokens=True)
        ours.decode(ids)


def use(theirs: HuggingFace) -> None:
    theirs.decode(sorted(theirs.vocab().values()))
    theirs.decode([theirs.vocab()["e"]])
    for text in HOSTILE:
        theirs.decode(theirs.ids(text, "parse", add_special_tokens=True))


def test_the_reference_still_panics() -> None:
    """Or the list of what it panics on is out of date."""
    for name in PANICS:
        theirs = HuggingFace(json.dumps(CASES[name].content))
        with pytest.raises(BaseException, match=r"index out of bounds|not yet implemented"):
            use(theirs)


def changed(**model: Any) -> dict[str, Any]:
    return json_cases.with_model(json_cases.by_bytes(), **model)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "dropout": (changed(dropout=0.1), "dropout"),
    "WordPiece": (changed(type="WordPiece"), "WordPiece"),
    "Unigram": (changed(type="Unigram"), "Unigram"),
    "WordLevel": (changed(type="WordLevel"), "WordLevel"),
    "a merge of no token": (changed(merges=[["a", "☃"]]), "☃"),
    "a merge into no token": (changed(merges=[["ĉ", "Ġthe"]]), "Ġthe"),
    "a merge of one": (changed(merges=["ab"]), "merge"),
    "a merge of three": (changed(merges=["a b c"]), "merge"),
    "an unknown normalizer": (json_cases.by_bytes(normalizer={"type": "Rot13"}), "Rot13"),
    "an unknown pre-tokenizer": (json_cases.by_bytes(pre_tokenizer={"type": "Cut"}), "Cut"),
    "an unknown decoder": (json_cases.by_bytes(decoder={"type": "Undo"}), "Undo"),
    "an unknown processor": (json_cases.by_bytes(post_processor={"type": "Wrap"}), "Wrap"),
    "a pattern that is none": (
        json_cases.by_bytes(pre_tokenizer=json_cases.split({"Regex": "("})),
        "",
    ),
    "a normalizer's pattern that is none": (
        json_cases.by_bytes(normalizer=json_cases.replace({"Regex": "["}, "")),
        "",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_parts_are_named(name: str) -> None:
    with pytest.raises(TokenizerError, match=UNSUPPORTED[name]):
        Tokenizer.from_bytes(json.dumps(CASES[name].content).encode())


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    content, named = REFUSED[name]
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.from_bytes(json.dumps(content).encode())
    assert named in str(caught.value)


def test_stored_truncation_and_padding_are_ignored_and_reported() -> None:
    content = json_cases.by_bytes()
    plain = Tokenizer.from_bytes(json.dumps(content).encode())
    content["truncation"] = {
        "direction": "Right",
        "max_length": 3,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    content["padding"] = {
        "strategy": {"Fixed": 50},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<unk>",
    }
    ours = Tokenizer.from_bytes(json.dumps(content).encode())
    theirs = HuggingFace(json.dumps(content))
    assert len(theirs.ids("a b c d e f g")) == 50
    theirs.library.no_truncation()
    theirs.library.no_padding()
    for text in HOSTILE:
        assert ours.encode(text) == plain.encode(text) == theirs.ids(text)
    report = json.dumps(ours.info)
    assert "truncation" in report
    assert "padding" in report
