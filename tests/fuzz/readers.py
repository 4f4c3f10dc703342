"""Targets that read one input and keep nothing: decoders, files, settings, objects."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from agent.config import AgentSettings
from agent.models.configfile import read_config
from agent.models.spec import Spec
from bridge.config import BridgeSettings
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from bridge.sources.documents import parse_documents
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.manifest_files import ManifestDirectory
from nodecast.errors import (
    ConfigFileError,
    DocumentError,
    MessageError,
    ObjectError,
    SettingsError,
)
from nodecast.messages import (
    Ledger,
    ModelOp,
    ModelSet,
    Presence,
    Probe,
    Report,
    Wire,
    decode,
    decode_snapshot,
)
from nodecast.settings import load
from nodecast.settings_errors import unknown_variables
from tests.fuzz import samples
from tests.fuzz.target import JSON_WORDS, Reader, Target, refusing, words

_MESSAGES = (Ledger, ModelOp, ModelSet, Presence, Probe, Report)
_RULES = Rules(built_in())
_YAML_WORDS = (
    *words(
        "--- ... & * *a &a << <<: ! !! !!str !!int !!map !!binary !!python/object %YAML ? | > [ ]"
    ),
    *words("{ } # - : , ' \" @ ` .inf .nan 0x 0o 1_0 1e5 ~ yes no null 24:00 2026-01-01"),
    *(b"\n- ", b"\n  ", b": ", b" #", b"- - - - ", b"*a, *a, *a", b"? ? ? ", b"? [a]: b"),
)
_TOML_WORDS = (
    *words('[ ] [[ ]] = . , " """ true false inf nan 1e9 -0 0x1F 1979-05-27T07:32:00Z 07:32:00'),
    *(b"'''", b"\n[a]\n", b"\n[[rules]]\n", b"\na.b.c = 1\n", b"\nmqtt = 1\n", b"a." * 3000),
)


def _decoders(_: Path) -> Reader:
    def read(data: bytes) -> None:
        for wire in (Wire(data), Wire(data, "zlib"), Wire(zlib.compress(data, 1), "zlib")):
            for decoder in _DECODERS:
                with refusing(MessageError):
                    decoder(wire)

    return read


def _decoder(kind: type[msgspec.Struct]) -> Callable[[Wire], object]:
    return lambda wire: decode(kind, wire)


_DECODERS: list[Callable[[Wire], object]] = [*map(_decoder, _MESSAGES), decode_snapshot]


def _documents(_: Path) -> Reader:
    def read(data: bytes) -> None:
        for is_json in (False, True):
            with refusing(DocumentError):
                _objects(parse_documents(data, is_json))

    return read


def _objects(values: Iterable[object]) -> None:
    for value in values:
        for unsendable in (False, True):
            with refusing(ObjectError):
                read_object(value, _RULES, "here", unsendable=unsendable)


def _directory(root: Path) -> Reader:
    """Two files that change, one of them with a name that is no text."""
    files = root / "manifests"
    files.mkdir()
    directory = ManifestDirectory(files, _RULES)

    def read(data: bytes) -> None:
        (files / "a.yaml").write_bytes(data)
        Path(os.fsdecode(os.fsencode(files) + b"/\xff.json")).write_bytes(data[::-1])
        directory.read()

    return read


def _config(_: Path) -> Reader:
    def read(data: bytes) -> None:
        with refusing(ConfigFileError):
            for spec in read_config(data).entries.values():
                assert Spec.read(spec.body) == spec, "what a store keeps reads back"

    return read


def _settings(kind: type[BridgeSettings | AgentSettings]) -> Callable[[Path], Reader]:
    def opened(root: Path) -> Reader:
        path = root / "settings.toml"

        def read(data: bytes) -> None:
            path.write_bytes(data)
            with refusing(SettingsError):
                load(kind, path)

        return read

    return opened


def _variables(kind: type[BridgeSettings | AgentSettings]) -> Callable[[Path], Reader]:
    def opened(_: Path) -> Reader:
        def read(data: bytes) -> None:
            lines = os.fsdecode(data).replace("\0", "").split("\n")
            environ = dict(line.split("=", 1) for line in lines if "=" in line)
            unknown_variables(environ, [])
            with refusing(SettingsError):
                load(kind, None, environ)

        return read

    return opened


def _kubeconfig(root: Path) -> Reader:
    path = root / "kubeconfig"

    def read(data: bytes) -> None:
        # A file that names a command has it run: that is what it is for. The client's YAML is slow.
        if b"exec" in data or b"auth-provider" in data or len(data) > 5000:
            return
        path.write_bytes(data)
        for context in (None, "here"):
            with refusing(SettingsError):
                Api(Access(str(path), context))

    return read


READERS = {
    "messages": Target(samples.messages, JSON_WORDS, _decoders),
    "documents": Target(samples.manifests, _YAML_WORDS, _documents),
    "manifests": Target(samples.manifests, _YAML_WORDS, _directory),
    "config": Target(samples.configs, JSON_WORDS, _config),
    "kubeconfig": Target(samples.kubeconfigs, _YAML_WORDS, _kubeconfig),
    "bridge-settings": Target(
        lambda: samples.settings(BridgeSettings), _TOML_WORDS, _settings(BridgeSettings)
    ),
    "agent-settings": Target(
        lambda: samples.settings(AgentSettings), _TOML_WORDS, _settings(AgentSettings)
    ),
    "bridge-variables": Target(
        lambda: samples.variables(BridgeSettings), JSON_WORDS, _variables(BridgeSettings)
    ),
    "agent-variables": Target(
        lambda: samples.variables(AgentSettings), JSON_WORDS, _variables(AgentSettings)
    ),
}
