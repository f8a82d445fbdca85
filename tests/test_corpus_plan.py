"""The plan: every byte of the inputs in one job, shards of one size, what makes two plans differ.

Also the options, and what is found out about the tokens that end documents.
"""

import dataclasses
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import tiny
from gristmill import Tokenizer
from gristmill.corpus import plan as plans
from gristmill.corpus.errors import CorpusError
from gristmill.corpus.inputs import Input
from gristmill.corpus.options import Options, Running, around
from gristmill.corpus.plan import Kind, Plan
from gristmill.corpus.sizes import counted, lasting, size, spelled
from hypothesis import given
from hypothesis import strategies as st

TEXT = Kind("jsonl", "none", True, ())
PACKED = Kind("jsonl", "gzip", False, ((0, None),))


def cut_text(bytes: int, unit: int) -> Kind:
    """A text as a look into it says it is."""
    starts = range(0, max(1, bytes), unit)
    ranges = tuple((at, at + unit if at + unit < bytes else None) for at in starts)
    return dataclasses.replace(TEXT, ranges=ranges)


def inputs_of(sizes: list[int]) -> list[Input]:
    return [Input(f"/in/{at:03}", bytes, 1000 + at, "00") for at, bytes in enumerate(sizes)]


def planned(sizes: list[int], shard_size: int, packed: Collection[int] = ()) -> list[plans.JobPlan]:
    unit = max(1, shard_size // plans.CUTS)
    kinds = [PACKED if at in packed else cut_text(bytes, unit) for at, bytes in enumerate(sizes)]
    return list(plans.cut(inputs_of(sizes), kinds, shard_size))


SIZES = st.lists(st.integers(0, 5000), min_size=1, max_size=30)


@given(SIZES, st.integers(16, 3000), st.sets(st.integers(0, 29)))
def test_every_byte_is_in_one_job(sizes: list[int], shard_size: int, packed: set[int]) -> None:
    jobs = planned(sizes, shard_size, packed)
    assert [job.number for job in jobs] == list(range(len(jobs)))
    at, offset = 0, 0
    for one in (one for job in jobs for one in job.ranges):
        if (one.input, one.start) != (at, offset):
            assert (one.input, one.start) == (at + 1, 0)
            at = one.input
        offset = sizes[at] if one.end is None else one.end
        if one.end is None:
            at, offset = at + 1, 0
    assert at == len(sizes)
    assert sum(job.bytes for job in jobs) == sum(sizes)


@given(SIZES, st.integers(160, 3000))
def test_shards_are_of_about_one_size(sizes: list[int], shard_size: int) -> None:
    jobs = planned(sizes, shard_size)
    assert len(jobs) <= -(-sum(sizes) // shard_size) or len(jobs) == 1
    unit = shard_size // plans.CUTS
    for job in jobs:
        assert job.bytes <= shard_size + unit + len(sizes)
        assert job.shard_bytes is None


def test_neighbouring_ranges_of_a_file_are_one() -> None:
    jobs = planned([100_000], 30_000)
    assert [len(job.ranges) for job in jobs] == [1] * 4
    assert jobs[-1].ranges[0].end is None


def test_an_archive_larger_than_a_shard_is_a_job_of_several_shards() -> None:
    jobs = planned([100, 50_000, 100], 30_000, {1})
    assert [job.shard_bytes for job in jobs] == [None, 30_000, None]


def test_small_archives_share_a_job_that_may_not_grow_without_end() -> None:
    (job,) = planned([100, 200, 300], 30_000, {0, 1, 2})
    assert len(job.ranges) == 3
    assert job.shard_bytes == 60_000


def test_ten_thousand_small_files_are_planned_quickly_into_few_jobs() -> None:
    jobs = planned([1000] * 10_000, 1_000_000)
    assert len(jobs) == 10


# --- on disk


@pytest.fixture
def plan(gpt2: Tokenizer) -> Plan:
    return plans.make(gpt2, "gpt2", Options(), inputs_of([5000, 3]), [cut_text(5000, 1000), PACKED])


def test_a_plan_on_disk_is_the_plan(plan: Plan, tmp_path: Path) -> None:
    plans.write(plan, str(tmp_path))
    again = plans.load(str(tmp_path))
    assert again is not None
    assert again.identity() == plan.identity()
    assert again.jobs == plan.jobs
    assert [again.job(n, "x") for n in range(len(plan.jobs))] == [
        plan.job(n, "x") for n in range(len(plan.jobs))
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_job_is_what_the_crate_reads(plan: Plan) -> None:
    assert plan.job(0, "/out", skip=2) == {
        "number": 0,
        "folder": "/out",
        "units": [
            {
                "path": "/in/000",
                "format": "jsonl",
                "compression": "none",
                "start": 0,
                "end": None,
                "size": 5000,
                "modified": 1000,
            },
            {
                "path": "/in/001",
                "format": "jsonl",
                "compression": "gzip",
                "start": 0,
                "end": None,
                "size": 3,
                "modified": 1001,
            },
        ],
        "read": {
            "field": "text",
            "separator": None,
            "max_document": 256_000_000,
            "on_error": "quarantine",
            "surrogates": "error",
            "keep_empty": False,
        },
        "encode": {"special": "text", "add_special_tokens": False},
        "outputs": [
            {
                "format": "megatron",
                "before": [],
                "after": [50256],
                "id_end": 50257,
                "width": None,
                "sequences": None,
                "max_tokens": None,
                "tokenizer": "gpt2",
            }
        ],
        "shard_bytes": 512_000_000,
        "skip": 2,
    }


def test_a_plan_by_other_rules_is_refused(plan: Plan, tmp_path: Path) -> None:
    content = plan.as_json() | {"rule": plans.RULE + 1, "made_by": "gristmill 9"}
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(CorpusError, match=r"another version of Gristmill \(gristmill 9\)"):
        plans.load(str(tmp_path))


def test_a_plan_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"rule": 1, "inp')
    with pytest.raises(CorpusError, match="no plan"):
        plans.load(str(tmp_path))


def change(plan: Plan, path: str, value: object) -> list[str]:
    """What is said of a plan in which one thing is another."""
    new: Any = json.loads(json.dumps(plan.identity()))
    *way, last = path.split(".")
    place = new
    for step in way:
        place = place[int(step) if step.isdecimal() else step]
    place[last] = value
    return plans.differences(plan.identity(), new)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("options.field", "body", "--field: was text, is now body"),
        ("options.shard_size", 5, "--shard-size: was 256000000, is now 5"),
        ("tokenizer.sha256", "00", "tokenizer: was gpt2, is now gpt2, which is another one"),
        ("tokenizer.golden", "00", "tokenizer: was gpt2, is now gpt2, which is another one"),
        ("inputs.0.size", 6000, "/in/000: had 5,000 bytes, has 6,000"),
        ("inputs.0.ends", "ff", "/in/000: has another content"),
        ("inputs.1.modified", 1, "/in/001: was written again since"),
        ("inputs.1.path", "/in/2", "/in/001: is no longer there, or not given|/in/2: is new"),
        ("outputs", [], "outputs: were"),
    ],
)
def test_a_difference_is_named(plan: Plan, path: str, value: object, said: str) -> None:
    lines = change(plan, path, value)
    assert len(lines) == len(said.split("|"))
    for line, expected in zip(lines, said.split("|"), strict=True):
        assert line.startswith(expected)


def test_nothing_else_makes_a_difference(plan: Plan, gpt2: Tokenizer) -> None:
    assert plans.differences(plan.identity(), plan.identity()) == []
    elsewhere = plans.identify(gpt2, "/elsewhere/gpt2")
    assert change(plan, "tokenizer", elsewhere) == []


def test_a_tokenizer_is_known_by_its_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_bytes(tiny.byte_level_json())
    second.write_bytes(first.read_bytes())
    one, other = (plans.identify(Tokenizer(path), "") for path in (first, second))
    assert one == other
    second.write_bytes(first.read_bytes().replace(b"<|fim|>", b"<|fix|>"))
    assert plans.identify(Tokenizer(second), "")["sha256"] != one["sha256"]
    ranks = tiny.rank_file()
    plain = Tokenizer.from_bytes(ranks, pattern=tiny.PATTERN)
    other_pattern = Tokenizer.from_bytes(ranks, pattern=tiny.PATTERN + "|x")
    assert plans.identify(plain, "")["sha256"] != plans.identify(other_pattern, "")["sha256"]


# --- options


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"to": "megatron,tfrecord"}, "to: 'tfrecord' is none of megatron"),
        ({"to": []}, "to: name at least one"),
        ({"to": "megatron,megatron"}, "named twice"),
        ({"format": "pdf"}, "format: 'pdf'"),
        ({"on_error": "ignore"}, "on_error: 'ignore'"),
        ({"separator": ""}, "separator"),
        ({"field": ""}, "field"),
        ({"shard_size": "big"}, "'big' is not a size"),
        ({"max_document": 0}, "0 is not a size"),
    ],
)
def test_options_that_make_no_sense(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        Options.made(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"threads": -1}, "threads"),
        ({"part": "0/2"}, "0/2"),
        ({"part": "3/2"}, "3/2"),
        ({"part": "a/2"}, "'a/2' is not i/n"),
        ({"engine": "spark"}, "spark"),
        ({"max_bad": "lots"}, "lots"),
        ({"max_bad": "100%"}, "limit"),
        ({"max_bad": -1}, "limit"),
    ],
)
def test_running_that_makes_no_sense(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        Running.made(**given)


def test_limits_are_numbers_or_shares() -> None:
    assert Running.made(max_bad="12").max_bad == 12
    assert Running.made(max_bad="0.5%").max_bad == 0.005
    assert Running.made(part="2/3").part == (2, 3)


def test_sizes() -> None:
    assert size("256MB") == 256_000_000
    assert size("1.5 GiB") == 3 << 29
    assert size("10") == size("10b") == size(10) == 10
    assert [spelled(n) for n in (0, 999, 1000, 999_600, 2.5e9, 3e15)] == [
        "0 bytes", "999 bytes", "1 kB", "1 MB", "2.5 GB", "3,000 TB",
    ]  # fmt: skip
    assert [counted(n) for n in (7, 1234, 5e6)] == ["7", "1.23 k", "5 M"]
    assert [lasting(s) for s in (0, 9.94, 59, 60, 3600, 3 * 86400)] == [
        "0.0 s", "9.9 s", "59 s", "1 min 00 s", "1 h 00 min", "3.0 days",
    ]  # fmt: skip


# --- what stands around documents


def test_the_end_of_a_document_stands_where_the_format_has_it(gpt2: Tokenizer) -> None:
    assert around("megatron", gpt2, Options()) == ([], [50256])
    assert around("llmc", gpt2, Options()) == ([50256], [])


def test_what_stands_around_documents_can_be_told(gpt2: Tokenizer) -> None:
    token = "<|endoftext|>"
    assert around("megatron", gpt2, Options(eos="none")) == ([], [])
    assert around("megatron", gpt2, Options(bos=token)) == ([50256], [50256])
    assert around("llmc", gpt2, Options(bos=token)) == ([50256], [50256])
    assert around("llmc", gpt2, Options(bos=token, eos="none")) == ([50256], [])
    assert around("megatron", gpt2, Options(add_special_tokens=True)) == ([], [])
    assert around("megatron", gpt2, Options(eos="!")) == ([], [0])
    with pytest.raises(ValueError, match="eos: the tokenizer has no token '</doc>'"):
        around("megatron", gpt2, Options(eos="</doc>"))


def test_the_settings_beside_a_tokenizer_say_what_ends_a_document(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(tiny.byte_level_json())
    tok = Tokenizer(tmp_path)
    end, other = tiny.SPECIALS
    assert around("megatron", tok, Options()) == ([], [tok.special_tokens[end]])
    for settings in ({"eos_token": other}, {"eos_token": {"content": other}}):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        assert around("megatron", tok, Options()) == ([], [tok.special_tokens[other]])


def test_a_tokenizer_without_a_known_end_asks_for_one() -> None:
    tok = Tokenizer.from_bytes(
        tiny.rank_file(), pattern=tiny.PATTERN, special_tokens={"<|x|>": 5000}
    )
    with pytest.raises(ValueError, match=r"eos: it is not known.*eos='<\|x\|>'.*eos='none'"):
        around("megatron", tok, Options())
