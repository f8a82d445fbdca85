"""What the methods of Tokenizer take and give: tiny files of every format, and those embedded."""

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import gristmill
import numpy as np
import pytest
import tiny
from conftest import FORMATS
from gristmill import Tokenizer, TokenizerError
from hypothesis import given
from hypothesis import strategies as st
from texts import HOSTILE, texts

POLICIES: list[Literal["text", "parse"]] = ["text", "parse"]
BYTE_LEVEL = ["ranks", "byte_level_json", "tekken"]
TEXTS = [*HOSTILE, *tiny.PARAGRAPH.splitlines(), tiny.PARAGRAPH]


# --- laws


@given(texts(12, *tiny.SPECIALS))
@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_byte_level_round_trip(name: str, text: str) -> None:
    tokenizer = FORMATS[name]()
    for special in POLICIES:
        ids = tokenizer.encode(text, special=special)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode_bytes(ids) == text.encode()


@given(texts())
def test_round_trip_of_embedded(embedded: Tokenizer, text: str) -> None:
    ids = embedded.encode(text)
    assert embedded.decode(ids) == text
    assert embedded.decode_bytes(embedded.encode(text.encode())) == text.encode()
    assert b"".join(map(embedded.token_bytes, ids)) == text.encode()


def test_str_and_bytes_are_the_same_text(any_format: Tokenizer) -> None:
    for text in TEXTS:
        ids = any_format.encode(text)
        assert any_format.encode(text.encode()) == ids
        assert any_format.encode_numpy(text.encode()).tolist() == ids
        assert any_format.count(text.encode()) == any_format.count(text) == len(ids)


def test_every_way_to_encode_gives_the_same_ids(any_format: Tokenizer) -> None:
    for special in ("text", "parse"):
        options: dict[str, Any] = {"special": special}
        lists = [any_format.encode(text, **options) for text in TEXTS]
        for text, ids in zip(TEXTS, lists, strict=True):
            assert any_format.encode_numpy(text, **options).tolist() == ids
            assert any_format.encode_with_offsets(text, **options)[0] == ids
            assert any_format.count(text, **options) == len(ids)
        for threads in (0, 1, 2, 8):
            options["threads"] = threads
            assert any_format.encode_batch(TEXTS, **options) == lists
            assert any_format.count_batch(TEXTS, **options) == [len(ids) for ids in lists]
            flat, ends = any_format.encode_batch_numpy(TEXTS, **options)
            assert flat.tolist() == [id for ids in lists for id in ids]
            assert ends.tolist() == np.cumsum([0, *map(len, lists)]).tolist()


def test_decode_batch_is_decode(any_format: Tokenizer) -> None:
    lists = [any_format.encode(text, special="parse") for text in TEXTS]
    for skip in (False, True):
        expected = [any_format.decode(ids, skip_special_tokens=skip) for ids in lists]
        for threads in (0, 1, 2, 8):
            found = any_format.decode_batch(lists, skip_special_tokens=skip, threads=threads)
            assert found == expected


def test_offsets_in_bytes_are_those_in_characters(any_format: Tokenizer) -> None:
    for text in TEXTS:
        ids, characters = any_format.encode_with_offsets(text)
        same, bytes_ = any_format.encode_with_offsets(text.encode())
        assert ids == same
        ends = [len(text[:end].encode()) for end in range(len(text) + 1)]
        assert bytes_ == [(ends[start], ends[end]) for start, end in characters]


def test_offsets_cover_the_text(embedded: Tokenizer) -> None:
    for text in TEXTS:
        covered = set()
        for start, end in embedded.encode_with_offsets(text)[1]:
            assert 0 <= start < end <= len(text)
            covered |= {*range(start, end)}
        assert covered == {*range(len(text))}


# --- truncate


def longest_prefix(tokenizer: Tokenizer, text: str, limit: int) -> str:
    """By definition, for tokenizers whose tokens' bytes are the text's."""
    ids = tokenizer.encode(text)[:limit]
    while True:
        try:
            return tokenizer.decode_bytes(ids).decode()
        except UnicodeDecodeError:
            ids.pop()


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_truncate_by_definition(name: str) -> None:
    tokenizer = FORMATS[name]()
    for text in TEXTS:
        for limit in {0, 1, 2, 3, 5, 8, 13, 40, tokenizer.count(text), 10_000}:
            expected = longest_prefix(tokenizer, text, limit)
            assert tokenizer.truncate(text, limit) == expected, (text, limit)
            assert tokenizer.truncate(text.encode(), limit) == expected.encode()


