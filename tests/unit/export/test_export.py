"""What is written of a run: complete, exact, and in the form that the tools expect."""

from __future__ import annotations

import builtins
import gzip
import itertools
import json
import math
import os
import stat
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feeds import BEGAN_S, Made

from jupyter_traindbg.errors import MissingPiece, NoTarget, UsageError
from jupyter_traindbg.export import trace, write
from jupyter_traindbg.export.metrics import MetricsServer
from jupyter_traindbg.live import Feed
from jupyter_traindbg.model import Doing

PARTS = {"data_wait_s": 0.01, "forward_s": 0.02, "backward_s": 0.03, "optimizer_s": 0.02, "other_s": 0.02}
HOSTILE = '</script><img src=x onerror=alert(1)> "quoted" \u2028 \x00'


@pytest.fixture
def job() -> Made:
    made = Made(2)
    made.step(5, **PARTS)
    made.step(1, loss=math.nan, grad_norm=math.inf, **PARTS)
    made.step(3, grad_norm=2.0, **PARTS)
    made.doings[0] = [Doing("lr", BEGAN_S + 0.3, 4, HOSTILE)]
    return made


@pytest.fixture
def feed(job: Made) -> Feed:
    feed = Feed(job)
    feed.round()
    return feed


# --- Parquet -------------------------------------------------------------------------------------------------------


def test_a_row_for_each_rank_and_step_with_nan_and_missing_told_apart(feed: Feed, tmp_path: Path) -> None:
    from pyarrow import parquet

    written = write(feed, str(tmp_path / "run.parquet"))
    assert (written.rows, written.ranks, written.first_step, written.last_step) == (18, 2, 1, 9)
    assert written.bytes == os.path.getsize(tmp_path / "run.parquet") > 0
    table = parquet.read_table(tmp_path / "run.parquet")
    rows = table.to_pylist()
    assert [(r["rank"], r["step"]) for r in rows] == [(rank, step) for rank in (0, 1) for step in range(1, 10)]
    assert all(r["steps"] == 1 for r in rows)
    assert [r["loss"] for r in rows[:5]] == [1.0 / i for i in range(1, 6)]
    assert math.isnan(rows[5]["loss"])
    assert rows[4]["grad_norm"] is None
    assert not math.isfinite(rows[5]["grad_norm"])
    assert rows[6]["grad_norm"] == 2.0
    assert rows[3]["time"].timestamp() == pytest.approx(BEGAN_S + 0.3, abs=1e-5)
    assert rows[0]["who"] == "rank 0"
    assert table.schema.field("data_wait_s").metadata == {b"unit": b"s", b"label": b"data wait"}
    about = json.loads(table.schema.metadata[b"traindbg"])
    assert about["target"] == "made"
    assert HOSTILE in [event["text"] for event in about["events"]]


def test_steps_of_which_only_means_are_left_are_rows_for_several(job: Made, tmp_path: Path) -> None:
    from pyarrow import parquet

    feed = Feed(job)
    feed.history._budget_bytes = 1
    feed.round()
    columns = len(feed.history.columns)
    for begin in range(10, 20_010, 2000):
        steps = np.arange(begin, begin + 2000)
        table = np.full((2000, columns), np.nan)
        table[:, 0], table[:, 1] = BEGAN_S + 0.1 * steps, steps
        feed.history.add(np.zeros(2000, np.int64), steps, table, np.zeros(table.shape, bool))
    written = write(feed, str(tmp_path / "run.parquet"))
    assert written.thinned_rows > 0
    assert "means" in written.note
    table = parquet.read_table(tmp_path / "run.parquet").to_pydict()
    first = [
        (step, many) for rank, step, many in zip(table["rank"], table["step"], table["steps"], strict=True) if rank == 0
    ]
    covered = [s for step, many in first for s in range(step, step + many)]
    assert len(covered) == len(set(covered))
    assert covered[-1] == 20_009
    assert len(set(covered)) >= 20_009 - feed.history.width


