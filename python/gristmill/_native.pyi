"""Types and documentation of the native classes."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar, final, overload

import numpy as np
from numpy.typing import NDArray

from gristmill.chat import ChatTemplate

_T = TypeVar("_T", str, bytes)

_Text: TypeAlias = str | bytes
_Special: TypeAlias = Literal["text", "parse", "forbid"] | Set[str]
# Numbers that need not be in range: what is out of it is no stream, and no token.
_Numbers: TypeAlias = Iterable[SupportsIndex] | NDArray[np.integer[Any]] | NDArray[np.bool_]
_Ids: TypeAlias = Sequence[SupportsIndex] | NDArray[np.integer[Any]]

_Parity: TypeAlias = Literal["rustbpe", "hf", "minbpe", "cs336", "sentencepiece"]
_Progress: TypeAlias = bool | Callable[[dict[str, Any]], object] | None
_Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

__all__ = [
    "EMBEDDED",
    "CorpusError",
    "DecodeStream",
    "Shards",
    "StreamBatch",
    "StreamTexts",
    "Tokenizer",
    "TokenizerError",
    "Trainer",
    "WordCounts",
    "__version__",
    "_restore",
    "build_info",
    "check_output",
    "convert_shards",
    "extend",
    "finish_output",
    "inspect_input",
    "prune",
    "run_job",
    "run_jobs",
    "verify_shards",
]
__version__: str
EMBEDDED: tuple[str, ...]

class TokenizerError(ValueError):
    """A tokenizer file that cannot be used exactly, or a text that cannot be encoded as asked."""

class CorpusError(ValueError):
    """An input that cannot be read as asked, or an output that cannot hold what was asked for."""

def build_info() -> dict[str, Any]:
    """How the native module was built: `version`, `debug`, `system` and `processor`.

    A debug build is slower by an order of magnitude; importing it warns of that.
    """

def _restore(
    data: bytes,
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
    path: str | os.PathLike[str] | None = None,
) -> Tokenizer:
    """Make a tokenizer of what pickle kept."""

@final
class Tokenizer:
    """A byte-pair-encoding tokenizer: text to ids and back, exactly as the format's library does.

    A Tokenizer never changes once made. It may be shared by any number of threads, pickled, copied,
    and used in a forked child.
    """

    def __new__(
        cls,
        source: str | os.PathLike[str],
        /,
        *,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:
        """Load a tokenizer.

        `source` is the name of an embedded tokenizer ("gpt2", "cl100k_base", "o200k_base",
        "o200k_harmony"), a file, or a folder that holds one. Files are recognised by content:
        tokenizer.json, .tiktoken rank files, Llama 3's and 4's tokenizer.model, Kimi's
        tiktoken.model, Mistral's tekken.json, and SentencePiece .model files that hold BPE.
        A path object is always a path, never a name.

        `pattern` (the regular expression that cuts text into pieces) and `special_tokens` belong to
        rank files only, which do not hold them. A rank file that is known by its checksum brings
        both; any other needs `pattern`.
        """

    @staticmethod
    def from_bytes(
        data: bytes,
        /,
        *,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:
        """Load a tokenizer from the content of a tokenizer file."""

    @staticmethod
    def from_pretrained(
        repo_id: str, /, *, revision: str | None = None, token: str | bool | None = None
    ) -> Tokenizer:
        """Download a tokenizer from the Hugging Face hub, or take it from the hub's local cache.

        Needs the extra `gristmill[hub]`.
        """

    def encode(
        self, text: _Text, /, *, special: _Special = "text", add_special_tokens: bool = False
    ) -> list[int]:
        """Turn text into ids.

        `special` says what becomes of special tokens written in the text: "text" (the default)
        encodes them as ordinary text, "parse" turns each into its id, "forbid" raises
        TokenizerError with the position of the first, and a set of strings turns those into ids
        and leaves the others text. Added tokens that are not special are always found.

        `add_special_tokens` runs the file's post-processor, which puts tokens such as `<s>` around
        the text.
        """

    def encode_numpy(
        self, text: _Text, /, *, special: _Special = "text", add_special_tokens: bool = False
    ) -> NDArray[np.uint32]:
        """`encode` into a numpy array, without making Python integers."""

    def encode_with_offsets(
        self, text: _Text, /, *, special: _Special = "text", add_special_tokens: bool = False
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """`encode`, and for each id where it stands in the text, as (start, end).

        Positions count characters for `str` and bytes for `bytes`. A token that holds a part of a
        character has the whole character's position; in SentencePiece models, as in that library,
        the last byte of a character has it and the bytes before it an empty one. Tokens put around
        the text have (0, 0).
        """

    def encode_batch(
        self,
        texts: Iterable[_Text],
        /,
        *,
        special: _Special = "text",
        add_special_tokens: bool = False,
        threads: int = 0,
    ) -> list[list[int]]:
        """`encode` each of many texts, on all cores; the order is kept.

        `threads` is the number of threads, 0 for as many as there are cores.
        """

    def encode_batch_numpy(
        self,
        texts: Iterable[_Text],
        /,
        *,
        special: _Special = "text",
        add_special_tokens: bool = False,
        threads: int = 0,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """`encode_batch` into one array of ids and the offsets where texts start and end in it.

        Text `i` is `ids[offsets[i]:offsets[i + 1]]`.
        """

    def count(
        self, text: _Text, /, *, special: _Special = "text", add_special_tokens: bool = False
    ) -> int:
        """The number of ids `encode` would give."""

    def count_batch(
        self,
        texts: Iterable[_Text],
        /,
        *,
        special: _Special = "text",
        add_special_tokens: bool = False,
        threads: int = 0,
    ) -> list[int]:
        """`count` of each of many texts, on all cores."""

    def truncate(self, text: _T, max_tokens: int, /, *, special: _Special = "text") -> _T:
        """The longest prefix of `text` of at most `max_tokens` tokens of `encode(text)`.

        It ends where a token and a character end.
        """

    def decode(self, ids: _Ids, /, *, skip_special_tokens: bool = False) -> str:
        """Turn ids into text.

        Bytes that are not UTF-8 become U+FFFD. An unknown id is a KeyError.
        """

    def decode_bytes(self, ids: _Ids, /, *, skip_special_tokens: bool = False) -> bytes:
        """Turn ids into the bytes they stand for, valid UTF-8 or not."""

    def decode_batch(
        self,
        batch: Iterable[_Ids],
        /,
        *,
        skip_special_tokens: bool = False,
        threads: int = 0,
    ) -> list[str]:
        """`decode` each of many lists of ids, on all cores."""

    @overload
    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        template: ChatTemplate | str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        return_assistant_mask: Literal[False] = False,
        **kwargs: Any,
    ) -> list[int]: ...
    @overload
    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        return_assistant_mask: Literal[True],
        template: ChatTemplate | str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: Literal[False] = False,
        **kwargs: Any,
    ) -> tuple[list[int], list[int]]:
        """Turn a chat into ids, as `apply_chat_template` of transformers does.

        `template` is a template, the name of one of the tokenizer's, or its text; without it, the
        one that lay beside the tokenizer's file is used. Its special tokens become their ids, and
        no others are put around the text. Where the template marks what the assistant says,
        `return_assistant_mask` gives a 1 for each of its ids, and a 0 for all others, as a second
        list. The other options are those of `ChatTemplate.render`; `kwargs` are for the template.

        Needs the extra `gristmill[chat]`.
        """

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The chat template that lay beside the tokenizer's file."""

    def decode_stream(
        self,
        *,
        skip_special_tokens: bool = False,
        prompt: _Numbers | None = None,
        stop: str | Iterable[str] | None = None,
        stop_ids: _Numbers | None = None,
        include_stop: bool = False,
        min_tokens: int = 0,
        mode: Literal["exact", "hf"] = "exact",
    ) -> DecodeStream:
        """A stream of ids that gives text as soon as it is certain, never half a character.

        `prompt` are the ids before the stream. Their text is not given again; they decide whether
        a first word begins with a space. With most decoders only the last ones are looked at.

        `stop` are strings that end the stream: the text up to the first of them to be complete is
        given, with it if `include_stop`. What could be the beginning of one is held back, to the
        end of a token. `stop_ids` end it too, without the text of the id unless `include_stop`.
        Neither does within the first `min_tokens` ids.

        `mode="hf"` gives what each step of the `DecodeStream` of tokenizers gives, where that is
        less or later than it could be, and "" where that gives None. It has no stops and no end.
        """

    def token_texts(self, ids: _Numbers, /, *, skip_special_tokens: bool = False) -> StreamTexts:
        """The text of each id alone, as for the tokens of logprobs: `decode([id])` of each.

        An id that no token has gives no text and a flag.
        """

    def token_to_id(self, token: _Text, /) -> int | None:
        """The id of a token, written as `id_to_token` writes it or as its bytes.

        None if there is no such token.
        """

    def id_to_token(self, id: int, /) -> str:
        """The token as its file writes it: "Ġhello" in byte-level files, "▁hello" in others.

        An added token that is matched after normalisation is given as it is matched.

        Rank files hold bytes, not strings: there the bytes are decoded, with U+FFFD for what is not
        UTF-8. `token_bytes` is exact for all.
        """

    def token_bytes(self, id: int, /) -> bytes:
        """The bytes of one token."""

    @property
    def vocab_size(self) -> int:
        """The number of tokens, added tokens included, as the format's own library counts them."""

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens and their ids."""

    @property
    def info(self) -> dict[str, Any]:
        """What was loaded: format, sizes, pattern, and what in the file has no effect here."""

    def save(self, path: str | os.PathLike[str], /) -> None:
        """Write the tokenizer; the file is written aside and renamed.

        A name that ends in `.json` asks for a tokenizer.json, one in `.tiktoken` for ranks, any
        other for the format the tokenizer came from. What would not give the same ids in the format
        asked for is a TokenizerError.
        """

    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Tokenizer: ...
    def __deepcopy__(self, memo: Any, /) -> Tokenizer: ...

@final
class DecodeStream:
    """One stream of ids that becomes text; see `Tokenizer.decode_stream`.

    All that `push` gave and then `finish` is what `decode` makes of the same ids at once, without
    those that no token has.
    """

    def push(self, ids: SupportsIndex | _Numbers, /) -> str:
        """The text that is certain after one more id, or several, and was not before.

        Once the stream has ended there is none.
        """

    def finish(self) -> str:
        """The rest of the text. The stream has ended."""

    @property
    def stop(self) -> str | int | None:
        """The stop string or the stop id that ended the stream."""

    @property
    def flags(self) -> int:
        """All that happened to the stream so far: see `StreamTexts.flags`."""

    @property
    def tokens(self) -> int:
        """How many of the ids have given all their text."""

@final
class StreamBatch:
    """Thousands of streams of one tokenizer; any of them take a step in one call.

    A stream is a number, its slot. It ends by `finish`, by a stop, or by `close`; what comes for
    it later is ignored, and never given to another stream. Threads may share a batch: calls take
    turns.
    """

    def __new__(cls, tokenizer: Tokenizer, /) -> StreamBatch: ...
    def open(
        self,
        n: int = 1,
        /,
        *,
        skip_special_tokens: bool = False,
        prompt: _Numbers | None = None,
        stop: str | Iterable[str] | None = None,
        stop_ids: _Numbers | None = None,
        include_stop: bool = False,
        min_tokens: int = 0,
    ) -> NDArray[np.int32]:
        """Open `n` streams, all with these options: those of `Tokenizer.decode_stream`."""

    def step(
        self,
        slots: _Numbers,
        tokens: _Numbers,
        offsets: _Numbers | None = None,
        finished: _Numbers | None = None,
    ) -> StreamTexts:
        """Give each of these streams its next ids, and take its new text.

        Without `offsets` each stream has one id; with them, stream `i` has
        `tokens[offsets[i]:offsets[i + 1]]`. A slot may be named more than once. Where `finished` is
        true the stream gives the rest of its text and ends. Arrays of int32 are the fastest.
        """

    def finish(self, slots: _Numbers, /) -> StreamTexts:
        """The rest of the text of these streams, which have ended."""

    def close(self, slots: _Numbers, /) -> None:
        """End these streams and forget what they hold."""

    def __len__(self) -> int:
        """The number of open streams."""

@final
class StreamTexts:
    """What a call gave to each of its streams, in the order of the call."""

    @property
    def text(self) -> bytes:
        """The new text of all streams, one after the other, in UTF-8."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Stream `i` has `text[offsets[i]:offsets[i + 1]]`."""

    @property
    def flags(self) -> NDArray[np.uint8]:
        """What happened: the sum of 1 (an id is unknown), 2 (stopped), 4 (finished), 8 (ignored: it
        had ended before) and 16 (the decoder failed, which ended the stream)."""

    @property
    def stops(self) -> NDArray[np.int32]:
        """What stopped the stream: a place in the list of stop strings and then ids, or -1."""

    @property
    def tokens(self) -> NDArray[np.int32]:
        """How many ids of the stream have given all their text, since it was opened."""

    def strs(self) -> list[str]:
        """The new text of each stream."""

    def __len__(self) -> int:
        """The number of streams of the call."""

