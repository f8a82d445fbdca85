"""`gristmill verify`, `cat`, `convert` and `merge`: shards after they were made.

The native module reads and writes them; here are the options, what the journal adds, and what is
printed. Tested in `tests/test_shards_cli.py`.
"""

import argparse
import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from gristmill import Tokenizer, TokenizerError
from gristmill._native import Shards, convert_shards, run_job, verify_shards
from gristmill.cli.arguments import Parser, add_rank_file_options, command_parser
from gristmill.cli.messages import JobError, fail, to_json

if TYPE_CHECKING:
    from gristmill.corpus.plan import Plan

FORMATS = (
    *("megatron", "llmc", "nanogpt", "npy", "dolma", "datatrove"),
    *("mds", "litdata", "parquet", "arrow"),
)
WIDTHS = {"uint16": "u16", "uint32": "u32", "int32": "i32"}
# Documents that verify decodes, by default.
SAMPLE = 100


# --- the command line


def verify_parser() -> Parser:
    """`gristmill verify`."""
    parser = command_parser(
        "verify",
        "Every file is read and compared with its size and hash, every header with its file,\n"
        "every id with the tokenizer's largest, the journal with the shards. With a tokenizer,\n"
        "documents are decoded and encoded again, and jobs of a run made again from its inputs.\n",
    )
    parser.add_argument("folder", metavar="FOLDER", help="what tokenize, convert or merge wrote")
    parser.add_argument("-t", "--tokenizer", metavar="TOKENIZER", help="decode a sample with it")
    add_rank_file_options(parser)
    parser.add_argument(
        "--sample", type=int, default=SAMPLE, metavar="N", help=f"documents to decode ({SAMPLE})"
    )
    parser.add_argument(
        "--again",
        type=int,
        default=1,
        metavar="N",
        help="jobs to make again from their inputs, elsewhere, to compare hashes (1)",
    )
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="0: one a core")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    return parser


def cat_parser() -> Parser:
    """`gristmill cat`."""
    parser = command_parser(
        "cat", "Without a tokenizer, ids are printed, one line a document; with one, the text."
    )
    parser.add_argument("folder", metavar="SHARDS", help="a folder of shards, or a file of them")
    parser.add_argument(
        "--doc",
        type=int,
        action="append",
        metavar="N",
        help="this document, from 0; negative from the end; may be repeated (default: all)",
    )
    parser.add_argument("-t", "--tokenizer", metavar="TOKENIZER", help="decode with it")
    add_rank_file_options(parser)
    parser.add_argument("--from", dest="source", choices=FORMATS, help="where there are several")
    return parser


def convert_parser() -> Parser:
    """`gristmill convert`."""
    parser = command_parser("convert", "Documents stay as they are, with what stands around them.")
    add_sources(parser)
    parser.add_argument("--to", choices=FORMATS, required=True, help="the format to write")
    parser.add_argument("--seq-len", type=int, metavar="N", help="sequences of so many ids")
    parser.add_argument("--sequences-per-chunk", type=int, metavar="N", help="sequences of a file")
    parser.add_argument(
        "--pack",
        choices=["none", "concat", "bestfit"],
        default="concat",
        help="how documents get into sequences (concat)",
    )
    parser.add_argument("--pad-id", type=int, metavar="ID", help="what fills sequences")
    parser.add_argument(
        "--shard-tokens",
        type=int,
        metavar="N",
        help="a shard ends with so many tokens: of llmc exactly, of others with the document that "
        "reaches them (default: one shard)",
    )
    parser.add_argument("--dtype", choices=WIDTHS, help="the type of ids (default: the format's)")
    return parser


def merge_parser() -> Parser:
    """`gristmill merge`."""
    parser = command_parser("merge", "The result is what one writer of all documents would write.")
    add_sources(parser)
    return parser


def add_sources(parser: Parser) -> None:
    """What is read, and where to."""
    parser.add_argument(
        "folders", metavar="SHARDS", nargs="+", help="folders of shards, or files of them"
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True)
    parser.add_argument("--from", dest="source", choices=FORMATS, help="where there are several")


