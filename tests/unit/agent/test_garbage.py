"""The garbage collector's counts, and how long full collections take while somebody looks."""

from __future__ import annotations

import gc

from agents import Ask

from jupyter_traindbg.agent.core import Agent


def test_counts_by_generation_and_full_collections_meanwhile(agent: Agent, ask_while: Ask) -> None:
    before = gc.get_stats()[2]["collections"]
    callbacks = list(gc.callbacks)

    def step() -> None:
        gc.collect()

    answer = ask_while(step, "garbage", window_s=0.3)
    oldest = answer["generations"][2]
    assert len(answer["generations"]) == 3
    assert oldest["collections"] > before
    assert (answer["enabled"], answer["frozen"] > 0) == (True, True)
    assert [g["threshold"] for g in answer["generations"]] == list(gc.get_threshold())
    watched = answer["watched"]
    assert watched["count"] >= 1
    assert watched["longest_s"] <= watched["pause_s"]
    assert watched["places"][0]["frames"][0][0] == __file__
    assert gc.callbacks == callbacks


def test_that_it_is_switched_off_is_told(agent: Agent) -> None:
    gc.disable()
    try:
        answer = agent.call("garbage", {"window_s": 0.0})
    finally:
        gc.enable()
    assert answer["enabled"] is False
    assert answer["watched"]["count"] == 0