@final
class Trainer:
    """What is to be trained: a tokenizer with the very merges another trainer would make."""

    def __new__(
        cls,
        vocab_size: int = 30_000,
        *,
        pattern: str | None = "default",
        parity: _Parity = "rustbpe",
        special_tokens: Iterable[str] = (),
        min_frequency: int = 0,
        max_token_length: int | None = None,
        limit_alphabet: int | None = None,
        initial_alphabet: Iterable[str] | None = None,
        continuing_subword_prefix: str | None = None,
        end_of_word_suffix: str | None = None,
        units: Literal["bytes", "chars"] = "bytes",
        character_coverage: float = 0.9995,
        normalization: Literal["nmt_nfkc", "identity"] = "nmt_nfkc",
        byte_fallback: bool = False,
        max_sentence_length: int = 4192,
        threads: int = 0,
        memory_limit: int | str | None = None,
        progress: _Progress = None,
    ) -> Trainer:
        """Say what is wanted.

        `vocab_size` counts all tokens, special ones included. `parity` names the trainer that is
        followed: "rustbpe", "hf" (the BpeTrainer of tokenizers), "minbpe", "cs336" or
        "sentencepiece". `pattern` cuts texts into words: "gpt2", "gpt4", "o200k", "llama3",
        "qwen2", "nanochat", any regular expression, or None for texts that are not cut; the default
        is "gpt4" for rustbpe and minbpe, "gpt2" for hf and cs336, and none for sentencepiece, which
        cuts at white space. Of hf alone are "whitespace" as a pattern, `limit_alphabet`,
        `initial_alphabet` (by default all characters that write bytes), the affixes and
        `units="chars"`; of sentencepiece alone `character_coverage`, `normalization`,
        `byte_fallback` and `max_sentence_length`, beyond which texts are left out.

        Pairs rarer than `min_frequency` are not merged. No token is longer than `max_token_length`
        bytes, for sentencepiece characters (16 if not given); for hf it is shorter, as in that
        library. Special tokens stand first for hf, after `<unk>`, `<s>` and `</s>` as control
        symbols for sentencepiece, and last for the others; cs336 cuts texts at them.

        Words are counted on `threads` threads, 0 for one a core. Tables of words that would take
        more than `memory_limit` (bytes, or text such as "512MB") go to files in the folder for
        temporary files; the tokenizer is the same. `progress` is True for a display on standard
        error, or a function that is given a dict with `stage` ("counting", "pairs", "merging"),
        `texts`, `bytes`, `words`, `pairs`, `merges` and `wanted`, some ten times a second.
        """

    def train(self, source: Iterable[_Text] | WordCounts, /) -> Tokenizer:
        """Train on texts, taken one after the other and counted beside, or on words counted before.

        Bytes must be UTF-8. An exception of the iterator, or of `progress`, ends the training and
        comes out.
        """

    def train_files(self, paths: _Paths, /, *, field: str = "text") -> Tokenizer:
        """Train on files: each line of a .txt file is a text, as is `field` of each line of a
        .jsonl file; both may be compressed (.gz, .bz2, .xz, .zst). Lines of text keep their ends,
        but for sentencepiece.
        """

