"""Real trainings, watched: what a feed sees of them, what becomes of them, and that they never notice."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import Start

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.live import Feed

TRAINDBG = [sys.executable, "-m", "jupyter_traindbg.cli"]
PATIENT_S = 90.0


@pytest.fixture(autouse=True)
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def until(what: Callable[[], object], said: Callable[[], object] = lambda: "") -> None:
    ends = time.monotonic() + PATIENT_S
    while not what():
        assert time.monotonic() < ends, said()
        time.sleep(0.05)


def losses(output: str) -> list[str]:
    return re.findall(r"^\d+ (-?0x\S+)$", output, re.MULTILINE)


# --- the feed ------------------------------------------------------------------------------------------------------


def test_a_feed_has_each_step_that_the_program_printed(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    with traindbg.attach(program.pid) as job:
        feed = job.feed(rate_hz=5)
        assert job.feed() is feed
        until(lambda: feed.last_step > 60)
        assert feed.state.code in ("training", "slow", "stalled")  # a busy machine may hold it up
        curve = feed.curve("loss", points=10_000)
        assert curve.per_point == 1
        seen = [v.hex() for v in curve.lines[0].tolist() if not math.isnan(v)]
        until(lambda: seen[-1] in losses(program.output()))
        printed = losses(program.output())
        begin = printed.index(seen[0])
        assert printed[begin : begin + len(seen)] == seen
        for name in ("step_s", "data_wait_s", "forward_s", "backward_s", "optimizer_s", "rss_bytes", "lr"):
            assert name in [s.name for s in feed.series]
        assert feed.latest()["rss_bytes"][0] > 1 << 20
    assert not feed.running
    assert feed.state.words == "no longer attached"
    assert len(feed.curve("loss").x) > 60, "what was seen stays"


def test_a_run_that_was_watched_four_times_a_second_has_the_same_losses(start: Start) -> None:
    watched = start("train.py", "--steps", "2000", "--sleep", "0.004")
    with traindbg.attach(watched.pid) as job:
        feed = job.feed(rate_hz=4)
        until(lambda: not job.ranks or feed.state.code == "finished", lambda: feed.state)
        assert feed.last_step > 100
    alone = start("train.py", "--steps", "2000")
    assert watched.wait() == alone.wait() == 0
    assert losses(watched.output()) == losses(alone.output())
    assert len(losses(alone.output())) == 2000


def test_a_change_of_the_learning_rate_is_an_event_and_schedule_and_use_part(start: Start) -> None:
    program = start("tuned.py", "--sleep", "0.01")
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        feed = job.feed(rate_hz=5)
        until(lambda: feed.last_step > 10)
        assert feed.ranks == (0, 1)
        changed = job.set_lr(scale=0.5)
        after = changed.ranks[0].after_step
        assert isinstance(after, int)
        until(lambda: feed.events and feed.last_step > after + 5)
        (event,) = [e for e in feed.events if e.kind == "lr"]
        assert event.text == "learning rate: the schedule x 0.5"
        assert set(event.ranks) <= {0, 1}
        used, scheduled = (feed.curve(name, ranks=[0], points=10_000).lines[0] for name in ("lr_effective", "lr"))
        first = int(feed.curve("lr", ranks=[0], points=10_000).x[0])
        assert used[after - first] == scheduled[after - first]
        assert used[after + 1 - first] == scheduled[after + 1 - first] * 0.5
        scheduled = scheduled[~np.isnan(scheduled)]  # the other rank may be ahead
        assert (abs(scheduled[1:] / scheduled[:-1] - 1) < 0.01).all(), "the schedule goes on as if nothing were"
        job.release()
        job.clip(1.0)
        until(lambda: len(feed.events) >= 3)
        assert [(e.kind, e.text) for e in feed.events[1:]] == [
            ("lr", "everything released"),
            ("clip_norm", "gradients clipped at norm 1"),
        ]


def test_a_checkpoint_is_an_event(start: Start, tmp_path: Path) -> None:
    program = start("train.py", "--sleep", "0.005")
    with traindbg.attach(program.pid) as job:
        feed = job.feed(rate_hz=5)
        until(lambda: feed.last_step > 5)
        job.checkpoint(str(tmp_path / "ck"), progress=lambda done, total: None)
        until(lambda: feed.events)
        (event,) = feed.events
        assert event.kind == "checkpoint"
        assert event.text == f"checkpoint saved: {tmp_path / 'ck'}"


def test_stopped_it_is_hung_continued_it_trains_and_killed_it_has_ended(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    with traindbg.attach(program.pid) as job:
        feed = job.feed(rate_hz=5)
        until(lambda: feed.last_step > 30)
        os.kill(program.pid, signal.SIGSTOP)
        until(lambda: feed.state.code == "stalled", lambda: feed.state)
        assert re.match(r"stalled for \d", feed.state.words)
        until(lambda: feed.state.code == "hung", lambda: feed.state)
        assert "stopped by a signal" in feed.state.words
        stood = feed.last_step
        os.kill(program.pid, signal.SIGCONT)
        until(lambda: feed.state.code in ("training", "slow") and feed.last_step > stood, lambda: feed.state)
        os.kill(program.pid, signal.SIGKILL)
        until(lambda: feed.state.code == "finished", lambda: feed.state)
        kinds = [e.kind for e in feed.events]
        assert kinds[0] == "hang"
        assert "resumed" in kinds
        assert kinds[-1] == "finished"


def test_a_rank_that_dies_is_lost_and_the_others_are_watched_on(start: Start) -> None:
    program = start("tuned.py", "--sleep", "0.01")
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        feed = job.feed(rate_hz=5)
        until(lambda: feed.last_step > 10)
        pids = {rank.rank: rank.pid for rank in job.ranks}
        os.kill(pids[1], signal.SIGKILL)
        until(lambda: feed.state.code in ("lost", "finished"), lambda: feed.state)  # gloo may end the other one at once
        until(lambda: any(e.kind in ("lost", "finished") for e in feed.events))
        assert 1 in feed.silent


def test_this_very_kernel_is_watched_while_it_trains() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with traindbg.attach("self") as job:
        feed = job.feed(rate_hz=10)
        ends = time.monotonic() + PATIENT_S
        while feed.last_step < 20:
            assert time.monotonic() < ends
            loss = model(torch.ones(2, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.005)
        assert feed.curve("loss").lines[0].size >= 20


def test_another_client_that_takes_the_agents_out_is_told_and_they_are_not_put_in_again(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    with traindbg.attach(program.pid) as job:
        feed = job.feed(rate_hz=5)
        until(lambda: feed.last_step > 5)
        with traindbg.attach(program.pid) as other:
            other.detach(force=True)
        until(lambda: feed.silent, lambda: feed.state)
        time.sleep(1.0)
        assert "agent" in feed.silent[0]
        again = traindbg.attach(program.pid)
        assert again.ranks[0].way == "injected", "nobody had brought one in meanwhile"
        again.close()


def test_two_feeds_and_a_long_question_do_not_hold_each_other_up(start: Start) -> None:
    program = start("train.py", "--sleep", "0.005")
    with traindbg.attach(program.pid) as job, traindbg.attach(program.pid) as other:
        one, two = job.feed(rate_hz=5), Feed(other, rate_hz=5)
        two.start()
        until(lambda: one.last_step > 5 and two.last_step > 5)
        stood = one.last_step
        job.diagnose()
        assert one.last_step > stood
        assert one.silent == {}
        two.stop()


# --- export --------------------------------------------------------------------------------------------------------


def test_a_run_is_exported_while_it_is_watched_and_after_its_end(start: Start, tmp_path: Path) -> None:
    from pyarrow import parquet

    program = start("tuned.py", "--steps", "150", "--sleep", "0.02")
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        feed = job.feed(rate_hz=5)
        until(lambda: feed.last_step > 20 and min(feed.step_of(rank) for rank in feed.ranks) > 10)
        written = job.export(str(tmp_path / "run.parquet"))
        assert written.ranks == 2
        until(lambda: feed.state.code == "finished", lambda: feed.state)
        assert job.export(str(tmp_path / "trace.json")).last_step > written.last_step
    rows = parquet.read_table(tmp_path / "run.parquet").to_pylist()
    printed = {value for _, value in re.findall(r"^(\d \d+) (-?0x\S+)$", program.output(), re.MULTILINE)}
    assert {row["loss"].hex() for row in rows if row["loss"] is not None} <= printed
    assert {row["rank"] for row in rows} == {0, 1}
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["pid"] for e in events if e["ph"] == "X"} == {0, 1}


# --- at a terminal -------------------------------------------------------------------------------------------------


def test_one_frame_as_text_and_as_json(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    program = start("train.py", "--sleep", "0.005")
    assert cli.main(["watch", str(program.pid), "--once"]) == 0
    said = capsys.readouterr().out
    assert "learning rate, effective" in said
    assert re.search(r"step [\d,]+ · [\d,]+ since the attach · 1 rank", said)
    assert cli.main(["watch", str(program.pid), "--once", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["step"] >= 3
    assert {s["name"] for s in document["series"]} >= {"loss", "lr", "step_s"}


def test_a_pipe_gets_lines_until_the_job_ends(start: Start) -> None:
    program = start("train.py", "--steps", "400", "--sleep", "0.01")
    watching = subprocess.Popen(
        [*TRAINDBG, "watch", str(program.pid), "--rate", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said, complaint = watching.communicate(timeout=PATIENT_S)
    assert complaint == ""
    lines = [line for line in said.splitlines() if line.startswith("step ")]
    assert len(lines) > 3
    assert "finished: the process has ended, after step" in said
    assert watching.returncode in (0, 1)  # 1 where somebody could tell how it ended


def test_at_a_terminal_it_refreshes_in_place_and_ctrl_c_ends_it_cleanly(start: Start) -> None:
    program = start("train.py", "--sleep", "0.01")
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "50"}
    watching = subprocess.Popen(
        [*TRAINDBG, "watch", str(program.pid), "--rate", "5"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen = ""

    def read() -> str:
        nonlocal seen
        ready, _, _ = select.select([ours], [], [], 0.1)
        if ready:
            try:
                seen += os.read(ours, 1 << 16).decode(errors="replace")
            except OSError:  # nobody has the other end any more
                pass
        return seen

    until(lambda: read().count("since the attach") >= 3, lambda: seen)
    assert "\x1b[" in seen, "in place"
    os.kill(watching.pid, signal.SIGINT)
    until(lambda: (read(), watching.poll() is not None)[1], lambda: seen)
    read()
    os.close(ours)
    assert watching.returncode == 0, seen
    assert "Traceback" not in seen
    assert "\x1b[?25h" in seen, "the cursor is back"
    until(lambda: "agent" not in [t.agent and "agent" for t in traindbg.targets() if t.pid == program.pid])


def test_a_process_that_cannot_be_entered_is_one_line_and_no_endless_wait(start: Start) -> None:
    program = start("sleeping.py", command=["sh", "-c", "sleep 100"], ready=None)
    done = subprocess.run(
        [*TRAINDBG, "watch", str(program.pid)], check=False, capture_output=True, text=True, timeout=PATIENT_S
    )
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("traindbg: ")


def test_what_is_wrong_with_the_arguments_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--rate", "0"], "--rate is a number of rounds a second"),
        (["--for", "-1"], "--for is seconds"),
        (["--view", "gradients"], "there is no view 'gradients' here; there are curves, ranks, events"),
    ):
        assert cli.main(["watch", "1", *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
