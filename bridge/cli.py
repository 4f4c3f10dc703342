"""`nodecast-bridge`: run | check | render | approve | config."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from bridge.api.client import WITHIN, Client
from bridge.api.place import client_paths
from bridge.config import BridgeSettings
from bridge.inspect import Picture, findings, picture_of, render, wrong
from bridge.kind_views import KindView
from bridge.origin import Origin, origin_of
from bridge.status import Status, summary, troubles
from nodecast.command import (
    common_options,
    config_option,
    run_command,
    settings_of,
    version_option,
)
from nodecast.errors import (
    EXIT_OK,
    EXIT_PROBLEM,
    ApiError,
    InvalidName,
    NoBridge,
    SessionError,
    SettingsError,
    SourceError,
)
from nodecast.log import one_line
from nodecast.names import KindName, node_name, parse_kind
from nodecast.session import reach
from nodecast.settings import sample

F = TypeVar("F", bound=Callable[..., Any])

_GLANCE = 3.0
"""Seconds that `check` waits for a bridge that does not answer."""


@click.group(name="nodecast-bridge", context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def bridge() -> None:
    """Keep one retained MQTT snapshot a node in step with the objects of a source."""


def _options(function: F) -> F:
    for option in (
        click.option("--context", help="The context of the kubeconfig to use."),
        click.option(
            "--namespace",
            "namespaces",
            multiple=True,
            help="Only this namespace of the cluster; may be given several times.",
        ),
        click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False),
            help="Serve the objects of the cluster that this file names.",
        ),
        click.option(
            "--manifests",
            type=click.Path(file_okay=False),
            help="Serve the objects in this directory of YAML and JSON files.",
        ),
    ):
        function = option(function)
    return common_options(function)


def _settings(config: Path | None, flags: dict[str, Any]) -> BridgeSettings:
    flags["namespace"] = ",".join(flags.pop("namespaces")) or None
    return settings_of(BridgeSettings, config, flags)


@bridge.command()
@_options
@click.option("--hold", type=float, help="Seconds that a kind seen again takes nothing away.")
@click.option("--adopt", is_flag=True, help="Take over the nodes of another source, once.")
def run(config: Path | None, adopt: bool, **flags: Any) -> None:
    """Serve until stopped."""
    from bridge.app import App  # with the server of its API, which no other command needs

    App(_settings(config, flags), adopt=adopt).run()


@bridge.command()
@_options
def check(config: Path | None, **flags: Any) -> int:
    """Say what would be served, and what is wrong.

    It looks at the settings, the source (of a cluster, it lists each kind and tries its watch),
    and the broker; and at the bridge of these settings, if one runs on this machine.
    """
    settings = _settings(config, flags)
    origin = origin_of(settings)
    print(one_line(f"source     {origin}"))
    unhindered = _running(settings)
    identified = _identify(origin)
    leased = _lease(origin)
    picture = _picture(origin, settings)
    for line in findings(picture):
        print(one_line(line))
    if picture.empty:
        print(one_line(f"nothing    no object found in {origin}"))
    try:
        reach(settings.mqtt)
        print(f"broker     {settings.mqtt.url}: reached (login only; topics and ledger not tried)")
    except SessionError as error:
        print(f"broker     {error}")
        return EXIT_PROBLEM
    fine = identified and leased and unhindered and not picture.problem
    return EXIT_OK if fine else EXIT_PROBLEM


@bridge.command(name="render")
@_options
@click.option("--node", help="Only this node.")
@click.option("--json", "as_json", is_flag=True, help="Whole snapshots, as JSON.")
def render_command(config: Path | None, node: str | None, as_json: bool, **flags: Any) -> int:
    """Show what each node would have. Needs no broker. Exits 1 where not all could be read."""
    settings = _settings(config, flags)
    picture = _picture(origin_of(settings), settings)
    try:
        nodes = [node_name(node)] if node is not None else picture.nodes
    except InvalidName as error:
        raise click.BadParameter(str(error), param_hint="--node") from error
    if as_json:
        data = render(picture, settings.bridge, nodes)
        print(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())
        return EXIT_PROBLEM if picture.held else EXIT_OK
    for each in nodes:
        records = picture.catalog.on_node(each)
        print(each if records else f"{each}: nothing names this node")
        for record in records:
            print(f"  {record.key}" + (f"  ({record.place})" if record.place else ""))
    for line in wrong(picture):
        print(one_line(line), file=sys.stderr)
    return EXIT_PROBLEM if picture.held else EXIT_OK


@bridge.command()
@config_option
@click.option("--bridge", help="Name of the bridge.")
@click.argument("kind")
def approve(config: Path | None, kind: str, **flags: Any) -> int:
    """Let go, once, what a running bridge holds of KIND.

    What its source shows is what is meant: what the removal guard keeps on the nodes leaves them,
    and a kind that the server does not know counts as empty until it is served again. KIND is a
    name such as Dataset.sedna.io, or dataset where that is clear. Kinds that are held along with
    it go with it. Exits 1 where there is nothing to approve.
    """
    settings = settings_of(BridgeSettings, config, flags)
    client = _client(settings, WITHIN)
    known = _status(client, settings.bridge).kinds
    name = _resolve(kind, known)
    guarded = next((each.guarded for each in known if each.kind == name), None)
    try:
        view = client.approve(name)
    except ApiError as error:
        print(one_line(str(error)), file=sys.stderr)
        _print_held(known)
        return EXIT_PROBLEM
    gone = f": {guarded.missing} of its {guarded.placed} objects may leave" if guarded else ""
    print(one_line(f"approved   {name}{gone}"))
    with suppress(NoBridge):  # it is approved, whatever becomes of the bridge now
        held = {each.kind for each in _status(client, settings.bridge).kinds if each.held}
        along = [k.kind for k in known if k.held and k.kind != name and k.kind not in held]
        if along:
            print(one_line(f"           let go with it: {', '.join(along)}"))
    _print_held([view])
    return EXIT_OK


@bridge.command()
def config() -> None:
    """Print a commented sample of every setting."""
    print(sample(BridgeSettings, "Settings of nodecast-bridge."), end="")


def _identify(origin: Origin) -> bool:
    """Say what tells the source from another; whether that is known."""
    try:
        print(one_line(f"identity   {origin.identity()}"))
    except (SettingsError, SourceError) as error:
        print(one_line(f"identity   unknown: {error}"))
        return False
    return True


def _client(settings: BridgeSettings, within: float) -> Client:
    paths = client_paths(settings.api.socket, settings.bridge, os.environ, os.getuid())
    return Client(paths, within)


def _status(client: Client, bridge: str) -> Status:
    """How the bridge of that name is. Raises NoBridge, also where it is another that answers."""
    status = client.status()
    if status.bridge != bridge:
        raise NoBridge(
            f"the bridge that answers is {status.bridge!r}, not {bridge!r}: say which one is meant"
            " with --bridge, and give each bridge an api.socket of its own"
        )
    return status


def _running(settings: BridgeSettings) -> bool:
    """Say how the bridge of these settings is, if one runs here; whether it needs nobody."""
    client = _client(settings, _GLANCE)
    if not client.found:
        return True
    try:
        status = _status(client, settings.bridge)
    except NoBridge as error:
        print(one_line(f"silent     {error}"))
        return True
    print(one_line(f"running    {summary(status)}"))
    for trouble in troubles(status):
        print(one_line(f"           {trouble}"))
    _print_held(status.kinds)
    return not status.for_people


def _print_held(kinds: Iterable[KindView]) -> None:
    for each in kinds:
        if each.held:
            print(one_line(f"           held: {each.kind}: {'; '.join(each.reasons)}"))


def _resolve(kind: str, known: Sequence[KindView]) -> KindName:
    """The whole name of a kind that the bridge knows, or `kind` itself."""
    try:
        name = parse_kind(kind)
    except InvalidName as error:
        raise click.BadParameter(str(error), param_hint="KIND") from error
    names = [each.kind for each in known]
    meant = [each for each in names if name.lower() in (each.lower(), _short(each).lower())]
    if name not in names and len(meant) > 1:
        raise click.BadParameter(f"{kind} is one of {', '.join(meant)}", param_hint="KIND")
    return name if name in names or not meant else meant[0]


def _short(kind: str) -> str:
    """Without the group."""
    return kind.partition(".")[0]


def _lease(origin: Origin) -> bool:
    """Say who holds the Lease, where there is one; whether it could be asked for."""
    try:
        if (said := origin.lease()) is not None:
            print(one_line(f"lease      {said}"))
    except SourceError as error:
        print(one_line(f"lease      {error}"))
        return False
    return True


def _picture(origin: Origin, settings: BridgeSettings) -> Picture:
    rules = settings.placement()
    return picture_of(origin.survey(rules), rules)


def main() -> None:
    """The entry point."""
    sys.exit(run_command(bridge))
