"""Logs of any size as `LogEvidence`: streaming, in bounded memory (`opening`, `scan`), then the few lines that matter in detail.

    path or text -> blocks of bytes -> `scan` (one automaton over all literals) -> kept lines
                 -> `lines` (who says what), `clocks` (when) -> `errors`, `metrics`, stages -> `LogEvidence`

Nothing that a log says is ever executed, and nothing of it is trusted to be well formed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Iterable, Sequence

from ...errors import BadLog
from ...language import later, text
from ...model import LogError, LogEvidence, LogLine, LogSource, LogStage
from ...model.logs import LogStageName
from .clocks import Clock
from .ends import ends
from .errors import errors
from .lines import Said, clean, is_numbered, pieces
from .markers import Automaton, automaton
from .metrics import SeriesBook
from .notebook import is_notebook, outputs
from .opening import BLOCK_BYTES, END_BYTES, Opened, open_log
from .scan import Scan
from .sources import LogFile, find, is_pattern

__all__ = ["LogFile", "find", "is_pattern", "read", "read_text"]

_TAIL = 30
_A_DAY_S = 2 * 86400.0
_MOST_STAGES = 2000
_LAUNCHERS = {
    "torchrun": re.compile(r"torch[./]distributed[./](?:run|elastic|launch)|torchrun|torchelastic|^\[default\d+\]"),
    "ray": re.compile(r"\bray::|ray\.exceptions|\(raylet|raylet\b|\bray\.init|Ray instance|\(\w+ pid=\d+"),
    "slurm": re.compile(r"\bsrun: |slurmstepd|SLURM_|slurm_"),
    "deepspeed": re.compile(r"\[launch\.py:|deepspeed[./]launcher|\[runner\.py:"),
    "mpi": re.compile(r"^\[\d+,\d+\]<std|mpirun|MPI_ABORT|ORTE|prterun"),
    "notebook": re.compile(r"ipykernel|Cell In ?\[|<ipython-input"),
}


def read(files: Sequence[LogFile], *, anchors: Iterable[str], timeout: float) -> LogEvidence:
    """What is of interest in `files`, read for `timeout` seconds at most; a source that was not read to its end says so in its `note`.

    `anchors` are the literals that make a line interesting, whatever their case. 100 MB/s and more where such lines are rare; at most
    some 100 MB of memory, whatever the size. Raises `BadLog` where a single file cannot be read; of several, where none can.
    """
    ends = time.monotonic() + timeout
    finder = automaton(tuple(anchors))
    gathered = Gathered()
    refused: list[BadLog] = []
    for i, file in enumerate(files):
        share_s = (ends - time.monotonic()) / (len(files) - i)
        try:
            _read_file(file, finder, gathered, len(files), ends=time.monotonic() + share_s)
        except BadLog as e:
            refused.append(e)
            gathered.sources.append(LogSource(file.name, file.rank, 0, 0, e.cause))
    if refused and len(refused) == len(files):
        raise refused[0]
    return gathered.evidence()


def read_text(log: str, *, anchors: Iterable[str], name: str = "text") -> LogEvidence:
    """The same for the text of a log. Raises `BadLog` where it is blank."""
    if not log.strip():
        raise BadLog(text("the text is empty"))
    gathered = Gathered()
    source = Source(LogFile("", name), gathered, automaton(tuple(anchors)), 1, year=time.gmtime().tm_year)
    data = log.encode("utf-8", "replace")
    step = 2**20
    for start in range(0, len(data), step):
        source.scan.feed(data[start : start + step])
    source.end(len(data))
    return gathered.evidence()


def _read_file(file: LogFile, finder: Automaton, gathered: Gathered, sources: int, *, ends: float) -> None:
    opened = open_log(
        file.path, file.name, ends=ends, end_bytes=max(BLOCK_BYTES // 16, END_BYTES // sources), begins=file.begins
    )
    try:
        source = Source(file, gathered, finder, sources, year=_year(file.path))
        note, spoke = "", False
        blocks: Iterable[bytes] = opened.blocks()
        if is_notebook(file.path):
            blocks, note = outputs(opened)
        for block in blocks:
            source.scan.feed(block)
            spoke = spoke or not block.isspace()
        if not spoke:
            raise _silent(file, opened)
        source.end(opened.size_bytes or opened.bytes_read, opened.note or note)
        gathered.bytes += opened.bytes_read
    finally:
        opened.close()


def _silent(file: LogFile, opened: Opened) -> BadLog:
    if opened.note:
        return BadLog(
            text("{name} gave nothing ({why})", name=file.name, why=opened.note),
            text("give the whole log, or one that is written"),
        )
    if not opened.bytes_read:
        return BadLog(
            text("{name} is empty", name=file.name),
            text("give the log that the job has written; a hung job may have written none"),
        )
    said = (
        later("{name} says nothing: no cell has any output")
        if is_notebook(file.path)
        else later("{name} says nothing: it has blank lines only")
    )
    return BadLog(text(said, name=file.name), text("give the log that the job has written"))


def _year(path: str) -> int:
    try:
        return time.gmtime(os.stat(path).st_mtime).tm_year
    except OSError:
        return time.gmtime().tm_year


class Gathered:
    """What all sources gave so far. `book` has the metrics, which are read while the blocks come."""

    def __init__(self, book: SeriesBook | None = None) -> None:
        self.sources: list[LogSource] = []
        self.lines: list[LogLine] = []
        self.errors: list[LogError] = []
        self.stages: list[LogStage] = []
        self.tails: dict[int, tuple[LogLine, ...]] = {}
        self.book = book or SeriesBook()
        self.dropped = 0
        self.bytes = 0
        self.launchers: set[str] = set()

    def evidence(self) -> LogEvidence:
        dated = any(line.time_s is not None and line.time_s > _A_DAY_S for line in self.lines)
        lines = [_undated(line) for line in self.lines] if dated else self.lines
        return LogEvidence(
            sources=tuple(self.sources),
            lines=tuple(lines),
            errors=tuple(self.errors),
            series=tuple(self.book.series()),
            stages=tuple(self.stages),
            tails=self.tails,
            total_bytes=self.bytes or sum(s.size_bytes for s in self.sources),
            total_lines=sum(s.lines for s in self.sources),
            dropped=self.dropped,
            ends=tuple(ends(lines)),
            launchers=tuple(name for name in _LAUNCHERS if name in self.launchers),
        )


def _undated(line: LogLine) -> LogLine:
    """A time of day cannot be compared with dates: it is none."""
    if line.time_s is None or line.time_s > _A_DAY_S:
        return line
    return dataclasses.replace(line, time_s=None)


class Source:
    """One file while it is read."""

    def __init__(self, file: LogFile, gathered: Gathered, finder: Automaton, sources: int, *, year: int) -> None:
        self._file = file
        self._gathered = gathered
        self._number = len(gathered.sources)
        self._clock = Clock(year)
        self._numbered = False
        self._stage = ""
        self.stages: list[LogStage] = []
        self.scan = Scan(finder, self._metric, self._enter, sources)

    def end(self, size_bytes: int, note: str = "", *, into: Gathered | None = None) -> None:
        """All blocks were fed, or all that there are by now: look at the kept lines in detail."""
        kept, dropped = self.scan.kept()
        texts = [(k, line) for k in kept for line in pieces(_decoded(k.data))]
        self._numbered = is_numbered([line for _, line in texts[:400]])
        lines = [self._line(k.number, line, k.repeats, k.last_number) for k, line in texts]
        spoken = [line for line in lines if line.text.strip()]
        gathered = self._gathered if into is None else into
        gathered.sources.append(LogSource(self._file.name, self._file.rank, size_bytes, self.scan.total_lines, note))
        gathered.lines += spoken
        gathered.errors += errors(lines)
        gathered.stages += _thinned(self.stages)
        gathered.tails[self._number] = tuple(spoken[-_TAIL:])
        gathered.dropped += dropped
        for line in (*spoken[:400], *spoken[-400:]):
            _launcher(line, gathered.launchers)

    def _line(self, number: int, raw: str, repeats: int = 1, last_number: int | None = None) -> LogLine:
        said = clean(raw, numbered=self._numbered)
        made = self._made(number, said, self._clock.read(raw) if ":" in raw else None)
        return made if repeats == 1 else dataclasses.replace(made, repeats=repeats, last_number=last_number)

    def _made(self, number: int, said: Said, time_s: float | None) -> LogLine:
        rank = self._file.rank if said.rank is None else said.rank
        who = said.who or self._file.who or ("" if rank is None else f"rank {rank}")
        return LogLine(self._number, number, said.text, rank, who, time_s, said.repeats)

    def _metric(self, number: int, raw: bytes) -> None:
        for piece in pieces(_decoded(raw)):
            self._gathered.book.add(self._made(number, clean(piece, numbered=self._numbered), None))

    def _enter(self, name: LogStageName, number: int, raw: bytes) -> None:
        if name != self._stage:
            self._stage = name
            self.stages.append(LogStage(name, self._line(number, _decoded(raw))))


def _launcher(line: LogLine, known: set[str]) -> None:
    worker = " pid " in line.who and " GPU " not in line.who
    for name, form in _LAUNCHERS.items():
        if name not in known and (form.search(line.text) or (name == "ray" and worker)):
            known.add(name)


def _thinned(stages: list[LogStage]) -> list[LogStage]:
    half = _MOST_STAGES // 2
    return stages if len(stages) <= _MOST_STAGES else [*stages[:half], *stages[-half:]]


def _decoded(raw: bytes) -> str:
    """UTF-8, else the encoding that Chinese systems write, else byte by byte."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("gb18030")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")
