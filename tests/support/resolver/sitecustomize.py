"""A resolver of the test's own, in a process that has this folder on its PYTHONPATH.

Names below `.test` are looked up in the file that HOSTS_OF_THE_TEST names (`name address` a line),
anew each time; one that is not there does not resolve. Everything else is left to the system.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

_system = socket.getaddrinfo


def _resolve(host: Any, *rest: Any, **options: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else host
    if not isinstance(name, str) or not name.endswith(".test"):
        return _system(host, *rest, **options)
    lines = Path(os.environ["HOSTS_OF_THE_TEST"]).read_text().split("\n")
    addresses = dict(line.split() for line in lines if line)
    if name not in addresses:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _system(addresses[name], *rest, **options)


socket.getaddrinfo = _resolve
