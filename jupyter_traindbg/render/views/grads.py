"""`Grads`: what is not finite first, then the largest gradients; one row per parameter however many ranks have it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from ...model import FirstNonFinite, Grads, GradStat, Maybe, NotAvailable, RankGrads
from ...step_numbers import read_after, step_words
from ..blocks import Block, Column, Inline, Items, Line, Span, Table, spans
from ..common import DASH, measured, notes_of, spread, value
from ..grouping import compact_ranks, group_by, rank_list
from ..units import percent, plural, steady

SHOWN = 20
NAMED = 6
RANK_ROWS = 12


def view(result: Grads) -> Iterator[Block]:
    ranks = result.ranks
    parameters = _parameters(ranks)
    yield Line(
        f"gradients of {compact_ranks([r.rank for r in ranks])} · {plural(len(parameters), 'parameter')}", title=True
    )
    compared = len(ranks) <= 1 or result.same_step is True
    if not compared:
        yield _not_compared(result)
    for same in group_by([r for r in ranks if r.first is not None], lambda r: _first_key(r.first)):
        yield from _first(same)
    if ranks:
        yield _ranks(ranks)
        if len(ranks) > RANK_ROWS and compared:
            totals = [(r.rank, r.total_norm) for r in ranks if not isinstance(r.total_norm, NotAvailable)]
            yield Line(["total norm: ", *spans(spread(totals, steady))])
    yield from _counts(parameters)
    with_gradient = sorted((p for p in parameters if p.norm is not None), key=_interest)
    if with_gradient:
        yield _table(with_gradient, compared=compared)
    notes = notes_of((r.rank, r.note) for r in ranks)
    if notes:
        yield Items(notes)


def _not_compared(result: Grads) -> Line:
    """Gradients of different steps differ anyhow: no rank is called the worst of them."""
    words: list[str | Span]
    if isinstance(result.same_step, NotAvailable):
        words = [
            "that all ranks were read after the same step is not known",
            Span("", "muted", why=result.same_step.reason),
        ]
    else:
        words = ["the ranks were read after different steps"]
    return Line([Span("not compared", "warn"), ": ", *words])


# --- the first module whose output was not finite ------------------------------------------------------------------


def _first_key(first: FirstNonFinite | None) -> Hashable:
    assert first is not None
    number = None if first.number is None else step_words(first.number)
    return (
        first.module,
        first.kind,
        number,
        str(first.inputs_finite),
        str(first.weights_finite),
        first.modules_seen,
        first.note,
    )


def _first(same: Sequence[RankGrads]) -> Iterator[Block]:
    first = same[0].first
    assert first is not None
    who = Span(compact_ranks([r.rank for r in same]), "strong")
    seen = f" ({plural(first.modules_seen, 'module')} ran)"
    note = f". {first.note}" if first.note else ""
    if first.module is None:
        yield Line([who, f": no module's output was other than finite in that step{seen}{note}"])
        return
    inputs = _finite_words("inputs", first.inputs_finite)
    weights = _finite_words("weights", first.weights_finite)
    words: list[str | Span] = [
        who,
        ": the first output that is not finite came from ",
        Span(first.module or "the model", "code"),
    ]
    step = "" if first.number is None else f" in {step_words(first.number)}"
    yield Line([*words, f" ({first.kind}){step}: ", *inputs, ", ", *weights, f"{seen}{note}"])


def _finite_words(what: str, answer: Maybe[bool]) -> list[str | Span]:
    if isinstance(answer, NotAvailable):
        return [f"whether its {what} were finite is not known", Span("", "muted", why=answer.reason)]
    return [f"its {what} were finite"] if answer else [Span(f"its {what} were not finite", "bad")]


# --- ranks ---------------------------------------------------------------------------------------------------------


def _ranks(ranks: Sequence[RankGrads]) -> Table:
    groups = group_by(ranks, lambda r: (repr(r.total_norm), read_after(r), r.safe_point, _bad(r)))
    groups.sort(key=lambda same: (_bad(same[0]) == 0, len(same), same[0].rank))
    rows: list[list[Inline]] = [
        [
            Span(compact_ranks([r.rank for r in same]), "strong"),
            _norm(same[0].total_norm),
            str(_bad(same[0])) if not _bad(same[0]) else Span(str(_bad(same[0])), "bad"),
            [read_after(same[0]), *([] if same[0].safe_point else [Span(" (not at a safe point)", "warn")])],
        ]
        for same in groups
    ]
    columns = [
        Column("ranks"),
        Column("total norm", right=True),
        Column("not finite", right=True),
        Column("read", wrap=True),
    ]
    return Table("Total norm, and when it was read", columns, rows, RANK_ROWS, "groups of ranks")


def _bad(rank: RankGrads) -> int:
    return sum(1 for g in rank.grads if _not_finite(g))


def _not_finite(g: GradStat) -> bool:
    return g.nan_count > 0 or g.inf_count > 0 or (not isinstance(g.norm, NotAvailable) and not math.isfinite(g.norm))


def _norm(norm: Maybe[float]) -> Span:
    return measured(norm, steady) if isinstance(norm, NotAvailable) else value(norm)


# --- parameters ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parameter:
    """One parameter over all ranks. ``norm`` is the greatest, and ``worst`` the statistics that have it; None: no gradient anywhere."""

    name: str
    worst: GradStat
    norm: float | None
    least: float | None
    norm_rank: int
    nan_count: int
    inf_count: int
    bad_ranks: tuple[int, ...]
    ranks: int


def _parameters(ranks: Sequence[RankGrads]) -> list[_Parameter]:
    found = [(rank.rank, g) for rank in ranks for g in rank.grads]
    return [_parameter(same) for same in group_by(found, lambda f: (f[1].name, tuple(f[1].shape)))]


def _parameter(same: Sequence[tuple[int, GradStat]]) -> _Parameter:
    normed = [(_height(g.norm), -rank, g) for rank, g in same if not isinstance(g.norm, NotAvailable)]
    bad = [(rank, g) for rank, g in same if _not_finite(g)]
    worst, rank = same[0][1], same[0][0]
    if normed:
        _, minus, worst = max(normed, key=lambda n: n[:2])
        rank = -minus
    return _Parameter(
        name=worst.name,
        worst=worst,
        norm=None if isinstance(worst.norm, NotAvailable) else worst.norm,
        least=None if not normed or len(normed) < len(same) else min(n[0] for n in normed),
        norm_rank=rank,
        nan_count=sum(g.nan_count for _, g in bad),
        inf_count=sum(g.inf_count for _, g in bad),
        bad_ranks=tuple(rank for rank, _ in bad),
        ranks=len(same),
    )


def _height(norm: Maybe[float]) -> float:
    """Orders norms; NaN is the worst there is."""
    assert not isinstance(norm, NotAvailable)
    return math.inf if math.isnan(norm) else norm


def _interest(parameter: _Parameter) -> tuple[bool, float, str]:
    return not parameter.bad_ranks, -_height(parameter.norm or 0.0), parameter.name


def _counts(parameters: Sequence[_Parameter]) -> Iterator[Block]:
    bad = [p for p in parameters if p.bad_ranks]
    zero = [p for p in parameters if p.norm == 0]
    without = [p for p in parameters if p.norm is None and p.worst.requires_grad]
    frozen = [p for p in parameters if p.norm is None and not p.worst.requires_grad]
    words: list[str | Span] = [Span(f"{len(bad)} not finite", "bad") if bad else "all gradients are finite"]
    if not any(p.norm is not None for p in parameters):
        words = ["no gradient exists now"]
    items: list[Inline] = []
    for found, what in ((zero, "with a gradient of zeros"), (without, "without a gradient"), (frozen, "frozen")):
        if found:
            words.append(f" · {len(found)} {what}")
    for found, what in ((zero, "gradient of zeros"), (without, "no gradient")):
        if found:
            names = ", ".join(p.name for p in found[:NAMED]) + (f", ... ({len(found)})" if len(found) > NAMED else "")
            items.append([Span(what, "strong"), f": {names}"])
    if parameters:
        yield Line(words)
    if items:
        yield Items(items)


def _table(parameters: Sequence[_Parameter], *, compared: bool) -> Table:
    scanned = any(not isinstance(p.worst.max_abs, NotAvailable) for p in parameters)
    bad = any(p.bad_ranks for p in parameters)
    differ = compared and any(_differs(p) for p in parameters)
    bad_on = bad and not compared
    columns = [
        Column("parameter", wrap=True),
        Column("shape", spare=True),
        Column("dtype", spare=True),
        Column("norm", right=True),
    ]
    columns += [Column("least", right=True), Column("worst on rank")] if differ else []
    columns += [Column("not finite on rank")] if bad_on else []
    columns += [Column("max |g|", right=True), Column("zeros", right=True, spare=True)] if scanned else []
    columns += [Column("NaN", right=True), Column("Inf", right=True)] if bad else []

    def row(p: _Parameter) -> list[Inline]:
        shape = "x".join(map(str, p.worst.shape)) or "scalar"
        cells: list[Inline] = [Span(p.name, "strong"), shape, p.worst.dtype, value(p.norm)]
        if differ:
            cells += [value(p.least) if _differs(p) else DASH, _worst_on(p)]
        if bad_on:
            cells.append(rank_list(p.bad_ranks) if p.bad_ranks else DASH)
        if scanned:
            cells += [measured(p.worst.max_abs, steady), measured(p.worst.zeros, percent)]
        if bad:
            cells += [_count(p.nan_count), _count(p.inf_count)]
        return cells

    caption = "Parameters: not finite first, then by norm" if bad else "Parameters with the largest gradients"
    if differ:
        caption += " (the greatest norm of all ranks, and the least)"
    elif not compared:
        caption += " (the greatest norm that was read)"
    return Table(caption, columns, [row(p) for p in parameters], SHOWN, "parameters")


def _differs(p: _Parameter) -> bool:
    some_bad = 0 < len(p.bad_ranks) < p.ranks
    return p.ranks > 1 and (some_bad or p.least is None or p.least != _height(p.norm or 0.0))


def _worst_on(p: _Parameter) -> Inline:
    if not _differs(p):
        return "same on all"
    return rank_list(p.bad_ranks) if p.bad_ranks else str(p.norm_rank)


def _count(n: int) -> Span:
    return Span(f"{n:,}", "bad" if n else "plain")
