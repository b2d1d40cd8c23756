"""The numbers of a column are written alike, and never as what they are not."""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from cases import each
from render_scenes import LARGE, SMALL

from jupyter_traindbg.model import NotAvailable, Result
from jupyter_traindbg.render import notations
from jupyter_traindbg.render.blocks import Column, Inline, Notation, Span, Table, spans
from jupyter_traindbg.render.columns import alike, uniform
from jupyter_traindbg.render.common import DASH, measured, setting, value
from jupyter_traindbg.render.document import document
from jupyter_traindbg.render.units import percent, size
from jupyter_traindbg.words.durations import duration

KIB, MIB, GIB = 1024, 1024**2, 1024**3
DAY_S, HOUR_S = 86400.0, 3600.0
LINKS = notations.unit_of(((1.0, "Mbit/s"), (1000.0, "Gbit/s")))


def written(notation: Notation, numbers: Sequence[float]) -> list[str]:
    write = notation(numbers)
    return [write(number) for number in numbers]


# --- what each reads like ----------------------------------------------------------------------------------------------


@each(
    ("numbers", "words"),
    [([2.31 * GIB, 0.44 * GIB, 2 * MIB, 0], ["2.310 GiB", "0.440 GiB", "0.002 GiB", "0"]),
     ([3 * GIB, 70 * GIB], ["3 GiB", "70 GiB"]), ([1.5 * GIB, 12.25 * GIB], ["1.50 GiB", "12.25 GiB"]),
     ([820 * MIB, 40 * KIB], ["820.00 MiB", "0.04 MiB"]), ([2 * GIB, 200 * KIB], ["2048.0 MiB", "0.2 MiB"]),
     ([80 * GIB, 40.3 * GIB, 5], ["80.0 GiB", "40.3 GiB", "<0.1 GiB"]), ([12, 1000], ["12 B", "1000 B"]),
     ([1000 * MIB, 500 * MIB], ["1000 MiB", "500 MiB"]), ([GIB - 1, 2 * GIB], ["1 GiB", "2 GiB"]),
     ([-2 * MIB, 2], ["-2048.000 KiB", "0.002 KiB"]), ([-1, 80 * GIB], [">-1 GiB", "80 GiB"])],
)  # fmt: skip
def test_sizes(numbers: list[float], words: list[str]) -> None:
    assert written(notations.sizes, numbers) == words


@each(
    ("numbers", "words"),
    [([850e-6, 12.3e-3, 1.25], ["0.001 s", "0.012 s", "1.250 s"]), ([20e-6, 300e-6], ["20 µs", "300 µs"]),
     ([0.4, 2.5, 9.0], ["0.4 s", "2.5 s", "9.0 s"]), ([2e-4, 30.0, 0.0], ["0.2 ms", "30000.0 ms", "0"]),
     ([125.0, 1.25], ["125.00 s", "1.25 s"]), ([700.0, 12.0, 0.2], ["11 min 40 s", "12 s", "<1 s"]),
     ([4000.0, 31.0], ["66 min 40 s", "31 s"]), ([3 * HOUR_S + 300, 2700.0, 0.0], ["3 h 05 min", "45 min", "0"]),
     ([3 * DAY_S, 8000.0, 10.0], ["72 h 00 min", "2 h 13 min", "<1 min"]), ([99 * DAY_S, 2 * DAY_S], ["99 d 00 h", "2 d 00 h"]),
     ([-700.0, -0.1, 60.0], ["-11 min 40 s", ">-1 s", "1 min 00 s"])],
)  # fmt: skip
def test_durations(numbers: list[float], words: list[str]) -> None:
    assert written(notations.durations, numbers) == words


@each(
    ("numbers", "words"),
    [([12.3, 60.0, 0.2, 0.0], ["12 s", "60 s", "<1 s", "0"]), ([4000.0, 31.4], ["66 min 40 s", "31 s"])],
)
def test_ages(numbers: list[float], words: list[str]) -> None:
    assert written(notations.ages, numbers) == words


@each(
    ("numbers", "words", "printed"),
    [([0.13, 12.3, 0.0], ["0.1300", "12.3000", "0"], ["0.1300", "12.3000", "0"]),
     ([3.2, 12.345], ["3.200", "12.345"], ["3.2000", "12.3450"]), ([1204.0, 15.5], ["1204.00", "15.50"], ["1204.0000", "15.5000"]),
     ([0.00601, 0.01752], ["0.00601", "0.01752"], ["0.0060", "0.0175"]),
     ([0.001, -9999.0], ["0.00100", "-9999.00000"], ["0.0010", "-9999.0000"]),
     ([0.13, 3.2e-5, 0.0], ["1.3e-1", "3.2e-5", "0"], ["1.3e-1", "3.2e-5", "0"]),
     ([3.4012, 3.2e38], ["3.401e+0", "3.200e+38"], ["3.401e+0", "3.200e+38"])],
)  # fmt: skip
def test_values(numbers: list[float], words: list[str], printed: list[str]) -> None:
    assert written(notations.values, numbers) == words
    assert written(notations.printouts, numbers) == printed