# --- the jobs


def cat(options: argparse.Namespace) -> int:
    """Documents, as ids or as text."""
    shards = opened(options.folder, options.source)
    tok = tokenizer_of(options)
    numbers = range(len(shards)) if options.doc is None else options.doc
    for number in numbers:
        try:
            ids = shards[number]
        except IndexError as error:
            raise JobError(f"{options.folder}: {error}") from None
        except ValueError as error:
            raise JobError(str(error)) from None
        if tok is None:
            sys.stdout.write(" ".join(map(str, ids.tolist())) + "\n")
        else:
            try:
                text = tok.decode_bytes(ids)
            except KeyError as error:
                raise JobError(f"document {number}: the tokenizer has no id {error}") from None
            sys.stdout.flush()
            sys.stdout.buffer.write(text + b"\n")
    return 0


def convert(options: argparse.Namespace) -> int:
    """Documents of shards as other shards."""
    before = common_output(options)
    output = {
        "format": options.to,
        "before": before["before"],
        "after": before["after"],
        "id_end": before["id_end"],
        "tokenizer": before.get("tokenizer"),
        "width": WIDTHS.get(options.dtype),
    }
    if options.seq_len is not None:
        pad = options.pad_id
        if pad is None:
            around = [*before["after"], *before["before"]]
            if not around:
                raise JobError("no id stands at documents that could fill sequences: --pad-id")
            pad = around[0]
        output["sequences"] = {
            "length": options.seq_len,
            "pack": options.pack,
            "pad": pad,
            "per_file": options.sequences_per_chunk,
        }
    shard_tokens = options.shard_tokens
    if options.to == "llmc":
        # Its files are cut within one shard, to the id.
        output["max_tokens"], shard_tokens = shard_tokens, None
    return write(options, output, shard_tokens)


def merge(options: argparse.Namespace) -> int:
    """All documents as one shard."""
    output = common_output(options)
    return write(options, output, None)


def write(options: argparse.Namespace, output: dict[str, Any], shard_tokens: int | None) -> int:
    """Convert, and say what was written."""
    try:
        written = json.loads(
            convert_shards(
                options.folders,
                options.output,
                json.dumps(output),
                format=options.source,
                shard_tokens=shard_tokens,
            )
        )
    except ValueError as error:
        raise JobError(str(error)) from None
    files = len(written["files"])
    print(
        f"{written['documents']:,} documents and {written['tokens']:,} tokens in {files:,} files "
        f"of {os.path.join(options.output, output['format'])}"
    )
    return 0


def common_output(options: argparse.Namespace) -> dict[str, Any]:
    """What all sources are written as; they must have one idea of their documents."""
    outputs = [
        json.loads(opened(folder, options.source).list)["output"] for folder in options.folders
    ]
    first: dict[str, Any] = outputs[0]
    for folder, other in zip(options.folders, outputs, strict=True):
        for name in ("before", "after"):
            if other[name] != first[name]:
                raise JobError(
                    f"{folder} has {other[name]} {name} its documents, and {options.folders[0]} "
                    f"has {first[name]}: they do not belong together"
                )
    first["id_end"] = max(other["id_end"] for other in outputs)
    return first


def verify(options: argparse.Namespace) -> int:
    """Look at everything; 1 if anything is wrong."""
    tok = tokenizer_of(options)
    results = [verify_format(options, tok, name) for name in formats_in(options.folder)]
    problems = [problem for result in results for problem in result["problems"]]
    journal = verify_journal(options.folder, results)
    problems += journal["problems"]
    again: dict[str, Any] = {"jobs": 0}
    if not problems and tok is not None and options.again > 0:
        again = made_again(options, tok)
        problems += again.pop("problems")
    if options.format == "json":
        print(to_json({"formats": results, "journal": journal, "again": again, "ok": not problems}))
    else:
        for result in results:
            print(described(result))
        if journal["found"]:
            print(
                "journal: {records:,} records = {documents:,} documents + {empty:,} empty + "
                "{bad:,} bad".format(**journal)
            )
        if again["jobs"]:
            print(f"{again['jobs']:,} jobs were made again from their inputs")
        if "why_not" in again:
            print(f"nothing was made again from the inputs: {again['why_not']}")
        for problem in problems[:100]:
            fail(problem)
        print(f"{len(problems):,} problems" if problems else "all of it is as it was written")
    return 1 if problems else 0


