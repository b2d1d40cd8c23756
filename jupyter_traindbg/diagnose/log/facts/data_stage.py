"""Building the data set: the log ends at "0 examples" (``dataset_at_zero``) or in another step of it (``data_stage_silent``), or the
process crashed meanwhile (``data_stage_crashed``), or raised (``exception_while_mapping``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....model import LogEvidence, LogLine
from ..progress import progress_of
from ..signs import PREPARING
from . import Fact

__all__ = ["facts"]

_ZERO = re.compile(r"(?i)Generating [\w.-]+ split: ?0 examples \[00:0\d")
_MAP_AT_ZERO = re.compile(r"\(num_proc=(\d+)\):? +0%\|[^|]*\| *0/[1-9]\d*")
"""One process shows its first batch soon; of several, none may ever."""
_WAITING = re.compile(
    r"(?i)Resolving data files: ?100%|(?:^|\W)#\d+: ?100%\|.*obj|building (?:blend\w+ )?dataset indices"
    r"|^\W*Downloading and preparing dataset [^\n]*\.\.\.\W*$"
)
_STEP = re.compile(
    r"(?i)building (?:train|the|data)[^\n]{0,60}\bdata|reading (?:document index|sequence|pointers)|creating (?:memory view|mmap)"
    r"|loading (?:indexed )?data ?set|using cache found|Resolving data files|Setting num_proc|Generating [\w.-]+ split|\bload_dataset\("
)
"""Lines of the preparation that tell something only beside a person's complaint."""
_CRASH = re.compile(
    r"(?i)\b(SIGSEGV|SIGABRT|SIGBUS|SIGFPE|segmentation fault|bus error|core dumped|Fatal Python error: \w+(?: \w+)?)\b"
)
_NOISE = re.compile(r"^[\s`>.\-=_*#|┃│╰╯]*$")
_DATA_BAR = re.compile(rf"(?i)(?:{PREPARING})[^|\[\n]{{0,80}}?(?:\d+%\||\[[#=>. -]{{3,60}}\] +\d+/\d+)")
_COMPLAINT = re.compile(
    r"(?i)\b(?:stuck\w*|hangs?|hanging|hung|freez\w*|froze\w*|forever|stock at|no progress|never (?:ends|finish\w*|returns))\b"
    r"|\bfor (?:more than |over |about |almost )?(?:\d+|an?|several|many) ?(?:h|hours?|days?|min(?:ute)?s?)\b"
    r"|卡住|卡在|卡死|卡了|不动|没有?反应|很久"
)
"""A person's words beside what is pasted."""
_MOVES = re.compile(
    r"\b[1-9]\d{0,8}%\||\b[1-9]\d{0,8} examples|\b[1-9]\d{0,8}/\d+ \["
    r"|(?i:\b(?:step|epoch|iter\w*|loss|param(?:eter)?s|(?:model|trainer|weights|optimizer)\b.{0,40}\b(?:loaded|created|starts?|ready))\b)"
    r"|(?i:\bdata ?sets?\b.{0,60}\b(?:ready|loaded|done|finished|built|[1-9]\d{0,8} (?:rows|examples|samples))\b)"
)
_RECORD = re.compile(r"^\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|(?:\w+:)?INFO\b)")
_TROUBLE = re.compile(r"(?i)warn|error|retr(?:y|ies)|time[d -]{0,2}out|\block|wait|fail")
"""What a process may say of others, or of its own trouble, while it makes no progress."""
REACH = 8
AFTER = 4


def _shortened(text: str) -> str:
    """Without the bar and the figures of a progress bar."""
    return re.split(r":? *\d+%\|| +\[[#=>. -]{3}", text.strip("` >"))[0][:80]


def facts(evidence: LogEvidence) -> list[Fact]:
    """Where the log ends in this stage, unless another file of the job shows that it trains."""
    ends = _at_zero(evidence) if not evidence.errors else _raised(evidence)
    return [*_crashed(evidence.lines), *ends]


def _crashed(lines: Sequence[LogLine]) -> list[Fact]:
    for i, line in enumerate(lines):
        if _ZERO.search(line.text):
            for near in lines[i : i + REACH]:
                match = _CRASH.search(near.text) if near.source == line.source else None
                if match is not None:
                    return [Fact("data_stage_crashed", near, {"crash": match[1]}, near.rank)]
    return []


def _at_zero(evidence: LogEvidence) -> list[Fact]:
    """Only where no progress follows: then the silence (and what a person writes below it) is all there is to go by."""
    progress = progress_of(evidence)
    for source, lines in evidence.tails.items():
        last = [line for line in lines if not _NOISE.match(line.text)][-AFTER:]
        if progress.anywhere_but(source):
            continue
        for i, line in enumerate(last):
            name = _waits(line.text, [x.text for x in (*last[:i], *last[i + 1 :])])
            if name and not any(_moves(x.text, line.text) for x in last[i + 1 :]):
                values: dict[str, float | str] = {"waiting": _shortened(line.text)}
                processes = _MAP_AT_ZERO.search(line.text)
                if processes:
                    values["processes_count"] = int(processes[1])
                return [Fact(name, line, values, line.rank)]
    return []


def _raised(evidence: LogEvidence) -> list[Fact]:
    """An exception right below the bar of a map that has not come to its end."""
    first = min(evidence.errors, key=lambda e: (e.line.source, e.line.number)).line
    above = [
        x for x in evidence.lines if x.source == first.source and x.number < first.number and not _NOISE.match(x.text)
    ]
    last = above[-1] if above else None
    if last is None or not _DATA_BAR.search(last.text) or "100%" in last.text or first.number - last.number > AFTER:
        return []
    return [Fact("exception_while_mapping", first, {"waiting": _shortened(last.text)}, first.rank)]


def _moves(text: str, before: str) -> bool:
    """Whether a line after `before` shows progress: figures, the next step, any record that tells of no trouble.

    What a person complains of ("stuck at 1200 examples") shows none.
    """
    if _COMPLAINT.search(text):
        return False
    if _MOVES.search(text) or (_RECORD.search(text) and not _TROUBLE.search(text)):
        return True
    return bool(_DATA_BAR.search(text) or _ZERO.search(text)) and _label(text) != _label(before)


def _label(text: str) -> str:
    """What a bar counts: "Generating train split"."""
    return re.split(r":? *\d+%\||:? *\d+ examples|:? *\[[#=>. -]{3}", text.strip("` >"))[0].strip()


def _waits(text: str, around: Sequence[str]) -> str:
    """The fact that `text` shows, if nothing comes after it."""
    several = _MAP_AT_ZERO.search(text)
    zero = _ZERO.search(text)
    if (zero and not _MOVES.search(text, zero.end())) or (several and int(several[1]) > 1):
        return "dataset_at_zero"
    complained = any(_COMPLAINT.search(x) for x in (text, *around))
    step = complained and (_DATA_BAR.search(text) or _STEP.search(text))
    return "data_stage_silent" if _WAITING.search(text) or step else ""
