"""torch's flight recorder in a few rows: which collectives this process issued on which process groups, and which are done.

Pure and plain, for the dump of a live process and for dump files alike. The format is that of ``FlightRecorder::dump`` in
torch/csrc/distributed/c10d (versions 1.x to 2.10), which torch's own ``torch.distributed.flight_recorder`` reads. What gloo writes
differs: no ``pg_config``, no events (so a state is never "completed": ``retired`` says it), no sends and receives, and ``pg_status``
counts those too.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

FIELDS = (
    "group", "sequence", "op", "input_sizes", "output_sizes", "dtypes", "state", "p2p", "peer", "issued_s", "at", "timeout_s",
)  # fmt: skip
LAST = 200
MOST_ENTRIES, MOST_TENSORS, MOST_DIMENSIONS, LONGEST_NAME = 100_000, 1024, 16, 300
MOST_RANKS = 1_000_000
UNNAMED = "#"
"""Begins the name of a group that has none (gloo under TORCH_DISTRIBUTED_DEBUG=DETAIL): its number in this process follows."""

_OPERATION = re.compile(r"(?:(\w+):)?(\S+)(?: (\d+)(->|<-)(\d+))?$")
Place = Callable[[Any], Optional[str]]
FramePlace = Callable[[Dict[str, Any]], Sequence[Any]]


class Known(NamedTuple):
    """A process group as the process has it. ``number`` counts its operations, 0 only where there was none; None: not known.
    ``met_at``: the store in which its members met, where that is not the default group's.
    """

    name: str
    description: str
    backend: str
    ranks: Sequence[int]
    number: Optional[int] = None
    met_at: str = ""


class _Entry(NamedTuple):
    name: str
    library: str
    pg_id: int
    description: str
    record: int
    sequence: int
    collectives: int
    """How many collectives its group had issued by then; of a send or receive, too."""
    op: str
    input_sizes: List[List[int]]
    output_sizes: List[List[int]]
    dtypes: List[str]
    state: str
    p2p: bool
    peer: Optional[int]
    issued_s: Optional[float]
    timeout_s: Optional[float]
    at: Optional[str]
    frames: Sequence[Dict[str, Any]]
    """The stack that issued it, innermost first, as torch wrote it; empty where none was dumped."""


class _Counts(NamedTuple):
    """What ``pg_status`` says of a group: its last operation, and the last one that is done; sends and receives among them."""

    enqueued: int
    completed: int


class _Told(NamedTuple):
    """What dumps say beside their entries. ``counts``: by (library, pg_id). ``numbers``: the pg_id of groups by (library, name)."""

    counts: Dict[Tuple[str, int], _Counts]
    numbers: Dict[Tuple[str, str], int]
    overwritten: bool
    pending_only: bool

    def of(self, name: str, library: str, entries: Sequence[_Entry]) -> Optional[_Counts]:
        number = entries[-1].pg_id if entries else self.numbers.get((library, name))
        if library == "gloo" or number is None or any(e.p2p for e in entries):
            return None
        return self.counts.get((library, number))


def no_place(frames: Any) -> Optional[str]:
    """Without stacks there is no call site."""
    return None


def summary(
    dumps: Iterable[Dict[str, Any]], known: Iterable[Known] = (), last: int = LAST, place: Place = no_place
) -> Dict[str, Any]:
    """``groups``, ``fields`` and ``calls`` (rows, oldest first; of each group those that are not done and the `last` others),
    ``overwritten``: older calls are not in the record, and ``pending_only``: because it has those alone that are not done.

    `known` groups complete what the dumps say of them. `place` names the call site by an entry's frames. About 5 us an entry.
    """
    dumps, known = list(dumps), list(known)
    entries = [e for dump in dumps for e in _entries(dump, place)]
    groups = {g.name: g for dump in dumps for g in _configured(dump)}
    groups.update({g.name: g for g in known})
    fresh = {g.name for g in groups.values() if _is_fresh(g)}
    # A process that tells its groups has been asked for all calls, and counts them itself.
    files = [] if known else dumps
    pending_only = any(map(_pending_only, files))
    told = _Told({}, {}, pending_only or any(_first_record(dump) > 0 for dump in dumps), pending_only)
    for dump in files:
        told.counts.update(_status(dump))
        told.numbers.update(_numbers(dump))
    return _summary([e for e in _current(entries) if e.name not in fresh], groups, told, last)


def call_sites(dumps: Iterable[Dict[str, Any]], known: Sequence[Known], place: FramePlace) -> Dict[str, Any]:
    """From where the collectives in `dumps` were issued: ``sites``, each ``[op, stack]`` (a stack is places, innermost first), and ``at``:
    by group, ``[number, index into sites]`` of each call.

    `place` is asked once for each of the frames, which equal stacks share. Sends and receives, and calls without a stack, are left out;
    of those that were issued as one, the first counts. About 5 us an entry.
    """
    dumps = list(dumps)  # they are kept: frames are told apart by their identity
    by_key: Dict[Tuple[str, str], List[_Entry]] = {
        (g.name, one): [] for g in known for one in libraries(g.backend) or [""]
    }
    alive = {g.name for g in known if not _is_fresh(g)}
    for entry in _current([e for dump in dumps for e in _entries(dump, no_place)]):
        if entry.name in alive:
            by_key.setdefault((entry.name, entry.library), []).append(entry)
    mixed = _with_several_libraries(by_key)
    sites = _Sites(place)
    at: Dict[str, List[List[int]]] = {}
    for (name, library), entries in by_key.items():
        numbers: Dict[int, int] = {}
        for entry in entries:
            if entry.frames and not entry.p2p and entry.sequence not in numbers:
                numbers[entry.sequence] = sites.index(entry)
        if numbers:
            at[f"{name}/{library}" if name in mixed else name] = [[n, site] for n, site in sorted(numbers.items())]
    return {"sites": sites.told, "at": at}


def _is_fresh(group: Known) -> bool:
    """Whether it has issued nothing yet: what gloo's recorder has under its name is of an earlier one."""
    return group.number == 0 and libraries(group.backend) == ["gloo"]


