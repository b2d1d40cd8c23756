"""The probe's keys are those of ``state_dict()``, which it does not call."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from jupyter_traindbg.agent.core import Agent  # noqa: E402


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(10, 4)
        self.block = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        self.again = self.block[0]
        self.head = torch.nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("kept", torch.ones(3, dtype=torch.bfloat16))
        self.register_buffer("transient", torch.ones(3), persistent=False)
        self.register_parameter("absent", None)

    def state_dict(self, *args: Any, **keywords: Any) -> Any:
        raise AssertionError("the user's override was called")


def expected(model: Any) -> dict[str, tuple[list[int], str]]:
    plain = torch.nn.Module.state_dict(model)
    return {name: (list(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in plain.items()}


def test_names_shapes_and_dtypes_are_those_of_the_state_dict(agent: Agent) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    answer = agent.call("keys", {})
    (found,) = [m for m in answer["models"] if m["class"] == "Net"]
    assert {name: (shape, dtype) for name, shape, dtype, _ in found["keys"]} == expected(model)
    assert [k[0] for k in found["keys"]] == list(expected(model))
    assert {name: tied for name, _, _, tied in found["keys"] if tied} == {
        "head.weight": "embed.weight",
        "again.weight": "block.0.weight",
        "again.bias": "block.0.bias",
    }
    assert answer["note"] == ""


def test_wrappers_leave_nothing_in_the_names(agent: Agent) -> None:
    inner = torch.nn.Sequential(torch.nn.Linear(2, 2))
    wrapped = torch.nn.DataParallel(inner)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    optimizer.step()
    answer = agent.call("keys", {})
    assert [k[0] for m in answer["models"] if m["class"] == "DataParallel" for k in m["keys"]] == ["0.weight", "0.bias"]


def test_the_answer_compares_with_a_checkpoint(agent: Agent, tmp_path: Any) -> None:
    from jupyter_traindbg import checkpoints

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    torch.save({f"module.{k}": v for k, v in model.state_dict().items()}, tmp_path / "ddp.pt")
    answer = agent.call("keys", {})
    live = next(m for m in answer["models"] if len(m["keys"]) == 4 and m["keys"][3][1] == [5])
    result = checkpoints.compare(tmp_path / "ddp.pt", live["keys"], right_name="the job")
    assert result.same == 4
    assert [f.code for f in result.findings] == ["checkpoint_key_prefix"]
