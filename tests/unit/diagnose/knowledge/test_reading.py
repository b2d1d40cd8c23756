"""What a stranger is told who adds an environment variable and gets something wrong."""

from __future__ import annotations

import pytest
from cases import each

from jupyter_traindbg.diagnose.knowledge import reading
from jupyter_traindbg.diagnose.knowledge.checking import BadKnowledge
from jupyter_traindbg.diagnose.knowledge.variable import Variable

RIGHT = """\
[[group]]
reader = "the fan"
alike = "host"
source = "https://example.org/fan#{anchor}"

[group.FAN_SPEED]
en = "how fast it turns"
zh = "转速"
values = '\\d+|MAX'
default = "40"
strict = true

[group.FAN_RPM]
en = "the old name of FAN_SPEED"
zh = "FAN_SPEED 的旧名"
status = "old name"
instead = "FAN_SPEED"
alike = "any"

[group.FAN_BELT]
en = "fans had belts"
zh = "曾有皮带"
status = "dead"
until = "2.0"
instead.en = "leave it out"
instead.zh = "去掉"

[[group]]
reader = "nobody"
status = "folklore"
instead = "FAN_SPEED"

[group.FAN_QUIET]
en = "there is no such variable"
zh = "没有这个变量"
source = "docs/attaching.md"

[[group]]
reader = "the fan"
en = "undocumented"
zh = "未公开"
source = "https://example.org/source"
names = ["FAN_SPEED", "FAN_X", "FAN_*"]
"""


def test_a_file_as_it_should_be() -> None:
    speed, rpm, belt, quiet, x, family = reading.parse(RIGHT, "fan.toml")
    assert speed == Variable(
        "FAN_SPEED",
        "the fan",
        "how fast it turns",
        "转速",
        "https://example.org/fan#fan-speed",
        alike="host",
        values=r"\d+|MAX",
        default="40",
        strict=True,
    )
    assert (rpm.status, rpm.instead_en, rpm.instead_zh, rpm.alike) == ("old name", "FAN_SPEED", "FAN_SPEED", "any")
    assert (belt.until, belt.instead_en, belt.instead_zh) == ("2.0", "leave it out", "去掉")
    assert (quiet.reader, quiet.status, quiet.source) == ("nobody", "folklore", "docs/attaching.md")
    assert [v.name for v in (x, family)] == ["FAN_X", "FAN_*"]
    assert (x.en, x.source, x.alike) == ("undocumented", "https://example.org/source", "any")


@each(
    ("old", "new", "told"),
    [
        ("[group.FAN_SPEED]", "[group.FAN_SPEED", "this is no TOML"),
        ("[group.FAN_RPM]", "[group.FAN_SPEED]", "this is no TOML"),
        ("[group.FAN_RPM]", "[FAN_RPM]", "unknown key 'FAN_RPM'; known are group"),
        ("[group.FAN_QUIET]", "[group.FAN_SPEED]", "FAN_SPEED: is in this file twice"),
        ("[group.FAN_RPM]", '[group."FAN RPM"]', "FAN RPM: 'FAN RPM' is no name of a variable"),
        ('"FAN_X"', '"FAN_*"', "FAN_*: is in this file twice"),
        ('"FAN_X"', '"FAN=X"', "[[group]] 3: 'FAN=X' is no name of a variable"),
        ('["FAN_SPEED", "FAN_X", "FAN_*"]', "[1]", "[[group]] 3: names: has to be a list of texts"),
        ("strict = true", "strickt = true", "FAN_SPEED: unknown key 'strickt'; did you mean 'strict'?"),
        ("strict = true", 'names = ["FAN_Y"]', "FAN_SPEED: unknown key 'names'; known are reader"),
        ('alike = "host"', 'alik = "host"', "[[group]] 1: unknown key 'alik'; did you mean 'alike'?"),
        ("strict = true", 'strict = "yes"', "FAN_SPEED: strict: has to be true or false"),
        ('alike = "any"', 'alike = "node"', "FAN_RPM: alike: 'node' is none of job, host, rank, any"),
        ('status = "old name"', 'status = "old"', "FAN_RPM: status: 'old' is none of real, old name, dead, folklore"),
        ('zh = "转速"\n', "", "FAN_SPEED: 'zh' is missing"),
        ('zh = "转速"', 'zh = ""', "FAN_SPEED: 'zh' is missing"),
        ('en = "how fast it turns"\n', "", "FAN_SPEED: 'en' is missing"),
        ('source = "docs/attaching.md"\n', "", "FAN_QUIET: 'source' is missing"),
        ('reader = "nobody"\n', "", "FAN_QUIET: 'reader' is missing"),
        ("https://example.org/fan", "http://example.org/fan", "FAN_BELT: source: 'http://example.org/fan#fan-belt' does"),
        ('reader = "nobody"', 'reader = "the fan"', "FAN_QUIET: status: \"folklore\" and reader = \"nobody\" go together"),
        ('status = "folklore"\n', "", "FAN_QUIET: status: \"folklore\" and reader = \"nobody\" go together"),
        ('until = "2.0"\n', "", "FAN_BELT: until: the first version that does not read it"),
        ('until = "2.0"', "until = 2.0", "FAN_BELT: until: has to be a text, not float"),
        ("strict = true", 'until = "2.0"', "FAN_SPEED: until: the first version that does not read it"),
        ('status = "old name"\ninstead = "FAN_SPEED"', 'status = "old name"', "FAN_RPM: 'instead' is missing"),
        ('instead.zh = "去掉"\n', "", "FAN_BELT: instead: has to be {en"),
        (r"'\d+|MAX'", r"'(\d+|MAX'", "FAN_SPEED: values: cannot be compiled"),
        ('default = "40"', 'default = "slow"', r"FAN_SPEED: default: 'slow' is none of the values, \d+|MAX"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_file_and_variable(old: str, new: str, told: str) -> None:
    assert old in RIGHT
    with pytest.raises(BadKnowledge) as caught:
        reading.parse(RIGHT.replace(old, new, 1), "fan.toml")
    assert told in str(caught.value)
    assert all(line.startswith("fan.toml: ") for line in str(caught.value).splitlines())


@each("text", ["[group.FAN_SPEED]", "group = [1]"])
def test_groups_that_are_no_list_of_tables_are_told(text: str) -> None:
    with pytest.raises(BadKnowledge, match=r"fan.toml: group: has to be written \[\[group\]\]"):
        reading.parse(text, "fan.toml")


def test_all_that_is_wrong_is_told_at_once_and_each_thing_once() -> None:
    text = RIGHT.replace('zh = "未公开"\n', "").replace("strict = true", "strict = 1")
    with pytest.raises(BadKnowledge) as caught:
        reading.parse(text, "fan.toml")
    assert str(caught.value).splitlines() == [
        "fan.toml: FAN_SPEED: strict: has to be true or false",
        "fan.toml: [[group]] 3: 'zh' is missing",
    ]


def test_no_two_files_have_the_same_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Variable("FAN_SPEED", "the fan", "how fast", "转速", "https://example.org")
    monkeypatch.setattr(reading, "files", lambda: {"fan": (row,), "pump": (row,)})
    with pytest.raises(BadKnowledge, match=r"pump.toml: FAN_SPEED: is in another file, too"):
        reading.variables.__wrapped__()