class _Sites:
    """The different stacks of calls. torch writes equal frames as one object, so that their identities tell stacks apart."""

    def __init__(self, place: FramePlace) -> None:
        self._place = place
        self._places: Dict[int, Any] = {}
        self._by_frames: Dict[Tuple[Any, ...], int] = {}
        self._by_places: Dict[Tuple[Any, ...], int] = {}
        self.told: List[List[Any]] = []

    def index(self, entry: _Entry) -> int:
        key = (entry.op, *map(id, entry.frames))
        found = self._by_frames.get(key)
        if found is None:
            stack = [self._of(frame) for frame in entry.frames]
            found = self._by_places.setdefault((entry.op, *map(tuple, stack)), len(self.told))
            if found == len(self.told):
                self.told.append([entry.op, stack])
            self._by_frames[key] = found
        return found

    def _of(self, frame: Dict[str, Any]) -> Any:
        found = self._places.get(id(frame))
        if found is None:
            found = self._places[id(frame)] = self._place(frame)
        return found


def libraries(backend: str) -> List[str]:
    """``cpu:gloo,cuda:nccl`` -> gloo, nccl."""
    return sorted({part.rpartition(":")[2] for part in backend.split(",") if part})


def _summary(entries: List[_Entry], groups: Dict[str, Known], told: _Told, last: int) -> Dict[str, Any]:
    by_key: Dict[Tuple[str, str], List[_Entry]] = {}
    for group in groups.values():
        for library in libraries(group.backend) or [""]:
            by_key[group.name, library] = []
    for entry in entries:
        # A file's pg_config does not name the library: its first entry does.
        own = by_key.pop((entry.name, ""), None)
        by_key.setdefault((entry.name, entry.library), [] if own is None else own).append(entry)
    mixed = _with_several_libraries(by_key)
    rows: List[Tuple[float, int, List[Any]]] = []
    described = []
    for (name, library), own_entries in by_key.items():
        shown = f"{name}/{library}" if name in mixed else name
        group = groups.get(name) or Known(name, own_entries[-1].description, library, ())
        described.append(_group(shown, group, library, own_entries, told))
        kept = [e for e in own_entries if e.state != "completed"]
        done = [e for e in own_entries if e.state == "completed"]
        for entry in kept + done[-last:]:
            rows.append((entry.issued_s or 0.0, entry.record, _row(shown, entry, group.ranks)))
    rows.sort(key=lambda row: row[:2])
    return {
        "groups": described,
        "fields": FIELDS,
        "calls": [row for _, _, row in rows],
        "overwritten": told.overwritten,
        "pending_only": told.pending_only,
    }


def _with_several_libraries(keys: Iterable[Tuple[str, str]]) -> List[str]:
    names = [name for name, _ in keys]
    return [name for name in set(names) if names.count(name) > 1]


def _group(shown: str, group: Known, library: str, entries: List[_Entry], told: _Told) -> Dict[str, Any]:
    counts = told.of(group.name, library, entries)
    issued = _issued(group, library, entries, told, counts)
    return {
        "name": shown,
        "description": "" if group.description == "undefined" else group.description,
        "backend": library or group.backend,
        "ranks": list(group.ranks),
        "last_issued": issued,
        "last_completed": _completed(issued, entries, told, counts),
        "met_at": group.met_at,
    }


