"""What every probe, verb and public name has to be, whoever writes the next one."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from cases import each

import jupyter_traindbg
import traindbg
from jupyter_traindbg import commands, errors, model
from jupyter_traindbg.agent import actions, listing, probes
from jupyter_traindbg.agent.core import Agent
from jupyter_traindbg.magics import base


@each(
    ("package", "name", "said"),
    [(probes, name, "COST") for name in listing.names(probes)]
    + [(actions, n, "CHANGES") for n in listing.names(actions)],
)
def test_every_probe_says_what_it_costs_and_every_action_what_it_changes(package: Any, name: str, said: str) -> None:
    run = listing.load(package, name)
    module = inspect.getmodule(run)
    assert module is not None
    assert module.__doc__
    assert isinstance(getattr(module, said), str)
    assert getattr(module, said)
    first, *others = inspect.signature(run).parameters.values()
    assert first.name == "agent"
    assert all(p.default is not p.empty for p in others), "a client that knows less must be able to call it"


def test_no_action_has_the_name_of_a_probe() -> None:
    assert not set(listing.names(probes)) & set(listing.names(actions))


def test_an_unknown_probe_is_told_which_there_are(tmp_path: Path) -> None:
    agent = Agent(str(tmp_path), "test")
    with pytest.raises(LookupError, match=r"there are .*stacks"):
        agent.call("nonsense", {})


@each("name", commands.verbs())
def test_every_verb_has_help_examples_and_a_parser(name: str) -> None:
    verb: Any = base.load(name)
    summary = (verb.__doc__ or "").strip()
    assert summary
    assert "\n" not in summary
    parser = base.parser(name)
    assert parser.parse_args([]).timeout == 10.0
    for action in parser._actions:
        assert action.help, f"{name}: {action.dest} has no help"
    for bad in ("0", "-1", "nan", "soon"):
        with pytest.raises(errors.UsageError, match=f"^--timeout.*`traindbg {name.replace('_', '-')} -h`"):
            parser.parse_args(["--timeout", bad])
    assert verb.EXAMPLES
    for words, does in verb.EXAMPLES:
        parser.parse_args(base.split(words))
        assert words in parser.format_help()
        assert does


def test_the_verbs_of_the_contract_exist() -> None:
    assert {"attach", "targets", "stacks", "grads", "lr", "gpu", "memory"} <= set(commands.verbs())


@each("module", [jupyter_traindbg, traindbg])
def test_every_public_name_exists_and_both_names_give_the_same_object(module: Any) -> None:
    for name in module.__all__:
        assert getattr(module, name) is getattr(jupyter_traindbg, name)
    assert callable(module.attach)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="nonsense"):
        module.nonsense  # noqa: B018


def test_the_folder_named_like_the_public_function_is_reachable_and_does_not_hide_it() -> None:
    from jupyter_traindbg.attach import resolve

    assert callable(resolve)
    assert jupyter_traindbg.attach.__name__ == "attach"
    assert inspect.isfunction(jupyter_traindbg.attach)


@each("module", [model, errors])
def test_all_is_complete(module: Any) -> None:
    defined = {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and f"{value.__module__}.".startswith(f"{module.__name__}.")
        and not name.startswith("_")
    }
    assert len(defined) > 10, "the classes of a package come from its modules"
    assert defined <= set(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_every_error_tells_the_next_step_in_one_line() -> None:
    for name in errors.__all__:
        error = getattr(errors, name)("the cause")
        assert error.next_step
        assert str(error) == f"the cause; {commands.spelled(error.next_step)}"
        assert "\n" not in str(error)


def test_the_tree_in_errors_is_the_real_one() -> None:
    drawn = [line for line in (errors.__doc__ or "").splitlines() if "──" in line]
    assert len(drawn) == len(errors.__all__) - 1
    for line in drawn:
        name = line.split("── ")[1].split()[0]
        assert name in errors.__all__
        base_class = getattr(errors, name).__mro__[1].__name__
        depth = line.index("──")
        parents = {0: "TraindbgError"}
        if line.lstrip("│ ").startswith(("├", "└")) and depth > 6:
            assert base_class != "TraindbgError", line
        else:
            assert base_class == parents[0], line


def test_no_wait_without_a_deadline_in_the_agent() -> None:
    """Every ``.wait()``, ``.join()`` and ``.acquire()`` inside the trainee says how long."""
    for file in sorted((Path(jupyter_traindbg.__file__).parent / "agent").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("wait", "acquire")
            ):
                assert node.args or node.keywords, f"{file.name}:{node.lineno}"
