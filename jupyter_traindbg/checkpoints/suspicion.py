"""Which names have no place in a checkpoint.

Nothing that a pickle names is ever called here, so this list protects nobody from us: it tells people that a file would run code in
whoever loads it without ``weights_only``. A name that is missing in it is still inert, and reported as a class that torch would refuse.
"""

from __future__ import annotations

import _compat_pickle
import builtins

from .values import shown

__all__ = ["modern_name", "suspicion"]

HARD = frozenset({
    "os", "posix", "nt", "sys", "subprocess", "builtins", "importlib", "imp", "ctypes", "_ctypes", "socket", "_socket", "shutil", "pty",
    "runpy", "commands", "popen2", "marshal",
})  # fmt: skip
"""Anywhere in a module's path or a dotted name: ``six.moves.builtins``, or ``os.system`` reached through another module."""

MODULES = HARD | frozenset({
    "operator", "_operator", "functools", "_functools", "code", "codeop", "pickle", "_pickle", "cPickle", "cloudpickle", "dill",
    "joblib", "shelve", "multiprocessing", "threading", "_thread", "asyncio", "signal", "webbrowser", "http", "urllib", "requests",
    "httpx", "aiohttp", "ftplib", "smtplib", "telnetlib", "poplib", "imaplib", "ssl", "socketserver", "xmlrpc", "tempfile", "glob",
    "fileinput", "io", "_io", "codecs", "platform", "pdb", "bdb", "cProfile", "profile", "timeit", "trace", "doctest", "unittest",
    "distutils", "setuptools", "pip", "pydoc", "site", "venv", "zipimport", "pkgutil", "inspect", "gc", "atexit", "linecache",
    "sqlite3", "concurrent", "tkinter", "idlelib", "lib2to3", "ensurepip", "test", "py_compile", "compileall", "zipfile", "tarfile",
    "mmap", "fcntl", "resource", "select", "selectors", "IPython", "ipykernel", "jedi", "py_spy", "psutil", "ptyprocess", "pexpect",
    "fabric", "paramiko",
})  # fmt: skip
"""As the first part of a module's path: nothing in them belongs into a checkpoint."""

WITHIN = (
    "torch.load", "torch.save", "torch.hub", "torch.jit", "torch.package", "torch.fx", "torch.ops", "torch.classes",
    "torch.serialization", "torch.utils.cpp_extension", "torch.utils.model_zoo", "torch.utils.collect_env", "torch.utils.bottleneck",
    "torch.multiprocessing", "torch._inductor", "torch._dynamo", "torch.distributed.run", "torch.distributed.launch",
    "torch.distributed.rpc", "torch.distributed.elastic", "torch._library", "torch.library", "torch._ops", "torch.testing",
    "torch._classes", "numpy.load", "numpy.testing", "numpy.f2py", "numpy.distutils", "numpy.lib", "numpy.memmap", "numpy.fromfile",
    "numpy.ctypeslib", "pandas.eval", "pandas.read_pickle", "pandas.io", "pandas.core.computation", "types.FunctionType",
    "types.CodeType", "types.MethodType", "types.LambdaType", "types.ModuleType",
)  # fmt: skip
"""These, and whatever lies below them."""

FINE = frozenset({
    "builtins.set", "builtins.frozenset", "builtins.bytearray", "builtins.complex", "builtins.object", "builtins.list", "builtins.dict",
    "builtins.tuple", "builtins.int", "builtins.float", "builtins.str", "builtins.bytes", "builtins.bool", "builtins.slice",
    "builtins.range", "builtins.type", "torch.serialization._get_layout", "torch.utils.data.distributed.DistributedSampler",
    "_codecs.encode", "copyreg._reconstructor", "copyreg.__newobj__", "copyreg.__newobj_ex__", "functools.OrderedDict",
    "torch.jit._pickle.build_intlist", "torch.jit._pickle.build_tensorlist", "torch.jit._pickle.build_doublelist",
    "torch.jit._pickle.build_boollist", "torch.jit._pickle.restore_type_tag", "torch.jit._pickle.build_tensor_from_id",
})  # fmt: skip
"""Although the lists above would have them."""

DEEDS = frozenset({
    "system", "popen", "eval", "exec", "execfile", "compile", "open", "getattr", "setattr", "delattr", "import_module", "run_module",
    "run_path", "call", "check_call", "check_output", "Popen", "fork", "spawn", "spawnl", "spawnv", "execv", "execl", "remove",
    "unlink", "rmtree", "attrgetter", "methodcaller", "partial", "loads", "load_module",
})  # fmt: skip
"""As the last part of a *dotted* name, which reaches through attributes."""


def modern_name(module: str, name: str) -> tuple[str, str]:
    """A name of Python 2 as Python 3 would find it: ``__builtin__`` is ``builtins``."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[module, name]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def suspicion(module: str, name: str) -> str:
    """The name as people know it, where it has no place in a checkpoint; "" where it may be there."""
    path = f"{module}.{name}"
    if path in FINE or (module == "builtins" and _is_exception(name)):
        return ""
    parts = module.split(".")
    reached = name.split(".")
    bad = (
        parts[0] in MODULES
        or not HARD.isdisjoint(parts)
        or not HARD.isdisjoint(reached)
        or any(path == below or path.startswith(f"{below}.") for below in WITHIN)
        or (len(reached) > 1 and reached[-1] in DEEDS)
        or (parts[0] == "copyreg")
        or any(_is_dunder(part) for part in reached if not module.startswith("numpy.random"))
    )
    return _familiar(path) if bad else ""


def _is_dunder(part: str) -> bool:
    return part.startswith("__") and part.endswith("__") and len(part) > 4


def _is_exception(name: str) -> bool:
    found = vars(builtins).get(name)
    return isinstance(found, type) and issubclass(found, BaseException)


def _familiar(path: str) -> str:
    module, dot, name = path.partition(".")
    return shown({"posix": "os", "nt": "os"}.get(module, module) + dot + name)
