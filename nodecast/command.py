"""What the commands of both sides share: exit codes, the settings options, one place for errors.

A command's function raises; `run_command` turns that into one line on standard error and an exit
code (0, 1 a problem found, 64 usage, 69 unavailable or superseded, 78 settings). It is the top of
the main thread: an error that nobody foresaw is logged there, with its traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from nodecast import __version__
from nodecast.errors import EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, NodecastError
from nodecast.log import logger, one_line, set_up
from nodecast.settings import describe, load
from nodecast.settings_errors import unknown_variables

log = logger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=msgspec.Struct)

_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO)

version_option = click.version_option(__version__, message="%(version)s")


def config_option(function: F) -> F:
    """`--config FILE`, as `config`."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="NODECAST_CONFIG",
        help="Settings file (TOML).",
    )(function)


def common_options(function: F) -> F:
    """The options that both sides have; their values come in as keyword arguments."""
    for option in (
        click.option(
            "--log-format", type=click.Choice(["text", "json"]), help="Form of log lines."
        ),
        click.option("--mqtt-url", help="The broker, as mqtt://host:port."),
        click.option("--bridge", help="Name of the bridge."),
    ):
        function = option(function)
    return config_option(function)


def settings_of(kind: type[S], config: Path | None, flags: Mapping[str, Any]) -> S:
    """Settings from file, environment and flags, with the logs set up. Raises SettingsError."""
    given = dict(flags)
    given["mqtt.url"] = given.pop("mqtt_url", None)
    settings = load(kind, config, os.environ, given)
    set_up(getattr(settings, "log_format", "text"), getattr(settings, "log_level", "info"))
    for line in unknown_variables(os.environ, list(describe(kind))):
        log.warning(line)
    return settings


def run_command(group: click.Group, arguments: list[str] | None = None) -> int:
    """Run a command line; the exit code. Raises nothing but ModuleNotFoundError."""
    try:
        return _run(group, arguments)
    except ModuleNotFoundError:  # the bridge's entry point says what to install
        raise
    except Exception:  # noqa: BLE001 - the top of the main thread
        log.crash("unexpected error", command=group.name)
        return EXIT_PROBLEM


def _run(group: click.Group, arguments: list[str] | None) -> int:
    try:
        result = group.main(args=arguments, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except click.Abort:
        return EXIT_PROBLEM
    except NodecastError as error:
        click.echo(one_line(f"{group.name}: {error}"), err=True)
        return error.exit_code
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        # The interpreter flushes once more at its end: that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # a reader that had enough is told nothing
            click.echo(f"{group.name}: cannot write the output: {error.strerror}", err=True)
        return EXIT_PROBLEM
    return result if isinstance(result, int) else EXIT_OK