def _issued(group: Known, library: str, entries: List[_Entry], told: _Told, counts: Optional[_Counts]) -> Optional[int]:
    """The number of the last collective; None where nothing tells it."""
    issued: Optional[int] = max((e.collectives for e in entries), default=0 if not told.overwritten else None)
    if group.number is not None and library != "gloo":
        # NCCL counts before it makes a communicator, for which all ranks have to come: the record follows.
        return max(issued or 0, group.number)
    if group.number == 0:
        return 0
    return issued if counts is None else max(issued or 0, counts.enqueued)


def _completed(issued: Optional[int], entries: List[_Entry], told: _Told, counts: Optional[_Counts]) -> Optional[int]:
    collectives = [e for e in entries if not e.p2p]
    done = [e.sequence for e in collectives if e.state == "completed"]
    if done:
        return max(done)
    if counts is not None:
        return counts.completed
    if collectives:
        return min(e.sequence for e in collectives) - 1
    if told.pending_only:
        return issued
    return 0 if issued == 0 or not told.overwritten else None


def _row(shown: str, entry: _Entry, ranks: Sequence[int]) -> List[Any]:
    peer = entry.peer
    if peer is not None and peer < len(ranks):
        peer = ranks[peer]
    values = (
        shown, entry.sequence, entry.op, entry.input_sizes, entry.output_sizes, entry.dtypes, entry.state, entry.p2p, peer,
        entry.issued_s, entry.at, entry.timeout_s,
    )  # fmt: skip
    return list(values)


# --- one dump ------------------------------------------------------------------------------------------------------
# Files are not to be trusted, so nothing here takes a type for granted.


def _entries(dump: Dict[str, Any], place: Place) -> Iterable[_Entry]:
    raw = dump.get("entries")
    for number, entry in enumerate(raw[-MOST_ENTRIES:] if isinstance(raw, list) else ()):
        if isinstance(entry, dict):
            yield _entry(entry, number, place)


def _entry(raw: Dict[str, Any], number: int, place: Place) -> _Entry:
    library, op, peer = _operation(raw.get("profiling_name"))
    group = raw.get("process_group")
    description = group[1] if isinstance(group, (list, tuple)) and len(group) == 2 else ""
    pg_id = _integer(raw.get("pg_id"))
    p2p = raw.get("is_p2p") is True or op in ("send", "recv")
    collectives = _integer(raw.get("collective_seq_id", None if p2p else raw.get("seq_id")))
    input_dtypes, output_dtypes = _texts(raw.get("input_dtypes")), _texts(raw.get("output_dtypes"))
    return _Entry(
        name=_name(raw) or f"{UNNAMED}{pg_id}",
        library=library,
        pg_id=pg_id,
        description=_text(description),
        record=_integer(raw.get("record_id"), number),
        sequence=_integer(raw.get("p2p_seq_id")) if p2p else collectives,
        collectives=collectives,
        op=op,
        input_sizes=_sizes(raw.get("input_sizes")),
        output_sizes=_sizes(raw.get("output_sizes")),
        dtypes=input_dtypes or output_dtypes,
        state=_state(raw, library),
        p2p=p2p,
        peer=peer,
        issued_s=seconds(raw),
        timeout_s=max(0, _integer(raw.get("timeout_ms"))) / 1000.0 or None,
        at=place(raw.get("frames")),
        frames=_frames(raw.get("frames")),
    )


def _frames(raw: Any) -> Sequence[Dict[str, Any]]:
    return raw if isinstance(raw, list) and all(isinstance(f, dict) for f in raw) else ()


def _operation(name: Any) -> Tuple[str, str, Optional[int]]:
    """``nccl:send 0->1`` -> ("nccl", "send", 1); ``nccl:recv 1<-0`` -> ("nccl", "recv", 0): the peer as a rank of the group."""
    found = _OPERATION.match(_text(name))
    if found is None:
        return "", _text(name) or "?", None
    library, op, _, arrow, peer = found.groups()
    return library or "", op, int(peer[:9]) if arrow else None


def _state(raw: Dict[str, Any], library: str) -> str:
    state = raw.get("state")
    # A gloo call has no event that could tell; it is retired when it has run. With NCCL, retired may also mean timed out.
    if state == "completed" or (library == "gloo" and raw.get("retired") is True):
        return "completed"
    return "started" if state == "started" else "issued"


def seconds(raw: Dict[str, Any]) -> Optional[float]:
    """When the call of an entry was issued (Unix time)."""
    for key, scale in (("time_created_ns", 1e-9), ("time_created_us", 1e-6)):
        value = raw.get(key)
        if isinstance(value, (int, float)) and 0 < value < 1e20:
            return value * scale
    return None


