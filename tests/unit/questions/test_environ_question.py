"""The variables of a job on several hosts: what differs between ranks does so wherever they are."""

from __future__ import annotations

from several_hosts import SeveralHosts

from jupyter_traindbg.model import Silent
from jupyter_traindbg.questions import environ
from jupyter_traindbg.questions.environ import OnHost


def test_ranks_of_two_hosts_are_compared_with_each_other() -> None:
    alpha = OnHost({0: {"NCCL_ALGO": "Ring"}, 1: {"NCCL_ALGO": "Ring"}}, "nccl", {"torch": "2.13.0"}, {}, ())
    beta = OnHost({2: {"NCCL_ALGO": "Tree"}}, None, {}, {}, (Silent(3, 7, "it has ended", ""),))
    told = environ.ask(SeveralHosts({"of_host": [alpha, beta]}))  # type: ignore[arg-type]
    assert told.ranks == (0, 1, 2)
    (row,) = told.rows
    assert [(value.value, value.ranks) for value in row.values] == [("Ring", (0, 1)), ("Tree", (2,))]
    assert row.standing == "differs"
    assert any("NCCL_ALGO" in finding.title for finding in told.findings)
    assert [one.rank for one in told.silent] == [3, 9]
