"""No input is slow or large: each call is cold, in a process of its own, on 1 MB of one thing.

The measure is English-like text in the same kind of process. Time is the processor's, and the
best of three runs counts, so that another process on the machine is no failure. Memory is the
growth of the largest resident size, so it cannot hide what was freed again.
"""

import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gristmill
import pytest
import tiny
from gristmill import Tokenizer, TokenizerError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="memory is measured as POSIX does")

SIZE = 1_000_000
# How many times slower than English a text may be, and how many bytes a byte of text may need for
# the time of the call, beside the result.
TIMES = 20
BYTES = 40
# Below this, the clock says little.
SURELY_FAST = 0.15

TEXTS = {
    "a": "'a' * SIZE",
    "spaces": "' ' * SIZE",
    "newlines": "'\\n' * SIZE",
    "one CJK character": "'中' * (SIZE // 3)",
    "^": "'^' * SIZE",
    "U+0301": "'\\u0301' * (SIZE // 2)",
    "random scalar values": "scalars()",
    "digits": "'1' * SIZE",
    "spaces and letters": "' a' * (SIZE // 2)",
    "spaces, then a letter": "' ' * SIZE + 'a'",
    "apostrophes": '"\'" * SIZE',
    "cases": "'aB' * (SIZE // 2)",
    "carriage returns": "'\\r\\n' * (SIZE // 2)",
    "random letters": "letters()",
    "one emoji": "'🙂' * (SIZE // 4)",
    "beginnings of special tokens": "'<|endoftext|' * (SIZE // 12)",
    "special tokens": "'<|endoftext|>' * (SIZE // 13)",
    "less-than signs": "'<' * SIZE",
    "underlines of SentencePiece": "'▁' * (SIZE // 3)",
    "zeros": "'\\0' * SIZE",
}

PROGRAM = """
import json, numpy, os, random, resource, sys, time
from gristmill import Tokenizer

SIZE, source, call, texts = int(sys.argv[1]), *sys.argv[2:]
random.seed(0)

def scalars():
    codes = (random.randrange(0x110000) for _ in range(SIZE // 4))
    return ''.join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)

def letters():
    return ''.join(random.choices('abcdefghijklmnopqrstuvwxyz', k=SIZE))

def english():
    words = ['the', 'of', 'and', 'mill', 'grinding', 'Water', "don't", 'is', '1200', 'wheel,']
    lengths = [random.randrange(2, 11) for _ in range(5000)]
    words += [''.join(random.choices('etaoinshrdlu', k=length)) for length in lengths]
    return ' '.join(random.choices(words, k=SIZE // 6))[:SIZE]

def peak():
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == 'darwin' else 1024 * size

def measure(text):
    data = text.encode()
    ids = tokenizer.encode_numpy(data) if call == 'decode' else None
    before, begin, size = peak(), time.process_time(), 0
    if call == 'encode':
        size = tokenizer.encode_numpy(data).nbytes
    elif call == 'parse':
        size = tokenizer.encode_numpy(data, special='parse').nbytes
    elif call == 'offsets':
        tokenizer.encode_with_offsets(text)
    elif call == 'decode':
        size = len(tokenizer.decode_bytes(ids))
        data = data if ids.nbytes < len(data) else ids.tobytes()
    elif call == 'truncate':
        tokenizer.truncate(data, 100_000)
    elif call == 'count':
        tokenizer.count(data)
    seconds = time.process_time() - begin
    return seconds, (peak() - before - size) / len(data)

tokenizer = Tokenizer(source)
numpy.zeros(10)
for text in json.loads(texts):
    # A new process for each, which has encoded nothing yet.
    child = os.fork()
    if child == 0:
        print(json.dumps(measure(eval(text))), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, text
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The tokenizers measured: those embedded, and tiny ones with byte fallback."""
    folder = tmp_path_factory.mktemp("linear")
    files = {
        "byte fallback": tiny.fallback_json(),
        "byte-level json": tiny.byte_level_json(),
        "sentencepiece": tiny.sentencepiece(),
        "nfc": tiny.byte_level_json(normalizer={"type": "NFC"}),
    }
    found = {name: name for name in gristmill.EMBEDDED if name != "o200k_harmony"}
    for number, (name, content) in enumerate(files.items()):
        path = folder / f"{number}.tokenizer"
        path.write_bytes(content)
        found[name] = str(path)
    return found


