"""`Grads`: what is not finite first, by module where it is much, then the largest gradients; one row per parameter however many ranks
have it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from ...language import counted, later, later_counted, pgettext, text
from ...model import FirstNonFinite, Grads, GradStat, Maybe, NotAvailable, RankGrads
from ...step_numbers import read_after, step_words
from ...words.ranks import compact_ranks, rank_list
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Line, Span, Table
from ..common import DASH, measured, notes_of, value
from ..grouping import group_by
from ..notations import values
from ..units import percent, steady

SHOWN, SHOWN_MODULES = 12, 8
NAMED = 6
RANK_ROWS = 12
MANY, FEW = 8, 4
"""More parameters that are not finite are shown by module; beside fewer, so many of the others."""


def view(result: Grads) -> Iterator[Block]:
    ranks = result.ranks
    parameters = _parameters(ranks)
    yield _answer(result, parameters)
    compared = len(ranks) <= 1 or result.same_step is True
    if not compared:
        yield _not_compared(result)
    for same in group_by([r for r in ranks if r.first is not None], lambda r: _first_key(r.first)):
        yield from _first(same)
    bad = [p for p in parameters if p.bad_ranks]
    if len(bad) > MANY:
        yield _modules(parameters, several=len(ranks) > 1)
    yield from _ranks(ranks, compared=compared)
    yield from _absent(parameters)
    with_gradient = sorted((p for p in parameters if _exists(p)), key=_interest)
    if with_gradient:
        table = _table(with_gradient, compared=compared)
        folded = text("parameter by parameter ({n:,})", n=len(with_gradient))
        yield Fold(folded, [table]) if len(bad) > MANY else table
    notes = notes_of((r.rank, r.note) for r in ranks)
    if notes:
        yield Items(notes)


# --- the answer ------------------------------------------------------------------------------------------------------


def _answer(result: Grads, parameters: Sequence[_Parameter]) -> Answer:
    ranks = result.ranks
    about = [compact_ranks([r.rank for r in ranks]), _moment(ranks)] if ranks else []
    existing = [p for p in parameters if _exists(p)]
    bad = [p for p in existing if p.bad_ranks]
    fired = [r for r in ranks if r.first is not None and r.first.module is not None]
    if not parameters:
        return Answer(text("no gradients were read"), about, "warn")
    if bad:
        words, scaled = _not_finite_words(ranks, bad, len(existing))
        if fired:
            module = _module_words(fired[0].first)
            words += text("; first not finite: the output of {module}", module=module)
        return Answer(words, about, "warn" if scaled and not fired else "bad")
    if fired:
        who, module = compact_ranks([r.rank for r in fired]), _module_words(fired[0].first)
        said = text("the output of {module} was not finite on {who}; the gradients read are", module=module, who=who)
        return Answer(said, about, "bad")
    if not existing:
        many = len(parameters)
        return Answer(
            counted("none of {n:,} parameter has a gradient now", "none of {n:,} parameters has a gradient now", many),
            about,
        )
    if not any(p.norm for p in existing):
        words = counted("the one gradient is zero", "all {n:,} gradients are zero", len(existing))
        return Answer(words, about, "warn")
    unread = [r.rank for r in ranks if not r.grads] + [s.rank for s in result.silent if s.rank is not None]
    words = counted("the one gradient is finite", "all {n:,} gradients are finite", len(existing)) + _total(ranks)
    if unread:
        words += text("; not read on {unread}", unread=compact_ranks(unread))
    return Answer(words, about, "warn" if unread or result.silent else "good")


def _not_finite_words(ranks: Sequence[RankGrads], bad: Sequence[_Parameter], existing: int) -> tuple[str, bool]:
    """How many, and where; and whether a GradScaler has made them so, which will skip that step."""
    blamed = {rank for p in bad for rank in p.bad_ranks}
    some = len(blamed) < len(ranks)
    on = pgettext("gradients", ", on {who}", who=compact_ranks(sorted(blamed))) if some else ""
    n = len(bad)
    scaled = all((r.scale or 0.0) > 1 for r in ranks if r.rank in blamed)
    how = text(" with the GradScaler's factor in them") if scaled else ""
    if n == existing and n > 1:
        return text("none of {n:,} gradients is finite{how}{on}", n=n, how=how, on=on), scaled
    of = counted("{n:,} gradient", "{n:,} gradients", existing)
    words = later_counted("{n:,} of {of} is not finite{how}{on}", "{n:,} of {of} are not finite{how}{on}")
    return counted(*words, n, of=of, how=how, on=on), scaled


def _total(ranks: Sequence[RankGrads]) -> str:
    known = [(r.total_norm, r.rank) for r in ranks if not isinstance(r.total_norm, NotAvailable)]
    known = [(norm, rank) for norm, rank in known if math.isfinite(norm)]
    if not known:
        return ""
    before = text(" before any clipping") if all(r.passes is not None for r in ranks) else ""
    (least, low), (most, high) = min(known), max(known)
    if steady(least) == steady(most):
        return text(", norm {steady}{before}", steady=steady(most), before=before)
    return text(
        ", norm {steady} (rank {low}) to {steady2} (rank {high}){before}",
        steady=steady(least),
        low=low,
        steady2=steady(most),
        high=high,
        before=before,
    )


def _moment(ranks: Sequence[RankGrads]) -> str:
    """When they were read, where that is one moment."""
    numbers = [r.number for r in ranks if r.safe_point and r.passes is None and r.number is not None]
    if len(numbers) == len(ranks):
        return text("after {step_words}", step_words=step_words(*numbers))
    moments = list(dict.fromkeys(map(_read, ranks)))
    return moments[0] if len(moments) == 1 else text("read at different moments")


def _read(rank: RankGrads) -> str:
    words = read_after(rank)
    unsafe = not rank.safe_point and "safe point" not in words
    return words + (text(" (not at a safe point)") if unsafe else "")


def _module_words(first: FirstNonFinite | None) -> str:
    return (first and first.module) or text("the model")


def _not_compared(result: Grads) -> Line:
    """Gradients of different steps differ anyhow: no rank is called the worst of them."""
    words: list[str | Span]
    if isinstance(result.same_step, NotAvailable):
        words = [
            text("that all ranks were read after the same step is not known"),
            Span("", "muted", why=result.same_step.reason),
        ]
    else:
        words = [text("the ranks were read after different steps")]
    return Line([Span(text("not compared"), "warn"), text(": "), *words])


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
    seen = counted(" ({n:,} module ran)", " ({n:,} modules ran)", first.modules_seen)
    note = text(". {note}", note=first.note) if first.note else ""
    if first.module is None:
        yield Line([who, text(": no module's output was other than finite in that step"), f"{seen}{note}"])
        return
    inputs = _finite_words(INPUTS, first.inputs_finite)
    weights = _finite_words(WEIGHTS, first.weights_finite)
    step = "" if first.number is None else text(" in {step}", step=step_words(first.number))
    module = Span(_module_words(first), "code")
    comma = text(", ")
    kind = f" ({first.kind})"
    yield Line([who, comma, module, f"{kind}{step}", text(": "), *inputs, comma, *weights, f"{seen}{note}"])


INPUTS = (
    later("whether its inputs were finite is not known"),
    later("its inputs were finite"),
    later("its inputs were not finite"),
)
WEIGHTS = (
    later("whether its weights were finite is not known"),
    later("its weights were finite"),
    later("its weights were not finite"),
)


def _finite_words(words: tuple[str, str, str], answer: Maybe[bool]) -> list[str | Span]:
    """By `words`: not known, finite, not finite."""
    unknown, finite, not_finite = words
    if isinstance(answer, NotAvailable):
        return [text(unknown), Span("", "muted", why=answer.reason)]
    return [text(finite)] if answer else [Span(text(not_finite), "bad")]


# --- ranks ---------------------------------------------------------------------------------------------------------


def _ranks(ranks: Sequence[RankGrads], *, compared: bool) -> Iterator[Table]:
    """Where they differ: if not, the answer has told it all."""
    groups = group_by(ranks, lambda r: (repr(r.total_norm), _bad(r), "" if compared else _read(r)))
    if len(groups) <= 1:
        return
    groups.sort(key=lambda same: (_bad(same[0]) == 0, len(same), same[0].rank))
    rows: list[list[Inline]] = [
        [
            Span(compact_ranks([r.rank for r in same]), "strong"),
            _norm(same[0].total_norm),
            str(_bad(same[0])) if not _bad(same[0]) else Span(str(_bad(same[0])), "bad"),
            *([] if compared else [_read(same[0])]),
        ]
        for same in groups
    ]
    columns = [
        Column(text("ranks")),
        Column(text("total norm"), right=True, notation=values),
        Column(text("not finite"), right=True),
        *([] if compared else [Column(pgettext("gradients", "read"), wrap=True)]),
    ]
    caption = text("Total norm") if compared else text("Total norm, and when it was read")
    yield Table(caption, columns, rows, RANK_ROWS, pgettext("more", "groups of ranks"))


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


def _exists(parameter: _Parameter) -> bool:
    return parameter.norm is not None or bool(parameter.bad_ranks)


def _absent(parameters: Sequence[_Parameter]) -> Iterator[Items]:
    none = [p for p in parameters if not _exists(p)]
    without = [p for p in none if p.worst.requires_grad]
    frozen = [p for p in none if not p.worst.requires_grad]
    zero = [p for p in parameters if p.norm == 0 and not p.bad_ranks]
    items: list[Inline] = []
    kinds = ((zero, text("gradient of zeros")), (without, text("no gradient")), (frozen, text("frozen")))
    for found, what in kinds:
        if found:
            names = ", ".join(p.name for p in found[:NAMED]) + (f", ... ({len(found)})" if len(found) > NAMED else "")
            items.append([Span(what, "strong"), text(": "), names])
    if items:
        yield Items(items)


def _modules(parameters: Sequence[_Parameter], *, several: bool) -> Table:
    """The modules with gradients that are not finite, in the order of the model."""
    groups = group_by((p for p in parameters if _exists(p)), lambda p: _module(p.name))
    rows: list[list[Inline]] = []
    for same in groups:
        bad = [p for p in same if p.bad_ranks]
        if bad:
            on: list[Inline] = [rank_list([rank for p in bad for rank in p.bad_ranks])] if several else []
            nan, inf = sum(p.nan_count for p in bad), sum(p.inf_count for p in bad)
            many = Span(text("{used} of {total}", used=len(bad), total=len(same)), value=len(bad))
            rows.append([Span(_module(same[0].name), "strong"), many, *on, _count(nan), _count(inf)])
    columns = [Column(text("module"), wrap=True), Column(text("not finite"), right=True)]
    columns += [Column(text("on rank"), wrap=True)] if several else []
    columns += [Column("NaN", right=True), Column("Inf", right=True)]
    fine = len(groups) - len(rows)
    caption = counted(
        "Not finite, in the order of the model; {n:,} other module finite",
        "Not finite, in the order of the model; {n:,} other modules finite",
        fine,
    )
    return Table(caption, columns, rows, SHOWN_MODULES, pgettext("more", "modules"))


def _module(name: str) -> str:
    """The layer that a parameter is in, ``model.layers.3``; where layers have no number, what holds it."""
    parts = name.split(".")
    end = next((i for i, part in enumerate(parts[:-1]) if part.isdigit()), len(parts) - 2)
    return ".".join(parts[: end + 1]) or name


def _table(parameters: Sequence[_Parameter], *, compared: bool) -> Table:
    scanned = any(not isinstance(p.worst.max_abs, NotAvailable) for p in parameters)
    bad = any(p.bad_ranks for p in parameters)
    differ = compared and any(_differs(p) for p in parameters)
    bad_on = bad and not compared
    columns = [
        Column(text("parameter"), wrap=True),
        Column(text("shape"), spare=True),
        Column("dtype", spare=True),
        Column(text("norm"), right=True, notation=values),
    ]
    columns += [Column(text("least"), right=True, notation=values), Column(text("worst on rank"))] if differ else []
    columns += [Column(text("not finite on rank"))] if bad_on else []
    if scanned:
        columns += [Column("max |g|", right=True, notation=values), Column(text("zeros"), right=True, spare=True)]
    columns += [Column("NaN", right=True), Column("Inf", right=True)] if bad else []

    def row(p: _Parameter) -> list[Inline]:
        shape = "x".join(map(str, p.worst.shape)) or text("scalar")
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

    largest = text("Parameters with the largest gradients")
    caption = text("Parameters: not finite first, then by norm") if bad else largest
    if differ:
        caption = text("{parameters} (greatest and least of all ranks)", parameters=caption)
    elif not compared:
        caption = text("{parameters} (the greatest norm that was read)", parameters=caption)
    shown = min(SHOWN, FEW + sum(bool(p.bad_ranks) for p in parameters)) if bad else SHOWN
    return Table(caption, columns, [row(p) for p in parameters], shown, pgettext("more", "parameters"))


def _differs(p: _Parameter) -> bool:
    some_bad = 0 < len(p.bad_ranks) < p.ranks
    return p.ranks > 1 and (some_bad or p.least is None or p.least != _height(p.norm or 0.0))


def _worst_on(p: _Parameter) -> Inline:
    if not _differs(p):
        return text("same on all")
    return rank_list(p.bad_ranks) if p.bad_ranks else str(p.norm_rank)


def _count(n: int) -> Span:
    return Span(f"{n:,}", "bad" if n else "plain")
