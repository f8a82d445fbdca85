"""Many threads, forks and any order of calls: the ids are those of one call alone."""

import itertools
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny
from conftest import FORMATS
from gristmill import Tokenizer
from texts import HOSTILE

TEXTS = [*HOSTILE, *tiny.PARAGRAPH.splitlines()] * 3


def test_one_tokenizer_in_eight_threads(any_format: Tokenizer) -> None:
    expected = [any_format.encode(text) for text in TEXTS]
    orders = [random.Random(seed).sample(range(len(TEXTS)), len(TEXTS)) for seed in range(8)]
    start = threading.Barrier(8)

    def work(order: list[int]) -> list[list[int]]:
        start.wait()
        found = {number: any_format.encode(TEXTS[number]) for number in order}
        assert any_format.encode_batch(TEXTS[:20], threads=2) == expected[:20]
        return [found[number] for number in range(len(TEXTS))]

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(work, orders))


def test_loading_in_eight_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda _: Tokenizer("gpt2"), range(16)))
    assert {tuple(tokenizer.encode("Hello, world!")) for tokenizer in loaded} == {
        (15496, 11, 995, 0)
    }


def test_what_was_encoded_before_does_not_matter() -> None:
    """A new tokenizer for each text, or one for all, in any order, with rare texts between."""
    source = random.Random(5)
    alphabet = [chr(source.randrange(0x4E00, 0x9FFF)) for _ in range(3000)]
    filler = ["".join(source.choices(alphabet, k=source.randrange(1, 20))) for _ in range(10_000)]
    for make in FORMATS.values():
        expected = [make().encode(text) for text in TEXTS[: len(HOSTILE)]]
        used = make()
        for order in (1, -1):
            for text, ids in list(zip(TEXTS, expected, strict=False))[::order]:
                assert used.encode(text) == ids
            # More pieces than a cache of any sensible size holds.
            before = used.encode_batch(filler)
            assert used.encode_batch(filler[::-1], threads=2)[::-1] == before


def test_key_collisions() -> None:
    """Pieces that differ in zeros alone, around the lengths at which keys change their form."""
    tokenizer = FORMATS["byte_level_json"]()
    texts = ["a" * number + "\0" * zeros for number in range(4) for zeros in range(40)]
    expected = [FORMATS["byte_level_json"]().encode(text) for text in texts]
    for _ in range(2):
        assert [tokenizer.encode(text) for text in texts] == expected
    assert [tokenizer.decode(ids) for ids in expected] == texts


def test_the_batch_may_be_cut_anywhere() -> None:
    tokenizer = Tokenizer("o200k_base")
    expected = [tokenizer.encode(text) for text in TEXTS]
    for size in (1, 2, 3, 7, 50, 200):
        batches = [TEXTS[at : at + size] for at in range(0, len(TEXTS), size)]
        found = itertools.chain.from_iterable(map(tokenizer.encode_batch, batches))
        assert list(found) == expected
    for threads in (1, 2, 3, 8, 64, 1000):
        assert tokenizer.encode_batch(TEXTS, threads=threads) == expected
        assert tokenizer.encode_batch(TEXTS[:1], threads=threads) == expected[:1]


def test_other_threads_run_while_a_long_text_is_encoded() -> None:
    tokenizer = Tokenizer("o200k_base")
    text = tiny.PARAGRAPH * 8000
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    for call in (tokenizer.encode_numpy, tokenizer.count):
        call(text)
    end = time.perf_counter()
    done.set()
    thread.join()
    inside = [moment for moment in ticks if begin < moment < end]
    gaps = [after - before for before, after in itertools.pairwise(inside)]
    assert len(inside) > 3
    assert max(gaps) < (end - begin) / 2


FORK = """
import os, sys, threading
from gristmill import Tokenizer

tokenizer = Tokenizer("cl100k_base")
texts = ["some text number %d, 中文 and so on" % n for n in range(500)]
expected = tokenizer.encode_batch(texts)
stop = threading.Event()

def work():
    while not stop.is_set():
        assert tokenizer.encode_batch(texts, threads=2) == expected
        assert tokenizer.encode(texts[7]) == expected[7]

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
failed = 0
for _ in range(8):
    child = os.fork()
    if child == 0:
        same = tokenizer.encode_batch(texts, threads=2) == expected
        same = same and [tokenizer.encode(text) for text in texts] == expected
        same = same and tokenizer.count_batch(texts) == list(map(len, expected))
        os._exit(0 if same else 1)
    failed += os.waitpid(child, 0)[1] != 0
stop.set()
for thread in threads:
    thread.join()
sys.exit(failed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_while_threads_encode() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_by_multiprocessing() -> None:
    program = (
        "import multiprocessing\n"
        "from gristmill import Tokenizer\n"
        "tokenizer = Tokenizer('gpt2')\n"
        "def work(n): return tokenizer.encode('text %d' % n), tokenizer.encode_batch(['a b'] * n)\n"
        "expected = [work(n) for n in range(40)]\n"
        "with multiprocessing.get_context('fork').Pool(4) as pool:\n"
        "    assert pool.map(work, range(40)) == expected\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def test_pickled_into_spawned_processes() -> None:
    program = (
        "import multiprocessing\n"
        "from gristmill import Tokenizer\n"
        "if __name__ == '__main__':\n"
        "    tokenizer = Tokenizer('gpt2')\n"
        "    texts = ['text %d' % n for n in range(40)]\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        assert pool.map(tokenizer.encode, texts) == tokenizer.encode_batch(texts)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
