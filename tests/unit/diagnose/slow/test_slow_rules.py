"""A training that waits for its data, or loses time at lines of its loop, judged from windows made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cases import each
from slow_evidence import (
    BACKWARD,
    FORWARD,
    LOADER,
    LOOP,
    SOUND,
    STEPS,
    TORCH,
    Spell,
    at,
    batches,
    codes,
    collectives,
    judged,
    loader,
    only,
    recorded,
    window,
    workers,
)

from jupyter_traindbg.diagnose.slow import families
from jupyter_traindbg.diagnose.slow.syncs import synchronises
from jupyter_traindbg.model import (
    Activity,
    Frame,
    NotAvailable,
    RankWindow,
    ThreadActivity,
    TrainingHost,
)

READS = Frame("/job/data.py", 33, "Texts.__getitem__")


def starved(many: int, wait_s: float = 0.05, **more: Any) -> RankWindow:
    """Batches come as fast as workers make them; without the wait a step takes 55 ms."""
    spells = (Spell(LOADER, wait_s, "futex"), *SOUND)
    seen = workers(many, working=1.0, at_line=READS)
    return window(0, spells, **{"workers": seen, "loaders": (loader(many),), "batches": batches(), **more})


# --- nothing, and no step ------------------------------------------------------------------------------------------


def test_of_a_sound_training_nothing_is_said_but_what_was_looked_at() -> None:
    slow = judged(window(0, SOUND))
    assert slow.causes == ()
    assert [words.partition(":")[0] for words in slow.looked_at] == [
        "data",
        "other ranks",
        "garbage collection",
        "the loop's own lines",
        "compilation",
        "synchronisation",
        "the machine",
        "its own past",
    ]
    (rank,) = slow.ranks
    assert rank.steps == STEPS
    assert rank.step_s == pytest.approx(0.055)
    assert (rank.forward_s, rank.backward_s, rank.optimizer_s) == pytest.approx((0.02, 0.03, 0.005))
    assert slow.undecided is None


def test_where_no_step_came_nothing_is_blamed() -> None:
    slow = judged(replace(window(0, SOUND), steps=()))
    assert (slow.causes, slow.looked_at) == ((), ())
    assert slow.ranks[0].step_s is None
    assert slow.ranks[0].lines, "where it stands is told"
    assert slow.undecided


def test_every_family_has_its_place() -> None:
    assert len(families()) == 8


# --- data ----------------------------------------------------------------------------------------------------------


@each(
    ("many", "wait_s", "wanted"),
    [(1, 0.055, 2), (2, 0.055, 4), (2, 0.011, 3), (3, 0.11, 9)],
)
def test_the_workers_that_would_keep_up_follow_from_what_a_batch_takes(many: int, wait_s: float, wanted: int) -> None:
    cause = only(starved(many, wait_s))
    finding = cause.finding
    assert finding.code == "data_wait"
    assert finding.where == "/job/data.py:33 Texts.__getitem__"
    assert f"num_workers={wanted} would keep up" in " ".join(finding.next_steps), finding.next_steps
    assert cause.saves_s == pytest.approx(wait_s, rel=0.02)
    assert cause.saves_share == pytest.approx(wait_s / (0.055 + wait_s), rel=0.02)


BUSY = Activity(9000, "DataLoader worker", "", 1.0, "R", 0.95, ())
WAITING = Activity(9000, "DataLoader worker", "", 1.0, "S", 0.02, ())


def test_workers_that_compute_are_bounded_by_the_cpus_that_the_training_leaves() -> None:
    first, second, third = only(starved(1, 0.3, children=(BUSY,), host=TrainingHost(1, 2))).finding.next_steps
    assert "cheaper" in first, "workers alone would not do"
    assert "there are CPUs for 1" in second
    assert "95%" in third
    assert "leaves 1.0" in third


def test_as_many_workers_as_there_are_cpus_for_help_as_far_as_that_goes() -> None:
    steps = only(starved(1, 0.5, children=(BUSY,), host=TrainingHost(1, 4))).finding.next_steps
    assert steps[-1] == "num_workers=3 would bring a step from 555 ms to 185 ms."


def test_a_quota_is_shared_by_the_ranks_of_a_machine() -> None:
    spells = (Spell(LOADER, 0.5, "futex"), *SOUND)
    host = TrainingHost(1, 8, name="a")
    windows = [
        window(
            rank, spells, host=host, workers=workers(1, working=1.0, at_line=READS), children=(BUSY,), loaders=(loader(1),),
            batches=batches(), collectives=collectives(rank, ()),
        )
        for rank in range(2)
    ]  # fmt: skip
    told = " ".join(judged(*windows).findings[0].next_steps)
    assert "there are CPUs for 3" in told, told


def test_workers_that_wait_are_no_more_than_pays_and_may_share_a_cpu() -> None:
    first, second, _ = only(starved(2, 3.0, children=(WAITING,), host=TrainingHost(1, 4))).finding.next_steps
    assert first == "num_workers=18 would bring a step from 3.05 s to 339 ms.", (
        "112 would keep up, and save a tenth more"
    )
    assert "up to 8 of them can share one" in second
    steps = only(starved(2, 3.0, children=(WAITING,), host=TrainingHost(1, 1))).finding.next_steps
    assert "there are CPUs for 8" in steps[1]
    assert "__getitems__" in steps[0]


def test_workers_that_nobody_could_watch_are_no_reason_to_say_that_there_are_none() -> None:
    unseen = NotAvailable("it runs on another host")
    finding = only(starved(2, 0.055, workers=unseen)).finding
    assert (finding.where, finding.confidence) == (None, "medium")
    assert "2 of them" in finding.evidence[0]
    assert "num_workers=4 would keep up" in finding.next_steps[0]


def test_workers_that_keep_up_are_not_blamed_for_the_time_it_takes_to_hand_batches_over() -> None:
    spells = (Spell(LOADER, 0.01, "futex"), *SOUND)
    idle = {"workers": workers(2, working=0.4, at_line=READS), "loaders": (loader(2),), "batches": batches()}
    even = window(0, spells, **idle)
    assert judged(even).causes == ()
    uneven = [replace(s, data_wait_s=0.05 if s.step % 5 == 0 else 0.0) for s in even.steps]
    finding = only(replace(even, steps=uneven)).finding
    assert finding.code == "data_wait"
    assert "prefetch_factor" in finding.next_steps[0]


def crowding(wait_s: float) -> RankWindow:
    """Workers and training want 3 CPUs of 2; the training thread waits for one 30 % of the time."""
    thread = ThreadActivity(1000, "python", "R", 0.7, 10, starved_share=0.3)
    of_worker = ThreadActivity(9000, "pt_data_worker", "R", 0.6, 10, starved_share=0.4)
    worker = Activity(9000, "DataLoader worker", "", 1.0, "R", 0.6, (of_worker,))
    wants = {"activity": Activity(1000, "rank", "", 1.0, "R", 0.7, (thread,)), "children": (worker, worker)}
    return starved(2, wait_s, host=TrainingHost(1, 2), **wants)


def test_a_loader_that_starves_its_training_takes_its_cpus_too() -> None:
    cause = only(crowding(0.05))
    assert cause.finding.code == "data_wait"
    assert cause.saves_s == pytest.approx(0.05 + 0.3 * 0.105, rel=0.05)
    assert "uses 100% of a CPU" in " ".join(cause.finding.next_steps), "it would, if it got one"


def test_workers_that_keep_up_may_take_the_cpus_of_the_training() -> None:
    cause = only(crowding(0.001))
    assert cause.finding.code == "too_many_workers"
    assert cause.saves_share == pytest.approx(0.3, rel=0.05)
    more = replace(crowding(0.001), host=TrainingHost(1, 8))
    assert judged(more).causes == (), "then somebody else has them"


def test_without_workers_the_line_is_in_the_training_thread() -> None:
    fetch = (Frame(f"{TORCH}/utils/data/_utils/fetch.py", 54, "fetch", library=True), *LOADER[1:])
    cause = only(
        window(
            0,
            (Spell((READS, *fetch), 0.11), *SOUND),
            parts={"data_wait_s": 0.11, "forward_s": 0.02, "backward_s": 0.03},
        )
    )
    assert cause.finding.where == "/job/data.py:33 Texts.__getitem__"
    assert "num_workers=2 would keep up" in cause.finding.next_steps[0]
    assert "itself" in cause.finding.cause


def test_a_line_that_holds_the_gil_is_told_from_outside_and_not_where_the_sample_waits_next() -> None:
    fetch = (Frame(f"{TORCH}/utils/data/_utils/fetch.py", 54, "fetch", library=True), *LOADER[1:])
    alphabet = Frame("/job/data.py", 30, "Texts.__getitem__")
    parts = {"data_wait_s": 0.11, "forward_s": 0.02, "backward_s": 0.03}
    outside = (((alphabet, *fetch), 30), ((READS, *fetch), 4), (BACKWARD, 20))
    computes, waits = (
        window(0, (Spell((READS, *fetch), 0.11, call), *SOUND), parts=parts, outside=outside)
        for call in ("", "clock_nanosleep")
    )
    assert only(computes).finding.where == "/job/data.py:30 Texts.__getitem__"
    assert only(waits).finding.where == "/job/data.py:33 Texts.__getitem__", "it waits, which our looks see"
    seen_waiting = [replace(look, idle_s=0.1 * look.wall_s) for look in waits.looks]
    computed_before = only(replace(waits, looks=seen_waiting))
    assert computed_before.finding.where == "/job/data.py:30 Texts.__getitem__"
    assert "A worker uses 90% of a CPU" in " ".join(computed_before.finding.next_steps), "and cannot share it"
    few = (((alphabet, *fetch), 2),)
    assert only(replace(computes, outside=few)).finding.where == "/job/data.py:33 Texts.__getitem__"


def restarting(persistent: bool) -> RankWindow:
    """Passes of five steps. Of the first of each, workers take 100 ms to start, and a copied process 20 ms more in its optimizer's step."""
    starts = (Frame(f"{TORCH}/utils/data/dataloader.py", 420, "DataLoader._get_iterator", library=True), LOOP)
    made = window(0, (Spell(starts, 0.1, every=5), *SOUND), loaders=(loader(2, persistent_workers=persistent),))
    usual = {"forward_s": 0.02, "backward_s": 0.03, "optimizer_s": 0.005}
    first = {**usual, "other_s": 0.1, "optimizer_s": 0.025}
    steps = [
        recorded(n, sum(parts.values()), parts)
        for n in range(1, STEPS + 1)
        for parts in [usual if n % 5 != 1 else first]
    ]
    numbered = tuple(replace(one, number=1 + (one.step - 1) % 5) for one in batches())
    return replace(made, steps=steps, batches=numbered, workers_began=8)


