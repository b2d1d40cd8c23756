"""Flight-recorder dumps on disk: found, read without running anything, and put together; by torch's own analyser, too."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from flight_dumps import BEGAN_NS, Recorder, write

from jupyter_traindbg.errors import BadDump
from jupyter_traindbg.model import Collectives, NotAvailable
from jupyter_traindbg.outside import flightrec
from jupyter_traindbg.outside.flightrec import files, naming, plain_pickle

WORLD = {"0": ("default_pg", range(4))}
USER = {"name": "step", "filename": "/home/ada/train.py", "line": 88}
LIBRARY = {
    "name": "all_reduce",
    "filename": "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
    "line": 3000,
}


def read(path: str, **options: Any) -> Collectives:
    return flightrec.read(path, **options).collectives


def recorder(rank: int, library: str = "nccl", **changes: Any) -> Recorder:
    """Rank 2 has one call less, which the others wait in."""
    made = Recorder(library, WORLD).call("all_reduce", times=5, frames=[LIBRARY, USER], **changes)
    return made if rank == 2 else made.call("barrier", done=False)


def dumps(library: str = "nccl", ranks: int = 4) -> list[tuple[int, dict[str, Any]]]:
    return [(rank, recorder(rank, library).dump()) for rank in range(ranks)]


@pytest.mark.parametrize("library", ["nccl", "gloo"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_directory_of_dumps(tmp_path: Path, library: str, as_json: bool) -> None:
    seen = read(str(write(tmp_path / "fr", dumps(library), as_json=as_json)))
    assert [r.rank for r in seen.ranks] == [0, 1, 2, 3]
    assert (seen.missing, seen.world_size, seen.silent) == ((), 4, ())
    assert [r.groups[0].last_issued for r in seen.ranks] == [6, 6, 5, 6]
    assert all(tuple(r.groups[0].ranks) == (0, 1, 2, 3) for r in seen.ranks)
    assert seen.ranks[0].calls[0].at == "/home/ada/train.py:88 step"
    assert seen.ranks[0].source == ("rank_0.json" if as_json else "nccl_trace_rank_0")


def written(directory: Path, after_s: float) -> Path:
    """As if the files had been written so long after the first call of `Recorder`."""
    for file in directory.iterdir():
        os.utime(file, (BEGAN_NS / 1e9 + after_s,) * 2)
    return directory


def test_a_wait_is_told_up_to_when_the_watchdog_wrote_the_dump(tmp_path: Path) -> None:
    seen = read(str(written(write(tmp_path / "fr", dumps()), 600.0)))
    assert seen.ranks[0].waiting_s == pytest.approx(600.0, abs=0.1)


def test_of_files_that_were_copied_later_a_wait_is_told_up_to_the_newest_event_of_all_ranks(tmp_path: Path) -> None:
    busy = recorder(2).call("all_gather", "9", time_created_ns=BEGAN_NS + 90_000_000_000)
    directory = write(tmp_path / "fr", [*dumps(ranks=2), (2, busy.dump())])
    seen = read(str(written(directory, 319 * 86400.0)))
    assert [r.waiting_s for r in seen.ranks[:2]] == pytest.approx([90.0, 90.0], abs=0.1)


def test_where_nothing_is_later_than_the_call_that_waits_how_long_is_not_known(tmp_path: Path) -> None:
    seen = read(str(written(write(tmp_path / "fr", dumps()), 319 * 86400.0)))
    assert str(seen.ranks[0].waiting_s) == str(NotAvailable("nothing in the dumps is later than this call"))


def test_ranks_without_a_dump_are_missing_by_the_default_group(tmp_path: Path) -> None:
    seen = read(str(write(tmp_path / "fr", dumps()[:2])))
    assert (seen.missing, seen.world_size) == ((2, 3), 4)


def test_gloo_tells_the_world_by_its_all_gathers(tmp_path: Path) -> None:
    gathered = Recorder("gloo").call("all_gather", input_sizes=[[7]], output_sizes=[[4, 7]])
    seen = read(str(write(tmp_path / "fr", [(0, gathered.dump()), (1, gathered.dump())])))
    assert (seen.missing, seen.world_size) == ((2, 3), 4)
    assert tuple(seen.ranks[0].groups[0].ranks) == (0, 1, 2, 3)


def test_one_file_and_other_files_beside_it(tmp_path: Path) -> None:
    directory = write(tmp_path / "fr", dumps())
    (directory / "train.log").write_text("step 1")
    (directory / "events.1").write_bytes(b"\x0a\x0b")
    os.mkfifo(directory / "pipe_3")
    (directory / ".hidden").mkdir()
    assert len(read(str(directory)).ranks) == 4
    assert [r.rank for r in read(str(directory / "nccl_trace_rank_3")).ranks] == [3]


def test_a_damaged_dump_costs_its_rank_only(tmp_path: Path) -> None:
    directory = write(tmp_path / "fr", dumps())
    whole = (directory / "nccl_trace_rank_1").read_bytes()
    (directory / "nccl_trace_rank_1").write_bytes(whole[: len(whole) // 2])
    seen = read(str(directory))
    assert [r.rank for r in seen.ranks] == [0, 2, 3]
    assert [s.rank for s in seen.silent] == [1]
    assert "damaged" in seen.silent[0].reason


def test_of_two_dumps_of_a_rank_the_newer_counts_and_two_recorders_are_one_rank(tmp_path: Path) -> None:
    directory = write(tmp_path / "fr", [(0, recorder(2).dump())])
    os.utime(directory / "nccl_trace_rank_0", (1, 1))
    write(directory, [(0, recorder(0).dump())], as_json=True)
    (directory / "gloo_0").write_bytes(pickle.dumps(Recorder("gloo").call("all_gather", "9").dump(), protocol=2))
    (rank,) = read(str(directory)).ranks
    assert {g.name: g.last_issued for g in rank.groups} == {"0": 6, "9": 1}
    assert rank.note == "of 3 dumps of this rank 2 are used"


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("nccl_trace_rank_3", 3),
        ("comm_lib_trace_rank_11", 11),
        ("rank_3.json", 3),
        ("_dump_14", 14),
        ("trace-r7.pickle", 7),
        ("rank3_node-a12_20251128.pkl", 3),
        ("nccl_trace_rank_5.worker-17", 5),
        ("nccl_trace_rank_5_1758610506", 5),
        ("local_rank_1_rank_9", 9),
        ("node2-globalrank10.bin", 10),
        ("rank_6/nccl_trace", 6),
        ("fr_trace3.json", 3),
        ("config.json", None),
        ("local_rank_1.pkl", 1),
        ("dump_1758610506", None),
    ],
)
def test_the_rank_in_a_name(path: str, rank: int | None) -> None:
    assert naming.rank_in_name(f"/fr/{path}") == rank


def test_on_each_host_ranks_may_count_from_0(tmp_path: Path) -> None:
    for host in (10, 2):
        own = [(i, recorder(i + (2 if host == 10 else 0)).dump()) for i in range(2)]
        write(tmp_path / f"node{host}", own)
    seen = read(str(tmp_path))
    assert [(r.rank, r.groups[0].last_issued) for r in seen.ranks] == [(0, 6), (1, 6), (2, 5), (3, 6)]
    assert [r.note for r in seen.ranks] == ["", "", *(f"its file has rank {i} in its name" for i in (0, 1))]
    assert seen.missing == ()


def test_of_two_incidents_the_newer_one_is_read_and_not_a_mixture(tmp_path: Path) -> None:
    """Rank 3 has a dump of monday only: it is missing on tuesday."""
    write(tmp_path / "monday", dumps(ranks=4))
    later = [(rank, recorder(rank).call("barrier", time_created_ns=BEGAN_NS + 86_400 * 10**9)) for rank in range(3)]
    write(tmp_path / "tuesday", [(rank, r.dump()) for rank, r in later])
    seen = read(str(tmp_path))
    assert ([r.rank for r in seen.ranks], seen.missing) == ([0, 1, 2], (3,))
    assert {r.note for r in seen.ranks} == {"dumps of the same ranks in monday are older, and left aside"}


def test_groups_tell_whose_a_dump_is_where_its_name_does_not(tmp_path: Path) -> None:
    pairs = {"1": ("tp", [0, 1]), "2": ("tp", [2, 3]), "3": ("dp", [0, 2]), "4": ("dp", [1, 3])}
    for rank, name in enumerate("abcd"):
        mine = {**WORLD, **{g: about for g, about in pairs.items() if rank in about[1]}}
        dump = Recorder("nccl", mine).call("all_reduce", times=rank + 1).dump()
        (tmp_path / name).write_bytes(pickle.dumps(dump, protocol=2))
    (tmp_path / "e").write_bytes(pickle.dumps(recorder(0).dump(), protocol=2))
    seen = read(str(tmp_path))
    assert [(r.rank, r.source, r.groups[0].last_issued) for r in seen.ranks] == [
        (0, "a", 1), (1, "b", 2), (2, "c", 3), (3, "d", 4),
    ]  # fmt: skip
    assert [(s.rank, s.reason) for s in seen.silent] == [
        (None, "whose dump e is, neither its name tells nor what is in it")
    ]


def test_other_files_of_a_run_are_left_aside(tmp_path: Path) -> None:
    directory = write(tmp_path / "fr", dumps())
    for name in ("trainer_state.json", "config-500.json", "results_7.json"):
        (directory / name).write_text(json.dumps({"loss": [1, 2]}))
    seen = read(str(directory))
    assert (len(seen.ranks), seen.missing, seen.silent) == (4, (), ())
    with pytest.raises(BadDump, match="holds something else"):
        read(str(directory / "results_7.json"))


def test_counts_of_a_group_that_others_send_on_are_not_of_collectives(tmp_path: Path) -> None:
    made = [Recorder("nccl", {"0": ("default_pg", range(2))}).call("all_reduce", times=3) for _ in range(2)]
    made[0].call("send 0->1", times=9).call("recv 0<-1", done=False)
    made[1].call("recv 1<-0", times=9)
    seen = read(str(write(tmp_path / "fr", [(i, r.dump(active=True)) for i, r in enumerate(made)])))
    assert [(r.groups[0].last_issued, r.groups[0].last_completed) for r in seen.ranks] == [(3, 3), (None, None)]
    assert all(r.pending_only for r in seen.ranks)


class Runs:
    """Pickled, it asks for ``os.mkdir`` to be called when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    (tmp_path / "rank_0").write_bytes(pickle.dumps({"entries": [Runs(str(made))]}, protocol=protocol))
    with pytest.raises(BadDump, match=r"the opcode (STACK_)?GLOBAL"):
        read(str(tmp_path))
    assert not made.exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x80\x02}q\x00.", "something else"),
        (b'{"entries": [', "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"\x80\x02" + b"(" * 10, "damaged"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "cut off"),
        (b"\x80\x02Nr\xff\xff\xff\xff.", "something else"),  # Python's unpickler reserves 64 GiB for this
        (b"\x80\x02U\x01aQ.", "the opcode SHORT_BINSTRING"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "the opcode BINPERSID"),
        (b"\x80\x02\x82\x01.", "the opcode EXT1"),
        (b"\x80\x02}(]K\x01u.", "neither a text nor a number"),
        (b"\x80\x02}K\x01a.", "no list"),
        (b"\x80\x02h\x05.", "damaged"),
    ],
)
def test_what_is_no_dump(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "rank_0").write_bytes(content)
    with pytest.raises(BadDump, match=why):
        read(str(tmp_path / "rank_0"))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_read_as_python_reads_it(protocol: int) -> None:
    shared = ["a", 1]
    data: dict[Any, Any] = {
        "k": [shared, shared, (), (1,), (1, 2), (1, 2, 3, 4)],
        7: None,
        "f": 1.5,
        "n": [-1, 255, 70_000, 2**70],
        "b": [True, False],
    }
    data["long"] = "x" * 300 + "é"
    data["many"] = list(range(3000))
    assert plain_pickle.loads(pickle.dumps(data, protocol=protocol)) == data


