"""`nodecast-agent`: run | check | status | resources | models | config."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import orjson

from agent.app import App
from agent.config import AgentSettings
from agent.inspect.disk import read_body, reading
from agent.inspect.view import as_json, summary, table
from agent.inspect.view import look as look_at
from agent.lock import agent_runs
from agent.models.configfile import read_config
from agent.models.watch import FILE, look
from nodecast.command import common_options, run_command, settings_of, version_option
from nodecast.errors import (
    EXIT_OK,
    EXIT_PROBLEM,
    ConfigFileError,
    InvalidName,
    SessionError,
    StoreError,
)
from nodecast.names import parse_key
from nodecast.session import reach
from nodecast.settings import sample

F = TypeVar("F", bound=Callable[..., Any])
_JSON = click.option("--json", "as_json_", is_flag=True, help="For programs.")


@click.group(name="nodecast-agent", context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def agent() -> None:
    """Make this node as its bridge wants it, and keep it so with or without a broker."""


def _options(function: F) -> F:
    for option in (
        click.option("--model-config-dir", help="The directory of models.json."),
        click.option("--state-dir", help="The directory of the agent's store."),
        click.option("--node", help="The name of this node."),
    ):
        function = option(function)
    return common_options(function)


@agent.command()
@_options
def run(config: Path | None, **flags: Any) -> None:
    """Serve until stopped."""
    App(settings_of(AgentSettings, config, flags)).run()


@agent.command()
@_options
def check(config: Path | None, **flags: Any) -> int:
    """Say what is wrong before a run.

    It looks at the settings, the state directory, the model config, and the broker.
    """
    settings = settings_of(AgentSettings, config, flags)
    found = [
        _check_settings(settings),
        _check_state(settings),
        _check_models(settings),
        _check_broker(settings),
    ]
    return EXIT_OK if all(found) else EXIT_PROBLEM


@agent.command()
@_options
@_JSON
def status(config: Path | None, as_json_: bool, **flags: Any) -> int:
    """Show how this node's agent is; needs only the disk."""
    view = look_at(settings_of(AgentSettings, config, flags).state)
    if as_json_:
        _print_json(as_json(view))
    else:
        for what, how in summary(view):
            print(f"{what:<13} {how}")
        for problem in view.problems:
            print(f"{'problem':<13} {problem}")
    return EXIT_PROBLEM if view.problems else EXIT_OK


@agent.command()
@_options
@_JSON
@click.argument("key", required=False)
def resources(config: Path | None, as_json_: bool, key: str | None, **flags: Any) -> int:
    """List the resources of this node, or show KEY; disk only."""
    state = settings_of(AgentSettings, config, flags).state
    if key is not None:
        return _show_resource(state, key)
    view = look_at(state)
    if as_json_:
        _print_json(msgspec.to_builtins(view.resources))
        return EXIT_OK
    rows = [(r.key, r.state, r.reason, str(r.attempts or ""), r.since) for r in view.resources]
    for line in table(("KEY", "STATE", "REASON", "ATTEMPTS", "SINCE"), rows):
        print(line)
    return EXIT_OK


@agent.command()
@_options
@_JSON
def models(config: Path | None, as_json_: bool, **flags: Any) -> int:
    """List the models of this node; needs only the disk."""
    view = look_at(settings_of(AgentSettings, config, flags).state)
    if as_json_:
        _print_json(msgspec.to_builtins(view.models))
        return EXIT_OK
    rows = [
        (m.name, m.state, str(m.spec.get("storageUri", "")), m.message) for m in view.models.models
    ]
    for line in table(("MODEL", "STATE", "STORAGE", "MESSAGE"), rows):
        print(line)
    return EXIT_OK


@agent.command()
def config() -> None:
    """Print a commented sample of every setting."""
    print(sample(AgentSettings, "Settings of nodecast-agent."), end="")


def _show_resource(state: Path, key: str) -> int:
    try:
        checked = parse_key(key)
    except InvalidName as error:
        raise click.BadParameter(str(error), param_hint="KEY") from error
    with reading(state) as connection:
        body = read_body(connection, checked)
    if body is None:
        print(f"{checked} is not on this node", file=sys.stderr)
        return EXIT_PROBLEM
    print(orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode())
    return EXIT_OK


def _print_json(value: object) -> None:
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _check_settings(settings: AgentSettings) -> bool:
    print(f"settings     node {settings.node_name}, bridge {settings.bridge}")
    return True


def _check_state(settings: AgentSettings) -> bool:
    state = settings.state
    try:
        if agent_runs(state):
            print(f"state        {state}: an agent runs on it")
            return True
        place = state
        while not place.exists() and place != place.parent:
            place = place.parent
        good = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    except OSError as error:  # a directory above it is closed to this user
        print(f"state        {state}: cannot be looked at: {error.strerror}")
        return False
    except StoreError as error:
        print(f"state        {error}")
        return False
    print(f"state        {state}: {'can be used' if good else f'{place} cannot be written to'}")
    return good


def _check_models(settings: AgentSettings) -> bool:
    path = Path(settings.model_config_dir) / FILE
    seen = look(path)
    if seen.raw is None:
        print(f"models       {path}: {seen.error or 'not there (yet); no models are loaded'}")
        return seen.error is None
    try:
        reading_ = read_config(seen.raw)
    except ConfigFileError as error:
        print(f"models       {path}: {error}")
        return False
    print(f"models       {path}: {len(reading_.entries)} models")
    for problem in reading_.texts():
        print(f"             {problem}")
    return not reading_.problems


def _check_broker(settings: AgentSettings) -> bool:
    try:
        reach(settings.mqtt)
    except SessionError as error:
        print(f"broker       {error}")
        return False
    print(f"broker       {settings.mqtt.url}: reached (login only; topics not tried)")
    return True


def main() -> None:
    """The entry point."""
    sys.exit(run_command(agent))