def test_workers_that_are_started_for_each_pass_are_told_with_what_that_costs() -> None:
    cause = only(restarting(persistent=False))
    assert cause.finding.code == "workers_restarted"
    assert cause.saves_s == pytest.approx((0.1 + 0.02) / 5, rel=0.05)
    assert "workers_restarted" not in codes(judged(restarting(persistent=True))), "they stay"


def test_copies_that_are_waited_for_are_told_on_a_gpu_alone() -> None:
    spells = (Spell(at(11), 0.02, forward=True), *SOUND)
    gpu = {"loaders": (loader(2),), "host": TrainingHost(1, 8, cuda=True)}
    assert only(window(0, spells, **gpu), l11="x = x.to(device)").finding.code == "not_pinned"
    assert judged(window(0, spells, loaders=(loader(2),)), l11="x = x.to(device)").causes == ()


# --- the loop's own lines ------------------------------------------------------------------------------------------


@each(
    ("spell", "line", "code"),
    [
        (Spell(at(20), 0.02, "clock_nanosleep"), "time.sleep(0.02)", "sleeps"),
        (Spell(at(20), 0.02, "futex"), "with lock:", "lock_wait"),
        (Spell(at(20), 0.02, late_s=0.001), "n += score(row)", "python_work"),
        (Spell(at(20), 0.02), "y = x.sort()", "host_work"),
        (Spell(at(20), 0.02, "fsync"), "f.flush()", "blocking_write"),
        (Spell(at(20), 0.02), "os.fsync(f.fileno())", "blocking_write"),
        (Spell(at(20), 0.02, "read"), "f.read()", "reads"),
        (Spell(at(20), 0.02, "wait4"), "os.wait()", "child_wait"),
        (Spell(at(20), 0.02, "recvfrom"), "requests.post(url)", "network_wait"),
        (
            Spell(at(20, "main", Frame(f"{TORCH}/serialization.py", 900, "save", library=True)), 0.02),
            "",
            "blocking_save",
        ),
        (
            Spell(
                at(20, "main", Frame("/usr/lib/python3.11/logging/__init__.py", 9, "emit", library=True)), 0.02, "write"
            ),
            "",
            "blocking_log",
        ),
    ],
)
def test_what_the_thread_does_at_a_line_is_known_by_how_it_waits(spell: Spell, line: str, code: str) -> None:
    cause = only(window(0, (spell, *SOUND)), l20=line)
    assert (cause.finding.code, cause.finding.where) == (code, "/job/train.py:20 main")
    assert cause.saves_s == pytest.approx(0.02, rel=0.1)