@final
class WordCounts:
    """Words and how often each was seen: counted in parts, added up, kept in files.

    Counts are of 64 bits. For minbpe, whose rule asks which pair the texts have first, merged
    counts are in the order of merging.
    """

    def __new__(cls, trainer: Trainer, /) -> WordCounts:
        """Counts without words yet, for texts cut as `trainer` wants them."""

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        /,
        *,
        threads: int = 0,
        memory_limit: int | str | None = None,
    ) -> WordCounts:
        """Read what `save` wrote."""

    def add(self, texts: Iterable[_Text], /) -> None:
        """Count the words of texts."""

    def add_files(self, paths: _Paths, /, *, field: str = "text") -> None:
        """Count the words of the texts in files, as `Trainer.train_files` reads them."""

    def add_words(
        self, words: Mapping[str, int] | Mapping[bytes, int] | Iterable[tuple[_Text, int]], /
    ) -> None:
        """Add words that were counted elsewhere; for sentencepiece texts, which are cut."""

    def add_tsv(self, path: str | os.PathLike[str], /) -> None:
        """Add the lines of a file: a word, a tab and its count."""

    def merge(self, other: WordCounts, /) -> None:
        """Add what others have counted, who cut texts in the same way."""

    def save(self, path: str | os.PathLike[str], /) -> None:
        """Write the words to a file, aside and renamed. It holds how texts were cut, too."""

    def items(self) -> list[tuple[bytes, int]]:
        """Every word and its count, in the order of the words."""

    def __len__(self) -> int:
        """The number of different words."""

    @property
    def texts(self) -> int:
        """The number of texts counted here."""

    @property
    def bytes(self) -> int:
        """The bytes of these texts."""

    @property
    def left_out(self) -> int:
        """The texts that sentencepiece's rules leave out: too long, or with U+2585."""

    @property
    def files(self) -> int:
        """The number of files that words went to for want of memory."""

