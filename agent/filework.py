"""The reconciler's actions, carried out on the files: held already, written, or removed.

What always holds: nothing is written before the stamp says whose files these are, and nothing is
done before it is durable. What a slice has written is made so at its end, by one sync of each
directory. Owned by the loop thread; a step waits for the disk.
"""

from __future__ import annotations

from collections.abc import Callable

from agent.handlers.files import FilesHandler, failed
from agent.handlers.outcome import Done, Outcome
from agent.handlers.tree import DISK_FULL
from agent.reconciler import Action, Drop, Put, Reconciler
from agent.stamp import TreeStamp
from agent.store.confirm import Confirmations
from agent.store.records import file_content
from agent.store.resources import ResourceStore
from nodecast.errors import ApplyError, StoreBroken, StoreError
from nodecast.log import Repeats, logger
from nodecast.names import ResourceKey

log = logger(__name__)


class FileWork:
    """See the module. `told` is called whenever a report says something else."""

    def __init__(
        self,
        reconciler: Reconciler,
        handler: FilesHandler,
        store: ResourceStore,
        stamp: TreeStamp,
        confirm: Confirmations,
        *,
        clock: Callable[[], float],
        told: Callable[[], None],
    ) -> None:
        self._reconciler = reconciler
        self._handler = handler
        self._store = store
        self._stamp = stamp
        self._confirm = confirm
        self._clock = clock
        self._told = told
        self._said = Repeats()
        self._written: list[Put] = []  # of this slice, not durable yet
        self._disk_full = False  # in this slice, for a file

    def step(self, now: float) -> bool:
        """One action that is due; False when there is none. Raises StoreBroken."""
        action = self._reconciler.next(now)
        if action is None:
            return False
        outcome = self._do(action)
        if isinstance(action, Put) and outcome == Done(changed=True):
            self._written.append(action)
        else:
            self._finish(action, outcome)
        return True

    def conclude(self) -> None:
        """Make durable what this slice has written; only then is it done."""
        written, self._written = self._written, []
        outcomes = self._handler.settle(each.key for each in written)
        for action in written:
            self._finish(action, outcomes[action.key])
        if self._disk_full:
            self._disk_full = False
            self._store.give_room_back()

    def forget(self, key: ResourceKey) -> None:
        """Nothing is wanted of `key` any more: what it says when it comes again is new."""
        self._said.over(key)

    def _do(self, action: Action) -> Outcome:
        try:
            if isinstance(action, Put) and self._handler.holds(action.key, action.sum):
                return Done(changed=False)
            self._stamp.ensure()
            if isinstance(action, Drop):
                return self._handler.remove(action.key)
            return self._handler.apply(action.key, file_content(self._store.body(action.key)))
        except ApplyError as error:
            return failed(error)
        except StoreBroken:
            raise
        except StoreError as error:
            return failed(ApplyError("StoreError", str(error)))

    def _finish(self, action: Action, outcome: Outcome) -> None:
        key = action.key
        before = self._reconciler.progress_of(key)
        if isinstance(outcome, Done):
            self._done(action, outcome)
        else:
            self._disk_full |= outcome.reason == DISK_FULL
            if self._said.new(key, outcome.reason):
                why = outcome.message
                log.warning("resource not applied", key=key, reason=outcome.reason, why=why)
        self._reconciler.finished(action, outcome, self._clock())
        if before != self._reconciler.progress_of(key):
            self._told()

    def _done(self, action: Action, outcome: Done) -> None:
        key = action.key
        if isinstance(action, Drop):
            self._confirm.removed(key)
            log.info("resource removed", key=key)
        else:
            self._confirm.applied(key, action.sum)
            if outcome.changed:
                log.info("resource written", key=key)
        self._said.over(key)