@given(texts(), st.integers(0, 30))
def test_truncate_embedded_by_definition(gpt2: Tokenizer, text: str, limit: int) -> None:
    assert gpt2.truncate(text, limit) == longest_prefix(gpt2, text, limit)


def test_truncate_is_a_prefix(any_format: Tokenizer) -> None:
    for text in TEXTS:
        number = any_format.count(text)
        assert any_format.truncate(text, number) == text
        prefixes = [any_format.truncate(text, limit) for limit in range(min(number, 30))]
        assert all(text.startswith(prefix) for prefix in prefixes)
        assert sorted(prefixes, key=len) == prefixes


def test_truncate_knows_special_tokens(gpt2: Tokenizer) -> None:
    text = "a<|endoftext|>b"
    assert gpt2.truncate(text, 2, special="parse") == "a<|endoftext|>"
    assert gpt2.truncate(text, 2) == "a<"
    with pytest.raises(TokenizerError):
        gpt2.truncate(text, 2, special="forbid")


# --- arrays, batches, iterables


def test_arrays(gpt2: Tokenizer) -> None:
    ids = gpt2.encode_numpy("Hello, world!")
    assert isinstance(ids, np.ndarray)
    assert ids.dtype == np.uint32
    assert ids.shape == (4,)
    assert ids.flags.c_contiguous
    assert ids.flags.writeable
    assert gpt2.encode_numpy("").shape == (0,)
    assert gpt2.encode_numpy("").dtype == np.uint32


def test_batch_arrays(gpt2: Tokenizer) -> None:
    ids, ends = gpt2.encode_batch_numpy(["a", "", "b c"])
    assert ids.dtype == np.uint32
    assert ends.dtype == np.int64
    assert ids.tolist() == [64, 65, 269]
    assert ends.tolist() == [0, 1, 1, 3]


def test_empty(any_format: Tokenizer) -> None:
    assert any_format.encode_batch([]) == []
    assert any_format.count_batch([]) == []
    assert any_format.decode_batch([]) == []
    ids, ends = any_format.encode_batch_numpy([])
    assert (ids.shape, ends.tolist()) == ((0,), [0])
    assert ids.dtype == np.uint32
    assert ends.dtype == np.int64
    assert any_format.decode([]) == ""
    assert any_format.decode_bytes([]) == b""
    ids, ends = any_format.encode_batch_numpy(["", b"", ""])
    assert len(ends) == 4
    assert any_format.truncate("", 5) == ""


def test_texts_from_any_iterable(gpt2: Tokenizer) -> None:
    def generator() -> Iterator[str | bytes]:
        yield "a"
        yield b"b"

    batches: list[Any] = [
        ["a", b"b"],
        ("a", b"b"),
        {"a": 1, b"b": 2},
        iter(["a", b"b"]),
        generator(),
    ]
    for batch in batches:
        assert gpt2.encode_batch(batch) == [[64], [65]]
    assert gpt2.count_batch(generator()) == [1, 1]
    assert gpt2.encode_batch_numpy(generator())[0].tolist() == [64, 65]
    assert gpt2.decode_batch(iter([[64], (65,)])) == ["a", "b"]


def test_an_iterable_that_fails_fails_the_batch(gpt2: Tokenizer) -> None:
    def generator() -> Iterator[str]:
        yield "a"
        raise RuntimeError("no more")

    for method in (gpt2.encode_batch, gpt2.count_batch, gpt2.encode_batch_numpy):
        with pytest.raises(RuntimeError, match="no more"):
            method(generator())


@pytest.mark.parametrize(
    "ids",
    [
        [64, 65],
        (64, 65),
        range(64, 66),
        np.array([64, 65], dtype=np.uint32),
        np.array([64, 65], dtype=np.int64),
        np.array([64, 65], dtype=np.uint8),
        np.array([64, 0, 65, 0], dtype=np.uint32)[::2],
        [np.int64(64), np.uint32(65)],
        [np.array(64)[()], 65],
    ],
)
def test_ids_of_any_kind(gpt2: Tokenizer, ids: Any) -> None:
    assert gpt2.decode(ids) == "ab"
    assert gpt2.decode_bytes(ids) == b"ab"
    assert gpt2.decode_batch([ids, ids]) == ["ab", "ab"]


def test_partial_characters(gpt2: Tokenizer) -> None:
    ids = gpt2.encode("🙂")
    assert len(ids) > 1
    assert gpt2.decode_bytes(ids[:1]) == "🙂".encode()[: len(gpt2.token_bytes(ids[0]))]
    assert gpt2.decode(ids[:1]) == "\ufffd"
    bytes_ = [gpt2.token_to_id(bytes([byte])) for byte in (0xE4, 0x41, 0xFF, 0x80)]
    assert gpt2.decode([id for id in bytes_ if id is not None]) == "\ufffdA\ufffd\ufffd"


