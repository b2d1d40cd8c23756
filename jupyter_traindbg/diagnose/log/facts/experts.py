"""Mixture of experts by its figures: ``moe_load_imbalance``, ``moe_inactive_experts``, ``moe_few_active``, ``moe_all_to_one`` (every
printed choice of a layer is the same expert) and ``moe_loss_nan``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_LISTED = re.compile(
    r"(?i)(?:expert[\w ]{0,20}(?:tokens?|load|usage|count|distribution|utili[sz]ation|assign)|(?:tokens?|load|usage)[_ ]per[_ ]expert)"
    r"[^\[\n]{0,50}(?:tensor\()?\[(?P<counts>[\d., \n]+)\]"
)
_ONE = re.compile(
    r"(?:^|[/_ .])expert[_ /.]?(\d{1,9})[_ /.]?(?:load|tokens?|usage|count|share|utili[sz]ation)?$|tokens?_per_expert[/_.](\d{1,9})$"
)
_LOSS = re.compile(r"(?:load[_ ]balanc\w*|aux(?:iliary)?|router|moe|z)[_ /]?(?:aux[_ ]?)?loss$|moe\w*/\w*loss$")
_CHOSEN = re.compile(
    r"(?i)(?:top_?k_?(?:idx|ind\w*|ids?)|(?:selected|chosen|routed)_?\s?experts?|expert_?(?:ids?|idx|ind\w*))"
    r"\W{1,12}(?:tensor\()?\[{1,3}(?P<ids>\d+(?:[\], \[]+\d+){7,})"
)
_ACTIVE = re.compile(
    r"(?i)\b(?P<active>\d{1,5}) ?(?:/|of|out of) ?(?P<all>\d{1,5}) (?:experts? )?(?:are )?(?:active|used|alive|utili[sz]ed|in use)\b"
)
FEWEST, TIMES, IDLE = 4, 3.0, 0.1
"""Experts; how many times its share the busiest gets; and the share of the mean below which one counts as idle."""


def facts(evidence: LogEvidence) -> list[Fact]:
    with_experts = [
        line for line in evidence.lines if "xpert" in line.text or "topk" in line.text or "top_k" in line.text
    ]
    found = [*_nan(evidence), *_judged(_listed(with_experts)), *_judged(_series(evidence))]
    return [*found[:2], *_all_to_one(with_experts), *_few_active(with_experts)]


def _all_to_one(lines: Sequence[LogLine]) -> list[Fact]:
    """The first line of which all choices of experts are one and the same, and how many such lines there are."""
    found: list[tuple[LogLine, list[str]]] = []
    for line in lines:
        match = _CHOSEN.search(line.text)
        chosen = re.findall(r"\d+", match["ids"]) if match else []
        if chosen and len(set(chosen)) == 1:
            found.append((line, chosen))
    if not found:
        return []
    line, chosen = found[0]
    values: dict[str, float | str] = {"expert": chosen[0], "tokens_count": len(chosen)}
    if len(found) > 1:
        values["layers_count"] = len(found)
    return [Fact("moe_all_to_one", line, values, line.rank)]


def _few_active(lines: Sequence[LogLine]) -> list[Fact]:
    """The last line that says that less than half of the experts are in use."""
    for line in reversed(lines):
        match = _ACTIVE.search(line.text)
        if match and int(match["all"]) >= FEWEST and 2 * int(match["active"]) < int(match["all"]):
            values: dict[str, float | str] = {
                "active_count": int(match["active"]),
                "experts_count": int(match["all"]),
            }
            return [Fact("moe_few_active", line, values, line.rank)]
    return []


def _nan(evidence: LogEvidence) -> Iterator[Fact]:
    for s in evidence.series:
        if (
            _LOSS.search(s.name)
            and s.nonfinite
            and s.first_nonfinite is not None
            and s.nonfinite >= 0.5 * max(1, s.count - 2)
        ):
            yield Fact(
                "moe_loss_nan", s.first_nonfinite, {"name": s.name, "first_line": s.first_nonfinite.number}, s.rank
            )
            return


def _listed(lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, list[float]]]:
    """The last list of tokens per expert that each source prints."""
    last: dict[int, tuple[LogLine, list[float]]] = {}
    for line in lines:
        match = _LISTED.search(line.text) if "[" in line.text.partition("xpert")[2] else None
        if match is not None:
            numbers = re.findall(r"\d+(?:\.\d+)?", match["counts"])
            last[line.source] = (line, [float(n) for n in numbers])
    yield from last.values()


def _series(evidence: LogEvidence) -> Iterator[tuple[LogLine, list[float]]]:
    """The last values of metrics that are one for each expert."""
    loads: dict[tuple[int, str], dict[int, tuple[int, float]]] = {}
    for s in evidence.series:
        match = _ONE.search(s.name)
        if match is not None and s.points and math.isfinite(s.points[-1][1]):
            key = (s.source, s.name[: match.start(1) if match[1] else match.start(2)])
            loads.setdefault(key, {})[int(match[1] or match[2])] = s.points[-1]
    for (source, name), of in loads.items():
        number = max(n for n, _ in of.values())
        yield (
            LogLine(source, number, f"{name}*: {', '.join(f'{v:g}' for _, v in of.values())}"),
            [v for _, v in of.values()],
        )


def _judged(found: Iterator[tuple[LogLine, list[float]]]) -> Iterator[Fact]:
    for line, loads in found:
        mean = sum(loads) / len(loads) if loads else 0.0
        if len(loads) < FEWEST or mean <= 0:
            continue
        values = _values(loads, mean)
        if values["inactive_count"]:
            yield Fact("moe_inactive_experts", line, values, line.rank)
        elif max(loads) > TIMES * mean:
            yield Fact("moe_load_imbalance", line, values, line.rank)


def _values(loads: Sequence[float], mean: float) -> dict[str, float | str]:
    return {
        "experts_count": len(loads),
        "inactive_count": sum(load < IDLE * mean for load in loads),
        "largest_share": f"{max(loads) / mean:.1f}",
        "smallest_share": f"{min(loads) / mean:.2g}",
    }
