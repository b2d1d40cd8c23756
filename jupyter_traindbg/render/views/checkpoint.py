"""`Checkpoint`: whether a run goes on from it exactly, where it lies, what is in it, at which step, what it cost, how to go on from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import counted, later, pgettext, text
from ...model import Checkpoint, CheckpointRank, NotAvailable
from ...step_numbers import step_words
from ...words.durations import duration
from ...words.ranks import compact_ranks
from ..blocks import PLACE, Answer, Block, Column, Inline, Items, Pair, Pairs, Span, Table, Tone, within
from ..common import DASH, measured, median
from ..grouping import group_by
from ..notations import sizes
from ..units import size

ROWS = 12


def view(result: Checkpoint) -> Iterator[Block]:
    yield _answer(result)
    yield Pairs(list(_pairs(result)))
    if result.notes:
        yield Items(list(result.notes), lead=text("notes"))
    yield Items(list(_next(result)), lead=text("next"))
    if len(result.ranks) > 1:
        yield _ranks(result.ranks)
    yield _files(result)


def _answer(result: Checkpoint) -> Answer:
    n = len(result.inexact)
    tone: Tone = "warn"
    if not result.files:
        words = text("no file was written")
    elif result.exact:
        tone = "good"
        words = text("saved, and exact: a run resumed from it is bit-identical")
    elif n == 1:
        words = text("saved, not exact: {inexact}", inexact=result.inexact[0])
    elif n:
        words = text("saved, not exact, for {n} reasons", n=n)
    else:
        words = text("saved, not exact")
    files = counted("{size} in {n:,} file", "{size} in {n:,} files", len(result.files), size=size(result.bytes))
    where: Inline = [text("checkpoint in "), Span(result.directory, "code")]
    return Answer(words, [where, files, duration(result.duration_s)], tone)


def _pairs(result: Checkpoint) -> Iterator[Pair]:
    yield Pair(text("taken"), [_taken(result)])
    yield Pair(text("in it"), [pgettext("list", ", ").join(map(part_words, result.contents)) or DASH])
    told = {line for finding in result.findings for line in finding.evidence}
    if len(untold := [why for why in result.inexact if why not in told]) > 1:
        yield Pair(text("not exact"), untold, "bullets")
    yield Pair(text("pause"), [_pause(result)])


_PARTS = (
    later("model"),
    later("optimizer"),
    later("scheduler"),
    later("random generators"),
    later("loader positions"),
    later("settings in force"),
)


def part_words(part: str) -> str:
    """What a checkpoint says that it holds."""
    return text(part) if part in _PARTS else part


def _taken(result: Checkpoint) -> Inline:
    if result.taken == "hung":
        words: list[str | Span] = [text("no step came, and it was saved as it stood")]
    else:
        words = [text("at a boundary between two iterations")]
    if result.world_size > 1:
        n, world = len(result.ranks), result.world_size
        whole = n == world
        words.append(text(", all {n} ranks", n=n) if whole else text(", {n} of {world} ranks", n=n, world=world))
    if result.mixed:
        words.append(Span(text(", at different steps or unknown ones"), "warn"))
    elif result.ranks:
        words += within(text(", after {step}", step=PLACE), Span(_steps(result.ranks[0]), "strong"))
    if result.missing_ranks:
        words.append(Span(text("; {ranks} had no part in it", ranks=compact_ranks(result.missing_ranks)), "warn"))
    return words


def _steps(rank: CheckpointRank) -> str:
    """Several optimizers may have made different numbers of steps."""
    return ", ".join(step_words(number) for number in rank.numbers)


def _first(rank: CheckpointRank) -> int | None:
    return next((number.since_attach if number.own is None else number.own for number in rank.numbers), None)


def _pause(result: Checkpoint) -> Inline:
    pauses = [(r.pause_s, r.rank) for r in result.ranks if not isinstance(r.pause_s, NotAvailable)]
    middle = median(p for p, _ in pauses)
    if middle is None:
        reasons = {r.pause_s.reason for r in result.ranks if isinstance(r.pause_s, NotAvailable)}
        return text("none: {reasons}", reasons=", ".join(sorted(reasons))) if reasons else DASH
    if len(pauses) == 1:
        return text("the training stood still for {pause}", pause=duration(middle))
    worst, rank = max(pauses)
    return text(
        "the training stood still for {pause} (median; at most {worst}, rank {rank})",
        pause=duration(middle),
        worst=duration(worst),
        rank=rank,
    )


def _ranks(ranks: Sequence[CheckpointRank]) -> Table:
    groups = group_by(ranks, lambda r: (_steps(r), str(r.boundary)))
    groups.sort(key=lambda same: (len(same), same[0].rank))
    rows: list[list[Inline]] = [
        [
            Span(compact_ranks([r.rank for r in same]), "strong"),
            Span(_steps(same[0]), value=_first(same[0])),
            measured(same[0].boundary, str),
            measured(sum(r.written_bytes for r in same), size),
        ]
        for same in groups
    ]
    columns = [
        Column(text("ranks"), wrap=True),
        Column(text("step"), right=True),
        Column(text("generators, loaders"), wrap=True),
        Column(text("written"), right=True, notation=sizes),
    ]
    return Table(text("Ranks"), columns, rows, ROWS, pgettext("more", "groups of ranks"))


def _files(result: Checkpoint) -> Table:
    ordered = sorted(result.files, key=lambda f: (-f.bytes, f.name))
    rows: list[list[Inline]] = [
        [Span(f.name, "strong"), measured(f.rank, str), measured(f.bytes, size), Span(f.sha256[:12], "muted")]
        for f in ordered
    ]
    columns = [Column(text("file"), wrap=True), Column("rank", right=True)]
    columns += [Column(text("size"), right=True, notation=sizes), Column("SHA-256", spare=True)]
    return Table(text("Files"), columns, rows, ROWS, pgettext("more", "files"))


def _next(result: Checkpoint) -> Iterator[Inline]:
    for words, code in going_on(result):
        yield [words, text(": "), Span(code, "code")]


def going_on(result: Checkpoint) -> Iterator[tuple[str, str]]:
    """What can be done with it, and the code for that: resume, load the weights alone, verify."""
    parts = ["model", "optimizer", "scheduler", "loader"]
    given = [f"{part}={part}" for part in parts if any(part in held for held in result.contents)]
    if result.others:
        given.append(f"others={{{', '.join(f'{name!r}: {_variable(name)}' for name in result.others)}}}")
    go_on = f"traindbg.resume({', '.join([repr(result.directory), *given])})"
    yield text("go on from it, in your script"), go_on
    if result.kind == "sharded":
        load = f"torch.distributed.checkpoint.load(state_dict, checkpoint_id={result.directory!r})"
    else:
        load = f"torch.load({result.directory + '/model.pt'!r}, weights_only=True)"
    yield text("the weights alone, without traindbg"), load
    yield text("check every byte of it"), f"%checkpoint --verify {_shell(result.directory)}"


def _variable(name: str) -> str:
    """The variable that an object is called by; where that is no name of a variable, a place to fill in."""
    return name if all(part.isidentifier() for part in name.split(".")) else "..."


def _shell(path: str) -> str:
    import shlex

    return shlex.quote(path)