# --- special tokens


def test_policies(gpt2: Tokenizer) -> None:
    text = "a<|endoftext|>"
    as_text = [64, 27, 91, 437, 1659, 5239, 91, 29]
    assert gpt2.encode(text) == gpt2.encode(text, special="text") == as_text
    assert gpt2.encode(text, special="parse") == [64, 50256]
    assert gpt2.encode(text, special={"<|endoftext|>"}) == [64, 50256]
    assert gpt2.encode(text, special=frozenset({"<|endoftext|>"})) == [64, 50256]
    assert gpt2.encode(text, special=set()) == as_text
    assert gpt2.encode("nothing special", special="forbid") == gpt2.encode("nothing special")
    assert gpt2.decode([64, 50256]) == text
    assert gpt2.decode([64, 50256], skip_special_tokens=True) == "a"
    assert gpt2.decode_bytes([64, 50256], skip_special_tokens=True) == b"a"


@pytest.mark.parametrize("before", ["", "abc", "é中🙂"])
def test_forbid_says_what_and_where(gpt2: Tokenizer, before: str) -> None:
    text = f"{before}<|endoftext|> and <|endoftext|>"
    calls: list[Callable[..., Any]] = [
        gpt2.encode,
        gpt2.encode_numpy,
        gpt2.encode_with_offsets,
        gpt2.count,
    ]
    for call in calls:
        with pytest.raises(TokenizerError) as caught:
            call(text, special="forbid")
        assert "<|endoftext|>" in str(caught.value)
        assert f"byte {len(before.encode())}" in str(caught.value)
    for batch in (gpt2.encode_batch, gpt2.count_batch, gpt2.encode_batch_numpy):
        with pytest.raises(TokenizerError, match="endoftext"):
            batch(["fine", text], special="forbid")


def test_added_tokens_that_are_not_special_are_always_found() -> None:
    added = [tiny.added_token(406, "<tool>", special=False), tiny.added_token(407, "<s>")]
    tokenizer = Tokenizer.from_bytes(tiny.byte_level_json(added_tokens=added))
    assert tokenizer.special_tokens == {"<s>": 407}
    policies: list[Any] = ["text", "parse", set(), {"<s>"}]
    for special in policies:
        ids = tokenizer.encode("a<tool><s>", special=special)
        assert 406 in ids
        assert (407 in ids) == (special in ("parse", {"<s>"}))
    assert tokenizer.encode("<tool>", special="forbid") == [406]
    assert tokenizer.decode([406, 407], skip_special_tokens=True) == "<tool>"


def test_post_processor() -> None:
    vocab = tiny.byte_vocab()
    post = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|fim|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {"<|fim|>": {"id": "<|fim|>", "ids": [407], "tokens": ["<|fim|>"]}},
    }
    tokenizer = Tokenizer.from_bytes(tiny.byte_level_json(post_processor=post))
    ids = tokenizer.encode("ab")
    assert tokenizer.encode("ab", add_special_tokens=True) == [407, *ids]
    assert tokenizer.count("ab", add_special_tokens=True) == len(ids) + 1
    assert tokenizer.encode_with_offsets("ab", add_special_tokens=True)[1][0] == (0, 0)
    assert tokenizer.encode_batch(["ab", ""], add_special_tokens=True) == [[407, *ids], [407]]
    assert len(vocab) == 406


# --- tokens


def test_tokens(gpt2: Tokenizer) -> None:
    assert gpt2.id_to_token(31373) == "hello"
    assert gpt2.token_to_id("hello") == gpt2.token_to_id(b"hello") == 31373
    assert gpt2.token_bytes(220) == b" "
    assert gpt2.token_to_id("no such token") is None
    assert gpt2.token_to_id(b"\xff\xff\xff\xff") is None
    assert gpt2.token_to_id("<|endoftext|>") == 50256
    assert gpt2.vocab_size == 50257
    assert gpt2.special_tokens == {"<|endoftext|>": 50256}


def test_tokens_and_back(any_format: Tokenizer) -> None:
    for id in range(any_format.vocab_size):
        assert isinstance(any_format.id_to_token(id), str)
        token = any_format.token_bytes(id)
        assert isinstance(token, bytes)
        found = any_format.token_to_id(token)
        assert found is not None
        assert any_format.token_bytes(found) == token


