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


def test_a_cell_is_known_by_its_number_but_not_where_two_notebooks_have_one_of_it() -> None:
    def line(kernel: int) -> SourceLine:
        return SourceLine("x", excerpt=Excerpt(f"/tmp/ipykernel_{kernel}/12.py", 11, 11, ("x",), cell=4))

    hang = Finding("hang", "critical", "It hangs", where="In [4], line 11 step")
    one = {"/tmp/ipykernel_7/12.py:11": line(7)}
    assert at_source([hang], one)[0].source == line(7).excerpt
    assert at_source([hang], {**one, "/tmp/ipykernel_8/12.py:11": line(8)})[0].source is None
