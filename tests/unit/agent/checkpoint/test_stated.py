"""What a `state_dict()` would return is read from its source, exactly, or not at all; nothing of it runs."""

from __future__ import annotations

import collections
import copy
import linecache
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import each

from jupyter_traindbg.agent.checkpoint import sources, stated
from jupyter_traindbg.agent.checkpoint.stated import Reader, Unreadable

LIMIT = 3


class Inner:
    def __init__(self) -> None:
        self.rate = 0.5

    def state_dict(self) -> Any:
        return {"rate": self.rate}


class Base:
    __slots__ = ("__dict__", "slot")
    kind = "base"

    def __init__(self) -> None:
        self.slot, self.decay, self.n, self.best = 7, 0.9, 3, None
        self.shadow = {"a": torch.ones(2), "b": torch.zeros(1), "skip": torch.ones(1)}
        self.table = collections.OrderedDict([("x", 1), ("y", [1, 2])])
        self.count = torch.tensor(4)
        self.inner = Inner()
        self.inners = [Inner(), Inner()]
        self.__private = "p"

    @property
    def twice(self) -> int:
        return self.n * 2

    def kept(self) -> list[str]:
        return [name for name in self.shadow if name != "skip"]

    def private(self) -> Any:
        return {"private": self.__private}


class Literal(Base):
    def state_dict(self) -> Any:
        """A docstring
        of two lines.
        """
        return {
            "decay": self.decay,
            "kind": self.kind,
            "slot": self.slot,
            "n": self.n,
            "minus": -self.n,
            "best": self.best,
        }


class AllVariables(Base):
    def state_dict(self) -> Any:
        return {key: value for key, value in self.__dict__.items() if key not in ("inner", "inners")}


class Popped(Base):
    def state_dict(self) -> Any:
        state = self.__dict__.copy()
        state.pop("inner", None)
        del state["inners"]
        state["more"] = True
        return state


class Copied(Base):
    def state_dict(self) -> Any:
        state = {"shadow": {k: v.detach().cpu().clone() for k, v in self.shadow.items() if k in self.kept()}}
        return copy.deepcopy(state)


class Derived(Literal):
    def state_dict(self) -> Any:
        state = super().state_dict()
        state.update({"twice": self.twice, **self.private()})
        return state


class Branches(Base):
    def state_dict(self, prefix: str = "ema.", *, full: bool = True) -> Any:
        state: dict[str, Any] = {}
        for name, value in self.shadow.items():
            state[f"{prefix}{name}"] = value
        if full and self.n >= LIMIT and not self.best:
            state["full"] = "yes" if self.best is None else "no"
        elif self.n == 0:
            state["none"] = 0
        state["list"] = [i + 1 for i in range(self.n)]
        state["pair"] = (self.n, self.table["y"][1])
        return state


class Nested(Base):
    def state_dict(self) -> Any:
        return {"inner": self.inner.state_dict(), "all": [one.state_dict() for one in self.inners]}


class Converted(Base):
    def state_dict(self) -> Any:
        return collections.OrderedDict(
            count=self.count.item(), n=float(self.n), keys=list(self.table.keys()), size=len(self.shadow)
        )


READABLE = (Literal, AllVariables, Popped, Copied, Derived, Branches, Nested, Converted)


def reader() -> Reader:
    return Reader(lambda thing: Reader.NOT_KNOWN, lambda value: isinstance(value, torch.Tensor))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)


@each("cls", READABLE)
def test_it_is_what_the_call_returns(cls: Any) -> None:
    thing = cls()
    got = reader().state(thing)
    assert same(dict(got), dict(thing.state_dict()))


def test_tensors_are_the_live_ones_and_variables_are_not_touched() -> None:
    thing = Copied()
    assert reader().state(thing)["shadow"]["a"] is thing.shadow["a"]
    popped = Popped()
    reader().state(popped)
    assert hasattr(popped, "inner")


def test_what_is_read_below_is_known() -> None:
    thing, read = Nested(), reader()
    read.state(thing)
    assert read.inside == {id(thing.inner), *map(id, thing.inners)}


