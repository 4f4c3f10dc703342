"""The entry point: says what to install where the bridge's own packages are missing.

`pip install nodecast` is the agent; the bridge needs the extra `nodecast[bridge]`.
"""

from __future__ import annotations

import sys

from nodecast.errors import EXIT_UNAVAILABLE

_EXTRA = ("yaml", "kubernetes", "urllib3", "starlette", "uvicorn")


def main() -> None:
    """Run the command line; exits."""
    try:
        from bridge.cli import main as run

        run()  # more is imported where it is needed
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"nodecast-bridge: {error.name} is missing: pip install 'nodecast[bridge]'\n"
        )
        sys.exit(EXIT_UNAVAILABLE)


if __name__ == "__main__":
    main()
