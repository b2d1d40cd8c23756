"""What three real ranks over gloo print when one of them ends, in one stream and in files by rank; and no word about NCCL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import Start, torchrun

from jupyter_traindbg import diagnose_log
from jupyter_traindbg.model import Finding

PROGRAM = (Path(__file__).parents[1] / "programs" / "gloo_ends.py").read_text().splitlines()
Logs = Callable[[str], tuple[Finding, Finding]]


def line_of(code: str) -> int:
    return next(n for n, text in enumerate(PROGRAM, 1) if text.strip().startswith(code))


@pytest.fixture
def logs(start: Start, free_port: str, tmp_path: Path) -> Logs:
    """``logs(how)``: the one finding of what the launcher shows of all ranks, and that of the ranks' own files."""

    def run(how: str) -> tuple[Finding, Finding]:
        apart = tmp_path / "ranks"
        launcher = [*torchrun(3, free_port), "--log-dir", str(apart), "--tee", "3"]
        program = start("gloo_ends.py", how, command=launcher, ready=None)
        assert program.wait(120) != 0
        together = tmp_path / "all.log"
        together.write_text(program.output())
        found = [diagnose_log(together), diagnose_log(apart)]
        assert [len(f) for f in found] == [1, 1], program.output() + "\n".join(
            f"{x.code}: {x.title}" for f in found for x in f
        )
        (of_stream,), (of_files,) = found
        for finding in (of_stream, of_files):
            words = " ".join([finding.title, finding.cause, *finding.next_steps])
            assert not [word for word in ("NCCL", "firewall", "interface") if word in words]
        return of_stream, of_files

    return run


@pytest.mark.parametrize(
    ("how", "code", "within"),
    [("raise", 'raise ValueError("label', "ends_itself"), ("sample", 'raise ValueError("sample', "__getitem__")],
)
def test_an_exception_of_one_rank_is_the_root(logs: Logs, how: str, code: str, within: str) -> None:
    for finding in logs(how):
        assert finding.code == "uncaught_exception"
        assert finding.who == ("rank 1",)
        assert finding.where is not None
        assert finding.where.endswith(f"gloo_ends.py:{line_of(code)} {within}")


@pytest.mark.parametrize(
    ("how", "told", "of_files"),
    [
        ("SIGKILL", "host_oom_killed", "peer_lost"),
        ("SIGSEGV", "process_ended", "peer_lost"),
        ("status", "process_ended", "peer_lost"),
        ("leave", "peer_lost", "peer_lost"),
        ("late", "nccl_timeout", "nccl_timeout"),
    ],
)
def test_a_rank_that_says_nothing_is_the_one_to_blame(logs: Logs, how: str, told: str, of_files: str) -> None:
    stream, files = logs(how)
    assert (stream.code, files.code) == (told, of_files)
    assert "rank 1" in stream.who
    assert files.who == ("rank 1",)
    assert {"SIGSEGV": "SIGSEGV", "status": "Exit status 3", "leave": "before the others"}.get(how, "") in stream.title


@pytest.mark.parametrize(
    ("how", "odd", "other"),
    [
        ("sizes", "dist.all_reduce(torch.ones(9))", "dist.all_reduce(torch.ones(4))"),
        ("fewer", "dist.barrier()", "loss.backward()"),
    ],
)
def test_ranks_in_different_collectives_are_told_with_their_places(logs: Logs, how: str, odd: str, other: str) -> None:
    for finding in logs(how):
        assert finding.code == "rank_desync"
        assert "rank 1" in finding.who
        assert f"rank 1 at gloo_ends.py:{line_of(odd)}" in finding.title
        assert f"gloo_ends.py:{line_of(other)}" in finding.title
