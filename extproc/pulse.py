"""Whether a process still does anything: seen from inside by a thread, from outside by a beat.

The event loop beats four times a second: it writes the monotonic clock into memory that it shares
with the supervisor. A thread beside the loop says in the log where the loop stands when it has not
beaten for a second. The supervisor replaces a process whose beat stays away for long: also one
whose threads all stand still.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable

log = logging.getLogger(__name__)

BEAT_SECONDS = 0.25
STALL_SECONDS = 1.0
"""A loop that stands still for so long is told of. Envoy's message_timeout is as long."""

_SLOT = struct.Struct("<d")


class Pulses:
    """One slot for each process, in anonymous memory; ``descriptor`` is to be inherited."""

    def __init__(self, descriptor: int, slots: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, slots * _SLOT.size)

    @classmethod
    def make(cls, slots: int) -> Pulses:
        """New memory: no process has beaten yet."""
        descriptor = os.memfd_create("semantic-extproc-pulses", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, slots * _SLOT.size)
        return cls(descriptor, slots)

    def beat(self, slot: int) -> None:
        """The process of ``slot`` is well now."""
        _SLOT.pack_into(self._memory, slot * _SLOT.size, time.monotonic())

    def last(self, slot: int) -> float:
        """The monotonic time of its last beat, 0 when it has not beaten yet."""
        return float(_SLOT.unpack_from(self._memory, slot * _SLOT.size)[0])

    def clear(self, slot: int) -> None:
        """Its process is gone."""
        _SLOT.pack_into(self._memory, slot * _SLOT.size, 0.0)


class Watchdog:
    """Beats from the running event loop, and watches it from a thread of its own.

    ``stalled`` is called in that thread, once for each time that the loop stands still.
    """

    def __init__(
        self, stalled: Callable[[], None], beat: Callable[[], None] = lambda: None
    ) -> None:
        self._stalled = stalled
        self._beat = beat
        self._last = time.monotonic()
        self._watched = 0  # the loop's thread
        self._ended = threading.Event()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins; to be called on the loop."""
        self._watched = threading.get_ident()
        self._on_time()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Ends both."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def _on_time(self) -> None:
        self._last = time.monotonic()
        self._beat()
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._on_time)

    def _watch(self) -> None:
        told = 0.0
        looked = time.monotonic()
        while not self._ended.wait(BEAT_SECONDS):
            now, last = time.monotonic(), self._last
            late, looked = now - looked > STALL_SECONDS, now
            # Where this thread was late too, the whole process was stopped: not the loop's fault.
            if late or now - last < STALL_SECONDS or last == told:
                continue
            told = last
            self._stalled()
            log.error(
                "the event loop has stood still for %.1f s", now - last,
                extra={"stack": places(self._watched)},
            )  # fmt: skip


def places(thread: int) -> list[str]:
    """Where a thread stands: files, lines, names; innermost last. No values, no source text."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return []
    stack = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)
    return [f"{found.filename}:{found.lineno} {found.name}" for found in reversed(stack)]
