"""Gradient norms by parameter or module, in the order of the model: what is not finite is crossed, what has no gradient is said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import NoTarget
from ..language import counted, text
from ..model import FirstNonFinite, Grads, GradStat, NotAvailable, RankGrads
from ..render.grouping import group_by
from ..render.units import number as short
from ..render.units import steady
from ..step_numbers import read_after, step_words
from ..words.ranks import ranks_words
from . import inks
from .bars import HATCH, key
from .canvas import WIDTH_IN, new_figure
from .fitted import elided, width
from .grad_rows import Row, Rows, rows_of
from .told import Told

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "tell"]

ROW_IN, EDGE_IN, AXIS_IN, LEGEND_IN = 0.22, 0.1, 0.4, 0.3
"""Heights: of a bar with its distance, of what is round them all, of the axis with its words, of the legend."""
DIFFER = 1.01
"""Ranks whose norms are so many times apart are shown to differ."""
DECADES = 9
"""Smaller ones than this below the largest have no bar, but their number."""
EXTREME = 300
"""No axis goes beyond 1e300, or below 1e-300: a float does not."""
LABEL = 38
CHARACTER_IN = 0.065
"""The width of a column of words."""


def tell(grads: Grads) -> Told:
    """Raises `NoTarget` where no gradients were read."""
    rows = _rows(grads)
    words = [
        _answer(rows, grads.ranks),
        *_first(grads.ranks),
        *_extremes(rows.rows),
        *_absent(rows.rows),
        *_ranks(grads),
    ]
    words += [_grouped(rows)] * bool(rows.grouped)
    noted = group_by((rank for rank in grads.ranks if rank.note), lambda rank: rank.note)
    words += [f"{ranks_words([rank.rank for rank in same])}: {same[0].note}" for same in noted]
    who, when = ranks_words([rank.rank for rank in grads.ranks]), _when(grads.ranks)
    return Told(text("gradients of {who} · {when}", who=who, when=when), words)


def draw(grads: Grads) -> Figure:
    rows = _rows(grads)
    normed, differ = bool(_norms(rows)), any(_differs(row) for row in rows.rows)
    figure = new_figure(EDGE_IN + ROW_IN * (len(rows.rows) + 0.2) + AXIS_IN * normed + LEGEND_IN * differ)
    axes = figure.subplots()
    several = len(grads.ranks) > 1
    _axis(axes, rows, several=several)
    for place, row in enumerate(rows.rows):
        _draw_row(axes, place, row, several=several)
    axes.set_yticks(range(len(rows.rows)), [elided(row.label, LABEL) for row in rows.rows], color=inks.INK)
    axes.set_ylim(len(rows.rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    if differ:
        _legend(figure, len(grads.ranks))
    return figure


def _rows(grads: Grads) -> Rows:
    rows = rows_of(grads.ranks)
    if not rows.rows:
        reasons = dict.fromkeys(rank.note or rank.at for rank in grads.ranks)
        raise NoTarget(
            text(
                "no gradients were read: {why}",
                why=text("; ").join(filter(None, reasons)) or text("no rank answered"),
            ),
            text("`%grads` shows what there is"),
        )
    return rows


# --- in words --------------------------------------------------------------------------------------------------------


def _when(ranks: Sequence[RankGrads]) -> str:
    numbers = [rank.number for rank in ranks if rank.safe_point and rank.passes is None and rank.number is not None]
    if len(numbers) == len(ranks):
        words = step_words(*numbers)
        return text("after {words}", words=words)
    moments = dict.fromkeys(read_after(rank) for rank in ranks)
    return next(iter(moments)) if len(moments) == 1 else text("read at different moments")


def _answer(rows: Rows, ranks: Sequence[RankGrads]) -> str:
    existing = rows.existing
    if rows.bad:
        name, wrong = next(iter(rows.bad.items()))
        words = _bad_words(wrong, several=len(ranks) > 1)
        return counted(
            "{count:,} of {n:,} gradient not finite, first {name}: {words}",
            "{count:,} of {n:,} gradients not finite, first {name}: {words}",
            existing,
            count=len(rows.bad),
            name=name,
            words=words,
        )
    if not existing:
        count = sum(len(row.names) for row in rows.rows)
        return counted(
            "none of {n:,} parameter has a gradient now", "none of {n:,} parameters has a gradient now", count
        )
    return counted("all {n:,} gradient finite", "all {n:,} gradients finite", existing) + _total(ranks)


def _total(ranks: Sequence[RankGrads]) -> str:
    totals = [(rank.total_norm, rank.rank) for rank in ranks if not isinstance(rank.total_norm, NotAvailable)]
    if not totals:
        return ""
    (least, least_rank), (most, most_rank) = min(totals), max(totals)
    before = text(" before any clipping") if all(rank.passes is not None for rank in ranks) else ""
    if most <= DIFFER * least:
        return text(", norm {steady}{before}", steady=steady(most), before=before)
    return text(
        ", norm {steady} (rank {least_rank}) to {steady2} (rank {most_rank}){before}",
        steady=steady(least),
        least_rank=least_rank,
        steady2=steady(most),
        most_rank=most_rank,
        before=before,
    )


def _bad_words(bad: Sequence[tuple[int, GradStat]], *, several: bool) -> str:
    """``NaN in 24,000 elements, Inf in 12 · rank 2``."""
    nan, inf = sum(g.nan_count for _, g in bad), sum(g.inf_count for _, g in bad)
    counts = [f"{count:,} {what}" for count, what in ((nan, "NaN"), (inf, "Inf")) if count]
    words = ", ".join(counts) or text("its norm is not finite")
    return f"{words} · {ranks_words([rank for rank, _ in bad])}" if several else words


def _first(ranks: Sequence[RankGrads]) -> Iterator[str]:
    found = [(rank.rank, rank.first) for rank in ranks if rank.first is not None and rank.first.module is not None]
    for same in group_by(found, lambda one: (one[1].module, one[1].kind)):
        first: FirstNonFinite = same[0][1]
        who, module = ranks_words([rank for rank, _ in same]), first.module or text("the model")
        yield text(
            "{who}: the first output that is not finite came from {module} ({kind})",
            who=who,
            module=module,
            kind=first.kind,
        )


def _extremes(rows: Sequence[Row]) -> Iterator[str]:
    normed = [(row.norm, row.label) for row in rows if row.norm]
    if len(normed) > 1:
        (least, smallest), (most, largest) = min(normed), max(normed)
        yield text(
            "largest {largest} {steady}, smallest {smallest} {steady2}",
            largest=largest,
            steady=steady(most),
            smallest=smallest,
            steady2=steady(least),
        )


def _absent(rows: Sequence[Row]) -> Iterator[str]:
    zero = [row.label for row in rows if row.norm == 0]
    frozen = sum(row.frozen for row in rows)
    without = sum(row.without for row in rows) - frozen
    if zero:
        yield text("all zeros: {some}", some=_some(zero))
    if without:
        yield counted("{n:,} parameter without a gradient", "{n:,} parameters without a gradient", without)
    if frozen:
        yield counted("{n:,} parameter frozen", "{n:,} parameters frozen", frozen)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f", ... ({len(names)})" if len(names) > 3 else "")


def _ranks(grads: Grads) -> Iterator[str]:
    if len(grads.ranks) > 1 and grads.same_step is not True:
        yield text("the ranks were not, or are not known to be, read after the same step")


def _grouped(rows: Rows) -> str:
    count = sum(len(row.names) for row in rows.rows)
    return text(
        "{grouped} ({count:,} parameters in {count2} bars): the root of the sum of the squares of its norms",
        grouped=rows.grouped,
        count=count,
        count2=len(rows.rows),
    )


# --- drawing ---------------------------------------------------------------------------------------------------------


def _axis(axes: Axes, rows: Rows, *, several: bool) -> None:
    """Logarithmic, from below the smallest norm to where the words behind each bar have room."""
    norms = _norms(rows)
    what = text("norm of the gradient (L2), log scale")
    if not norms:
        axes.set_xlim(0, 1)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        return
    greatest = max(norms)
    low = max(-EXTREME, math.floor(math.log10(max(min(norms), greatest / 10**DECADES)) - 0.2))
    labels = max(width(elided(row.label, LABEL)) for row in rows.rows)
    width_in = WIDTH_IN - 0.4 - CHARACTER_IN * labels
    span = max(1.0, *(_needed(row, low, width_in, several=several) for row in rows.rows))
    axes.set_xscale("log")
    axes.set_xlim(10.0**low, 10.0 ** min(EXTREME, low + span))
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.tick_params(axis="x", which="minor", length=0)
    axes.set_xlabel(f"{what} · {rows.grouped}" if rows.grouped else what, loc="left", fontsize=8)


def _norms(rows: Rows) -> list[float]:
    """Those that a logarithmic axis knows."""
    return [norm for row in rows.rows for norm in row.norms if norm > 0]


def _needed(row: Row, low: float, width_in: float, *, several: bool) -> float:
    """Decades that an axis of `width_in` must have for the bar of `row` and its words."""
    norm = max(row.norms, default=0.0)
    wide = (width("".join(_beside(row, several=several))) + 5) * CHARACTER_IN
    return max(0.0, math.log10(norm) - low if norm else 0.0) / max(0.2, 1 - wide / width_in)


def _draw_row(axes: Axes, place: int, row: Row, *, several: bool) -> None:
    start = axes.get_xlim()[0]
    end = start
    if row.norm is not None and row.norm > start:
        axes.barh(place, row.norm - start, left=start, height=0.62, color=inks.SERIES[0])
        end = row.norm
    if _differs(row) and max(row.norms) > start:
        least, end = max(min(row.norms), start), max(row.norms)
        axes.plot([least, end], [place, place], color=inks.INK, linewidth=1, marker="|", markersize=6)
    if row.norm is None and not row.bad:
        axes.barh(
            place,
            0.02,
            height=0.62,
            transform=axes.get_yaxis_transform(),
            facecolor="none",
            edgecolor=inks.FAINT,
            hatch=HATCH,
            linewidth=0.6,
        )
    _write(axes, (end, place), row, several=several)


def _write(axes: Axes, at: tuple[float, float], row: Row, *, several: bool) -> None:
    """Behind the bar: a cross where it is not finite, and the words."""
    figures, bad = _beside(row, several=several)
    absent = row.norm is None and not row.bad
    shift = 22 if absent else 5
    if bad:
        axes.annotate("✕", at, xytext=(shift, 0), textcoords="offset points", va="center", color=inks.BAD)
        shift += 12
    words = " · ".join(filter(None, (bad, figures)))
    colour = inks.BAD if bad else inks.FAINT if absent else inks.INK
    axes.annotate(words, at, xytext=(shift, 0), textcoords="offset points", va="center", fontsize=8, color=colour)


def _beside(row: Row, *, several: bool) -> tuple[str, str]:
    """What stands behind a bar: its figures, and what is not finite."""
    figures = ["" if row.norm is None else short(row.norm) if row.norm else text("0, all zeros")]
    for count, what in ((row.without - row.frozen, text("without a gradient")), (row.frozen, text("frozen"))):
        if count:
            of = "" if len(row.names) == 1 else text("{count} of {count2} ", count=count, count2=len(row.names))
            figures.append(of + what)
    words = _bad_words(row.bad, several=several) if row.bad else ""
    return " · ".join(filter(None, figures)), words


def _differs(row: Row) -> bool:
    return len(row.norms) > 1 and max(row.norms) > DIFFER * min(row.norms)


def _legend(figure: Figure, ranks: int) -> None:
    """Only where ranks differ: else a bar is what it looks like."""
    from matplotlib.lines import Line2D

    label = text("least to greatest")
    line = Line2D([], [], color=inks.INK, linewidth=1, marker="|", markersize=6, label=label)
    bar = key(inks.SERIES[0], text("median of {ranks} ranks", ranks=ranks))
    figure.legend(handles=[bar, line], loc="outside upper right", ncols=2)
