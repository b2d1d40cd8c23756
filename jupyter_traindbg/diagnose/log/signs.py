"""What one line says of the work: that it is complete, how far it has come, that somebody stopped it. Words and bars, no judgement."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "ANCHORS",
    "PREPARING",
    "Bar",
    "bar",
    "complete",
    "epoch",
    "final",
    "has_words",
    "is_frame",
    "served",
    "step",
    "stopped",
]

_WORD = re.compile(r"[^\W_]")
_FINAL = (
    "training completed",
    "training complete",
    "training finished",
    "training done",
    "finished training",
    "job succeeded",
    "job finished",
    "train_runtime",
    "max_epochs=",
    "max_steps=",
    "stopping training due to num_updates",
)
_COMPLETE = (
    "executed successfully",
    "completed successfully",
    "finished successfully",
    "completed in ",
    "execution finished in ",
    "final validation metrics",
    "successfully saved checkpoint",
)
"""Said at a good end, but also of a part: a download, an epoch, an evaluation."""
_STOP = '"run_stop"'
ANCHORS = (*_FINAL, *_COMPLETE, _STOP)
"""What a good end is told by, in lower case."""
_FINAL_WORDS, _COMPLETE_WORDS = (re.compile("|".join(map(re.escape, words))) for words in (_FINAL, _COMPLETE))
_STOPPED_WELL = re.compile(rf"{_STOP}.{{0,300}}\"success\"")
"""As MLPerf's logs have it."""
_REACHED = re.compile(r"max_(?:epochs|steps)=(?!.*reached)")
_SUCCESS = re.compile(r"^\W*success\W*$")
_STOPPED = re.compile(
    r"\bKeyboardInterrupt\b|^\^C|\s\^C(?:Traceback|\s|$)|[Cc]trl-[Cc] pressed"
    r"|^INFO: +Shutting down\W*$|Application shutdown complete|Gracefully exiting|Draining requests and shutting down"
    r"|\bcore\.py:\d+\] Shutdown (?:initiated|complete)"
)
"""By Ctrl-C; or a server, by whom it serves."""
_SERVED = re.compile(r'"post [^"]{1,200}" 200\b')
"""A server that goes on answering what it is asked; its health and metrics are answered by the front door alone."""
_BAR = re.compile(r"\b(\d{1,12})/([1-9]\d{0,11}) ?\[(?:\d+:\d\d|=)")
_NOT_TRAINING = re.compile(
    r"load|download|extract|generat|\bmap\b|token|fetch|filter|captur|compil|shard|\bsav(?:e|ing)\b|\bcopy|\bpush|clean"
)
PREPARING = (
    r"Map|Filter|Tokeniz|Running tokenizer|Generating|Downloading|Preprocess|Converting|Grouping|Indexing|Loading|Casting|Saving|Packing"
    r"|Building|Scanning|Caching|Extracting|Reading|Encoding|Parsing|Shuffling|Concatenating|Resolving"
)
"""What bars of preparing the data are called: alternatives of a pattern, any case."""
_PREPARES = re.compile(rf"(?i)^\W*(?:{PREPARING}|Adding requests|Sanity Checking)")
_NO_LABEL = re.compile(r"[^a-z_]+")
_COUNTED = ("step", "iter", "batch", "update", "epoch")
_STEP = re.compile(
    r"(?:^|[\s\[(|,])(?P<name>(?:global[_ ]?)?(?:step|iter|iteration|batch|update|epoch))\s?[=:]?\s?\[?(?P<number>\d{1,9})\b"
    r"|^\[(?P<bare>\d{1,9})/\s?\d{1,9}\]"
)
_TROUBLE = re.compile(
    r"error|exception|fail|overflow|skipping|time[d -]{0,2}out|stuck|\bhang|\bhung|traceback|killed|\bwarn|retr(?:y|ies)|resum|\bfrom step"
)
"""A line with such words does not count steps: it tells of one."""
_EPOCH = re.compile(r"\bepoch\W{0,3}(\d{1,6}) ?(?:/|of) ?(\d{1,6})\b")


@dataclass(frozen=True)
class Bar:
    """The last state of a progress bar: `at` of `of`. The same work has the same `label` at every round."""

    label: str
    at: int
    of: int

    @property
    def full(self) -> bool:
        return self.at >= self.of


def has_words(text: str) -> bool:
    """Whether it is more than a rule that frames others."""
    return _WORD.search(text) is not None


def is_frame(low: str) -> bool:
    """Whether it is a frame of a traceback: files are called all sorts of things. All lines here are in lower case."""
    return low.lstrip().startswith('file "')


def final(low: str) -> bool:
    """Whether it says that the whole work has come to a good end."""
    return bool(_FINAL_WORDS.search(low) and not _REACHED.search(low)) or bool(_STOPPED_WELL.search(low))


def complete(low: str) -> bool:
    """Whether it says that the work, or a part of it, has come to a good end."""
    return final(low) or bool(_COMPLETE_WORDS.search(low)) or bool(_SUCCESS.match(low))


def bar(low: str) -> Bar | None:
    """The bar of training, evaluation or generation in the line; not one of preparing or saving."""
    match = _BAR.search(low) if "[" in low else None
    if match is None or _NOT_TRAINING.search(low) or _PREPARES.match(low):
        return None
    return Bar(_NO_LABEL.sub(" ", low[: match.start()]).strip()[-40:], int(match[1]), int(match[2]))


def served(low: str) -> bool:
    """Whether a server has answered a request."""
    return '" 200' in low and bool(_SERVED.search(low))


def step(low: str) -> tuple[str, int] | None:
    """What the line counts, and how far: ``("step", 40)``."""
    match = _STEP.search(low) if low.startswith("[") or any(word in low for word in _COUNTED) else None
    if match is None or _TROUBLE.search(low):
        return None
    return (match["name"] or "", int(match["number"] or match["bare"]))


def epoch(low: str) -> tuple[int, int] | None:
    """``(3, 10)`` of "Epoch 3/10"."""
    match = _EPOCH.search(low) if "epoch" in low else None
    return (int(match[1]), int(match[2])) if match else None


def stopped(text: str) -> bool:
    """Whether somebody stopped the run on purpose. `text` as it was printed, not in lower case."""
    return bool(_STOPPED.search(text))