def test_python_in_a_forward_pass_is_told_and_tensors_are_not() -> None:
    inside = (Frame("/job/model.py", 7, "Net.forward"), *FORWARD[1:])
    assert only(window(0, (Spell(inside, 0.03, late_s=0.001, forward=True), *SOUND))).finding.code == "python_work"
    assert judged(window(0, (Spell(inside, 0.03, forward=True), *SOUND))).causes == ()


def test_a_thread_that_we_took_the_gil_from_computes() -> None:
    spell = Spell(at(20), 0.02, "futex", late_s=0.005)
    made = window(0, (spell, *SOUND))
    ran = replace(made, looks=[replace(look, idle_s=0.0) for look in made.looks])
    assert only(ran, l20="counts.get(word)").finding.code == "python_work"
    assert only(made, l20="with lock:").finding.code == "lock_wait", "it has not run meanwhile"


def test_a_loop_whose_tensors_let_go_of_the_gil_for_a_moment_does_not_wait_for_it() -> None:
    made = window(0, (Spell(at(20), 0.02, "futex"), *SOUND))
    ran = replace(made, looks=[replace(look, idle_s=0.1 * look.wall_s) for look in made.looks])
    assert only(ran, l20="table[letter, guess] += 1").finding.code == "host_work"
    assert only(made, l20="with lock:").finding.code == "lock_wait", "it has not run meanwhile"


