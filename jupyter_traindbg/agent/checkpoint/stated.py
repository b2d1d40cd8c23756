"""What an object's ``state_dict()`` would return, worked out from its source instead of by calling it.

Somebody else's ``state_dict()`` may do anything: gather over all ranks (and hang where one is gone), wait for a GPU, write a file. Most of
them only put attributes into a dict. Those are read here: an evaluator of expressions that reads attributes past any code of the class,
knows the plain containers, and takes a copy of a tensor for the tensor. What it does not understand is `Unreadable`, never a guess.
"""

from __future__ import annotations

import ast
import builtins
import collections
import copy
import operator
import types
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from ..attributes import MISSING, attributes, defined
from ..saying import Said, said
from . import containers
from .containers import DICTS, LISTS, PLAIN, Unreadable
from .sources import NoSource, definition

MOST_STEPS = 200_000
MOST_DEPTH = 16
SAME_VALUES = ("detach", "cpu", "clone", "contiguous")
"""Methods of a tensor whose result has its values."""
PARTS_OF_A_MODULE = ("_modules", "_parameters", "_buffers")
OPERATORS: Dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

Known = Callable[[Any], Any]


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Reader:
    """Reads states. Sources are looked up and parsed once, so read once on a thread that may wait before reading on one that may not.

    `known` gives the state of objects below that need no reading (modules, torch's schedulers), and `NOT_KNOWN` for others; `is_tensor`
    tells tensors. `inside` has the ``id`` of every object whose state is a part of one that was read.
    """

    NOT_KNOWN = object()

    def __init__(self, known: Known, is_tensor: Callable[[Any], bool]) -> None:
        self._known, self._is_tensor = known, is_tensor
        self._definitions: Dict[Tuple[types.CodeType, str], Any] = {}
        self.inside: Set[int] = set()
        self._left = 0
        self._made: Dict[int, Any] = {}

    def state(self, thing: Any) -> Any:
        """What ``thing.state_dict()`` would return, tensors as they are. Raises `Unreadable`. About 5 us an expression."""
        self._left = MOST_STEPS
        try:
            return self._method(thing, "state_dict", [], 0)
        except Unreadable:
            raise
        except NoSource as e:
            raise Unreadable(e.why) from e
        except Exception as e:  # what the function would raise, too, or a class that is odder than we know
            raise Unreadable(f"{type(e).__name__}: {e}") from e
        finally:
            self._made = {}

    def _state(self, thing: Any, depth: int) -> Any:
        state = self._known(thing)
        return state if state is not self.NOT_KNOWN else self._method(thing, "state_dict", [], depth)

    # -- functions --

    def _method(self, owner: Any, name: str, given: List[Any], depth: int, after: Optional[type] = None) -> Any:
        """Call a method of the class of `owner`; with `after` the next one behind that class, as ``super()`` does."""
        self._refuse_odd(owner)
        found, home = defined(type(owner), name, after)
        if name in attributes(owner) and after is None:
            raise Unreadable(said("{name}() of this {kind} is not its class's", name=name, kind=type(owner).__name__))
        if type(found) is not types.FunctionType:
            raise Unreadable(said("{name} is no function written in Python", name=f"{type(owner).__name__}.{name}"))
        return self._function(found, owner, home, given, depth + 1)

    def _function(self, function: Any, owner: Any, home: type, given: List[Any], depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise Unreadable(said("its calls are nested too deeply"))
        key = (function.__code__, home.__name__)
        if key not in self._definitions:
            self._definitions[key] = definition(function, home.__name__)
        return _Call(self, function, home, owner, depth).result(self._definitions[key], given)

    # -- what a call may do --

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unreadable(said("it holds too much to be read here"))

    def made(self, container: Any) -> Any:
        """Note that `container` is ours: the function may change it."""
        self._made[id(container)] = container  # kept, so that its id stays its own
        return container

    def is_ours(self, container: Any) -> bool:
        return id(container) in self._made

    def is_tensor(self, value: Any) -> bool:
        return self._is_tensor(value)

    def attribute(self, thing: Any, name: str, depth: int) -> Any:
        """``thing.name``, without running code of the class other than properties that can be read like the rest."""
        if self._is_tensor(thing):
            if name == "data":
                return thing
            raise Unreadable(said("{name} of a tensor", name=f".{name}"))
        self._refuse_odd(thing)
        own = attributes(thing)
        if name == "__dict__":
            return own
        found, home = defined(type(thing), name)
        if type(found) is property:
            return self._function(found.fget, thing, home, [], depth + 1)
        if type(found) is types.MemberDescriptorType:
            return found.__get__(thing, type(thing))
        if defined(type(found), "__set__")[0] is not MISSING:  # it answers in place of the variable of that name
            kind = type(found).__name__
            raise Unreadable(said("{name} is a {kind}", name=f"{type(thing).__name__}.{name}", kind=kind))
        parts: List[Any] = [own, *(own.get(part) for part in PARTS_OF_A_MODULE)]
        for held in parts:
            if type(held) in DICTS and name in held:
                return held[name]
        if type(found) in PLAIN:
            return found
        called = f"{type(thing).__name__}.{name}"
        raise Unreadable(said("{name} is nothing that can be read without running code", name=called))

    @staticmethod
    def _refuse_odd(thing: Any) -> None:
        """Raise where the class of `thing` has ways of its own to find an attribute."""
        own_dict = defined(type(thing), "__dict__")[0]
        plain = own_dict is MISSING or type(own_dict) in (types.GetSetDescriptorType, types.MemberDescriptorType)
        if not plain or type(defined(type(thing), "__getattribute__")[0]) is types.FunctionType:
            raise Unreadable(said("{kind} answers for its attributes itself", kind=type(thing).__name__))

    def call_method(self, owner: Any, name: str, given: List[Any], depth: int) -> Any:
        kind = type(owner)
        if self._is_tensor(owner):
            if name in SAME_VALUES and not given:
                return owner
            return self.number(owner) if name == "item" else self._refuse(said("{name} of a tensor", name=f"{name}()"))
        if kind in DICTS or kind in LISTS or kind is str:
            result = containers.called(owner, name, given, ours=self.is_ours(owner))
            return self.made(result) if name == "copy" else result
        if name == "state_dict" and not given:
            self.inside.add(id(owner))
            return self._state(owner, depth + 1)
        return self._method(owner, name, given, depth)

    def number(self, value: Any) -> Any:
        """The element of a tensor in host memory."""
        if value.device.type != "cpu" or value.numel() != 1:
            raise Unreadable(said("it makes a number of a tensor on a GPU, or of several elements"))
        return value.detach().item()

    @staticmethod
    def _refuse(what: Said) -> Any:
        raise Unreadable(said("{name} is not understood", name=what))


class _Call:
    """One call of one function: its variables, and what its statements and expressions do."""

    def __init__(self, reader: Reader, function: Any, home: type, owner: Any, depth: int) -> None:
        self._reader, self._function, self._globals = reader, function, function.__globals__
        self._home, self._owner, self._depth = home, owner, depth
        self._scope: Dict[str, Any] = {}

    def result(self, node: Any, given: List[Any]) -> Any:
        """What the function with this tree returns for its owner and what is `given`."""
        names = [a.arg for a in (*getattr(node.args, "posonlyargs", ()), *node.args.args)]
        if len(given) >= len(names) or node.args.vararg or node.args.kwarg:
            called = f"{self._function.__name__}()"
            raise Unreadable(said("{function} takes its arguments in another way", function=called))
        defaults = self._function.__defaults__ or ()
        self._scope.update(zip(names[len(names) - len(defaults) :], defaults))
        self._scope.update(self._function.__kwdefaults__ or {})
        self._scope.update(zip(names, [self._owner, *given]))
        missing = [n for n in (*names, *(a.arg for a in node.args.kwonlyargs)) if n not in self._scope]
        if missing:
            called = f"{self._function.__name__}()"
            raise Unreadable(said("{function} wants {argument}", function=called, argument=missing[0]))
        try:
            self.run(node.body)
        except _Returned as returned:
            return returned.value
        return None

    # -- statements --

    def run(self, body: Sequence[Any]) -> None:
        for statement in body:
            self._reader.spend()
            getattr(self, f"_run_{type(statement).__name__.lower()}", self._unknown)(statement)

    def _unknown(self, node: Any) -> Any:
        line = getattr(node, "lineno", "?")
        raise Unreadable(said("line {line} has a {kind}", line=line, kind=type(node).__name__))

    def _run_expr(self, node: Any) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    def _run_pass(self, node: Any) -> None:
        pass

    def _run_return(self, node: Any) -> None:
        raise _Returned(None if node.value is None else self.value(node.value))

    def _run_assign(self, node: Any) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._bind(target, value)

    def _run_annassign(self, node: Any) -> None:
        if node.value is not None:
            self._bind(node.target, self.value(node.value))

    def _run_if(self, node: Any) -> None:
        self.run(node.body if containers.truth(self.value(node.test)) else node.orelse)

    def _run_for(self, node: Any) -> None:
        if node.orelse:
            self._unknown(node)
        for item in containers.items(self.value(node.iter)):
            self._bind(node.target, item)
            self.run(node.body)

    def _run_delete(self, node: Any) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Subscript):
                self._unknown(target)
            del self._ours(target.value)[containers.key(self._key(target))]

    def _bind(self, target: Any, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._scope[target.id] = value
        elif isinstance(target, ast.Tuple) and type(value) in (tuple, list) and len(value) == len(target.elts):
            for one, part in zip(target.elts, value):
                self._bind(one, part)
        elif isinstance(target, ast.Subscript):
            self._ours(target.value)[containers.key(self._key(target))] = value
        else:
            self._unknown(target)

    def _ours(self, node: Any) -> Any:
        container = self.value(node)
        if not self._reader.is_ours(container):
            raise Unreadable(said("it changes what it does not own"))
        return container

    # -- expressions --

    def value(self, node: Any) -> Any:
        self._reader.spend()
        return getattr(self, f"_of_{type(node).__name__.lower()}", self._unknown)(node)

    def _of_constant(self, node: Any) -> Any:
        return node.value

    def _of_name(self, node: Any) -> Any:
        if node.id in self._scope:
            return self._scope[node.id]
        value = self._globals.get(node.id, getattr(builtins, node.id, None))
        if containers.known(value):
            return value
        raise Unreadable(said("{name} is not understood", name=node.id))

    def _of_attribute(self, node: Any) -> Any:
        owner = self.value(node.value)
        if owner is copy or owner is collections:
            return getattr(owner, node.attr)
        private = node.attr.startswith("__") and not node.attr.endswith("__")
        name = f"_{self._home.__name__.lstrip('_')}{node.attr}" if private else node.attr
        return self._reader.attribute(owner, name, self._depth)

    def _of_dict(self, node: Any) -> Any:
        result: Dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                result.update(containers.mapping(self.value(value)))
            else:
                result[containers.key(self.value(key))] = self.value(value)
        return self._reader.made(result)

    def _of_list(self, node: Any) -> Any:
        return self._reader.made([self.value(part) for part in node.elts])

    def _of_tuple(self, node: Any) -> Any:
        return tuple(self.value(part) for part in node.elts)

    def _of_set(self, node: Any) -> Any:
        return {containers.key(self.value(part)) for part in node.elts}

    def _of_dictcomp(self, node: Any) -> Any:
        pairs = self._comprehended(node.generators, lambda: (self.value(node.key), self.value(node.value)))
        return self._reader.made(containers.mapping(pairs))

    def _of_listcomp(self, node: Any) -> Any:
        return self._reader.made(self._comprehended(node.generators, lambda: self.value(node.elt)))

    _of_generatorexp = _of_listcomp

    def _comprehended(self, generators: Sequence[Any], result: Callable[[], Any]) -> List[Any]:
        if not generators:
            return [result()]
        first, found, outer = generators[0], [], dict(self._scope)
        for item in containers.items(self.value(first.iter)):
            self._bind(first.target, item)
            if all(containers.truth(self.value(test)) for test in first.ifs):
                found += self._comprehended(generators[1:], result)
        self._scope.clear()
        self._scope.update(outer)
        return found

    def _of_subscript(self, node: Any) -> Any:
        return containers.item(self.value(node.value), self._key(node))

    def _key(self, node: Any) -> Any:
        inner = node.slice
        return self.value(getattr(inner, "value", inner) if type(inner).__name__ == "Index" else inner)  # Python 3.8

    def _of_ifexp(self, node: Any) -> Any:
        return self.value(node.body if containers.truth(self.value(node.test)) else node.orelse)

    def _of_boolop(self, node: Any) -> Any:
        value: Any = None
        for part in node.values:
            value = self.value(part)
            if containers.truth(value) == isinstance(node.op, ast.Or):
                break
        return value

    def _of_unaryop(self, node: Any) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return not containers.truth(value)
        return -containers.of(value, PLAIN) if isinstance(node.op, ast.USub) else self._unknown(node)

    def _of_binop(self, node: Any) -> Any:
        combine = OPERATORS.get(type(node.op)) or self._unknown(node)
        return combine(containers.of(self.value(node.left), PLAIN), containers.of(self.value(node.right), PLAIN))

    def _of_compare(self, node: Any) -> Any:
        left = self.value(node.left)
        for op, comparator in zip(node.ops, node.comparators):
            right = self.value(comparator)
            if not self._compared(op, left, right):
                return False
            left = right
        return True

    @staticmethod
    def _compared(op: Any, left: Any, right: Any) -> bool:
        if isinstance(op, (ast.Is, ast.IsNot)):
            return (left is right) == isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            return containers.contains(right, left) == isinstance(op, ast.In)
        return bool(OPERATORS[type(op)](containers.of(left, PLAIN), containers.of(right, PLAIN)))

    def _of_joinedstr(self, node: Any) -> Any:
        return "".join(str(containers.of(self.value(part), PLAIN)) for part in node.values)

    def _of_formattedvalue(self, node: Any) -> Any:
        if node.format_spec is not None or node.conversion != -1:
            self._unknown(node)
        return self.value(node.value)

    def _of_call(self, node: Any) -> Any:
        if any(k.arg is None for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
            self._unknown(node)
        target = node.func
        if isinstance(target, ast.Attribute) and not self._is_of_a_module(target):
            if node.keywords:
                self._unknown(node)
            given = [self.value(a) for a in node.args]
            if _is_super(target.value):
                return self._reader._method(self._owner, target.attr, given, self._depth, self._home)
            return self._reader.call_method(self.value(target.value), target.attr, given, self._depth)
        given = [self.value(a) for a in node.args]
        return self._converted(self.value(target), given, {k.arg: self.value(k.value) for k in node.keywords})

    def _is_of_a_module(self, node: Any) -> bool:
        inner = node.value
        if not isinstance(inner, ast.Name) or inner.id in self._scope:
            return False
        value = self._globals.get(inner.id)
        return value is copy or value is collections

    def _converted(self, function: Any, given: List[Any], named: Dict[Any, Any]) -> Any:
        if len(given) == 1 and self._reader.is_tensor(given[0]) and any(function is one for one in (int, float, bool)):
            return function(self._reader.number(given[0]))
        result = containers.converted(function, given, named)
        fresh = type(result) in (*DICTS, list, set) and not any(result is one for one in given)
        return self._reader.made(result) if fresh else result


def _is_super(node: Any) -> bool:
    call = isinstance(node, ast.Call) and not node.args and not node.keywords
    return call and isinstance(node.func, ast.Name) and node.func.id == "super"


__all__ = ["Reader", "Unreadable"]
