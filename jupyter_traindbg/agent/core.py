"""The agent: one object that owns everything put into the process, so that `Agent.stop` can take all of it out again."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from . import actions, first_nonfinite, listing, probes, rendezvous
from .agreed import Agreed
from .boundary import Boundary
from .by_hand import Search
from .dynamo import keep_out
from .gpu_steps import GpuSteps
from .objects import Objects
from .recorder import Recorder
from .safepoint import SafePoints
from .server import Server

if TYPE_CHECKING:
    from .checkpoint.active import Checkpoints
    from .growth.ledger import Ledger
    from .profiling import Profiling
    from .tuning import Tuning

FIRST_STEPS = 16
"""So many steps are noted in the books one by one when somebody asks for memory; see `Ledger.hurry`."""
STEP_ENDS_S = 2.0
"""How long who leaves waits for the end of the step under way, where that is recorded."""
LINGER_S = 30.0
"""How long an agent stays after its last client vanished without a word (a killed notebook may come back)."""


class Agent:
    """Owns the server thread, the hooks and the directory. Probes get it as their first argument."""

    def __init__(self, directory: Optional[str], version: str) -> None:
        self.version = version
        self.directory = directory or rendezvous.create(os.getpid(), os.getuid())
        self.keep = False
        self._hooked = False
        self.alive = False
        self.started_s = time.time()
        self.safepoints = SafePoints()
        self.recorder = Recorder(self.safepoints)
        self.objects = Objects(self.safepoints, self.recorder)
        self.safepoints.forgotten = self.objects.forgotten
        self.boundary = Boundary(self.safepoints, self.recorder)
        self._looks = [self.boundary.look, Search(self.safepoints, self.recorder, self.objects).look]
        """Called on our thread now and then."""
        self.gpu_steps = GpuSteps(self.safepoints)
        self.agreed = Agreed(self.safepoints, self.recorder)
        self.listeners: List[Callable[[Dict[str, Any]], None]] = []
        """See `Tuning`; for those in this very process."""
        self.watch: Any = None
        """Of `first_nonfinite`, where it is armed for more than one step."""
        self.profiling: Optional[Profiling] = None
        """torch's profiler, while it is to be used or on."""
        self._tuning: Optional[Tuning] = None
        self._checkpoints: Optional[Checkpoints] = None
        self._ledger: Optional[Ledger] = None
        self.pid = os.getpid()
        self._lonely_since: Optional[float] = time.monotonic()
        self._stopping = threading.Lock()
        self._server = Server(os.path.join(self.directory, rendezvous.SOCKET), rendezvous.new_token(), self)

    def open(self) -> None:
        """Hook into torch if it is there, listen, and publish the card that lets clients find us."""
        self.alive = True
        self.hook_torch()
        self._server.open()
        atexit.register(self._at_exit)
        rendezvous.publish(self.directory, self._server.token, self.version)

    def hook_torch(self) -> None:
        """Install the optimizer hooks and timers once torch is completely imported; does nothing before."""
        try:
            if self.safepoints.ready():
                self._hooked = True
                self.recorder.open()
                self.boundary.open()
                self.gpu_steps.open()
                self.agreed.open()
                self.safepoints.open()  # last, 8 ms later: a step that is seen is followed by a fetch that is seen
        except Exception as e:  # a torch we do not know: the rest still works, and `info` says what does not
            self.safepoints.failures.append(f"no safe points: {type(e).__name__}: {e}")
            self._hooked = True

    def tick(self, clients: int) -> None:
        """Called by the server about twice a second: catch a late ``import torch``; leave when nobody has been here for long."""
        if not self._hooked:
            self.hook_torch()
        if self._checkpoints is not None:
            self._checkpoints.tick()
        for look in list(self._looks):
            try:
                look()
            except Exception as e:
                self._looks.remove(look)
                self.safepoints.failures.append(f"{look.__qualname__}: {type(e).__name__}: {e}")
        if clients or self.needed:
            self._lonely_since = None
        elif self._lonely_since is None:
            self._lonely_since = time.monotonic()
        elif time.monotonic() - self._lonely_since > LINGER_S:
            self.stop()

    @property
    def needed(self) -> bool:
        """True where the agent has to stay although nobody is connected: it was asked to, or something of its doing is in force."""
        return self.keep or self.tuned or self.recording or self.agreed.waiting or bool(self._checkpoints)

    @property
    def recording(self) -> bool:
        """True while torch's profiler is on by our doing, which only the training thread can end."""
        return self.profiling is not None and self.profiling.on

    @property
    def tuned(self) -> bool:
        """True while a change of ours to a learning rate and the like is in force."""
        return self._tuning is not None and self._tuning.active

    @property
    def tuning(self) -> Tuning:
        """Made when it is first asked for, as `checkpoints`: most who attach only look."""
        if self._tuning is None:
            from .tuning import Tuning

            self._tuning = Tuning(self.safepoints, self.objects, self.recorder, self.listeners)
            self._mark_new()
        return self._tuning

    @property
    def checkpoints(self) -> Checkpoints:
        if self._checkpoints is None:
            from .checkpoint.active import Checkpoints

            self._checkpoints = Checkpoints(self)
            self._mark_new()
        return self._checkpoints

    @property
    def ledger(self) -> Ledger:
        """What the allocators have in use after each step, from when somebody first asks for memory."""
        if self._ledger is None:
            from .growth.ledger import Ledger

            self._ledger = Ledger(self.safepoints)
            self._mark_new()
        return self._ledger

    def keep_books(self) -> Optional[Ledger]:
        """From now on; see `ledger`. None where steps are not seen."""
        if not self.safepoints.active:
            return None
        self.ledger.hurry(FIRST_STEPS)
        return self.ledger

    def doings(self, since_s: float) -> Dict[str, Any]:
        """What clients had done here after `since_s`: ``changes`` of ``settings`` and ``saved`` checkpoints, oldest first. Microseconds."""
        changes = list(self._tuning.log) if self._tuning is not None else []
        saved = list(self._checkpoints.saved) if self._checkpoints is not None else []
        return {
            "changes": [
                {
                    **{key: entry[key] for key in ("time_s", "step", "change")},
                    "settings": sorted({row["setting"] for row in entry["rows"]}),
                }
                for entry in changes
                if entry["time_s"] > since_s
            ],
            "saved": [entry for entry in saved if entry["time_s"] > since_s],
        }

    def call(self, method: str, params: Dict[str, Any]) -> Any:
        """Run the probe or action named `method`. Raises LookupError where there is none."""
        for package in (probes, actions):
            if method in listing.names(package):
                return self._load(package, method)(self, **params)
        there_are = ", ".join([*listing.names(probes), *listing.names(actions)])
        raise LookupError(f"no probe or action {method!r}; there are {there_are}")

    def _load(self, package: Any, name: str) -> Callable[..., Any]:
        """The ``run`` of a probe or action."""
        imported = len(sys.modules)
        run = listing.load(package, name)
        if len(sys.modules) != imported:
            self._mark_new()
        return run

    def _mark_new(self) -> None:
        """Mark what has just been imported: it may run between the graphs of a compiled step."""
        if self.safepoints.active:
            keep_out()

    def leave(self, others: int, *, force: bool = False) -> bool:
        """A client says goodbye. The last one out takes the agent with it, unless it is needed. True where it stopped."""
        if not force and (others or self.needed):
            return False
        if self.recording and self.profiling is not None and not self.profiling.end(STEP_ENDS_S):
            return False  # it goes by itself, once the step is over
        self.stop()
        return True

    def stop(self) -> None:
        """Take everything out of the process: hooks, patches, socket, files, and our own modules where they came from a zip."""
        with self._stopping:
            if not self.alive:
                return
            self.alive = False
        if self.profiling is not None:
            self.profiling.end(STEP_ENDS_S)
        self.safepoints.close()  # first: once no thread is inside our hooks, what they use can go
        first_nonfinite.end(self)
        if self._checkpoints is not None:
            self._checkpoints.close()
        if self._tuning is not None:
            self._tuning.close()
        self.boundary.close()
        self.gpu_steps.close()
        self.agreed.store.close()
        self.recorder.close()
        self.objects.clear()
        atexit.unregister(self._at_exit)
        self._server.close()
        rendezvous.remove(self.directory)
        _forget_modules()

    def _at_exit(self) -> None:
        if os.getpid() == self.pid:  # a forked child runs our atexit too, and must not remove its parent's directory
            shutil.rmtree(self.directory, ignore_errors=True)


def _forget_modules() -> None:
    """Where this package was imported from a travelling zip, remove the traces that the import left in the interpreter."""
    root = __name__.split(".")[0]
    archive = getattr(sys.modules.get(root), "__file__", None) or ""
    if ".zip" not in archive:
        return
    archive = archive[: archive.index(".zip") + 4]
    for name in [n for n in sys.modules if n == root or n.startswith(root + ".")]:
        del sys.modules[name]
    for path in [p for p in sys.path_importer_cache if p.startswith(archive)]:
        del sys.path_importer_cache[path]
    caches = getattr(sys.modules.get("zipimport"), "_zip_directory_cache", {})
    caches.pop(archive, None)