def verify_format(options: argparse.Namespace, tok: Tokenizer | None, name: str) -> dict[str, Any]:
    """The shards of one format."""
    try:
        shards = opened(options.folder, name)
        found: dict[str, Any] = json.loads(
            verify_shards(options.folder, format=name, threads=options.threads)
        )
    except (OSError, JobError, ValueError) as error:
        return {"format": name, "problems": [str(error)]}
    listed = json.loads(shards.list)
    found |= {"format": name, "listed": listed["documents"]}
    problems = found["problems"]
    for part, where in (("begun", "before"), ("ended", "after")):
        ids = listed["output"][where]
        if not problems and ids and found[part] != found["documents"]:
            share = found[part] / found["documents"]
            problems.append(
                f"{name}: {share:.2%} of the documents have {ids} {where} them, not all"
            )
    if not problems and tok is not None:
        problems += sampled(shards, tok, listed["output"], options.sample, found)
    return found


def sampled(
    shards: Shards, tok: Tokenizer, output: dict[str, Any], number: int, found: dict[str, Any]
) -> list[str]:
    """Decode documents evenly over all shards, and encode the text again."""
    problems = []
    documents = len(shards)
    number = min(number, documents)
    again = 0
    before, after = len(output["before"]), len(output["after"])
    for turn in range(number):
        document = turn * documents // number
        ids = shards[document]
        ids = ids[before : len(ids) - after]
        try:
            text = tok.decode_bytes(ids)
            text.decode("utf-8")
        except KeyError as error:
            problems.append(f"document {document}: the tokenizer has no id {error}")
            continue
        except UnicodeDecodeError as error:
            problems.append(f"document {document}: its text is not UTF-8 at byte {error.start}")
            continue
        # Offsets are found by encoding in another way, without the caches of whole texts.
        again += tok.encode_with_offsets(text.decode())[0] == ids.tolist()
    found |= {"sampled": number, "encoded_again": again}
    return problems


