"""The language of ``when`` and of the braces in texts: small, and nothing in it is ever run."""

from __future__ import annotations

import pytest
from cases import each

from jupyter_traindbg.diagnose.log.condition import BadCondition, parse, render, wanted
from jupyter_traindbg.diagnose.log.quantities import Quantity, captured

VALUES = {
    "free_bytes": captured("free_bytes", "512.00 MiB"),
    "total_bytes": captured("total_bytes", "80 GiB"),
    "micro": captured("micro", "4"),
    "world_count": captured("world_count", "1,024"),
    "op": "ALLREDUCE",
}


@each(
    ("text", "holds"),
    [
        ("free_bytes < 1 GiB", True),
        ("free_bytes < 100 MiB", False),
        ("free_bytes < 0.5 * total_bytes", True),
        ("total_bytes - free_bytes > 79 GiB", True),
        ("0 < micro <= 4", True),
        ("micro * 2 == 8", True),
        ("world_count % micro == 0", True),
        ("op == 'allreduce'", True),
        ("'reduce' in op", True),
        ("op != 'BROADCAST' and micro > 5", False),
        ("seen:one", True),
        ("not seen:two", True),
        ("seen:two or micro == 4", True),
        ("seen:other_family.three", True),
        ("missing_bytes < 1 GiB", False),
        ("not missing_bytes < 1 GiB", False),  # unknown is neither true nor false
        ("micro / (micro - 4) > 1", False),
        ("op < 3", False),
    ],
)
def test_a_condition_holds_of_the_values_of_a_log(text: str, holds: bool) -> None:
    assert parse(text).holds(VALUES, {"one", "other_family.three"}) is holds


@each(
    "text",
    [
        "__import__('os').system('true')",
        "micro.__class__",
        "values['micro']",
        "[x for x in micro]",
        "lambda: 1",
        "f'{micro}'",
        "micro ** micro",
        "open('x') == 1",
        "seen(micro=1)",
        "micro = 3",
        "free_bytes <",
        "(" * 5000,
    ],
)
def test_what_is_not_in_the_language_is_refused_before_it_is_used(text: str) -> None:
    with pytest.raises(BadCondition):
        parse(text).holds(VALUES)


def test_texts_are_filled_with_the_numbers_of_the_log() -> None:
    assert render("{free_bytes} of {total_bytes} free", VALUES) == "512 MiB of 80 GiB free"
    assert render("{micro} x {world_count} = {micro * world_count}", VALUES) == "4 x 1024 = 4096"
    assert render("{free_bytes / total_bytes}", VALUES) == "0.00625"


def test_a_text_that_needs_what_the_log_does_not_say_is_not_told_and_optional_parts_are_left_out() -> None:
    assert render("asked for {asked_bytes}", VALUES) is None
    assert render("too little memory[[: {asked_bytes} asked]]", VALUES) == "too little memory"
    assert render("too little memory[[: {free_bytes} free]]", VALUES) == "too little memory: 512 MiB free"
    assert wanted("a {free_bytes}[[ b {asked_bytes}]]") == {"free_bytes"}


@each("said", ["{free_bytes}", "{a b}", "[[{x}]]", "{(", "{__import__('os')}", "\\1 \\g<0>"])
def test_what_a_log_says_is_never_read_as_a_formula(said: str) -> None:
    assert render("it says [[{op}]] and {op}", {"op": said}) == f"it says {said} and {said}"


def test_other_braces_stay_as_they_are() -> None:
    assert render('ray needs {"GPU": 1} and ${HOME}', {}) == 'ray needs {"GPU": 1} and ${HOME}'


@each(
    ("name", "text", "value"),
    [
        ("asked_bytes", "4.78 GiB", Quantity(4.78 * 2**30, "bytes")),
        ("rss_bytes", "43230644kB", Quantity(43230644 * 1024.0, "bytes")),
        ("free_bytes", "153012346880", Quantity(153012346880.0, "bytes")),
        ("waited_s", "1800056 milliseconds", Quantity(1800.056, "s")),
        ("waited_ms", "1800056", Quantity(1800.056, "s")),
        ("limit_s", "10 min", Quantity(600.0, "s")),
        ("joined_count", "16,345", Quantity(16345.0, "count")),
        ("budget_bytes", "-24.42 GiB", Quantity(-24.42 * 2**30, "bytes")),
        ("step", "1200", Quantity(1200.0)),
        ("module", "flash_attn", "flash_attn"),
        ("version", "2.1.0", "2.1.0"),
        ("free_bytes", "unknown", "unknown"),
    ],
)
def test_captured_text_becomes_a_number_with_its_unit(name: str, text: str, value: object) -> None:
    assert captured(name, text) == value


@each(
    ("quantity", "said"),
    [
        (Quantity(4.78 * 2**30, "bytes"), "4.78 GiB"),
        (Quantity(512.0, "bytes"), "512 B"),
        (Quantity(90.0, "s"), "90 s"),
        (Quantity(1800.0, "s"), "30 min"),
        (Quantity(7200.0, "s"), "2 h"),
        (Quantity(64.0, "count"), "64"),
        (Quantity(1234567.0), "1234567"),
        (Quantity(2e-5), "2e-05"),
        (Quantity(float("nan")), "nan"),
    ],
)
def test_quantities_are_told_as_people_write_them(quantity: Quantity, said: str) -> None:
    assert str(quantity) == said