def test_a_place_without_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadDump, match="has no flight-recorder dumps"):
        read(str(tmp_path))
    with pytest.raises(BadDump, match="does not exist"):
        read(str(tmp_path / "gone"))
    (tmp_path / "a").write_bytes(json.dumps(recorder(0).dump()).encode())
    (tmp_path / "b").write_bytes(json.dumps(recorder(1).dump()).encode())
    with pytest.raises(BadDump, match="neither its name tells nor what is in it"):
        read(str(tmp_path))
    assert read(str(tmp_path / "a")).ranks[0].rank == 0
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    with pytest.raises(BadDump, match="more than"):
        read(str(tmp_path / "a"))


def test_from_where_calls_were_issued(tmp_path: Path) -> None:
    """Ranks share the objects of equal places; frames of C++, and what is no frame, are left out."""
    cplusplus = {"name": "c10d::Work::wait", "filename": "/pytorch/torch/csrc/Work.cpp", "line": 7}
    stacks = {0: [LIBRARY, USER], 1: [cplusplus, LIBRARY, USER], 2: [{"line": "3"}, LIBRARY, USER], 3: []}
    made = [(rank, Recorder("nccl", WORLD).call("all_reduce", times=3, frames=f).dump()) for rank, f in stacks.items()]
    recorded = flightrec.read(str(write(tmp_path / "fr", made)))
    assert sorted(recorded.sites) == [0, 1, 2], "of rank 3 there are no stacks"
    assert all(s.at["0"] == {1: 0, 2: 0, 3: 0} for s in recorded.sites.values())
    places = [site for s in recorded.sites.values() for site in s.sites]
    assert {id(site) for site in places} == {id(places[0])}
    assert [(f.file, f.line) for f in places[0].frames] == [(LIBRARY["filename"], 3000), (USER["filename"], 88)]


