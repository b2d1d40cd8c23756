"""What the views of checkpoints, logs, preflights, reports and the live view answer first."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest
import render_scenes_checkpoints as checkpoints
import render_scenes_environ as environs
import render_scenes_logs as logs
import render_scenes_plan as plans
import render_scenes_report as reports
import render_scenes_watch as watches
from cases import each

from jupyter_traindbg import render
from jupyter_traindbg.model import (
    CheckpointPart,
    Compared,
    Exported,
    Finding,
    NotAvailable,
    Picture,
    Preflight,
    ReportPart,
    Result,
    Sketch,
    Subject,
    rank_subjects,
    things,
)

WARNING = Finding("x", "warning", "something")
CRITICAL = Finding("x", "critical", "something")


def answer(result: Result) -> str:
    """The first line, whole."""
    return render.text(result, 1000).splitlines()[0]


def words(result: Result) -> str:
    return answer(result).split(" · ")[0]


def changed(result: Any, **fields: Any) -> Any:
    return dataclasses.replace(result, **fields)


NOT_EXACT = "rank 1 did not answer: random generators and loader positions are not in it"
CHECKPOINT = checkpoints.checkpoint(2)
INSPECTED = checkpoints.inspected(2)
STARTED = "as the processes were started; a program may have changed it since"
OTHERS = "random generators and loader positions"
PART = (ReportPart("a", "A", "", ("gone",)),)
EMPTY_COMPARED = Compared("a", "b", 0, 0, 0, ())
BAD_VERIFIED = checkpoints.verified(3)
PREFLIGHT = environs.alone()
FOLLOWED = logs.followed(2)


def parts(*present: str) -> tuple[CheckpointPart, ...]:
    return *(CheckpointPart(role, True) for role in present), CheckpointPart("scheduler", False)


WHOLE = parts("model", "optimizer", "rng", "loader")


def failures(who: Sequence[Subject], count: int = 1) -> Result:
    found = Finding("x", "critical", "it failed", who)
    return dataclasses.replace(logs.log_diagnosis(2), verdict=(found, *[CRITICAL] * (count - 1)))


CASES = [
    # checkpoint
    (CHECKPOINT, "✔ saved, and exact: a run resumed from it is bit-identical"),
    (checkpoints.checkpoint(300), "▲ saved, not exact: rank 7: random generators and loader positions of the last boundary are not known"),
    (checkpoints.checkpoint(2, missing=(1,)), f"▲ saved, not exact: {NOT_EXACT}"),
    (changed(CHECKPOINT, exact=False, inexact=("a", "b")), "▲ saved, not exact, for 2 reasons"),
    (changed(CHECKPOINT, exact=False), "▲ saved, not exact"),
    (changed(CHECKPOINT, files=()), "▲ no file was written"),
    # a checkpoint on disk
    (INSPECTED, "▲ model and optimizer are in it; an exact resume also needs random generators and loader positions"),
    (changed(INSPECTED, parts=WHOLE), f"✔ model, optimizer, {OTHERS} are in it: what an exact resume needs"),
    (changed(INSPECTED, parts=parts("optimizer")), f"▲ optimizer is in it; an exact resume also needs model, {OTHERS}"),
    (changed(INSPECTED, parts=parts("model")), "● weights alone: the model, and nothing else to resume from"),
    (changed(INSPECTED, parts=()), "▲ no part of a training was recognised in it"),
    (BAD_VERIFIED, "✖ 2 files are not what was written: 1 damaged, 1 missing"),
    (changed(BAD_VERIFIED, files=BAD_VERIFIED.files[:3]), "✖ model.pt is not what was written: damaged"),
    (checkpoints.verified(3000, bad=False), "✔ every byte is what was written"),
    (changed(BAD_VERIFIED, files=()), "▲ nothing was verified: none of its files is known"),
    (changed(BAD_VERIFIED, files=BAD_VERIFIED.files[-1:]), "▲ nothing was verified: none of its files is known"),
    (checkpoints.compared(330), "▲ 2,972 keys differ: 1,486 missing, 1,485 unexpected, 1 of another shape"),
    (changed(EMPTY_COMPARED, same=9), "✔ all 9 keys fit"),
    (EMPTY_COMPARED, "▲ nothing was compared: no key is on both sides"),
    # logs
    (logs.log_diagnosis(300), "✖ The log tells of a failure, on rank 3"),
    (failures(things(["decoder.bias"])), "✖ The log tells of a failure"),
    (failures(rank_subjects(range(300)), 2), "✖ The log tells of 2 failures, the first on ranks 0-299 (300)"),
    (changed(logs.healthy_log(), verdict=(WARNING, WARNING)), "▲ The log tells of no failure, but of 2 things to look at"),
    (logs.healthy_log(), "✔ The log tells of no failure"),
    (changed(logs.healthy_log(), lines_read=0), "● There is nothing in the log"),
    (FOLLOWED, "▲ no new line for 5 min 40 s, in stage sync"),
    (changed(FOLLOWED, verdict=(), silent_s=1.0, in_stage_s=90.0), "✔ in stage sync for 1 min 30 s"),
    (changed(FOLLOWED, verdict=(), silent_s=1.0, in_stage_s=NotAvailable("new")), "✔ in stage sync"),
    (changed(FOLLOWED, over="its writer has ended"), "● The log tells of no failure; its writer has ended"),
    (changed(FOLLOWED, verdict=(CRITICAL,), over="its writer has ended"), "✖ The log tells of a failure"),
    (logs.followed_quietly(), "● no line has come yet"),
    (changed(logs.followed_quietly(), lines_read=9), "✔ lines keep coming"),
    # before a start
    (environs.preflight(300), "✖ 1 finding speaks against starting it"),
    (changed(PREFLIGHT, verdict=(CRITICAL, WARNING, CRITICAL)), "✖ 2 findings speak against starting it"),
    (changed(PREFLIGHT, verdict=(WARNING,)), "▲ nothing forbids starting it; 1 thing to look at before"),
    (PREFLIGHT, "✔ nothing here speaks against starting it"),
    (changed(environs.preflight(2, failed=True), verdict=()), "✖ the trial all_reduce failed"),
    (plans.config_preflight(), "✖ 1 finding speaks against starting it"),
    (plans.on_ray(300), "✖ 1 finding speaks against starting it"),
    (plans.of_little(), "✔ nothing here speaks against starting it"),
    (environs.environ(300), "✖ TORCH_DISTRIBUTED_DEBUG is not the same on all ranks; 2 more to look at"),
    (changed(environs.environ(2), rows=environs.environ(2).rows[1:]), "▲ NCCL_TIMEOUT does nothing; 1 more to look at"),
    (changed(environs.environ(2), rows=environs.environ(2).rows[2:]), "● MY_CLUSTER_NCCL is not known"),
    (changed(environs.environ(2), rows=environs.environ(2).rows[3:], verdict=()), "✔ no variable is known to do harm, or to do nothing"),
    (changed(environs.environ(2), rows=environs.environ(2).rows[3:]), "✖ 1 thing to look at"),
    (changed(environs.environ(2), rows=(), verdict=()), "no variable that has to do with training is set"),
    # what was written
    (reports.report(6), "● the report is in /home/me/bundle.zip; 2 parts of it could not be had in full"),
    (reports.report(3, missing=0), "● the report is in /home/me/bundle.zip"),
    (changed(reports.report(1), parts=PART), "● the report is in /home/me/bundle.zip; 1 part of it could not be had in full"),
    (watches.exported(300), "● steps 1 to 20,000 of 300 ranks written to /tmp/run.parquet"),
    (Exported("/tmp/t.json", "trace", 0, 0, 0, 0, 0), "▲ no step was there: an empty file was written to /tmp/t.json"),
    (Picture("loss", "loss of rank 0", ("it falls", "slowly")), "it falls"),
    (Picture("loss", "loss of rank 0", (), (Sketch("loss", (math.nan,), ""),)), "loss of rank 0"),
    # live
    (watches.watched(300), "✔ training"),
    (watches.watched(300, odd=17), "✖ lost rank 17: the others make no steps"),
    (watches.little(), "waiting for a step, for 3.0 s"),
    (changed(watches.little(), state="finished", verdict=(CRITICAL,), words="finished, not well"), "✖ finished, not well"),
    (changed(watches.little(), state="stalled", words="stalled for 9 s"), "▲ stalled for 9 s"),
]  # fmt: skip


@each("result, said", CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_the_answer(result: Result, said: str) -> None:
    assert words(result) == said


ABOUT = [
    (CHECKPOINT, f"checkpoint in {checkpoints.JOB}/rescued · 1.2 GiB in 4 files · 2.31 s"),
    (checkpoints.compared(2), "/ckpt/last.ckpt against rank 0 · 20 keys against 20 · 0 fit"),
    (environs.preflight(2), "node0 · 2 machines x 4 processes · gloo · 400 ms"),
    (plans.config_preflight(), "ppo.yaml, run.sh · verl · 200 ms"),
    (watches.watched(300, odd=17), "torchrun:4711 · step 1,200 since the attach · 300 ranks · 9.5 steps/s"),
    (watches.little(), "4711 · step 0 since the attach · 0 ranks"),
    (reports.report(6), "torchrun:4711 · 6 files · 121 KiB · 3.2 s"),
    (changed(environs.environ(300), rows=()), f"torchrun:900 · ranks 0-299 (300) · {STARTED}"),
]  # fmt: skip


@each("result, said", ABOUT)
def test_what_it_is_about(result: Result, said: str) -> None:
    assert answer(result).partition(" · ")[2] == said


CHINESE = [
    (CHECKPOINT, "✔ 已保存，可精确恢复：从它恢复的运行逐位一致"),
    (INSPECTED, "▲ 含模型和优化器；精确恢复还需要随机数生成器和数据位置"),
    (BAD_VERIFIED, "✖ 2 个文件与写入时不符：1 损坏、1 缺失"),
    (checkpoints.compared(2), "▲ 20 个键不符：缺少 10 个、多出 9 个、形状不同 1 个"),
    (logs.log_diagnosis(2), "✖ 日志显示任务失败，位于 rank 1"),
    (FOLLOWED, "▲ 5 min 40 s 没有新的一行，处于阶段 sync"),
    (PREFLIGHT, "✔ 没有发现妨碍启动的问题"),
    (environs.environ(2), "✖ TORCH_DISTRIBUTED_DEBUG 在各 rank 上不一致；另有 2 个值得一看"),
    (reports.report(6), "● 报告已写入 /home/me/bundle.zip；2 个部分未能完整获得"),
    (watches.exported(2), "● 第 1–20,000 步（2 个 rank）已写入 /tmp/run.parquet"),
]


@each("result, said", CHINESE)
def test_in_chinese(result: Result, said: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRAINDBG_LANG", "zh")
        assert words(result) == said


def test_nothing_is_said_twice() -> None:
    assert "speaks against" not in render.text(environs.alone(), 120).split("\n", 1)[1]
    assert "5 min 40 s ago" not in render.text(logs.followed(2), 120)
    going = render.text(changed(FOLLOWED, verdict=(), silent_s=1.0, in_stage_s=90.0), 120)
    assert going.count("1 min 30 s") == going.count("stage sync") == 1
    assert "the stage usually takes –¹, visit 1 · 812: " in going
    several = render.text(changed(CHECKPOINT, exact=False, inexact=("one is late", "one is gone")), 120)
    assert several.index("not exact  - one is late") < several.index("- one is gone")
    assert NOT_EXACT not in render.text(checkpoints.checkpoint(2, missing=(1,)), 120).split("\n", 2)[2]


def test_what_an_estimate_assumes_is_folded_and_what_it_lacks_is_not() -> None:
    plan = plans.config_preflight()
    lacking = changed(plan, memory=changed(plan.memory, activations_bytes=NotAvailable("no sequence length")))
    told = render.text(lacking, 120)
    assert "▸ what the estimate assumes" in told
    assert "34 s b h a layer" not in told
    assert "34 s b h a layer" in render.text(lacking, 120, full=True)
    assert "activations are not in it: no sequence length" in told


def test_an_event_that_is_a_rule_has_no_words() -> None:
    seen = logs.log_diagnosis(1)
    (event,) = seen.timeline

    def row(line: str) -> str:
        event_of = changed(event, line=changed(event.line, text=line))
        return render.text(changed(seen, timeline=(event_of,)), 120).split("What happened")[1].splitlines()[3]

    assert row("=" * 60).split()[-1] == "–"
    assert row("ValueError" + " " * 40 + "Traceback (most recent call last)").endswith(
        "ValueError Traceback (most recent call last)"
    )
    assert row(f"RuntimeError: {'─' * 60} no rows").endswith("RuntimeError: no rows")


def test_a_report_that_was_unpacked_names_the_page() -> None:
    made = reports.report(2)
    assert "unpack it and open index.html" in render.text(made, 160)
    there = changed(made, index="/home/me/bundle/index.html")
    assert "opened: /home/me/bundle/index.html\n" in render.text(there, 160)
    assert "unpack it" not in render.text(there, 160)
    not_shown = changed(there, not_opened="not opened, there is no display here")
    assert "not opened, there is no display here: /home/me/bundle/index.html\n" in render.text(not_shown, 160)
    assert "not opened: the disk is full\n" in render.text(
        changed(made, not_opened="not opened: the disk is full"), 160
    )


def test_the_trial_that_failed_beside_findings_is_no_answer_of_its_own() -> None:
    failed = environs.preflight(2, failed=True)
    assert isinstance(failed, Preflight)
    assert words(failed) == "✖ 1 finding speaks against starting it"
