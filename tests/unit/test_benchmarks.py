"""The benchmarks run and print their tables. What they measure is not judged here: a test machine is no place for timings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def quick(script: str, **env: str) -> str:
    """What `script` prints in its shortest form."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(BENCHMARKS / script), "--quick"],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(text: str) -> list[list[str]]:
    """The cells of the lines below the head of the (last) table in `text`."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rules = [i for i, line in enumerate(lines) if set(line) <= set("|- ")]
    assert rules, text
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[rules[-1] + 1 :]]


def test_overhead_prints_every_state() -> None:
    rows = table(quick("overhead.py"))
    assert [row[0].split(": ")[1] for row in rows] == [
        "attached, idle",
        "polled at 2 Hz",
        "polled at 2 Hz, stacks too",
        "detached again",
    ]
    assert all(float(row[1]) > 0 and float(row[2]) > 0 for row in rows)


def test_attach_prints_every_way_in() -> None:
    rows = table(quick("attach.py"))
    assert len(rows) == 8
    assert all(row[1] and row[4] for row in rows), rows


def test_scan_is_measured_at_a_safe_point_beside_both_yardsticks() -> None:
    rows = table(quick("scan.py"))
    assert {row[0].split(": ")[1].split(" (")[0] for row in rows} == {"naive isnan and isinf per tensor", "memcpy"}
    assert all(float(row[3].split()[0]) > 0 for row in rows)


def test_a_checkpoint_is_measured_beside_torch_save() -> None:
    rows = table(quick("checkpoint.py"))
    assert [row[0].split(",")[0] for row in rows] == [
        "pause of the training",
        "the same by our own clock",
        "until it is complete on the disk",
    ]
    assert float(rows[0][3].split()[0]) > 0
    assert all(float(row[1].split()[0]) > 0 for row in rows)


def test_no_peer_is_one_line_and_no_failure() -> None:
    said = quick("peers.py", PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert len(said.splitlines()) == 1
    assert "probing==0.2.4 could not be installed" in said


@pytest.mark.slow
def test_peers_are_measured_beside_ours() -> None:
    said = quick("peers.py")
    if "could not be installed" in said:
        pytest.skip(said.strip())
    assert "probing, tracing" in said
    assert all(float(row[3]) > 0 for row in table(said))
