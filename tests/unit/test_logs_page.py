"""docs/logs.md: its example of a family is one that works, and its links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import each
from support import REPO

from jupyter_traindbg.diagnose import log as rules
from jupyter_traindbg.diagnose.log import knowledge
from jupyter_traindbg.diagnose.log.family import Family
from jupyter_traindbg.model import Finding
from jupyter_traindbg.outside import logs

PAGE = REPO / "docs" / "logs.md"
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def example() -> Family:
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return knowledge.parse(toml, "scratch_quota.toml")


@pytest.mark.parametrize(
    ("used", "told"),
    [("1240 GiB", "740 GiB too much: cleaning up will not do"), ("612 GiB", "The quota is used up: 612 GiB of 500")],
)
def test_the_example_judges_a_log(example: Family, used: str, told: str) -> None:
    (finding,) = judged(
        example, f"prolog: job refused: scratch quota of bob: {used} of 500 GiB\nsrun: job 7 cancelled\n"
    )
    assert finding.code == "scratch_quota"
    assert told in finding.cause
    assert finding.evidence[0].startswith("text:1 ")


def test_the_example_is_refuted(example: Family) -> None:
    log = "prolog: job refused: scratch quota of bob: 612 GiB of 500 GiB\nprolog: scratch quota raised, job starts\n"
    assert judged(example, log) == []


def judged(family: Family, text: str) -> list[Finding]:
    anchors = [a for signal in (*family.signals, *family.refutes) for a in signal.anchors]
    return rules.diagnose(logs.read_text(text, anchors=anchors), families={family.code: family})


def test_what_findings_refer_to_is_there() -> None:
    assert "following" in anchors_of(PAGE), "stages.py refers to docs/logs.md#following"


@each("name", ["README.md", "docs/architecture.md", "docs/hangs.md", "docs/logs.md"])
def test_links_lead_somewhere(name: str) -> None:
    wrong = [link for link in links_of(REPO / name) if not leads_somewhere(REPO / name, link)]
    assert wrong == []


def links_of(page: Path) -> Iterator[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return (link for link in LINK.findall(text) if "://" not in link)


def leads_somewhere(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    to = page.parent / file if file else page
    return to.exists() and (not anchor or anchor in anchors_of(to))


def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them: lower case, without punctuation, hyphens for spaces."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
