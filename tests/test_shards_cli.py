"""`gristmill verify`, `cat`, `convert` and `merge`, as a user runs them."""

import json
import shutil
from pathlib import Path

import pytest
from gristmill import Tokenizer
from gristmill.cli import main
from shard_writers import DOCUMENTS, END, megatron_pair
from test_shards import FORMATS, written

Output = pytest.CaptureFixture[str]


@pytest.fixture
def texts() -> list[str]:
    return ["Hello, world!", "The mill grinds.", "水車は小麦を挽く。\n"]


@pytest.fixture
def folder(tmp_path: Path, gpt2: Tokenizer, texts: list[str]) -> Path:
    """Real texts as shards."""
    return written(tmp_path, [[*gpt2.encode(text), END] for text in texts], "megatron")


def test_cat_prints_ids_and_texts(
    folder: Path, gpt2: Tokenizer, texts: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["cat", str(folder), "--doc", "1"]) == 0
    assert capsysbinary.readouterr().out.split() == [
        str(id).encode() for id in [*gpt2.encode(texts[1]), END]
    ]
    assert main(["cat", str(folder), "-t", "gpt2", "--doc", "2", "--doc", "0"]) == 0
    expected = f"{texts[2]}<|endoftext|>\n{texts[0]}<|endoftext|>\n"
    assert capsysbinary.readouterr().out == expected.encode()
    assert main(["cat", str(folder)]) == 0
    assert capsysbinary.readouterr().out.count(b"\n") == 3
    assert main(["cat", str(folder), "--doc", "3"]) == 1
    assert b"there is no document 3: there are 3" in capsysbinary.readouterr().err


