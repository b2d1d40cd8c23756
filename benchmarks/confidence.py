"""How often what is said with high, medium and low confidence is right: over what the benchmarks that judge findings have kept.

Each of `hangs.py`, `faults.py`, `slow.py`, `leaks.py` and `corpus.py` prints this table of its own answers, and --claims FILE keeps them.
A claim is a first finding, right if the benchmark calls the answer right, or a further one that accuses something sound, which is wrong.
Where nothing was said there is no claim, however wrong that is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import Row, print_table, share_row

GOALS: Mapping[str, float | None] = {"high": 0.98, "medium": 0.80, "low": None}
"""Of the findings that are so sure, this share has to be right."""
HEAD = ("confidence", "right", "share", "95 % interval", "goal")


@dataclass(frozen=True)
class Claim:
    """One finding: on which job or log, what it says, how sure it is, and whether it is right."""

    of: str
    code: str
    confidence: str
    right: bool


def claims_of(
    of: str, findings: Sequence[Mapping[str, Any]], right: bool, alarms: Sequence[str] = ()
) -> Iterator[Claim]:
    """What an answer claims. ``alarms`` are the codes of those further findings that accuse something sound; in a job without any trouble,
    where the first is one too, ``right`` is False.
    """
    for n, finding in enumerate(findings):
        if n == 0 or finding["code"] in alarms:
            yield Claim(of, finding["code"], finding["confidence"], right and n == 0)


def rows(claims: Iterable[Claim]) -> Iterator[Row]:
    """A row for each confidence that was claimed."""
    known = list(claims)
    for confidence, goal in GOALS.items():
        these = [claim.right for claim in known if claim.confidence == confidence]
        if these:
            yield share_row(confidence, sum(these), len(these), goal)


def wrong(claims: Iterable[Claim]) -> str:
    """Those that are wrong although they are sure, a line each; empty if there is none."""
    lines = [
        f"- {claim.of}: {claim.code} ({claim.confidence})"
        for claim in claims
        if not claim.right and GOALS[claim.confidence]
    ]
    return "\n".join(["Not right:", *lines]) if lines else ""


def print_confidence(claims: Sequence[Claim], keep: Path | None = None) -> None:
    """The table of these claims, which are added to the file `keep`."""
    if keep is not None:
        with keep.open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(asdict(claim)) + "\n" for claim in claims)
    if claims:
        said = wrong(claims)
        print_table(
            "How sure the findings were, and how often they were right", HEAD, rows(claims), [said] if said else []
        )


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--claims", type=Path, metavar="FILE", help="add how sure each finding was, and whether it was right, to FILE"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what benchmarks have kept with --claims")
    lines = [line for path in parser.parse_args().files for line in path.read_text(encoding="utf-8").splitlines()]
    print_confidence([Claim(**json.loads(line)) for line in lines])


if __name__ == "__main__":
    main()