Measured = tuple[float, float]


def measure(
    source: str, texts: list[str], call: str = "encode", size: int = SIZE
) -> list[Measured]:
    """For each text: seconds, and bytes for each byte of input beyond the result."""
    command = [sys.executable, "-c", PROGRAM, str(size), source, call, json.dumps(texts)]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@functools.cache
def measure_all(source: str, call: str) -> tuple[float, dict[str, Measured]]:
    """Seconds for English, and every text measured once."""
    english, *rest = measure(source, ["english()", *TEXTS.values(), "english()"], call)
    times = [english[0], rest.pop()[0]]
    return min(times), dict(zip(TEXTS, rest, strict=True))


def check(source: str, name: str, call: str = "encode") -> None:
    english, found = measure_all(source, call)
    limit = max(TIMES * english, SURELY_FAST)
    seconds, memory = found[name]
    for _ in range(2):
        if seconds > limit:
            ((seconds, memory),) = measure(source, [TEXTS[name]], call)
    assert seconds <= limit, f"{seconds:.3f} s, English takes {english:.3f} s"
    if call in ("encode", "parse", "count", "decode"):
        # What one allocation rounds up to is not the text's doing.
        assert memory <= BYTES + 2_000_000 / SIZE, f"{memory:.1f} bytes for each byte"


def fastest(source: str, text: str, call: str = "encode", size: int = SIZE) -> float:
    return min(measure(source, [text] * 3, call, size))[0]


