"""The blamed line beside the verdict."""

from __future__ import annotations

from jupyter_traindbg.diagnose.at_source import at_source
from jupyter_traindbg.model import Excerpt, Finding, SourceLine


def test_a_finding_gets_the_lines_of_its_place_and_no_other() -> None:
    excerpt = Excerpt("/home/ada/my train.py", 7, 6, ("x = 1", "y = 2"))
    sources = {"/home/ada/my train.py:7": SourceLine("y = 2", excerpt=excerpt), "/home/ada/a.py:1": SourceLine("pass")}
    places = [
        "/home/ada/my train.py:7 step",
        "/home/ada/my train.py:8 step",
        "/home/ada/a.py:1 <lambda>",
        None,
        "elsewhere",
    ]
    found = at_source([Finding("hang", "critical", "It hangs", where=place) for place in places], sources)
    assert [finding.source for finding in found] == [excerpt, None, None, None, None]
    assert [finding.where for finding in found] == places