def test_where_python_runs_between_two_calls_of_torch_is_told_from_outside() -> None:
    draws = (Frame("/job/train.py", 33, "draw"), Frame("/job/train.py", 20, "main"))
    made = window(
        0, (Spell((Frame("/job/train.py", 31, "draw"), Frame("/job/train.py", 20, "main")), 0.02, late_s=0.001), *SOUND)
    )
    assert only(made).finding.where == "/job/train.py:31 draw"
    seen = ((draws, 9), (FORWARD, 12), (at(50), 20))
    assert only(replace(made, outside=seen)).finding.where == "/job/train.py:33 draw"


def test_what_happens_once_in_the_window_is_no_finding() -> None:
    assert judged(window(0, (Spell(at(20), 0.4, "fsync", every=STEPS), *SOUND))).causes == ()


def test_what_takes_little_is_no_finding() -> None:
    assert judged(window(0, (Spell(at(20), 0.004, late_s=0.001), *SOUND))).causes == ()


def test_on_a_gpu_a_line_that_waits_for_it_is_not_blamed() -> None:
    spells = (Spell(at(20), 0.04), *SOUND)
    assert judged(window(0, spells, host=TrainingHost(1, 8, cuda=True)), l20="loss.item()").causes == ()


@each(
    "line",
    [
        "loss.item()",
        "x.cpu()",
        "mask.nonzero()",
        "print(loss)",
        "torch.cuda.synchronize()",
        "if mask.any():",
        "float(loss)",
    ],
)
def test_lines_that_synchronise_are_known_by_what_is_written(line: str) -> None:
    assert synchronises(line)


@each("line", ["loss = model(x)", "x = x.to(device)", "items.append(x)", "optimizer.step()"])
def test_others_do_not(line: str) -> None:
    assert not synchronises(line)


def test_a_line_that_synchronises_in_the_middle_of_a_forward_pass_is_told_on_a_gpu_alone() -> None:
    inside = (Frame("/job/train.py", 21, "Net.forward"), *FORWARD[1:])
    spells = (Spell(inside, 0.03, forward=True), *SOUND)
    found = only(window(0, spells, host=TrainingHost(1, 8, cuda=True)), l21="if mask.any():").finding
    assert (found.code, found.confidence) == ("synchronises", "low")
    assert judged(window(0, spells), l21="if mask.any():").causes == ()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_findings_speak_both_languages(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", language)
    finding = only(starved(2)).finding
    assert (language == "zh") == any("\u4e00" <= c <= "\u9fff" for c in finding.title + finding.cause)