def extend(
    tokenizer: Tokenizer,
    texts: Iterable[_Text],
    /,
    *,
    tokens: int,
    min_frequency: int = 0,
    threads: int = 0,
    memory_limit: int | str | None = None,
    progress: _Progress = None,
) -> Tokenizer:
    """Train a byte-level tokenizer on: up to `tokens` new tokens, merged from the texts as it
    encodes them. No id changes; new ones follow the last.
    """

def prune(tokenizer: Tokenizer, /, vocab_size: int) -> Tokenizer:
    """Leave out the last merges of a byte-level tokenizer until it has `vocab_size` tokens,
    special ones included. What stays keeps its order and closes up.
    """

def inspect_input(
    path: str | os.PathLike[str],
    /,
    *,
    format: str | None = None,
    separator: str | None = None,
    unit_bytes: int = 67108864,
) -> str:
    """What a file of texts is, as JSON: path, format, compression, size, modified (nanoseconds
    of Unix time), units (start and end of ranges of about `unit_bytes` that hold all of it),
    splittable, rows.

    What the file begins with decides before what it is called. `format` says what it is after all;
    `separator` is what stands between documents of plain text, which are whole files without it.
    What is known to be no text is a CorpusError.
    """

def run_job(
    tokenizer: Tokenizer,
    job: str,
    /,
    *,
    threads: int,
    max_memory: int,
    on_shard: Callable[[str], object],
    on_progress: Callable[[str], object] | None = None,
) -> None:
    """Make the shards of one job; see `run_jobs`."""

