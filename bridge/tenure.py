"""Which term of the right to be in charge is being served: nothing goes out outside of it.

A term that is over is never served again, also where the right was won anew meanwhile. The loop's
thread owns it; nothing here waits.
"""

from __future__ import annotations

import math

from bridge.lease import Leadership, Right


class Tenure:
    """Follows a `Leadership`. `permits` is asked before every byte that goes to the broker."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._term: int | None = None

    def permits(self) -> bool:
        """Whether the term being served is not over."""
        right = self._valid()
        return right is not None and right.term == self._term

    def end(self) -> bool:
        """Whether the term being served was over; it is served no more."""
        if self._term is None or self.permits():
            return False
        self._term = None
        return True

    def begin(self) -> None:
        """Serve the term that there is, where none is being served."""
        right = self._valid()
        if self._term is None and right is not None:
            self._term = right.term

    @property
    def serving(self) -> bool:
        """Whether a term is being served, over or not."""
        return self._term is not None

    @property
    def left(self) -> float:
        """Seconds until the term that is served is over, unless it is renewed."""
        right = self._leadership.right
        if self._term is None or right is None:
            return math.inf
        return max(0.0, right.until - self._leadership.now())

    def _valid(self) -> Right | None:
        right = self._leadership.right
        return right if right is not None and self._leadership.now() < right.until else None