NAMES = ["gpt2", "cl100k_base", "o200k_base", "byte fallback", "sentencepiece"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", [*NAMES, "nfc", "byte-level json"])
def test_encode(sources: dict[str, str], name: str, text: str) -> None:
    check(sources[name], text)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("call", ["parse", "offsets", "decode", "truncate", "count"])
@pytest.mark.parametrize("name", ["o200k_base", "byte fallback"])
def test_other_calls(sources: dict[str, str], name: str, call: str, text: str) -> None:
    check(sources[name], text, call)


def test_english_needs_little_memory(sources: dict[str, str]) -> None:
    for name in NAMES:
        ((_, memory),) = measure(sources[name], ["english()"])
        assert memory <= BYTES + 2_000_000 / SIZE, name


@pytest.mark.parametrize("text", ["a", "spaces", "U+0301"])
def test_four_times_the_text_takes_four_times_the_time(sources: dict[str, str], text: str) -> None:
    small = fastest(sources["o200k_base"], TEXTS[text])
    large = fastest(sources["o200k_base"], TEXTS[text], size=4 * SIZE)
    assert large < 12 * small + SURELY_FAST


def test_many_special_tokens(tmp_path: Path) -> None:
    """Their number costs nothing while encoding."""
    added = [tiny.added_token(406 + number, f"<unused{number}>") for number in range(20_000)]
    for name, tokens in (("few", added[:1]), ("many", added)):
        (tmp_path / name).write_bytes(tiny.byte_level_json(added_tokens=tokens))
    text = "'<unused7> <unused19999> x <unus' * (SIZE // 32)"
    few = fastest(str(tmp_path / "few"), text, "parse")
    many = fastest(str(tmp_path / "many"), text, "parse")
    assert many < 5 * few + SURELY_FAST


@pytest.mark.parametrize("normalized", [True, False])
def test_tokens_of_white_space_that_take_white_space(tmp_path: Path, normalized: bool) -> None:
    """A run of it is looked at once, not once for each token in it."""
    flags = {"lstrip": True, "rstrip": True, "normalized": normalized}
    for name, taken in (("plain", {}), ("taking", flags)):
        added = [tiny.added_token(406 + n, token, False, **taken) for n, token in enumerate("\n\t")]
        (tmp_path / name).write_bytes(tiny.byte_level_json(added_tokens=added))
    for text in (r"'\n' * SIZE", r"'\t\n' * (SIZE // 2)"):
        for call in ("encode", "offsets"):
            plain = fastest(str(tmp_path / "plain"), text, call)
            taking = fastest(str(tmp_path / "taking"), text, call)
            assert taking < 5 * plain + SURELY_FAST, (text, call)


def seconds(work: Callable[..., object], *arguments: Any, **options: Any) -> float:
    began = time.process_time()
    work(*arguments, **options)
    return time.process_time() - began


def test_many_special_tokens_of_which_some_are_parsed() -> None:
    specials = {f"<{number}>": 1000 + number for number in range(50_000)}
    specials["a" * 5000] = 999
    ranks = Tokenizer.from_bytes(tiny.rank_file(), pattern="(?s:.)", special_tokens=specials)
    some = set(list(specials)[::2])
    for text in ("<1><3> a" * 20_000, "<0>" * 50_000, "a" * 200_000):
        alone = seconds(ranks.encode, text, special="parse")
        assert seconds(ranks.encode, text, special=some) < 5 * alone + 1


def test_loading_tokens_that_are_no_bytes() -> None:
    """Tokens of a byte-level file that are not written in its alphabet, and merges of them."""

    def content(number: int) -> bytes:
        file = json.loads(tiny.byte_level_json())
        vocab, merges = file["model"]["vocab"], file["model"]["merges"]
        vocab["い"] = len(vocab)
        for name in (f"あ{n}" for n in range(number)):
            vocab[name] = len(vocab)
            vocab[f"{name}い"] = len(vocab)
            merges.append([name, "い"])
        file["added_tokens"] = [tiny.added_token(n, f"う{n}") for n in range(number)]
        return json.dumps(file).encode()

    small, large = content(2_000), content(20_000)
    once = seconds(Tokenizer.from_bytes, small)
    assert seconds(Tokenizer.from_bytes, large) < 40 * once + 0.5


def doubling(kind: str, part: dict[str, Any], times: int = 40) -> dict[str, Any]:
    return {"type": "Sequence", kind: [part] * times}


def test_files_that_double_a_text_again_and_again() -> None:
    replace = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}
    suffix = {"type": "BPEDecoder", "suffix": ""}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    twice = {"type": "TemplateProcessing", "single": [text] * 2, "pair": [], "special_tokens": {}}
    for parts in (
        {"normalizer": doubling("normalizers", replace)},
        {"normalizer": doubling("normalizers", {"type": "ByteLevel"})},
        {"pre_tokenizer": doubling("pretokenizers", bytes_ | {"use_regex": False})},
    ):
        ours = Tokenizer.from_bytes(tiny.byte_level_json(**parts))
        for call in (ours.encode, ours.count, ours.encode_with_offsets):
            with pytest.raises(TokenizerError, match="times as long"):
                call("être" * 1000)
    for decoder in (replace, suffix):
        ours = Tokenizer.from_bytes(tiny.byte_level_json(decoder=doubling("decoders", decoder)))
        for decode in (ours.decode, ours.decode_bytes):
            with pytest.raises(TokenizerError, match="far more text"):
                decode(ours.encode("être" * 1000))
    with pytest.raises(TokenizerError, match="repeats the text"):
        Tokenizer.from_bytes(tiny.byte_level_json(post_processor=doubling("processors", twice)))
    for part in (replace | {"content": "e" * 2000}, {"type": "Prepend", "prepend": "e" * 2000}):
        with pytest.raises(TokenizerError, match="more than 1024 bytes"):
            Tokenizer.from_bytes(tiny.byte_level_json(normalizer=part))
