"""What a stranger is told who adds a family and gets something wrong."""

from __future__ import annotations

import pytest
from cases import each

from jupyter_traindbg.diagnose.log.knowledge import BadKnowledge, parse
from jupyter_traindbg.diagnose.log.schema import examples_that_fail

RIGHT = """\
code = "fan_stopped"
severity = "critical"
title = {en = "The fan stopped[[ at {speed} rpm]]", zh = "风扇停转[[，{speed} rpm]]"}
about = {en = "The GPU's fan stands still.", zh = "GPU 风扇停转。"}
explains = ["nccl_timeout"]

[[signal]]
id = "driver"
anchor = ["fan speed below"]
regex = '''below (?P<speed>\\d+) rpm'''
role = "root"
weight = 0.9
example = "GPU 3: fan speed below 40 rpm"

[[refute]]
id = "passive"
anchor = ["passively cooled"]
of = ["driver"]
example = "GPU 3 is passively cooled"

[[cause]]
id = "dust"
when = ["speed < 100", "seen:driver"]
text = {en = "At {speed} rpm it is blocked.", zh = "{speed} rpm，被堵住了。"}
steps = [{en = "Clean it.", zh = "清理。"}]
confidence = "high"

[[cause]]
id = "other"
when = []
text = {en = "It is not known why.", zh = "原因未知。"}
steps = [{en = "Look.", zh = "查看。"}]
confidence = "low"

[[guide]]
guide = "003"
entry = "hot GPUs"
truth = {en = "Holds.", zh = "正确。"}

[[source]]
url = "https://example.org/fans"
about = "fans"
"""


def test_a_family_as_it_should_be() -> None:
    family = parse(RIGHT, "fan_stopped.toml")
    assert (family.code, family.severity, family.explains) == ("fan_stopped", "critical", ("nccl_timeout",))
    assert [s.id for s in family.signals] == ["driver"]
    assert family.refutes[0].of == ("driver",)
    assert [e.text for e in family.causes[0].when] == ["speed < 100", "seen:driver"]
    assert examples_that_fail(family) == []


@each(
    ("old", "new", "told"),
    [
        ('code = "fan_stopped"', 'code = "fan"', "code: 'fan' has to be the name of the file"),
        ('severity = "critical"', 'severity = "fatal"', "severity: 'fatal' is none of critical, warning, info"),
        ("explains =", "explain =", "unknown key 'explain'; did you mean 'explains'?"),
        ("[[signal]]", "[[signals]]", "unknown key 'signals'; did you mean 'signal'?"),
        (', zh = "GPU 风扇停转。"', "", "about: has to be {en"),
        (
            "The fan stopped[[ at {speed} rpm]]",
            "The fan stopped at {speed} rpm",
            "title: has to be usable with every log",
        ),
        ('role = "root"', 'role = "cause"', "[[signal]] driver: role: 'cause' is none of root, symptom, wrapper, hint"),
        ('role = "root"', 'role = "hint"', "there is none that could show this failure: all are hints"),
        ("weight = 0.9", "weight = 9", "[[signal]] driver: weight: 9 is not between 0 and 1"),
        ('"fan speed below"', '"fa"', "the anchor 'fa' is too short"),
        ('anchor = ["fan speed below"]\n', "", "[[signal]] driver: has to have either 'anchor'"),
        ("(?P<speed>", "(?P<speed", "[[signal]] driver: regex: cannot be compiled"),
        ('example = "GPU 3: fan speed below 40 rpm"', "", "[[signal]] driver: 'example' is missing"),
        ('of = ["driver"]', 'of = ["drivers"]', "[[refute]] passive: of: there is no signal 'drivers'"),
        ('"speed < 100"', '"speed < "', "'speed < ' is no condition"),
        ('"speed < 100"', '"open(speed)"', "has a Call; allowed are"),
        ('"speed < 100"', '"rpm < 100"', "'rpm' is captured by no regex in this file"),
        ('"seen:driver"', '"seen:drivers"', "seen:drivers: there is no such signal"),
        ("At {speed} rpm", "At {rpm} rpm", "a text uses {rpm}, which no regex in this file captures"),
        ("when = []", 'when = ["speed > 5"]', "[[cause]] other: the last one has to hold always"),
        ('confidence = "low"', 'confidence = "little"', "confidence: 'little' is none of"),
        ('steps = [{en = "Look.", zh = "查看。"}]', "steps = []", "[[cause]] other: steps: has to be a list"),
        ('guide = "003"', 'guide = "3"', "guide '3' has to be one of 000 to 004"),
        ("https://example.org", "http://example.org", "does not begin with https://"),
        ("weight = 0.9", 'weight = 0.9\nblame = "nobody"', "blame: has to be true or false"),
        ('id = "other"', 'id = "The other"', ""),
        ("[[cause]]", "[[cause]", "this is no TOML"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_key(old: str, new: str, told: str) -> None:
    assert old in RIGHT
    if not told:  # only ids of signals are asked for by others
        parse(RIGHT.replace(old, new), "fan_stopped.toml")
        return
    with pytest.raises(BadKnowledge) as caught:
        parse(RIGHT.replace(old, new), "fan_stopped.toml")
    assert told in str(caught.value)
    assert all(line.startswith("fan_stopped.toml: ") for line in str(caught.value).splitlines())


def test_all_that_is_wrong_is_told_at_once() -> None:
    text = RIGHT.replace('severity = "critical"', 'severity = "bad"').replace("weight = 0.9", "weight = 9")
    with pytest.raises(BadKnowledge) as caught:
        parse(text, "fan_stopped.toml")
    assert len(str(caught.value).splitlines()) == 2


def test_an_example_that_does_not_match_is_told() -> None:
    family = parse(RIGHT.replace("below 40 rpm", "below forty rpm"), "fan_stopped.toml")
    assert "driver: its example does not match" in examples_that_fail(family)[0]