def test_the_oldest_file_dates_what_is_read(tmp_path: Path) -> None:
    """A file of the program that is newer than one of them may not be what ran."""
    directory = written(write(tmp_path / "fr", dumps()), 600.0)
    os.utime(directory / "nccl_trace_rank_2", (BEGAN_NS / 1e9,) * 2)
    assert flightrec.read(str(directory)).written_s == pytest.approx(BEGAN_NS / 1e9)


def test_the_deadline_holds(tmp_path: Path) -> None:
    with pytest.raises(BadDump, match="not read in time"):
        read(str(write(tmp_path / "fr", dumps())), timeout=-1)


# torch 2.13 on Python 3.14
@pytest.mark.filterwarnings("ignore:Failing to pass a value to the 'type_params':DeprecationWarning")
def test_torchs_own_analyser_reads_what_these_tests_write(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed.flight_recorder")
    from torch.distributed.flight_recorder.components import builder, config_manager, loader

    tensor_parallel = {**WORLD, "1": ("mesh_tp", [0, 1])}
    written = []
    for rank in range(4):
        made = Recorder("nccl", tensor_parallel if rank < 2 else WORLD).call("all_reduce", times=3)
        written.append((rank, made.call("all_reduce" if rank != 2 else "broadcast", done=False).dump()))
    directory = write(tmp_path / "fr", written)
    args = config_manager.JobConfig().parse_args([str(directory)])
    details, version = loader.read_dir(args)
    database = builder.build_db(details, args, version)
    assert version == "2.10"
    assert [c.collective_name for c in database.collectives] == ["nccl:all_reduce"] * 4
    assert [c.pass_check for c in database.collectives] == [True] * 3 + [False]
    ours = read(str(directory))
    assert {g.description for g in ours.ranks[0].groups} == {"default_pg", "mesh_tp"}