@each(
    ("numbers", "words"),
    [([1e-4, 3e-4, 0.001], ["1e-4", "3e-4", "1e-3"]), ([0.1, 0.05, 0.0], ["0.10", "0.05", "0"]), ([0.1, 1e-3], ["1e-1", "1e-3"]),
     ([2.9994e-4, 1e-4], ["2.999e-4", "1.000e-4"]), ([2.99991e-4, 3e-4], ["2.9999e-4", "3.0000e-4"]),
     ([3e-4, 0.00030000000000000003, 1e-5], ["3e-4", "3e-4", "1e-5"]), ([12345.0, 1.0], ["12345", "1"]), ([1e5, 1.0], ["1e+5", "1e+0"])],
)  # fmt: skip
def test_settings(numbers: list[float], words: list[str]) -> None:
    assert written(notations.settings, numbers) == words


@each(
    ("numbers", "words"),
    [([9876, 12, 0], ["9,876", "12", "0"]), ([124_000_000, 121_344], ["124.00 M", "0.12 M"]), ([70 * 10**9, 7 * 10**9], ["70 G", "7 G"]),
     ([124_000_000, 96, 0], ["124,000,000", "96", "0"])],
)  # fmt: skip
def test_counts(numbers: list[int], words: list[str]) -> None:
    assert written(notations.counts, numbers) == words


def test_shares_and_units_of_ones_own() -> None:
    assert written(notations.shares, [0.0, 0.001, 0.42, 0.999]) == ["0 %", "<1 %", "42 %", ">99 %"]
    assert written(LINKS, [100, 25_000]) == ["0.1 Gbit/s", "25.0 Gbit/s"]
    assert written(notations.sizes_per_s, [GIB, 1.5 * GIB]) == ["1.0 GiB/s", "1.5 GiB/s"]


# --- of any numbers ----------------------------------------------------------------------------------------------------

ANY = [
    notations.sizes,
    notations.sizes_per_s,
    notations.durations,
    notations.ages,
    notations.values,
    notations.printouts,
    notations.settings,
    LINKS,
]
EXTREME = (0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1.0, 1023.5, 59.95, 599.99, 600.0, 0.0005, 9999.5)
PARTS_S = {"d": DAY_S, "h": HOUR_S, "min": 60.0, "s": 1.0}


def any_numbers(chance: random.Random) -> list[float]:
    """Some that are near one another, or far apart, or at the limits."""
    middle, breadth = chance.uniform(-12, 12), chance.choice((0.5, 2, 6, 20))
    spread = [
        chance.choice((1, 1, 1, -1)) * 10 ** chance.uniform(middle - breadth, middle + breadth)
        for _ in range(chance.randint(1, 8))
    ]
    return spread + chance.sample(EXTREME, chance.choice((0, 0, 1, 3)))


def read(words: str) -> float:
    """What a reader takes `words` for; all of one column are in one unit, or in parts of a time."""
    parts = re.findall(r"(\d+) (d|h|min|s)(?= |$)", words)
    if len(parts) > 1 or (parts and parts[0][1] != "s"):
        number = sum(float(n) * PARTS_S[unit] for n, unit in parts)
    else:
        found = re.match(r"[<>-]*(\d[\d.]*(?:e[+-]\d+)?)", words)
        assert found, words
        number = float(found[1])
    if words[0] in "<>":
        number /= 2
    return -number if "-" in words[:2] else number


@each("notation", ANY, ids=lambda notation: getattr(notation, "__name__", "unit"))
def test_of_any_numbers_none_reads_as_zero_and_all_are_in_order(notation: Notation) -> None:
    chance = random.Random(2026)
    for _ in range(300):
        numbers = sorted(any_numbers(chance))
        words = written(notation, numbers)
        for number, said in zip(numbers, words, strict=True):
            assert (said == "0") == (number == 0)
            assert number == 0 or re.search("[1-9]", said), (numbers, said)
        seen = [read(said) for said in words]
        assert seen == sorted(seen), (numbers, words)


@each("notation", [notations.sizes, notations.durations, notations.ages])
def test_what_can_be_read_takes_little_room(notation: Notation) -> None:
    chance = random.Random(7)
    for _ in range(500):
        numbers = [10 ** chance.uniform(-6, 7) for _ in range(5)]
        assert max(map(len, written(notation, numbers))) <= len("99999.999 MiB")


# --- in a table --------------------------------------------------------------------------------------------------------


def told(inline: Inline) -> str:
    return "".join(span.text for span in spans(inline))