def test_a_byte_level_file_spells_its_tokens() -> None:
    tokenizer = FORMATS["byte_level_json"]()
    id = tokenizer.encode(" the")[0]
    assert tokenizer.id_to_token(id) == "Ġthe"
    assert tokenizer.token_bytes(id) == b" the"
    assert tokenizer.token_to_id("Ġthe") == tokenizer.token_to_id(b" the") == id


def test_special_tokens_cannot_be_changed(gpt2: Tokenizer) -> None:
    gpt2.special_tokens["<|other|>"] = 5
    gpt2.info["format"] = "changed"
    assert gpt2.special_tokens == {"<|endoftext|>": 50256}
    assert gpt2.info["format"] != "changed"
    with pytest.raises(AttributeError):
        gpt2.vocab_size = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        gpt2.anything = 3  # type: ignore[attr-defined]


# --- loading, saving, copying


def test_info(any_format: Tokenizer) -> None:
    assert isinstance(any_format.info["format"], str)


def test_repr(any_format: Tokenizer) -> None:
    assert "Tokenizer" in repr(any_format)
    assert str(any_format.vocab_size) in repr(any_format)
    assert len(repr(any_format)) < 200
    assert repr(Tokenizer("gpt2")) == "Tokenizer('gpt2')"


def same(first: Tokenizer, second: Tokenizer) -> None:
    assert first.vocab_size == second.vocab_size
    assert first.special_tokens == second.special_tokens
    for text in TEXTS:
        for special in POLICIES:
            ids = first.encode(text, special=special)
            assert second.encode(text, special=special) == ids
            assert second.decode(ids) == first.decode(ids)


def test_pickle_and_copy(any_format: Tokenizer) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        same(any_format, pickle.loads(pickle.dumps(any_format, protocol)))
    same(any_format, copy.copy(any_format))
    same(any_format, copy.deepcopy(any_format))
    same(any_format, copy.deepcopy({"tokenizer": any_format})["tokenizer"])


def test_pickle_of_embedded(embedded: Tokenizer) -> None:
    data = pickle.dumps(embedded)
    assert len(data) < 200
    same(embedded, pickle.loads(data))


@pytest.mark.parametrize("name", FORMATS)
def test_save_and_load(name: str, tmp_path: Path) -> None:
    tokenizer, path = FORMATS[name](), tmp_path / "saved"
    options: dict[str, Any] = {}
    if name == "ranks":
        options = {"pattern": tiny.PATTERN, "special_tokens": tiny.special_tokens()}
    path.write_text("what was here before")
    tokenizer.save(path)
    same(tokenizer, Tokenizer(path, **options))
    same(tokenizer, Tokenizer(str(path), **options))
    same(tokenizer, Tokenizer.from_bytes(path.read_bytes(), **options))
    assert [*tmp_path.iterdir()] == [path]
    Tokenizer(path, **options).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_save_embedded(embedded: Tokenizer, tmp_path: Path) -> None:
    """The file is recognised by its checksum; o200k_harmony's is o200k_base's."""
    path = tmp_path / "ranks.tiktoken"
    embedded.save(path)
    loaded = Tokenizer(path)
    assert all(loaded.encode(text) == embedded.encode(text) for text in TEXTS)
    specials = Tokenizer("o200k_base" if "harmony" in repr(embedded) else "gpt2").special_tokens
    if "harmony" in repr(embedded):
        assert loaded.special_tokens == specials
        same(embedded, Tokenizer(path, special_tokens=embedded.special_tokens))
    else:
        same(embedded, loaded)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer.json", tiny.byte_level_json()),
        ("tekken.json", tiny.tekken()),
        ("tokenizer.model", tiny.sentencepiece()),
    ],
)
def test_folder(file: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(content)
    (tmp_path / "README.md").write_text("# A model")
    same(Tokenizer(tmp_path), Tokenizer.from_bytes(content))


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    for number, (name, make) in enumerate(FORMATS.items()):
        if name == "ranks":
            continue
        path = tmp_path / f"{number}.bin"
        make().save(path)
        same(make(), Tokenizer(path))


def test_a_path_is_never_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        Tokenizer(Path("gpt2"))
    Path("gpt2").write_bytes(tiny.byte_level_json())
    assert Tokenizer(Path("gpt2")).vocab_size == 408
    assert Tokenizer("gpt2").vocab_size == 50257
    assert Tokenizer("./gpt2").vocab_size == 408


def test_embedded_names() -> None:
    assert [Tokenizer(name).vocab_size for name in gristmill.EMBEDDED] == [
        50257,
        100277,
        200019,
        201088,
    ]
