"""What an agent says reaches whoever asks in their language, whoever that is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import until

from jupyter_traindbg.agent import saying
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.agent.saying import as_json, joined, packed, said, unpacked
from jupyter_traindbg.attach.client import AgentClient
from jupyter_traindbg.errors import ActionRefused
from jupyter_traindbg.language import speaking
from jupyter_traindbg.spoken import heard, spoken

LAST = said("the last optimizer step was {since} s ago", since="3.0")
STILL = said("read straight away, not at a safe point: the process stands still ({last})", last=LAST)


def sent(value: object) -> bytes:
    """As an agent sends it."""
    return json.dumps(value, default=as_json).encode()


def test_each_reader_hears_it_in_the_own_language() -> None:
    answer = sent({"note": STILL, "rows": [{"note": "", "step": 3}]})
    assert heard(answer)["note"] == str(STILL)
    assert str(STILL).endswith("the process stands still (the last optimizer step was 3.0 s ago)")
    with speaking("zh"):
        told = heard(answer)
    assert told == {
        "note": "立即读取，不在安全点：进程静止不动（上一次优化器步进在 3.0 秒前）",
        "rows": [{"note": "", "step": 3}],
    }


def test_several_are_one_text_and_none_is_nothing() -> None:
    both = joined([said("no step came"), "", "as it is: {x}", said("no model was found")])
    assert str(both) == "no step came; as it is: {x}; no model was found"
    with speaking("zh"):
        assert heard(sent(both)) == "没有等到任何一步；as it is: {x}；没有找到模型"
    assert not joined([])
    assert heard(sent({"note": joined([])})) == {"note": ""}


def test_it_is_equal_to_its_english() -> None:
    assert said("no step came") == "no step came" == said("no {what} came", what="step")
    assert list(dict.fromkeys([said("no step came"), said("no {what} came", what="step")])) == ["no step came"]
    assert "step" in said("no step came")
    assert said("no step came") != said("no model was found")


def test_packed_it_is_plain_data_and_comes_back() -> None:
    plain = json.loads(json.dumps(packed(STILL)))
    assert unpacked(plain) == STILL
    with speaking("zh"):
        assert spoken(unpacked(plain)) == spoken(STILL) != str(STILL)


def test_a_message_is_never_a_format_that_does_more() -> None:
    hostile = said("{x.__class__} {x!r} {x:>9} {y} {x}", x="{y}", **{"y": 1})
    assert heard(sent(hostile)) == "{x.__class__} {x!r} {x:>9} 1 {y}"
    assert heard(b'{"$said": [["{x}", {}]]}') == "{x}"
    assert heard(b'{"$said": "x", "other": 1}') == {"$said": "x", "other": 1}
    with pytest.raises(TypeError, match="object cannot be written"):
        as_json(object())


def test_an_agents_refusal_is_in_the_language_of_whoever_asks(tmp_path: Path, agent: Agent) -> None:
    client = AgentClient(agent.directory, agent.pid)
    until(lambda: client.call("info", {}), "it answers")
    asked = {"do": "prepare", "change": {"mode": "scale"}}
    try:
        with pytest.raises(ActionRefused) as english:
            client.call("tune", asked)
        with speaking("zh"), pytest.raises(ActionRefused) as chinese:
            client.call("tune", asked)
    finally:
        client.close()
    assert (english.value.cause, english.value.next_step) == ("scaling needs a factor", "give a number such as 0.1")
    assert (chinese.value.cause, chinese.value.next_step) == ("缩放需要给出倍数", "请给出一个数，例如 0.1")


def test_values_are_filled_in_once() -> None:
    assert saying.filled("{a} and {b}", {"a": "{b}", "b": 2}) == "{b} and 2"
    assert saying.filled("{a}", {}) == "{a}"
