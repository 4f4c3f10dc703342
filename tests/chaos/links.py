"""A link that faults strike and that can be healed of all of them; see `tests.support.proxies`."""

from __future__ import annotations

import socket

from tests.support.proxies import Proxy, Way


class Link(Proxy):
    """`barred`: whoever comes is turned away at once."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.barred = False
        self._refusing = self._dropping = False

    def refuse(self) -> None:
        self._refusing = True
        super().refuse()

    def drop(self, *ways: Way) -> None:
        self._dropping = True
        super().drop(*ways)

    def heal(self) -> None:
        self.delay = 0.0
        self.thaw()
        if self._dropping:
            self._dropping = False
            self.pass_again()
        if self._refusing:
            self._refusing = False
            self.accept()

    def _connect(self, near: socket.socket) -> None:
        if self.barred:
            near.close()
        else:
            super()._connect(near)