def _current(entries: List[_Entry]) -> List[_Entry]:
    """Without those of an earlier group of the same name: a program may destroy its groups and begin anew."""
    newest: Dict[Tuple[str, str], int] = {}
    for entry in entries:
        newest[entry.name, entry.library] = entry.pg_id
    return [e for e in entries if newest[e.name, e.library] == e.pg_id]


def _library(dump: Dict[str, Any]) -> str:
    """Whose recorder it is, where that can be told."""
    raw = dump.get("entries")
    first = raw[0] if isinstance(raw, list) and raw else None
    if isinstance(first, dict):
        return _operation(first.get("profiling_name"))[0]
    return "nccl" if _text(dump.get("nccl_version")) else ""


def _first_record(dump: Dict[str, Any]) -> int:
    raw = dump.get("entries")
    first = raw[0] if isinstance(raw, list) and raw else None
    return _integer(first.get("record_id")) if isinstance(first, dict) else 0


def _pending_only(dump: Dict[str, Any]) -> bool:
    """Whether it has no call that is done, though there were some: torch can be asked for such a dump."""
    raw = dump.get("entries")
    entries = [e for e in raw if isinstance(e, dict)] if isinstance(raw, list) else []
    if not entries:
        return any(counts.enqueued > 0 for counts in _status(dump).values())
    library = _library(dump)
    return _first_record(dump) > 0 and all(_state(e, library) != "completed" for e in entries)


def _configured(dump: Dict[str, Any]) -> Iterable[Known]:
    """The groups of ``pg_config``; gloo has one without a name there, which says nothing."""
    config, library = dump.get("pg_config"), _library(dump)
    for name, about in config.items() if isinstance(config, dict) else ():
        if isinstance(about, dict) and _text(name):
            yield Known(_text(name), _text(about.get("desc")), library, _ranks(about.get("ranks")))


def _status(dump: Dict[str, Any]) -> Dict[Tuple[str, int], _Counts]:
    status, library = dump.get("pg_status"), _library(dump)
    found = {}
    for pg_id, about in status.items() if isinstance(status, dict) else ():
        if isinstance(about, dict):
            enqueued, completed = about.get("last_enqueued_collective"), about.get("last_completed_collective")
            found[library, _integer(pg_id)] = _Counts(max(_integer(enqueued), 0), max(_integer(completed), 0))
    return found


def _numbers(dump: Dict[str, Any]) -> Dict[Tuple[str, str], int]:
    """The number within the process of each group by its name, which ``pg_status`` goes by.

    Entries tell it of theirs. Names are numbers, too, given in the same order: where the entries agree with that, it holds for all groups.
    """
    library, raw, status = _library(dump), dump.get("entries"), _status(dump)
    if library == "gloo" or not status:
        return {}
    told = {_name(e): _integer(e.get("pg_id")) for e in (raw if isinstance(raw, list) else ()) if isinstance(e, dict)}
    names = sorted(int(g.name) for g in _configured(dump) if re.fullmatch(r"\d{1,18}", g.name))
    ids = sorted(number for _, number in status)
    paired = {str(name): number for name, number in zip(names, ids)} if len(names) == len(ids) else {}
    if any(paired.get(name) != number for name, number in told.items()):
        return {}
    return {(library, name): number for name, number in paired.items()}


def _name(raw: Dict[str, Any]) -> str:
    group = raw.get("process_group")
    return _text(group[0]) if isinstance(group, (list, tuple)) and len(group) == 2 else _text(group)


def _ranks(value: Any) -> List[int]:
    """``"[0, 1, 2]"``, or a list of numbers."""
    found = value if isinstance(value, (list, tuple)) else []
    if isinstance(value, str):
        found = [int(n[:9]) for n in re.findall(r"\d+", value)]
    return [n for n in found if type(n) is int and 0 <= n < MOST_RANKS]


def _integer(value: Any, default: int = 0) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return default


def _text(value: Any) -> str:
    return value[:LONGEST_NAME] if isinstance(value, str) else ""


def _texts(value: Any) -> List[str]:
    return [_text(v) for v in value[:MOST_TENSORS]] if isinstance(value, (list, tuple)) else []


def _sizes(value: Any) -> List[List[int]]:
    if not isinstance(value, (list, tuple)):
        return []
    shapes = [shape for shape in value[:MOST_TENSORS] if isinstance(shape, (list, tuple))]
    return [[_integer(n) for n in shape[:MOST_DIMENSIONS]] for shape in shapes]


__all__ = ["FIELDS", "LAST", "UNNAMED", "Known", "call_sites", "libraries", "no_place", "seconds", "summary"]