def test_cells_know_their_number() -> None:
    assert measured(1536, size) == Span("1.5 KiB", value=1536)
    assert measured("eth0", str).value is None
    assert measured(NotAvailable("asleep"), size) == Span("–", "muted", why="asleep")
    assert (value(0.5).value, setting(3e-4).value, value(None)) == (0.5, 3e-4, DASH)


@each(
    ("cells", "words"),
    [([measured(GIB, size), measured(512 * MIB, size), DASH], ["1.0 GiB", "0.5 GiB", "–"]),
     ([measured(512 * MIB, size), measured(512 * MIB, size)], ["512 MiB", "512 MiB"]),
     ([measured(GIB, size), measured(math.nan, size), measured(math.inf, size)], ["1 GiB", "NaN", "Inf"]),
     ([[measured(GIB, size), " → ", measured(512 * MIB, size)], "not asked"], ["1.0 GiB → 0.5 GiB", "not asked"]),
     (["-"], ["-"]), ([], [])],
)  # fmt: skip
def test_one_notation_where_there_are_several_numbers(cells: list[Inline], words: list[str]) -> None:
    assert [told(cell) for cell in alike(cells, notations.sizes)] == words


def test_only_columns_with_a_notation_are_written_anew() -> None:
    rows = [
        ["a", measured(1.25, duration), measured(1.25, duration)],
        ["b", measured(0.01, duration), measured(0.01, duration)],
    ]
    table = Table("", [Column("name"), Column("one"), Column("other", notation=notations.durations)], rows)
    assert [[told(cell) for cell in row] for row in uniform(table).rows] == [
        ["a", "1.25 s", "1.25 s"],
        ["b", "10 ms", "0.01 s"],
    ]
    assert uniform(Table("", table.columns, [])).rows == []


# --- in every view -----------------------------------------------------------------------------------------------------

FIGURE = re.compile(r"[<>]?-?(\d[\d,]*(?:\.(\d+))?(e[+-]?\d+)?)(?: (\S+))?")
SCALED = {
    "B",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "µs",
    "ms",
    "s",
    "min",
    "h",
    "d",
    "M",
    "G",
    "Mbit/s",
    "Gbit/s",
    "MiB/s",
    "GiB/s",
}
BY_ROW = ("Latest values",)
"""Captions of tables whose rows are of different kinds: there each row is in one notation."""
BY_HAND = ("Workers, those that are alike in one row",)
"""Tables with columns of ranges, written in one notation by their view."""

every_scene = each("result", [*SMALL.values(), *LARGE.values()], ids=[*SMALL, *(f"large {name}" for name in LARGE)])


def tables(block: Any) -> Iterator[Table]:
    if isinstance(block, Table):
        yield block
    elif dataclasses.is_dataclass(block):
        for field in dataclasses.fields(block):
            yield from tables(getattr(block, field.name))
    elif isinstance(block, (list, tuple)):
        for part in block:
            yield from tables(part)


def figures(cell: Inline) -> list[re.Match[str]]:
    """The numbers of a cell that is nothing but numbers, with their decimals and units; not zero, which has none."""
    found = [FIGURE.fullmatch(part) for part in re.split(" → | – ", told(cell))]
    return [f for f in found if f and float(f[1].replace(",", ""))] if all(found) else []


def compared(table: Table) -> Iterator[tuple[str, Column | None, list[Inline]]]:
    """What is read beside one another: its name, where it is a column this, and its cells."""
    if told(table.caption).startswith(BY_ROW):
        yield from ((told(row[0]), None, list(row[1:])) for row in table.rows)
    else:
        columns = enumerate(table.columns[1:], 1)
        yield from ((c.name, c, [row[i] for row in table.rows]) for i, c in columns if c.right)


@every_scene
def test_numbers_that_are_compared_have_one_unit_and_the_same_decimals(result: Result) -> None:
    for table in tables(list(document(result))):
        for name, _, cells in compared(uniform(table)):
            kinds = {(len(f[2] or ""), bool(f[3]), f[4]) for cell in cells for f in figures(cell)}
            assert len(kinds) <= 1, f"{told(table.caption)}, {name}: {kinds}"


@every_scene
def test_columns_of_measured_numbers_have_a_notation_and_are_sorted_by_value(result: Result) -> None:
    for table in tables(list(document(result))):
        for name, column, cells in compared(table):
            measures = [cell for cell in cells for f in figures(cell) if f[2] or f[3] or f[4] in SCALED]
            where = f"{told(table.caption)}, {name}"
            assert all(any(span.value is not None for span in spans(cell)) for cell in measures), where
            by_hand = column is None or told(table.caption).startswith(BY_HAND)
            assert not measures or by_hand or column.notation is not None, where


def test_percentages_are_sorted_by_value() -> None:
    assert measured(0.004, percent) == Span("<1 %", value=0.004)