# --- Chrome trace --------------------------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is no JSON")

    read = gzip.open if path.suffix == ".gz" else open
    with read(path, "rt", encoding="utf-8") as f:  # type: ignore[operator]
        document: dict[str, Any] = json.loads(f.read(), parse_constant=refuse)
    return document


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_is_what_the_format_asks_for(feed: Feed, tmp_path: Path, name: str) -> None:
    written = write(feed, str(tmp_path / name))
    document = load(tmp_path / name)
    assert (written.format, written.rows) == ("trace", 18)
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    assert document["otherData"]["begin_s"] == pytest.approx(BEGAN_S - 0.1, abs=1e-3)
    slices: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in document["traceEvents"]:
        assert event["ph"] in "XCiM"
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "process_sort_index")
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "C":
            assert event["args"]
            assert all(isinstance(v, float) and math.isfinite(v) for v in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
    assert sorted(slices) == [(0, 1), (1, 1)]
    for track in slices.values():
        open_until: list[float] = []
        for begin, end in sorted(track, key=lambda s: (s[0], -s[1])):
            while open_until and open_until[-1] <= begin + 1e-3:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 1e-3, "slices nest, and never overlap"
            open_until.append(end)


def test_a_trace_has_a_track_per_rank_with_the_parts_of_each_step(feed: Feed, tmp_path: Path) -> None:
    write(feed, str(tmp_path / "trace.json"))
    events = load(tmp_path / "trace.json")["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {0: "rank 0", 1: "rank 1"}
    step = next(e for e in events if e["name"] == "step 4" and e["pid"] == 1)
    assert step["dur"] == pytest.approx(0.1e6, rel=1e-3)
    inside = [
        e for e in events
        if e["ph"] == "X" and e["pid"] == 1 and e["name"] != "step 4" and step["ts"] <= e["ts"] < step["ts"] + step["dur"] - 1
    ]  # fmt: skip
    assert [(e["name"], round(e["dur"])) for e in inside] == [
        ("data wait", 10_000), ("forward", 20_000), ("backward", 30_000), ("optimizer", 20_000), ("other", 20_000),
    ]  # fmt: skip
    losses = [e["args"]["loss"] for e in events if e["ph"] == "C" and e["name"] == "loss" and e["pid"] == 0]
    assert losses == [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 7, 1 / 8, 1 / 9]
    marks = {e["name"] for e in events if e["ph"] == "i"}
    assert {"loss is not finite", "grad_norm is not finite", HOSTILE} <= marks


def test_a_clock_that_was_set_back_makes_no_overlap(tmp_path: Path) -> None:
    job = Made()
    job.step(3)
    job.step(1, time_s=BEGAN_S + 0.05)
    job.step(2, time_s=BEGAN_S + 0.31)
    feed = Feed(job)
    feed.round()
    write(feed, str(tmp_path / "trace.json"))
    slices = [e for e in load(tmp_path / "trace.json")["traceEvents"] if e["ph"] == "X"]
    for before, after in itertools.pairwise(slices):
        assert after["ts"] >= before["ts"] + before["dur"] - 1e-3


def test_a_trace_too_long_for_a_viewer_has_its_end(feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_EVENTS", 2 * trace.EVENTS_PER_STEP * 3)
    written = write(feed, str(tmp_path / "trace.json"))
    assert (written.first_step, written.last_step, written.rows) == (7, 9, 6)
    assert "only the latest 3 steps" in written.note


# --- files ---------------------------------------------------------------------------------------------------------


def test_a_file_appears_complete_or_not_at_all(feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_text("the one before")
    monkeypatch.setattr(trace, "_events", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UsageError, match="No space left on device"):
        write(feed, str(path))
    assert path.read_text() == "the one before"
    assert os.listdir(tmp_path) == ["trace.json"]
    monkeypatch.undo()
    write(feed, str(path))
    assert load(path)["traceEvents"]
    assert os.listdir(tmp_path) == ["trace.json"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_what_cannot_be_written_is_said_in_a_line(feed: Feed, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run\.csv has no ending that says what to write"):
        write(feed, str(tmp_path / "run.csv"))
    with pytest.raises(UsageError, match="cannot be written to: No such file"):
        write(feed, str(tmp_path / "nowhere" / "run.parquet"))
    (tmp_path / "trace.json").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write(feed, str(tmp_path / "trace.json"))
    with pytest.raises(NoTarget, match="no step was recorded"):
        write(Feed(Made()), str(tmp_path / "run.parquet"))


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "sql"), ("prometheus_client", "metrics")])
def test_a_missing_package_is_answered_with_the_line_to_install_it(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    plain = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    ask = {
        "pyarrow": lambda: write(feed, str(tmp_path / "run.parquet")),
        "prometheus_client": lambda: MetricsServer(feed),
    }
    with pytest.raises(MissingPiece, match=rf"pip install 'jupyter-traindbg\[{extra}\]'"):
        ask[module]()
    assert os.listdir(tmp_path) == []


# --- Prometheus ----------------------------------------------------------------------------------------------------


def scrape(url: str, **headers: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return str(answer.read().decode())


def test_a_scrape_has_state_step_and_series_of_every_rank(feed: Feed) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    with MetricsServer(feed) as server:
        families = {f.name: f for f in text_string_to_metric_families(scrape(server.url))}
        assert server.url.startswith("http://127.0.0.1:")
    states = {s.labels["state"]: s.value for s in families["traindbg_state"].samples}
    assert states[feed.state.code] == 1.0
    assert sum(states.values()) == 1.0
    steps = {s.labels["rank"]: s.value for s in families["traindbg_step"].samples}
    assert steps == {"rank 0": 9.0, "rank 1": 9.0}
    assert {s.value for s in families["traindbg_loss"].samples} == {1 / 9}
    assert families["traindbg_data_wait_seconds"].samples[0].value == 0.01
    assert families["traindbg_learning_rate"].samples[0].labels == {"job": "made", "rank": "rank 0"}


def test_the_endpoint_answers_only_this_machine_and_only_for_metrics(feed: Feed) -> None:
    server = MetricsServer(feed)
    try:
        for headers, path in (
            ({"Host": "evil.example:80"}, "/metrics"),
            ({"Host": ""}, "/metrics"),
            ({}, "/"),
            ({}, "/metrics/x"),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                scrape(server.url.replace("/metrics", path), **headers)
            assert refused.value.code in (403, 404)
            refused.value.close()
        assert "traindbg_state" in scrape(server.url, Host=f"localhost:{server.port}")
    finally:
        server.close()
        server.close()
    with pytest.raises(urllib.error.URLError):
        scrape(server.url)


def test_a_port_that_is_taken_is_told(feed: Feed) -> None:
    from jupyter_traindbg.errors import CannotAttach

    with (
        MetricsServer(feed) as server,
        pytest.raises(CannotAttach, match=f"port {server.port} of 127.0.0.1 cannot be had"),
    ):
        MetricsServer(feed, server.port)
