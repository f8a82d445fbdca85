"""The command line: one parser for each command, and the help.

The parsers only read arguments; whether they make sense together is for the jobs to say.
"""

import argparse
from typing import NoReturn

from gristmill import EMBEDDED, __version__
from gristmill.cli.messages import LARGEST_ID, USAGE, did_you_mean, fail

COMMANDS = {
    "encode": "turn text into token ids",
    "decode": "turn token ids back into text",
    "count": "count the tokens of files, like wc",
    "info": "say what a tokenizer is",
    "bench": "measure a tokenizer on your files, beside other libraries",
    "train": "train a tokenizer on files of texts",
    "evaluate": "say how well tokenizers do on files of text",
    "serve": "serve tokenizers over HTTP, with a playground page",
    "tokenize": "turn a corpus into files that trainers read",
    "verify": "check shards, every byte and every id of them",
    "cat": "print documents of shards",
    "convert": "write shards in another format",
    "merge": "make one shard of many",
}
TOKENIZER_HELP = (
    f"an embedded tokenizer ({', '.join(EMBEDDED)}), a tokenizer file or a folder with one, "
    "or a Hugging Face hub repository, org/name"
)


class Parser(argparse.ArgumentParser):
    """argparse, with errors of one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read more."""
        if message.startswith("unrecognized arguments: -"):
            flag = message.split()[2].partition("=")[0]
            message += did_you_mean(flag, self._option_string_actions)
        self.exit(fail(f"{message} (see '{self.prog} --help')", USAGE))


def top_parser() -> Parser:
    """`gristmill` without a command: help and version."""
    width = max(map(len, COMMANDS))
    parser = Parser(
        prog="gristmill",
        usage="gristmill COMMAND [OPTIONS] [FILES]",
        description="Encode and decode with any BPE tokenizer, exactly.",
        epilog="commands:\n"
        + "".join(f"  {name:{width}}  {what}\n" for name, what in COMMANDS.items())
        + "\n'gristmill COMMAND --help' tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gristmill {__version__}")
    return parser


def command_parser(command: str, epilog: str | None = None) -> Parser:
    """A parser for one command, without arguments yet."""
    return Parser(
        prog=f"gristmill {command}",
        description=COMMANDS[command].capitalize() + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def train_parser() -> Parser:
    """`gristmill train`."""
    parser = command_parser(
        "train",
        "files:\n"
        "  a line of a .txt file is a text, as is an object of a .jsonl file; both may be\n"
        "  compressed (.gz .bz2 .xz .zst); without files, or for -, lines of standard input\n\n"
        "The name of the output says its format: .json is a tokenizer.json, .tiktoken ranks,\n"
        ".model a SentencePiece model.\n",
    )
    add_files(parser, "files of texts")
    parser.add_argument("--vocab-size", "-n", type=int, required=True, metavar="N")
    parser.add_argument("--output", "-o", required=True, metavar="FILE", help="the tokenizer")
    parser.add_argument(
        "--parity",
        choices=["rustbpe", "hf", "minbpe", "cs336", "sentencepiece"],
        default="rustbpe",
        help="the trainer whose merges are made",
    )
    pattern = parser.add_mutually_exclusive_group()
    pattern.add_argument(
        "--pattern",
        default="default",
        metavar="NAME|REGEX",
        help="what cuts texts into words: gpt2, gpt4, o200k, llama3, qwen2, nanochat, or an "
        "expression",
    )
    pattern.add_argument(
        "--no-pattern", dest="pattern", action="store_const", const=None, help="do not cut texts"
    )
    parser.add_argument(
        "--special-token",
        action="append",
        default=[],
        metavar="TOKEN",
        help="a special token; may be given again",
    )
    parser.add_argument("--min-frequency", type=int, default=0, metavar="N")
    parser.add_argument("--max-token-length", type=int, metavar="N")
    parser.add_argument(
        "--field", default="text", help="the field of .jsonl files that is the text"
    )
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="0: one a core")
    parser.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="what the words may take before they go to files, such as 512MB",
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="show no progress")
    return parser