def test_verify_says_that_all_is_well(folder: Path, capsys: Output) -> None:
    assert main(["verify", str(folder), "-t", "gpt2"]) == 0
    out = capsys.readouterr().out
    assert "3 documents" in out
    assert "3 of 3 encoded to the same ids" in out
    assert main(["verify", str(folder), "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"]
    assert result["formats"][0]["ended"] == 3


def test_verify_finds_a_changed_byte(folder: Path, capsys: Output) -> None:
    file = folder / "megatron" / "shard-000000.bin"
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    file.write_bytes(content)
    assert main(["verify", str(folder)]) == 1
    captured = capsys.readouterr()
    assert "shard-000000.bin: is not what was written" in captured.err
    assert "1 problems" in captured.out


def test_verify_finds_ends_that_are_missing(
    tmp_path: Path, gpt2: Tokenizer, capsys: Output
) -> None:
    """Datasets without the token at their beginning have been trained on for weeks."""
    folder = written(tmp_path, [[*gpt2.encode("one"), END], gpt2.encode("two")], "nanogpt")
    assert main(["verify", str(folder)]) == 1
    assert "50.00% of the documents have [50256] after them" in capsys.readouterr().err


def test_verify_finds_ids_of_another_tokenizer(tmp_path: Path, capsys: Output) -> None:
    folder = written(tmp_path, [[199_000, END]], "megatron", end=200_000)
    assert main(["verify", str(folder), "-t", "gpt2"]) == 1
    assert "document 0: the tokenizer has no id 199000" in capsys.readouterr().err


def test_verify_compares_the_journal(folder: Path, capsys: Output) -> None:
    listed = json.loads((folder / "megatron" / "shards.json").read_text())
    report = {
        "job": 0,
        "shard": 0,
        "records": 5,
        "documents": 3,
        "empty": 1,
        "bad": {"json": 1},
        "files": listed["shards"][0]["files"],
    }
    journal = folder / "journal.jsonl"
    journal.write_text(json.dumps({"shard": report}) + "\n" + '{"cut off')
    assert main(["verify", str(folder)]) == 0
    assert "5 records = 3 documents + 1 empty + 1 bad" in capsys.readouterr().out
    journal.write_text(json.dumps({"shard": report | {"records": 6}}) + "\n")
    assert main(["verify", str(folder)]) == 1
    assert "6 records are not 3 documents" in capsys.readouterr().err
    journal.write_text(json.dumps({"shard": report | {"documents": 2, "records": 4}}) + "\n")
    assert main(["verify", str(folder)]) == 1
    assert "3 documents are listed, and the journal has 2" in capsys.readouterr().err
    files = [report["files"][0] | {"xxh3": "0"}, report["files"][1]]
    journal.write_text(json.dumps({"shard": report | {"files": files}}) + "\n")
    assert main(["verify", str(folder)]) == 1
    assert "the journal and the list of shards do not agree" in capsys.readouterr().err


def test_a_run_is_verified_against_its_inputs(tmp_path: Path, capsys: Output) -> None:
    lines = [json.dumps({"text": f"The mill grinds {n} sacks."}) for n in range(500)]
    source = tmp_path / "a.jsonl"
    source.write_text("\n".join([*lines, '{"text": ""}', "not JSON"]) + "\n")
    out = str(tmp_path / "out")
    arguments = ["-t", "gpt2", "--to", ",".join(FORMATS), "--seq-len", "64", "--pack", "bestfit"]
    quiet = ["--progress", "none"]
    assert main(["tokenize", str(source), "-o", out, *arguments, *quiet]) == 3
    capsys.readouterr()
    assert main(["verify", out, "-t", "gpt2"]) == 0
    printed = capsys.readouterr().out
    assert "502 records = 500 documents + 1 empty + 1 bad" in printed
    assert "1 jobs were made again from their inputs" in printed
    assert printed.count("500 documents, ") == len(FORMATS)
    assert printed.count("100 of 100 encoded to the same ids") == len(FORMATS)
    assert main(["verify", out, "-t", "cl100k_base", "--sample", "0"]) == 1
    assert "is not the tokenizer of the run, gpt2" in capsys.readouterr().err
    source.unlink()
    assert main(["verify", out, "-t", "gpt2"]) == 0
    assert "nothing was made again from the inputs" in capsys.readouterr().out


@pytest.mark.parametrize("format", FORMATS)
def test_convert_there_and_back(tmp_path: Path, format: str, capsys: Output) -> None:
    source = written(tmp_path, DOCUMENTS["u16"], "megatron")
    there, back = tmp_path / "there", tmp_path / "back"
    length = ["--seq-len", "16"] if format == "npy" else []
    assert main(["convert", str(source), "--to", format, "-o", str(there), *length]) == 0
    assert "100 documents" in capsys.readouterr().out
    assert main(["convert", str(there), "--to", "megatron", "-o", str(back)]) == 0
    for name in ("shard-000000.bin", "shard-000000.idx"):
        assert (back / "megatron" / name).read_bytes() == (source / "megatron" / name).read_bytes()
    assert main(["verify", str(there)]) == 0


def test_merge_of_parts_is_the_whole(tmp_path: Path, capsys: Output) -> None:
    source = written(tmp_path, DOCUMENTS["u16"], "megatron")
    parts, merged = tmp_path / "parts", tmp_path / "merged"
    arguments = [str(source), "--to", "megatron", "--shard-tokens", "500", "-o", str(parts)]
    assert main(["convert", *arguments]) == 0
    assert len(list((parts / "megatron").glob("*.bin"))) > 5
    assert main(["merge", str(parts), "-o", str(merged)]) == 0
    for name in ("shard-000000.bin", "shard-000000.idx", "shards.json"):
        ours = (merged / "megatron" / name).read_bytes()
        assert ours == (source / "megatron" / name).read_bytes()
    assert main(["merge", str(parts), "-o", str(merged)]) == 1
    assert "holds shards already" in capsys.readouterr().err


def test_what_does_not_belong_together_is_not_merged(tmp_path: Path, capsys: Output) -> None:
    one = written(tmp_path / "a", [[5, END]], "megatron")
    other = written(tmp_path / "b", [[END, 5]], "megatron", before=[END], after=[])
    assert main(["merge", str(one), str(other), "-o", str(tmp_path / "out")]) == 1
    assert "they do not belong together" in capsys.readouterr().err


def test_a_cut_file_is_an_error_with_its_name(tmp_path: Path, capsys: Output) -> None:
    pair = megatron_pair(tmp_path, "a", DOCUMENTS["few"])
    file = tmp_path / "a.bin"
    file.write_bytes(file.read_bytes()[:-2])
    assert main(["cat", str(pair)]) == 1
    assert "a.bin: has 22 bytes, and its index says that it ends at 24" in capsys.readouterr().err


def test_several_formats_need_a_name(tmp_path: Path, capsys: Output) -> None:
    one = written(tmp_path / "a", [[5, END]], "megatron")
    other = written(tmp_path / "b", [[5, END]], "llmc")
    shutil.copytree(other / "llmc", one / "llmc")
    assert main(["cat", str(one)]) == 1
    assert "holds shards as megatron, llmc: name one" in capsys.readouterr().err
    assert main(["cat", str(one), "--from", "llmc"]) == 0
    assert capsys.readouterr().out == "5 50256\n"
    assert main(["verify", str(one)]) == 0
    assert main(["verify", str(tmp_path)]) == 1
    assert "holds no shards" in capsys.readouterr().err
