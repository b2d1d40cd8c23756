"""The verdict on what grows: which holder comes first, what is worth a finding, and what is left of the curve's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cases import each

from jupyter_traindbg.diagnose.growth import findings
from jupyter_traindbg.evidence_growth import look, workers
from jupyter_traindbg.model import (
    Finding,
    Frame,
    Holder,
    HolderKind,
    MemoryLook,
    MemoryShare,
    NotAvailable,
    RankMemory,
    SharedList,
    WorkerMemory,
    rank_subjects,
)

LINE = Frame("/home/ada/train.py", 57, "main")
LOSSES = Holder("graphs", "losses", "local", "main", "list", "Tensor", 412, 3.0, 9e6, 1_288_490_188, LINE)
KINDS: tuple[tuple[HolderKind, str], ...] = (
    ("graphs", "graphs_kept"),
    ("graph", "graphs_kept"),
    ("container", "container_grows"),
    ("cache", "cache_grows"),
    ("hooks", "hooks_pile_up"),
    ("tracebacks", "tracebacks_kept"),
    ("optimizers", "optimizers_kept"),
    ("chain", "chain_grows"),
    ("objects", "objects_kept"),
    ("cycle", "cycles_not_collected"),
)
CURVE = Finding("memory_growth", "warning", "grows", rank_subjects([0]), evidence=["rank 0: z = 9"])


def rank(*holders: Holder, number: int = 0, **how: Any) -> RankMemory:
    seen = MemoryLook(10, 9e6, 0.0, looked=True, holders=holders, **how)
    return RankMemory(number, 1000 + number, 2**30, 2**30, (), NotAvailable("no GPU"), (), look=seen)


def test_the_list_is_named_with_its_line_and_what_to_do() -> None:
    (found,) = findings([rank(LOSSES)], [])
    assert found.title == "`losses` in main() keeps 412 tensors with their graphs: at least 8.58 MiB more at each step"
    assert (found.code, found.where, found.confidence) == ("graphs_kept", "/home/ada/train.py:57 main", "high")
    assert found.ranks == (0,)
    assert "412 held, 3 more at each step, at least 1.2 GiB in all" in found.evidence[0]
    assert "append loss.item() to `losses`" in found.next_steps[0]


@each(("kind", "code"), KINDS)
def test_each_kind_has_its_code_and_its_advice(kind: HolderKind, code: str) -> None:
    (found,) = findings([rank(replace(LOSSES, kind=kind), collects=kind != "cycle")], [])
    assert found.code == code
    assert found.cause
    assert found.next_steps


def test_one_leak_of_many_ranks_is_one_finding_and_the_largest_tells_how_much() -> None:
    (found,) = findings([rank(replace(LOSSES, bytes_a_step=1e6 * n), number=n) for n in range(1, 30)], [])
    assert found.ranks == tuple(range(1, 30))
    assert len(found.evidence) == 8
    assert "27.7 MiB more" in found.title


def test_several_of_one_name_and_line_are_added_up() -> None:
    """A hook that is registered again in each epoch, with a list of its own."""
    awake = replace(LOSSES, kind="container", name="awake", scope="function", bytes_a_step=32768.0)
    (found,) = findings([rank(*(replace(awake, count=50 * n) for n in range(1, 12))), rank(awake, number=1)], [])
    assert "32 KiB more" in found.title
    assert found.evidence[0] == (
        "rank 0: 11 of them were measured, together 352 KiB more at each step, less where they hold the same tensors"
    )
    (one,) = findings([rank(awake), rank(awake, number=1)], [])
    assert "together" not in " ".join(one.evidence)


def test_what_has_a_bound_or_is_tiny_is_no_finding() -> None:
    container = replace(LOSSES, kind="container")
    assert findings([rank(replace(container, bound=1000))], []) == []
    assert findings([rank(replace(container, bytes_a_step=300.0))], []) == []
    assert len(findings([rank(replace(container, bound=100))], [])) == 1
    assert len(findings([rank(replace(LOSSES, bytes_a_step=300.0))], [])) == 1, "a graph is wrong however small"


def test_the_largest_comes_first_and_what_the_program_holds_before_a_library_does() -> None:
    small = replace(LOSSES, kind="container", name="small", bytes_a_step=5e3)
    large = replace(LOSSES, kind="container", name="large", bytes_a_step=5e6)
    library = replace(large, name="library", scope="library", bytes_a_step=5e7)
    titles = [found.title for found in findings([rank(small, library, large)], [])]
    assert [title.split("`")[1] for title in titles] == ["large", "small", "library"]


def test_the_verdict_on_the_curve_is_evidence_where_the_holder_is_known_and_stays_where_it_is_not() -> None:
    (found,) = findings([rank(LOSSES)], [CURVE])
    assert found.evidence[-1] == "rank 0: z = 9"
    assert findings([rank()], [CURVE]) == [CURVE]
    both = replace(CURVE, who=rank_subjects([0, 1]))
    assert [f.code for f in findings([rank(LOSSES), rank(number=1)], [both])] == ["graphs_kept", "memory_growth"]


def test_what_nothing_explains_is_said_to_be_so() -> None:
    (found,) = findings([rank(unexplained_bytes_a_step=16384.0, objects=300_000)], [])
    assert (found.code, found.confidence, found.where) == ("native_growth", "medium", None)
    assert found.title.startswith("16 KiB more are allocated at each step on rank 0, and no object of Python's")


def test_of_garbage_one_kind_is_told_of_with_the_line_that_switched_the_collector_off() -> None:
    cycle = replace(LOSSES, kind="cycle", name="", of="Batch", loop="Batch.view -> View.batch", where=None)
    off = Frame("/home/ada/train.py", 9, "main")
    (found,) = findings([rank(cycle, replace(cycle, of="Tensor", loop=""), collects=False, switched_off=off)], [])
    assert "like Batch" in found.title
    assert found.where == "/home/ada/train.py:9 main"
    assert "the cycle: Batch.view -> View.batch" in found.evidence


# --- what fills up ---------------------------------------------------------------------------------------------------

REPLAY = replace(LOSSES, kind="container", name="replay", of="tuple", count=1000, held_bytes=2**20, bound=100_000)


def host(capacity_bytes: int) -> MemoryShare:
    return MemoryShare("cpu", 0, 0, 0, 0, 2**30, 2**30, 0, capacity_bytes)


def test_what_fills_up_to_its_bound_is_no_leak_though_the_curve_grows() -> None:
    (found,) = findings([rank(REPLAY)], [CURVE])
    assert (found.code, found.severity, found.where) == ("fills_up", "info", "/home/ada/train.py:57 main")
    assert found.title == "`replay` in main() fills up: 1,000 of 100,000 at most, 1 MiB now and 100 MiB when it is full"
    assert found.next_steps == ["See that 99 MiB more fit: it stops growing in about 33,000 steps."]
    assert found.evidence[-1] == "rank 0: z = 9"
    assert findings([rank(REPLAY)], []) == []


def test_what_does_not_fit_when_it_is_full_is_a_warning() -> None:
    (fits,) = findings([replace(rank(REPLAY), shares=(host(2 * 2**30),))], [CURVE])
    (small,) = findings([replace(rank(REPLAY), shares=(host(2**30 + 2**26),))], [CURVE])
    assert (fits.severity, small.severity) == ("info", "warning")
    assert fits.next_steps == ["Nothing to mend: it stops growing in about 33,000 steps, 99 MiB from now."]
    assert small.next_steps[0].startswith("99 MiB more are to come within 33,000 steps, and 64 MiB are left: bound it")


def test_all_ranks_of_a_host_have_to_fit_together_and_those_of_gpus_each_for_itself() -> None:
    rooms = {"cpu": host(2**30 + 2**27), "cuda:0": replace(host(2**30 + 2**27), device="cuda:0")}
    told = {
        device: findings(
            [replace(rank(replace(REPLAY, device=device), number=n), shares=(room,)) for n in (0, 1)],
            [replace(CURVE, who=rank_subjects([0, 1]))],
        )
        for device, room in rooms.items()
    }
    assert {device: found[0].severity for device, found in told.items()} == {"cpu": "warning", "cuda:0": "info"}


def test_where_something_else_grows_more_the_curve_stays() -> None:
    small = replace(REPLAY, bytes_a_step=1e6)
    assert findings([rank(small)], [CURVE]) == [CURVE]


def test_what_the_program_empties_itself_stays_a_word_though_the_curve_grows() -> None:
    emptied, looked_up = (replace(REPLAY, bound=None, may_end=end) for end in ("emptied", "looked_up"))
    assert [found.severity for found in findings([rank(emptied)], [CURVE])] == ["info"]
    assert [found.severity for found in findings([rank(looked_up)], [CURVE])] == ["warning"]
    assert [found.severity for found in findings([rank(looked_up)], [])] == ["info"]


def test_what_the_program_empties_does_not_silence_a_curve_that_it_does_not_explain() -> None:
    emptied = replace(REPLAY, bound=None, may_end="emptied", bytes_a_step=2e3)
    assert [found.code for found in findings([rank(emptied)], [CURVE])] == ["container_grows", "memory_growth"]


def test_two_that_fill_up_have_to_fit_together() -> None:
    second = replace(REPLAY, name="recent")
    told = findings([replace(rank(REPLAY, second), shares=(host(2**30 + 150 * 2**20),))], [CURVE])
    assert [found.severity for found in told] == ["warning", "warning"]
    assert told[0].next_steps[0].startswith("198 MiB more are to come within 33,000 steps, and 150 MiB are left")


def test_a_curve_is_evidence_of_one_finding() -> None:
    told = findings(
        [rank(LOSSES), rank(REPLAY, number=1)], [CURVE, replace(CURVE, who=rank_subjects([1]), evidence=["other"])]
    )
    assert [[line for line in found.evidence if "held" not in line] for found in told] == [["rank 0: z = 9"], ["other"]]


# --- workers -------------------------------------------------------------------------------------------------------


def test_workers_that_copy_a_large_list_and_those_that_keep_things_themselves() -> None:
    shared = SharedList("Texts.texts", "list", "str", 1_000_000, LINE)
    copying = WorkerMemory(7, 2**27, 5e5, (shared,), "Texts", None, 0.6)
    (found,) = findings([replace(rank(), workers=(copying, replace(copying, pid=8)))], [])
    assert found.title == "2 DataLoader workers grow: each makes its own copy of `Texts.texts`, 1,000,000 objects"
    assert found.where == "/home/ada/train.py:57 main"
    keeping = replace(copying, shared=(), growth_bytes_per_s=2e7)
    (found,) = findings([replace(rank(), workers=(keeping,))], [])
    assert found.title == "1 DataLoader worker grows at each batch: by up to 19.1 MiB a second"
    young = replace(keeping, growth_bytes_per_s=1e6)
    assert findings([replace(rank(), workers=(young,))], []) == []


# --- from what the probe answers -------------------------------------------------------------------------------------


LIMIT: Mapping[str, Any] = {"most": None, "compared": False, "emptied": False, "taken": False, "looked_up": False}


def raw(**changes: Any) -> dict[str, Any]:
    row = {
        "kind": "container", "type": "list", "counts": [10, 14, 18], "steps": 8, "bound": None, "hooks": False, "chain": "",
        "defined": None, "lines": [["/home/ada/train.py", 57, "main"]],
        "about": {"kind": "Tensor", "graph": True, "bytes": 4.0, "bytes_a_step": 4.0, "exception": False, "optimizer": False,
                  "tensor": True, "shape": [3, 4]},
        "limit": LIMIT,
        "path": {"name": {"kind": "local", "name": "losses", "scope": "main", "file": "/home/ada/train.py", "line": 60},
                 "steps": [], "whole": True, "cycle": False},
    }  # fmt: skip
    return {**row, **changes}


def answer(*held: dict[str, Any], **changes: Any) -> dict[str, Any]:
    told = {
        "looked": True, "note": "", "watched": {"steps": 10, "books": True, "host": 7000.0, "cuda": 0.0}, "after": None,
        "held": list(held), "collects": True, "switched_off": [], "grown": [], "steps": 8, "objects": 9, "pauses_s": [0.1],
    }  # fmt: skip
    return {**told, **changes}


def test_a_graph_takes_what_was_measured_where_nothing_else_grows() -> None:
    seen = look(answer(raw()))
    assert isinstance(seen, MemoryLook)
    (holder,) = seen.holders
    assert (holder.kind, holder.a_step, holder.bytes_a_step, holder.held_bytes) == ("graphs", 1.0, 7000.0, 126_000)
    other = raw(type="dict", about={**raw()["about"], "graph": False, "bytes_a_step": 5000.0})
    two = look(answer(raw(), other))
    assert isinstance(two, MemoryLook)
    assert [h.bytes_a_step for h in two.holders] == [4.0, 5000.0]


def after(host: float, calls: int, **recorder: Any) -> dict[str, Any]:
    told = {"calls": 900, "new": calls, "most": 2000, **recorder}
    books = {"steps": 30, "books": True, "host": host, "cuda": 0.0, "even": {"host": True, "cuda": False}}
    return {**books, "recorder": told if calls else None}


@each("host, calls, explained", [(1700.0, 60, True), (1700.0, 0, False), (9000.0, 60, False)])
def test_what_torchs_flight_recorder_takes_until_it_is_full_is_no_leak(
    host: float, calls: int, explained: bool
) -> None:
    seen = look(answer(after=after(host, calls)))
    assert isinstance(seen, MemoryLook)
    assert [(h.name, h.count, h.a_step, h.bound) for h in seen.holders] == [
        ("FlightRecorder", 900, 2.0, 2000)
    ] * explained
    assert seen.unexplained_bytes_a_step == (0.0 if explained else host)
    told = findings([replace(rank(), look=seen)], [])
    assert [found.code for found in told] == ([] if explained else ["native_growth"])
    told = findings([replace(rank(), look=replace(seen, host_bytes_a_step=host))], [CURVE])
    assert [found.code for found in told] == (["fills_up"] if explained else ["native_growth"])


def test_names_are_written_as_the_program_does() -> None:
    path = raw()["path"]
    model = {
        **path,
        "steps": [["GPT", "._modules['blocks']"], ["Seq", "._modules['2']"], ["Linear", "._forward_hooks"]],
    }
    closure = {**path, "name": {**path["name"], "name": "collect"}, "steps": [["function", ".seen"]]}
    cache = {**path, "steps": [["Trainer", ".history"], ["dict", "['loss']"]]}
    seen = look(answer(*(raw(path=one) for one in (model, closure, cache))))
    assert isinstance(seen, MemoryLook)
    assert [(h.name, h.within) for h in seen.holders] == [
        ("losses.blocks[2]._forward_hooks", "main"),
        ("seen", "collect"),
        ("losses.history['loss']", "main"),
    ]


def test_garbage_that_the_collector_will_free_is_nothing() -> None:
    nobody = raw(kind="type", path={"name": None, "steps": [["Batch", ".me"]], "whole": True, "cycle": True})
    seen, off = look(answer(nobody)), look(answer(nobody, collects=False))
    assert isinstance(seen, MemoryLook)
    assert isinstance(off, MemoryLook)
    assert seen.holders == ()
    assert [(h.kind, h.loop) for h in off.holders] == [("cycle", "Batch.me")]


@each(("even", "grows"), [(True, True), (False, False)])
def test_growth_is_unexplained_where_it_is_even(even: bool, grows: bool) -> None:
    after = {"books": True, "host": 4096.0, "cuda": 0.0, "even": {"host": even, "cuda": False}, "recorder": None}
    seen = look(answer(after=after))
    assert isinstance(seen, MemoryLook)
    assert (seen.unexplained_bytes_a_step > 0) is grows


@each(
    ("limit", "about", "severity"),
    [
        ({}, {}, "warning"),
        ({"emptied": True}, {}, "info"),
        ({"compared": True}, {}, "info"),
        ({"compared": True, "most": 12}, {}, "warning"),
        ({"compared": True, "most": 1000}, {}, None),
        ({"looked_up": True}, {}, "info"),
        ({"looked_up": True}, {"numbered": True}, "warning"),
        ({"emptied": True}, {"graph": True}, "warning"),
    ],
)
def test_what_may_end_is_told_of_with_less_weight(
    limit: dict[str, Any], about: dict[str, Any], severity: str | None
) -> None:
    """A bound that it has passed is none; keys that are numbers of steps never end; a graph is wrong as long as it is kept."""
    row = raw()
    row["about"] |= {"graph": False, "bytes_a_step": 4096.0, **about}
    row |= {"type": "dict", "limit": {**LIMIT, **limit}}
    seen = look(answer(row))
    assert isinstance(seen, MemoryLook)
    found = findings([rank(*seen.holders)], [])
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    assert [("yet" in finding.title) for finding in found] == ([severity == "info"] if severity else [])


def test_no_step_is_a_reason() -> None:
    assert look(answer(watched=None, note="no step came")) == NotAvailable("no step came")


def test_workers_are_told_of_with_their_dataset() -> None:
    datasets = {
        "lists": [{"path": "Texts.texts", "kind": "list", "of": "str", "objects": 10**6, "lines": []}],
        "datasets": [{"name": "Texts", "workers": 2, "place": ["/home/ada/data.py", 9, "Texts.__getitem__"]}],
    }
    (worker,) = workers({7: (100, 5.0, True, 0.6)}, datasets)
    assert (worker.pid, worker.private_bytes, worker.growth_bytes_per_s, worker.dataset) == (7, 100, 5.0, "Texts")
    assert worker.where == Frame("/home/ada/data.py", 9, "Texts.__getitem__")