def evaluate_parser() -> Parser:
    """`gristmill evaluate`."""
    parser = command_parser("evaluate")
    add_files(parser, "text files, UTF-8; each is a kind of text, such as a language")
    parser.add_argument(
        "--tokenizer",
        "-t",
        action="append",
        required=True,
        metavar="TOKENIZER",
        help=TOKENIZER_HELP,
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with the table and pictures")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    return parser


def serve_parser() -> Parser:
    """`gristmill serve`."""
    parser = command_parser(
        "serve",
        "The first tokenizer is the one that requests mean that name none. SIGTERM and Ctrl-C end\n"
        "the service after the requests under way. docs/serving.md describes the endpoints, and\n"
        "/openapi.json does to programs.\n",
    )
    parser.add_argument(
        "-t",
        "--tokenizer",
        dest="tokenizers",
        metavar="[NAME=]TOKENIZER",
        action="append",
        required=True,
        help=f"{TOKENIZER_HELP}; with a name of your own before it; may be repeated",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at")
    parser.add_argument(
        "--port", type=port, default=8000, metavar="N", help="0: any (default: 8000)"
    )
    parser.add_argument(
        "--max-body", type=size, default=4 << 20, metavar="SIZE", help="of a request (default: 4MB)"
    )
    parser.add_argument(
        "--max-batch", type=positive, default=1024, metavar="N", help="texts of a batch"
    )
    parser.add_argument(
        "--max-requests", type=positive, default=512, metavar="N", help="requests under way"
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        default=60,
        metavar="SECONDS",
        help="for an answer to be made (default: 60)",
    )
    parser.add_argument(
        "--read-timeout",
        type=positive,
        default=10,
        metavar="SECONDS",
        help="for a request to arrive (default: 10)",
    )
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="for large requests (default: cores + 1)"
    )
    parser.add_argument(
        "--allow-request-templates",
        action="store_true",
        help="run chat templates that requests bring: in the sandbox, but without a limit on time",
    )
    parser.add_argument("--access-log", action="store_true", help="a line for each request")
    return parser


def port(argument: str) -> int:
    """Read the number of a port."""
    if not (argument.isascii() and argument.isdigit()) or int(argument[:6]) > 65_535:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a number from 0 to 65535")
    return int(argument)


def positive(argument: str) -> int:
    """Read a number above zero."""
    if not (argument.isascii() and argument.isdigit()) or not 0 < int(argument[:10]) < 10**9:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a number from 1 to 999999999")
    return int(argument)


def size(argument: str) -> int:
    """Read a number of bytes: 4096, 64KB, 4MB, 1GB."""
    number, unit = argument, 1
    for suffix, times in (("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30)):
        if argument.upper().endswith(suffix):
            number, unit = argument[:-2], times
    if not (number.isascii() and number.isdigit()) or not 0 < int(number[:12]) * unit < 1 << 40:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a size such as 64KB or 4MB")
    return int(number) * unit


def tokenize_parser() -> Parser:
    """`gristmill tokenize`."""
    from gristmill.cli.watching import MODES
    from gristmill.corpus.options import FORMATS, INPUT_FORMATS, ON_ERROR, PACKS, WIDTHS

    parser = command_parser(
        "tokenize",
        "Whatever interrupts it, the same command goes on where it was, and the output is the\n"
        "same, byte for byte, whatever the threads, engine or interruptions. docs/corpus.md tells\n"
        "more. Exit codes: 0 done; 3 done, but records were bad; 1 not done; 2 the command line\n"
        "is wrong.\n",
    )
    parser.add_argument(
        "inputs",
        metavar="INPUT",
        nargs="*",
        help="files, folders, patterns such as 'a/*.gz', or - for standard input",
    )
    parser.add_argument(
        "--input-dir", metavar="FOLDER", action="append", default=[], help="another input"
    )
    parser.add_argument("-o", "--output", "--output-dir", metavar="FOLDER", help="the output")
    add_tokenizer(parser)
    what = parser.add_argument_group("what is read")
    what.add_argument("--format", choices=INPUT_FORMATS, help="of the inputs (default: a look)")
    what.add_argument(
        "--field", metavar="NAME", help="the field with the text; a.b leads into objects"
    )
    what.add_argument(
        "--separator",
        metavar="TEXT",
        help=r"txt: what stands between documents, such as '\\n'; without, a file is one",
    )
    what.add_argument("--max-document", metavar="SIZE", help="larger ones are bad (256MB)")
    what.add_argument(
        "--surrogates",
        choices=["error", "replace"],
        help="JSON: half a surrogate pair is bad (the default) or U+FFFD",
    )
    what.add_argument("--keep-empty", action="store_true", help="write documents without text, too")
    what.add_argument(
        "--on-error",
        choices=ON_ERROR,
        help="bad records: count them; count and keep them in a file (the default); end the run",
    )
    what.add_argument("--max-bad", metavar="N|SHARE", help="end the run when more are bad")
    made = parser.add_argument_group("what is made")
    made.add_argument("--to", metavar="FORMATS", help=f"one or several of {', '.join(FORMATS)}")
    made.add_argument(
        "--special",
        choices=["text", "parse", "forbid"],
        help="special tokens written in a text are text (the default), their ids, or "
        "make the record bad",
    )
    made.add_argument(
        "--add-special-tokens",
        action="store_true",
        help="put around each text what the tokenizer's file says",
    )
    made.add_argument("--bos", metavar="TOKEN", help="put before each document: a token, or auto")
    made.add_argument(
        "--eos",
        metavar="TOKEN",
        help="put behind each document: a token, auto, or "
        "none (default: what the format's own tool does)",
    )
    made.add_argument(
        "--seq-len",
        type=int,
        metavar="N",
        help="sequences of so many tokens, where a format has them",
    )
    made.add_argument(
        "--sequences-per-chunk",
        type=int,
        metavar="N",
        help="sequences of a file (default: a shard)",
    )
    made.add_argument(
        "--pack",
        choices=PACKS,
        help="documents into sequences: each begins one (none), one behind the other (concat, the "
        "default), or whole where they fit best (bestfit)",
    )
    made.add_argument(
        "--dtype", choices=["auto", *WIDTHS], help="of ids (default: the format's rule)"
    )
    made.add_argument(
        "--shard-tokens", type=int, metavar="N", help="tokens of a file, where a format has them"
    )
    made.add_argument("--shard-size", metavar="SIZE", help="bytes of text in a shard (256MB)")
    how = parser.add_argument_group("how")
    how.add_argument("--threads", "--num-workers", type=int, metavar="N", help="0: one a core")
    how.add_argument("--max-memory", metavar="SIZE", help="about what it may take (512MB)")
    how.add_argument("--engine", choices=["local", "ray"])
    how.add_argument("--part", metavar="I/N", help="make one of N parts, such as of a Slurm array")
    how.add_argument("--dry-run", action="store_true", help="estimate tokens, time and disk")
    how.add_argument("--overwrite", action="store_true", help="start anew")
    how.add_argument("--progress", choices=MODES, default="auto")
    how.add_argument("--batch-size", type=int, help=argparse.SUPPRESS)
    how.add_argument("--prefetch-files", type=int, help=argparse.SUPPRESS)
    return parser


def encode_parser() -> Parser:
    """`gristmill encode`."""
    parser = command_parser(
        "encode",
        "formats:\n"
        "  text  ids separated by spaces, one line for each file or, with --lines, line of input\n"
        "  json  one object a line: file, line (with --lines), ids, tokens and offsets (if asked)\n"
        "  bin   ids one after the other, little-endian, of the type --dtype\n",
    )
    add_files(parser, "text files, UTF-8")
    add_tokenizer(parser)
    add_special(parser)
    parser.add_argument("--format", choices=["text", "json", "bin"], default="text")
    parser.add_argument("--lines", action="store_true", help="encode each line by itself")
    parser.add_argument("--tokens", action="store_true", help="json: add the tokens as strings")
    parser.add_argument(
        "--offsets",
        action="store_true",
        help="json: add where each token stands, as [start, end] in bytes of the file or line",
    )
    add_dtype(parser)
    add_output(parser)
    return parser


def decode_parser() -> Parser:
    """`gristmill decode`."""
    parser = command_parser(
        "decode", "Takes what encode writes. Bytes are written as they are, UTF-8 or not."
    )
    add_files(parser, "files of ids")
    add_tokenizer(parser)
    parser.add_argument("--format", choices=["text", "json", "bin"], default="text")
    parser.add_argument(
        "--lines", action="store_true", help="end each decoded line or object with a newline"
    )
    parser.add_argument("--skip-special-tokens", action="store_true")
    add_dtype(parser)
    add_output(parser)
    return parser


def count_parser() -> Parser:
    """`gristmill count`."""
    parser = command_parser("count", "A file that cannot be counted is reported and left out.")
    add_files(parser, "text files, UTF-8")
    add_tokenizer(parser)
    add_special(parser)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    return parser


def info_parser() -> Parser:
    """`gristmill info`."""
    parser = command_parser("info")
    parser.add_argument("tokenizer", metavar="TOKENIZER", help=TOKENIZER_HELP)
    add_rank_file_options(parser)
    parser.add_argument("--json", action="store_true", help="all of it, as one JSON object")
    return parser


def bench_parser() -> Parser:
    """`gristmill bench`."""
    parser = command_parser(
        "bench",
        "Libraries that are not installed are left out, and so are those that give other ids.\n"
        "'gristmill bench corpus --help' is about files of documents, and\n"
        "'gristmill bench serve --help' about what servers do.\n"
        "docs/cli.md says what each line measures.",
    )
    add_files(parser, "text files, UTF-8")
    add_tokenizer(parser)
    parser.add_argument(
        "--peer",
        dest="peers",
        metavar="NAME",
        action="append",
        choices=["tokenizers", "tiktoken", "gigatoken", "none"],
        help="measure this library beside Gristmill: tokenizers, tiktoken, gigatoken, or none; "
        "may be repeated (default: all that are installed)",
    )
    parser.add_argument(
        "--runs", metavar="N", type=runs, default=5, help="take the median of N runs (default: 5)"
    )
    parser.add_argument("--format", choices=["table", "json"], default="table")
    return parser


def bench_corpus_parser() -> Parser:
    """`gristmill bench corpus`."""
    parser = Parser(
        prog="gristmill bench corpus",
        description="Measure a corpus through tokenizers and through gristmill tokenize.",
        epilog="docs/cli.md says what each line measures.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help=".jsonl or .txt files, plain, .gz or .zst"
    )
    add_tokenizer(parser)
    parser.add_argument(
        "--num-docs", type=positive, default=10_000, metavar="N", help="so many (default: 10000)"
    )
    parser.add_argument("--field", default="text", help="the field with the text")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    return parser


def bench_serve_parser() -> Parser:
    """`gristmill bench serve`."""
    parser = Parser(
        prog="gristmill bench serve",
        description="Measure what a server pays for its tokenizer: prompts in, streams out.",
        epilog="Libraries that are not installed are left out, and said to be.\n"
        "docs/cli.md says what each line measures.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_tokenizer(parser)
    parser.add_argument(
        "--runs", metavar="N", type=runs, default=40, help="take the median of N runs (default: 40)"
    )
    parser.add_argument("--json", metavar="FILE", help="write every run to a file, too")
    return parser


def runs(argument: str) -> int:
    """Read a number of runs."""
    if not (argument.isascii() and argument.isdigit()) or not 1 <= int(argument[:5]) <= 1000:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a number from 1 to 1000")
    return int(argument)


def add_files(parser: Parser, what: str) -> None:
    """The input files."""
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help=f"{what}; - or none is standard input"
    )


def add_tokenizer(parser: Parser) -> None:
    """The tokenizer and what a rank file needs."""
    parser.add_argument(
        "-t", "--tokenizer", metavar="TOKENIZER", required=True, help=TOKENIZER_HELP
    )
    add_rank_file_options(parser)


def add_rank_file_options(parser: Parser) -> None:
    """What a rank file does not hold."""
    parser.add_argument(
        "--pattern", metavar="REGEX", help="rank files only: what cuts text into pieces"
    )
    parser.add_argument(
        "--special-token",
        metavar="NAME=ID",
        action="append",
        type=special_token,
        help="rank files only: a special token; may be repeated",
    )


def special_token(argument: str) -> tuple[str, int]:
    """Read NAME=ID; the name may hold an equals sign itself."""
    name, equals, number = argument.rpartition("=")
    if not (name and equals and number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME=ID")
    if len(number) > 10 or int(number) > LARGEST_ID:
        raise argparse.ArgumentTypeError(f"{argument!r}: an id is at most {LARGEST_ID}")
    return name, int(number)


def add_special(parser: Parser) -> None:
    """What becomes of special tokens."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--special",
        choices=["text", "parse", "forbid"],
        default="text",
        help="special tokens written in the text are: ordinary text (the default), "
        "turned into their ids, or an error",
    )
    choice.add_argument(
        "--allow",
        metavar="TOKEN",
        action="append",
        help="turn this special token into its id and leave the others text; may be repeated",
    )
    parser.add_argument(
        "--add-special-tokens",
        action="store_true",
        help="put the tokens around the text that the tokenizer's file asks for",
    )


def add_dtype(parser: Parser) -> None:
    """The type of binary ids."""
    parser.add_argument(
        "--dtype", choices=["uint16", "uint32"], help="bin: the type of an id (default: uint32)"
    )


def add_output(parser: Parser) -> None:
    """Where the result goes."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write here: aside first, then renamed"
    )