def verify_journal(folder: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """The law of the journal, and that its files are those that are listed."""
    from gristmill.corpus import journal as journals

    total = {"records": 0, "documents": 0, "empty": 0, "bad": 0}
    problems: list[str] = []
    reports: dict[tuple[int, int], dict[str, Any]] = {}
    journalled = os.path.isdir(folder) and bool(journals.journals(folder))
    if journalled:
        try:
            entries = [entry["shard"] for entry in journals.entries(folder) if "shard" in entry]
        except ValueError as error:
            return {"found": True, "problems": [str(error)], **total}
        reports = {(report["job"], report["shard"]): report for report in entries}
    for (job, shard), report in sorted(reports.items()):
        bad = sum(report["bad"].values())
        for part in ("records", "documents", "empty"):
            total[part] += report[part]
        total["bad"] += bad
        if report["records"] != report["documents"] + report["empty"] + bad:
            problems.append(
                f"journal: shard {shard} of job {job}: {report['records']} records are not "
                f"{report['documents']} documents, {report['empty']} empty and {bad} bad ones"
            )
    if journalled:
        for result in results:
            if result.get("listed", total["documents"]) != total["documents"]:
                problems.append(
                    f"{result['format']}: {result['listed']} documents are listed, and the "
                    f"journal has {total['documents']}"
                )
        problems += of_the_lists(folder, reports.values(), [one["format"] for one in results])
    return {"found": journalled, "problems": problems, **total}


def of_the_lists(folder: str, reports: Any, formats: list[str]) -> list[str]:
    """Files whose hash in the journal is not that in the list of a format."""
    listed: dict[str, str] = {}
    for name in formats:
        try:
            with open(os.path.join(folder, name, "shards.json"), encoding="utf-8") as file:
                shards = json.load(file)["shards"]
        except (OSError, ValueError, KeyError):
            # It has been reported by the format.
            return []
        listed |= {file["name"]: file["xxh3"] for shard in shards for file in shard["files"]}
    noted = {file["name"]: file["xxh3"] for report in reports for file in report["files"]}
    return [
        f"{name}: the journal and the list of shards do not agree"
        for name in sorted(listed.keys() | noted.keys())
        if listed.get(name) != noted.get(name) and name.split("/")[0] in FORMATS
    ]


def made_again(options: argparse.Namespace, tok: Tokenizer) -> dict[str, Any]:
    """Make jobs again from the inputs, in a folder that goes away, and compare hashes."""
    from gristmill.corpus import journal as journals
    from gristmill.corpus import plan as plans

    plan = plans.load(options.folder)
    if plan is None:
        return {"jobs": 0, "problems": [], "why_not": "there is no plan"}
    identity = plans.identify(tok, options.tokenizer)
    if any(identity[part] != plan.tokenizer[part] for part in ("sha256", "golden")):
        problem = f"{options.tokenizer} is not the tokenizer of the run, {plan.tokenizer['source']}"
        return {"jobs": 0, "problems": [problem]}
    gone = [one.path for one in plan.inputs if not os.path.exists(one.path)]
    if gone:
        return {"jobs": 0, "problems": [], "why_not": f"{gone[0]} is not there"}
    done = journals.survey(options.folder)
    number = min(options.again, len(plan.jobs))
    problems: list[str] = []
    for turn in range(number):
        job = turn * len(plan.jobs) // number
        made = shards_of(tok, plan, job, options.threads or os.cpu_count() or 1)
        hashes = [[(one["name"], one["xxh3"]) for one in report["files"]] for report in made]
        kept = [
            [(one["name"], one["xxh3"]) for one in report["files"]] for report in done.leading(job)
        ]
        if hashes != kept:
            problems.append(f"job {job}: its inputs do not give the shards that are there")
    return {"jobs": number, "problems": problems}


def shards_of(tok: Tokenizer, plan: "Plan", job: int, threads: int) -> list[dict[str, Any]]:
    """The reports of a job's shards, made where nobody sees them."""
    made: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gristmill-") as folder:
        run_job(
            tok,
            json.dumps(plan.job(job, folder)),
            threads=threads,
            max_memory=1 << 30,
            on_shard=lambda report: made.append(json.loads(report)),
        )
    return made


def formats_in(folder: str) -> list[str]:
    """The formats that a folder holds."""
    if not os.path.isdir(folder):
        raise JobError(f"{folder}: no such folder")
    found = [name for name in FORMATS if os.path.isdir(os.path.join(folder, name))]
    if found:
        return found
    if os.path.exists(os.path.join(folder, "shards.json")):
        return [os.path.basename(os.path.realpath(folder))]
    raise JobError(f"{folder} holds no shards")


def described(result: dict[str, Any]) -> str:
    """One line about a format."""
    if "files" not in result:
        return f"{result['format']}: cannot be read"
    line = (
        f"{result['format']}: {result['files']:,} files, {result['bytes']:,} bytes, "
        f"{result['documents']:,} documents, {result['tokens']:,} tokens"
    )
    if result["largest"] is not None:
        line += f", largest id {result['largest']}"
    if "sampled" in result:
        line += f"; {result['encoded_again']} of {result['sampled']} encoded to the same ids"
    return line


def opened(path: str, format: str | None) -> Shards:
    """Shards, with an error for people."""
    try:
        return Shards(path, format=format)
    except ValueError as error:
        raise JobError(str(error)) from None


def tokenizer_of(options: argparse.Namespace) -> Tokenizer | None:
    """The tokenizer, where one is named."""
    from gristmill.cli.jobs import load

    if options.tokenizer is None:
        return None
    try:
        return load(options)
    except TokenizerError as error:
        raise JobError(str(error)) from None


__all__ = [
    "cat",
    "cat_parser",
    "convert",
    "convert_parser",
    "merge",
    "merge_parser",
    "verify",
    "verify_parser",
]
