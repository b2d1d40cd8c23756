"""What a change does, a row for each value: as the schedule has it, before and after, by optimizer and param group."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from . import changes
from .adjust import LR, UNDO, Force, Held, Key, in_time, is_tensor, keys, number, same, short
from .guard import compiled
from .objects import Objects
from .saying import said

COMPILED = said("the step is compiled: torch compiles it again for another float learning rate, which may take long")


class Rows:
    """Makes the rows. `scheduled` tells what the schedule has set of an optimizer, a group, a setting."""

    def __init__(self, objects: Objects, scheduled: Callable[[Any, int, str], Any]) -> None:
        self._objects, self._scheduled = objects, scheduled

    def of(self, plan: changes.Plan, before: Force, after: Force) -> List[Dict[str, Any]]:
        """What `plan` does, from `before` to `after`: a row for each value that it concerns."""
        concerned = list(keys(before))
        concerned += [k for k in keys(after) if k not in concerned]
        if plan.mode == UNDO:
            concerned = [k for k in concerned if not same(k, before, after)]
        else:
            wanted = {id(t.optimizer()): t.groups for t in plan.targets}
            if plan.releases_all:
                wanted.update({ident: plan.change["groups"] for ident, _, _ in concerned})
            concerned = [
                (ident, setting, group)
                for ident, setting, group in concerned
                if ident in wanted
                and setting in plan.settings()
                and (wanted[ident] is None or group in (wanted[ident] or ()))
            ]
        ends = in_time()
        return [
            self.row(key, before, after, ends) for key in sorted(concerned, key=lambda k: self._order(k, before, after))
        ]

    def _order(self, key: Key, before: Force, after: Force) -> Tuple[int, int, int]:
        held = after.get(key[0]) or before[key[0]]
        return self.number(key[0], held), changes.SETTINGS.index(key[1]), -1 if key[2] is None else key[2]

    def row(self, key: Key, before: Force, after: Force, ends: float) -> Dict[str, Any]:
        """One value. A GPU that holds it is waited for until `ends`, by `time.monotonic`."""
        ident, setting, group = key
        held, old = after.get(ident), before.get(ident)
        known = held or old
        optimizer: Any = known.optimizer() if known is not None else None
        row = {
            "optimizer": self.number(ident, known) if known is not None else -1,
            "class": known.name if known is not None else "",
            "group": group,
            "setting": setting,
            "note": held.failure if held is not None else "",
        }
        if optimizer is None and known is not None:
            gone = said(
                "its optimizer is gone: it goes over to the {class_name} that takes its place", class_name=known.name
            )
            row.update(gone=True, note=gone)
        elif any(optimizer is left for left in self._objects.leftovers()):
            row["note"] = said("an earlier run's: it does not step any more")
        if group is None:
            return {**row, **_clip_row(old, held)}
        there = optimizer is not None and group < len(optimizer.param_groups)
        scheduled = self._scheduled(optimizer, group, setting) if there else None
        action = held.action(setting, group) if held is not None else None
        if setting == LR and not row["note"] and not is_tensor(scheduled) and compiled(optimizer):
            row["note"] = COMPILED
        return {
            **row,
            "scheduled": number(scheduled, ends),
            "before": number(effective(old, group, setting, scheduled), ends),
            "after": number(effective(held, group, setting, scheduled), ends),
            "action": "released" if action is None else f"{action.mode} {short(number(action.value, ends))}",
        }

    def number(self, ident: int, held: Held) -> int:
        """The number of an optimizer among those that are alive now; the one it had when it was changed, where it cannot be told."""
        alive = [id(o) for o in self._objects.optimizers()]
        return alive.index(ident) if ident in alive else held.number


def effective(held: Optional[Held], group: int, setting: str, scheduled: Any) -> Any:
    """What a step uses in place of `scheduled`, with `held` in force."""
    action = held.action(setting, group) if held else None
    return scheduled if action is None or scheduled is None else action.of(scheduled)


def _clip_row(old: Optional[Held], held: Optional[Held]) -> Dict[str, Any]:
    before, after = (None if h is None else h.clip for h in (old, held))
    figures = {} if after is None or after is not before else after.report()
    return {
        "scheduled": None,
        "before": None if before is None else before.max_norm,
        "after": None if after is None else after.max_norm,
        "action": "released" if after is None else f"hold {short(after.max_norm)}",
        **figures,
    }


__all__ = ["Rows", "effective"]