def run_jobs(
    tokenizer: Tokenizer,
    jobs: Sequence[str],
    /,
    *,
    threads: int,
    max_memory: int,
    on_shard: Callable[[str], object],
    on_progress: Callable[[str], object] | None = None,
    block_bytes: int = 0,
) -> None:
    """Make the shards of jobs, each a JSON object as `gristmill_corpus::Job` has it.

    A shard's bytes depend on its job alone. When its files are complete, synced and under their
    names, `on_shard` is called with its report, JSON as well; `on_progress` is called with counts a
    few times a second. What a call of them raises ends the run and is raised here. As many jobs are
    under way at once as keep the threads busy, never more than there are threads. `block_bytes` is
    how much is read at a time; 0 leaves it to `max_memory`.
    """

def check_output(output: str, /) -> None:
    """Refuse an output (JSON, as `gristmill_corpus::write::Output` has it) that cannot be written,
    such as ids that do not fit into the format: a CorpusError that says why.
    """

def finish_output(folder: str | os.PathLike[str], output: str, reports: str, /) -> str:
    """Write what stands beside all shards of an output: `shards.json`, and `index.json` of formats
    that have one. `reports` is a JSON list of the reports of all shards in their order. What was
    written comes back as JSON.
    """

def verify_shards(
    path: str | os.PathLike[str],
    /,
    *,
    format: str | None = None,
    threads: int = 0,
) -> str:
    """Read every byte and every id of shards and compare them with their list; JSON: files, bytes,
    documents, bare (without any id), tokens, largest, begun and ended (documents with what is to
    stand before and behind them), problems.
    """

def convert_shards(
    paths: Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    output: str,
    /,
    *,
    format: str | None = None,
    shard_tokens: int | None = None,
) -> str:
    """Write the documents of shards, one behind the other, as another output: in shards that end
    with the document that reaches `shard_tokens`, or in one. What stands around documents stays.
    JSON: documents, tokens, files.
    """

@final
class Shards:
    """The shards of one format, read by the numbers of their documents.

    A folder that `gristmill tokenize` wrote, the folder of one format in it, or a file that some
    other program wrote. Documents come with what stands around them. Files that are cut off or
    changed are a CorpusError that says what and where.
    """

    def __new__(cls, path: str | os.PathLike[str], /, *, format: str | None = None) -> Shards:
        """Open shards; `format` is needed where a folder holds several."""

    def __len__(self) -> int:
        """The number of documents."""

    def __getitem__(self, document: int, /) -> NDArray[np.uint32]:
        """The ids of a document."""

    @property
    def list(self) -> str:
        """What there is, as JSON: output, width, documents, tokens, shards."""

    @property
    def folder(self) -> Path:
        """The folder that the names of files are in."""
