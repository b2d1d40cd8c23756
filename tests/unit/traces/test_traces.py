"""What torch's profiler has written, read, summed up, and put into one trace of all ranks."""

from __future__ import annotations

import dataclasses
import gzip
import json
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from jupyter_traindbg.errors import NoTarget, UsageError
from jupyter_traindbg.model import Frame, NotAvailable, RankProfile, Step, TimedLook
from jupyter_traindbg.traces import kineto, merged
from jupyter_traindbg.traces.of_rank import RankTrace, Seen
from jupyter_traindbg.traces.summing import innermost, sums

BASE_NS = 1_790_857_026_000_000_000
"""Kineto's own beginning of time; its events are in microseconds since."""
MAIN, BACKWARD, GLOO, STREAM = 4711, 4712, 4713, 7


def slice_(name: str, cat: str, ts: float, dur: float, tid: int = MAIN, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 4711, "tid": tid, "ts": ts, "dur": dur, "args": args}


def written(*events: dict[str, Any]) -> bytes:
    marks = [
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 0, "dur": 9},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1000},
    ]
    return json.dumps({"baseTimeNanoseconds": BASE_NS, "traceEvents": [*events, *marks]}).encode()


GPU = written(
    slice_("forward", "user_annotation", 0, 100),
    slice_("aten::linear", "cpu_op", 10, 50, **{"External id": 1}),
    slice_("aten::addmm", "cpu_op", 20, 30, **{"External id": 2}),
    slice_("cudaLaunchKernel", "cuda_runtime", 25, 5, correlation=9),
    slice_("MmBackward0", "cpu_op", 200, 60, BACKWARD, **{"External id": 3}),
    {**slice_("ampere_sgemm", "kernel", 60, 100, STREAM, **{"External id": 2}), "pid": 0},
    {**slice_("ampere_sgemm", "kernel", 130, 100, STREAM + 1, **{"External id": 3}), "pid": 0},
    {"ph": "s", "id": 5, "pid": 4711, "tid": MAIN, "ts": 25, "cat": "ac2g", "name": "ac2g"},
    {"ph": "f", "id": 5, "pid": 0, "tid": STREAM, "ts": 60, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 3, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": STREAM, "ts": 3, "args": {"name": "stream 7 "}},
    {"ph": "M", "name": "thread_name", "pid": 4711, "tid": MAIN, "ts": 3, "args": {"name": "thread 4711 (python)"}},
)


def test_self_time_is_without_what_was_called_and_sums_up_to_all_of_it() -> None:
    told = sums(kineto.read(GPU), MAIN, 2, on_gpu=True)
    by_name = {(one.name, one.kind): one for one in told.operators}
    linear, addmm = by_name["aten::linear", "operator"], by_name["aten::addmm", "operator"]
    assert (linear.self_s, linear.total_s) == (pytest.approx(10e-6), pytest.approx(25e-6)), "of one of two steps"
    assert (addmm.self_s, addmm.total_s, addmm.calls) == (pytest.approx(12.5e-6), pytest.approx(15e-6), 0.5)
    assert by_name["forward", "range"].self_s == pytest.approx(25e-6)
    assert sum(one.self_s for one in told.operators if one.kind != "kernel") == pytest.approx(160e-6 / 2)


def test_kernels_count_for_what_has_launched_them_and_those_beside_each_other_are_busy_once() -> None:
    told = sums(kineto.read(GPU), MAIN, 1, on_gpu=True)
    by_name = {one.name: one for one in told.operators}
    assert by_name["aten::addmm"].device_s == pytest.approx(100e-6)
    assert by_name["aten::linear"].device_s == 0.0, "it has launched none itself"
    assert (by_name["ampere_sgemm"].calls, by_name["ampere_sgemm"].device_s) == (2, pytest.approx(200e-6))
    assert told.device_s == pytest.approx(170e-6)
    assert sums(kineto.read(GPU), MAIN, 1, on_gpu=False).device_s is None


def test_time_in_operators_is_of_all_threads_that_work_for_the_step() -> None:
    told = sums(kineto.read(GPU), MAIN, 1, on_gpu=True)
    assert told.operators_s == pytest.approx(110e-6), "50 forward, 60 backward; a range is none"
    assert {one.name for one in told.operators if not one.training_thread} == {"MmBackward0"}


def test_a_collective_beside_operators_is_waiting_only_where_none_runs() -> None:
    trace = kineto.read(
        written(slice_("aten::mm", "cpu_op", 0, 30), slice_("gloo:all_reduce", "user_annotation", 20, 80, GLOO))
    )
    told = sums(trace, MAIN, 1, on_gpu=False)
    assert (told.operators_s, told.collectives_s) == (pytest.approx(30e-6), pytest.approx(70e-6))


def test_an_operator_that_calls_its_like_is_counted_once_in_total() -> None:
    trace = kineto.read(written(slice_("aten::to", "cpu_op", 0, 100), slice_("aten::to", "cpu_op", 10, 50)))
    (told,) = sums(trace, MAIN, 1, on_gpu=False).operators
    assert (told.calls, told.self_s, told.total_s) == (2, pytest.approx(100e-6), pytest.approx(100e-6))


def test_what_is_still_open_ends_where_the_recording_ended() -> None:
    trace = kineto.read(written(slice_("Optimizer.step", "user_annotation", 0, 5000)), BASE_NS / 1e9 + 100e-6)
    assert trace.threads[MAIN].slices[0].total_s == pytest.approx(100e-6, abs=1e-6)


def test_the_innermost_operator_of_a_moment() -> None:
    thread = kineto.read(GPU).threads[MAIN]
    assert innermost(kineto.Thread(), [1.0]) == {"": 1}
    assert innermost(thread, [at / 1e6 for at in (5, 15, 35, 55, 150)]) == {"": 2, "aten::linear": 2, "aten::addmm": 1}


def test_names_that_are_no_json_are_read_all_the_same() -> None:
    (thread,) = kineto.read(
        b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a\tb\xff", "tid": 1, "ts": 1, "dur": 2}]}'
    ).threads.values()
    assert thread.slices[0].name == "a\tb\ufffd"


def test_a_trace_of_torch_itself_is_read(tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            torch.ones(8, 8) @ torch.ones(8, 8)
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    told = {one.name: one for one in sums(kineto.read(path.read_bytes()), MAIN, 3, on_gpu=False).operators}
    known = {one.key: one for one in profiler.key_averages()}
    assert told["aten::mm"].calls == 1
    for name in ("aten::mm", "aten::matmul", "aten::ones"):
        assert told[name].self_s * 3e6 == pytest.approx(known[name].self_cpu_time_total, rel=0.01, abs=3), name
        assert told[name].total_s * 3e6 == pytest.approx(known[name].cpu_time_total, rel=0.01, abs=3), name


# --- all ranks -------------------------------------------------------------------------------------------------------


def rank(number: int, *, ahead_s: float = 0.0, packed: bytes = b"") -> Seen:
    began_s = BASE_NS / 1e9 + ahead_s
    inner, outer = Frame("/job/train.py", 9, "loss_of"), Frame("/job/train.py", 41, "main")
    looks = [TimedLook(began_s + n * 1e-4, n % 2, 1e-4, NotAvailable("no account"), 0.0, "", 1, True) for n in range(9)]
    nothing: Any = dict.fromkeys(f.name for f in dataclasses.fields(Step))
    steps = [
        Step(**{**nothing, "step": n, "time_s": began_s + n * 2e-4, "duration_s": 2.1e-4, "loss": float("nan")})
        for n in range(1, 4)
    ]
    trace = RankTrace(
        4711,
        MAIN,
        packed or zlib.compress(GPU),
        steps,
        looks,
        [(inner, outer), (outer,)],
        began_s,
        began_s + 6e-4,
    )
    return Seen(RankProfile(number, 4711, 3, clock_ahead_s=ahead_s), trace)


def read(path: str) -> dict[str, Any]:
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as f:
        told: dict[str, Any] = json.loads(f.read(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return told


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_one_trace_has_all_ranks_each_with_numbers_of_its_own(tmp_path: Path, name: str) -> None:
    where = merged.Traces("torchrun:1", [rank(0), rank(1)]).write(str(tmp_path / name))
    events = read(where)["traceEvents"]
    named = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert named == {
        0: "rank 0 (pid 4711)",
        1: "rank 0, device 0",
        100: "rank 1 (pid 4711)",
        101: "rank 1, device 0",
    }
    for operator, processes in (("aten::addmm", {0, 100}), ("ampere_sgemm", {1, 101})):
        assert {e["pid"] for e in events if e["name"] == operator} == processes
    flows = defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            flows[event["id"]].append(event["pid"])
    assert list(flows.values()) == [[0, 1], [100, 101]]
    assert not [e for e in events if e.get("cat") == "Trace" or e["ph"] == "i"]
    assert list(tmp_path.iterdir()) == [Path(where)], "nothing half-written"


def test_a_process_in_a_container_may_have_the_number_of_a_gpu(tmp_path: Path) -> None:
    """Of two devices one has the process's own number there; from outside the process is 4711."""
    told = json.loads(GPU)
    for event in told["traceEvents"]:
        event["pid"] = {4711: 1}.get(event["pid"], event["pid"])
    told["traceEvents"].append({**slice_("memset", "gpu_memset", 90, 5, STREAM), "pid": 1})
    one = rank(0, packed=zlib.compress(json.dumps(told).encode()))
    one = dataclasses.replace(one, trace=dataclasses.replace(one.trace, pid=1))
    events = read(merged.Traces("4711", [one]).write(str(tmp_path / "run.json")))["traceEvents"]
    named = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(named.values()) == ["rank 0 (pid 4711)", "rank 0, device 0", "rank 0, device 1"]
    at = {e["name"]: named[e["pid"]] for e in events if e["name"] in ("aten::addmm", "ampere_sgemm", "memset")}
    assert at == {"aten::addmm": "rank 0 (pid 4711)", "ampere_sgemm": "rank 0, device 0", "memset": "rank 0, device 1"}
    threads = {(named[e["pid"]], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert threads["rank 0 (pid 4711)", MAIN] == "training thread"
    assert threads["rank 0, device 0", STREAM] == "stream 7 "


def test_clocks_that_differ_are_put_right(tmp_path: Path) -> None:
    ahead = json.loads(GPU)
    ahead["baseTimeNanoseconds"] += 2_500_000_000
    late = rank(1, ahead_s=2.5, packed=zlib.compress(json.dumps(ahead).encode()))
    told = read(merged.Traces("ray:1", [rank(0), late]).write(str(tmp_path / "run.json")))
    at = {e["pid"]: e["ts"] for e in told["traceEvents"] if e["name"] == "aten::addmm"}
    assert at[100] == pytest.approx(at[0], abs=0.5)
    for cat in ("step", "line"):
        begins = {
            pid: min(e["ts"] for e in told["traceEvents"] if e.get("cat") == cat and e["pid"] == pid) for pid in at
        }
        assert begins[100] == pytest.approx(begins[0], abs=1), cat
    assert [one["clock_ahead_us"] for one in told["otherData"]["ranks"]] == [0, 2.5e6]


def test_slices_lie_within_each_other_or_apart(tmp_path: Path) -> None:
    """A viewer drops those that overlap in part."""
    told = read(merged.Traces("4711", [rank(0)]).write(str(tmp_path / "run.json")))
    by_thread = defaultdict(list)
    for event in told["traceEvents"]:
        if event["ph"] == "X":
            by_thread[event["pid"], event["tid"]].append((event["ts"], -event["dur"], event["name"]))
    assert len(by_thread) == 6
    for slices in by_thread.values():
        ends: list[float] = []
        for began, minus_dur, name in sorted(slices):
            while ends and ends[-1] <= began + 0.002:
                ends.pop()
            assert not ends or began - minus_dur <= ends[-1] + 0.002, name
            ends.append(began - minus_dur)


def test_steps_and_lines_are_those_of_the_recording(tmp_path: Path) -> None:
    events = read(merged.Traces("4711", [rank(0)]).write(str(tmp_path / "run.json")))["traceEvents"]
    steps = [e for e in events if e.get("cat") == "step"]
    assert [e["name"] for e in steps] == ["step 1", "step 2", "step 3"]
    assert sum(e["dur"] for e in steps) == pytest.approx(600, abs=1)
    assert steps[0]["args"] == {"loss": None}, "NaN is no JSON"
    lines = [e for e in events if e.get("cat") == "line"]
    assert {e["name"] for e in lines} == {"loss_of (train.py:9)", "main (train.py:41)"}
    outer = [e for e in lines if e["name"].startswith("main")]
    assert [round(e["dur"]) for e in outer] == [600], "the outer frame was there all the time"


def test_what_cannot_be_written_is_said_before_anything_is(tmp_path: Path) -> None:
    for path, said in (("run.txt", "no ending"), ("/nowhere/run.json", "no directory /nowhere")):
        with pytest.raises(UsageError, match=said):
            merged.check(path)
    with pytest.raises(NoTarget, match="no step was recorded"):
        merged.Traces("4711", []).write(str(tmp_path / "run.json"))
    assert list(tmp_path.iterdir()) == []
