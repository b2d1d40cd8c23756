"""Who is missing of a job, from where the living stand and what the launcher was told."""

from __future__ import annotations

from cases import each
from hang_evidence import tcp

from jupyter_traindbg.gather import roster
from jupyter_traindbg.gather.roster import Missing, place


def living(*ranks: int, nproc: int | None = None, node: int = 0, address: str = "10.0.0.1") -> list[roster.Place]:
    """Ranks by their local numbers on host number `node` of those with `nproc` ranks each."""
    environ = {"MASTER_ADDR": address}
    if nproc is None:
        return [place(4_000_000 + r, r, environ) for r in ranks]
    environ |= {"LOCAL_WORLD_SIZE": str(nproc)}
    return [place(4_000_000 + r, node * nproc + r, {**environ, "LOCAL_RANK": str(r)}) for r in ranks]


def why(missing: list[Missing]) -> dict[int, str]:
    return {m.rank: m.why for m in missing}


def test_what_the_launcher_started_and_is_not_there_has_ended() -> None:
    found = roster.missing(living(0, 2, nproc=4), 4, 4, launcher_pid=2**22 + 1)
    assert why(found) == {1: "ended", 3: "ended"}
    assert [m.local_rank for m in found] == [1, 3]
    assert roster.missing(living(0, 1, nproc=2), 2, 2, launcher_pid=None) == []


def test_the_ranks_of_other_hosts_are_not_accused() -> None:
    found = roster.missing(living(1, nproc=2, node=1), 6, 2, launcher_pid=2**22 + 1)
    assert why(found) == {2: "ended", 0: "elsewhere", 1: "elsewhere", 4: "elsewhere", 5: "elsewhere"}
    assert {m.rank: m.local_rank for m in found}[5] == 1


def test_the_host_of_the_last_ranks_misses_none_that_the_job_never_had() -> None:
    """Ranks that srun has started: nobody says how many belong here."""
    last = [place(4_000_000 + r, r, {"MASTER_ADDR": "node1", "LOCAL_RANK": str(r - 4)}) for r in (4, 5)]
    assert why(roster.missing(last, 6, None, launcher_pid=None)) == dict.fromkeys(range(4), "elsewhere")


def test_without_a_word_on_how_many_belong_here_nothing_is_claimed() -> None:
    assert why(roster.missing(living(0, 1), 4, None, launcher_pid=2**22 + 1)) == {2: "not known", 3: "not known"}
    assert why(roster.missing(living(0, nproc=2), 2, 2, launcher_pid=None)) == {1: "not known"}
    here = living(0, 1, address="127.0.0.1")
    assert why(roster.missing(here, 3, None, launcher_pid=2**22 + 1)) == {2: "ended"}, "they all meet on this host"
    near = [place(4_000_000, 0, {}, (tcp("127.0.0.1:5", "127.0.0.1:6", "ESTABLISHED"), tcp("[::]:7"), tcp("[::1]:8")))]
    assert why(roster.missing(near, 2, None, launcher_pid=2**22 + 1)) == {1: "ended"}, (
        "and this one knows nobody beyond"
    )
    far = [place(4_000_000, 0, {}, (tcp("127.0.0.1:5", "127.0.0.1:6", "ESTABLISHED"), tcp("10.0.0.1:8")))]
    assert why(roster.missing(far, 2, None, launcher_pid=2**22 + 1)) == {1: "not known"}
    assert why(roster.missing([], 2, 2, launcher_pid=2**22 + 1)) == {0: "not known", 1: "not known"}, (
        "perhaps not started"
    )


@each(
    ("words", "nproc", "nodes"),
    [
        ("torchrun --nproc-per-node 4 train.py", 4, 1),
        ("torchrun --nproc_per_node=8 --nnodes=2 train.py", 8, 2),
        ("torchrun --nnodes 1:4 --nproc-per-node=gpu train.py", None, 1),
        ("accelerate launch --num_processes 6 --num_machines 3 train.py", 2, 3),
        ("python train.py", None, 1),
        ("torchrun train.py --nproc-per-node", None, 1),
    ],
)
def test_what_a_command_line_asks_for(words: str, nproc: int | None, nodes: int) -> None:
    assert roster.told_nproc(words.split()) == nproc
    assert roster.told_nodes(words.split()) == nodes


@each(
    ("words", "endpoint"),
    [
        ("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint node0:29400 train.py", ("node0", 29400)),
        ("torchrun --nnodes 2 --rdzv_endpoint=node0 train.py", ("node0", 29400)),
        ("torchrun --nnodes 2 --rdzv-endpoint [fd00::1]:5 train.py", ("fd00::1", 5)),
        ("torchrun --nnodes=2 --master_addr 10.0.0.1 --master-port 1234 train.py", ("10.0.0.1", 1234)),
        ("torchrun --nnodes=2 --node-rank 0 train.py", ("127.0.0.1", 29500)),
        ("torchrun train.py", None),
    ],
)
def test_where_the_launchers_are_to_meet(words: str, endpoint: tuple[str, int] | None) -> None:
    assert roster.told_endpoint(words.split()) == endpoint