def test_a_state_that_is_known_is_not_read() -> None:
    thing = Nested()
    read = Reader(lambda one: "known" if one is thing.inner else Reader.NOT_KNOWN, torch.is_tensor)
    assert read.state(thing)["inner"] == "known"


# --- nothing runs --------------------------------------------------------------------------------------------------

RAN: list[str] = []


def ran() -> int:
    RAN.append("it ran")
    return 1


class CallsAFunction(Base):
    def state_dict(self) -> Any:
        return {"x": ran()}


class HasAnAttributeOfItsOwn(Base):
    def __getattribute__(self, name: str) -> Any:
        if name == "decay":
            ran()
        return super().__getattribute__(name)

    def state_dict(self) -> Any:
        return {"x": self.decay}


class RunsAProperty(Base):
    @property
    def x(self) -> int:
        return ran()

    def state_dict(self) -> Any:
        return {"x": self.x}


class Changes(Base):
    def state_dict(self) -> Any:
        self.shadow["x"] = 1  # type: ignore[assignment]
        return self.shadow


class Extends(Base):
    def state_dict(self) -> Any:
        self.table["y"].append(3)  # type: ignore[attr-defined]
        return {}


class Strange(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        ran()
        return super().items()

    def __iter__(self) -> Any:
        ran()
        return super().__iter__()


class LooksIntoAStranger(Base):
    def __init__(self) -> None:
        super().__init__()
        self.odd = Strange(a=1)

    def state_dict(self) -> Any:
        return {k: v for k, v in self.odd.items()}  # noqa: C416


class Equal:
    def __eq__(self, other: object) -> bool:
        ran()
        return True

    __hash__ = None  # type: ignore[assignment]


class Compares(Base):
    def __init__(self) -> None:
        super().__init__()
        self.odd = Equal()

    def state_dict(self) -> Any:
        return {"x": self.odd == 1}


class IsAKey:
    def __hash__(self) -> int:
        return ran()

    def __eq__(self, other: object) -> bool:
        return bool(ran())


class AsksAList(Base):
    def __init__(self) -> None:
        super().__init__()
        self.odd = [IsAKey()]

    def state_dict(self) -> Any:
        return {"x": 1 in self.odd}  # type: ignore[comparison-overlap]


class MakesKeys(Base):
    def __init__(self) -> None:
        super().__init__()
        self.odd = [(IsAKey(), 1)]

    def state_dict(self) -> Any:
        return {k: v for k, v in self.odd}  # noqa: C416


class MakesADict(MakesKeys):
    def state_dict(self) -> Any:
        return dict(self.odd)


class Represents(MakesKeys):
    def state_dict(self) -> Any:
        return {"x": str(self.odd)}


class MakesWhatIsMissing(Base):
    def __init__(self) -> None:
        super().__init__()
        self.odd = collections.defaultdict(ran)

    def state_dict(self) -> Any:
        return {"x": self.odd["missing"]}


class Patched(Base):
    def __init__(self) -> None:
        super().__init__()
        self.state_dict = ran

    def state_dict(self) -> Any:  # type: ignore[no-redef]
        return {"x": 1}


class PatchedHelper(Base):
    def __init__(self) -> None:
        super().__init__()
        self.kept = ran  # type: ignore[assignment, method-assign]

    def state_dict(self) -> Any:
        return {"x": self.kept()}


class Answers:
    def __get__(self, owner: object, cls: object) -> int:
        return ran()

    def __set__(self, owner: object, value: object) -> None:
        vars(owner)["described"] = value


class Described(Base):
    described = Answers()

    def __init__(self) -> None:
        super().__init__()
        self.described = 3  # type: ignore[assignment]

    def state_dict(self) -> Any:
        return {"x": self.described}


class MadeUpVariables(Base):
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return {"x": ran()}

    def state_dict(self) -> Any:
        return dict(self.__dict__)


class AnyArguments(Base):
    def state_dict(self, *args: Any, **options: Any) -> Any:
        return {"args": args}


class WantsAName(Base):
    def state_dict(self, *, LIMIT: int) -> Any:
        return {"x": LIMIT}


class ForEver(Base):
    def state_dict(self) -> Any:
        return self.state_dict()


class TooMuch(Base):
    def state_dict(self) -> Any:
        return [i for i in range(1_000_000)]  # noqa: C416


class Wrapped(Base):
    state_dict = staticmethod(ran)


class AsksForMore(Base):
    def state_dict(self, where: str) -> Any:
        return {"where": where}


UNREADABLE: tuple[tuple[Any, str], ...] = (
    (CallsAFunction, "ran is not understood"),
    (HasAnAttributeOfItsOwn, "answers for its attributes itself"),
    (RunsAProperty, "ran is not understood"),
    (Changes, "it changes what it does not own"),
    (Extends, "append() of a list is not understood"),
    (LooksIntoAStranger, "ran is not understood"),
    (Compares, "it looks into a Equal"),
    (AsksAList, "a IsAKey is a key"),
    (MakesKeys, "a IsAKey is a key"),
    (MakesADict, "a IsAKey is a key"),
    (Represents, "it looks into a list"),
    (MakesWhatIsMissing, "it has no 'missing'"),
    (Patched, "is not its class's"),
    (PatchedHelper, "kept() of this PatchedHelper is not its class's"),
    (Described, "Described.described is a Answers"),
    (MadeUpVariables, "answers for its attributes itself"),
    (AnyArguments, "takes its arguments in another way"),
    (WantsAName, "wants LIMIT"),
    (ForEver, "nested too deeply"),
    (TooMuch, "too much"),
    (Wrapped, "is no function written in Python"),
    (AsksForMore, "wants where"),
    (dict, "is no function written in Python"),
)


@each("cls, why", UNREADABLE)
def test_what_is_not_understood_is_not_guessed_and_not_run(cls: Any, why: str) -> None:
    RAN.clear()
    thing = cls()
    with pytest.raises(Unreadable) as told:
        reader().state(thing)
    assert RAN == []
    assert why in str(told.value)


# --- the source ----------------------------------------------------------------------------------------------------


def defined(tmp_path: Path, text: str) -> Any:
    """The class `Own` of a file with this text."""
    file = tmp_path / "own.py"
    file.write_text(text)
    names: dict[str, Any] = {"__name__": "own"}
    exec(compile(text, str(file), "exec"), names)
    return names["Own"]


TEXT = "class Own:\n    def state_dict(self):\n        return {'x': 1}\n"


def test_a_file_that_was_changed_since_is_not_what_runs(tmp_path: Path) -> None:
    cls = defined(tmp_path, TEXT)
    assert reader().state(cls()) == {"x": 1}
    (tmp_path / "own.py").write_text(TEXT.replace("1", "2"))
    linecache.clearcache()
    with pytest.raises(Unreadable, match="is not what runs"):
        reader().state(cls())


def test_no_file_at_all(tmp_path: Path) -> None:
    cls = defined(tmp_path, TEXT)
    (tmp_path / "own.py").unlink()
    linecache.clearcache()
    with pytest.raises(Unreadable, match="is not at hand"):
        reader().state(cls())


def test_a_file_system_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = defined(tmp_path, TEXT)
    asked: list[object] = []

    def hangs(file: object, of_module: object) -> Any:
        asked.append(file)
        time.sleep(5)

    monkeypatch.setattr(sources, "PATIENCE_S", 0.05)
    monkeypatch.setattr(linecache, "getlines", hangs)
    for _ in range(3):
        with pytest.raises(Unreadable, match="did not answer"):
            reader().state(cls())
    assert len(asked) == 1
    sources._silent.clear()


def test_definitions_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real: Callable[..., Any] = stated.definition

    def counting(function: Any, name: str) -> Any:
        asked.append(name)
        return real(function, name)

    monkeypatch.setattr(stated, "definition", counting)
    read = reader()
    for _ in range(3):
        read.state(Literal())
    assert asked == ["Literal"]
