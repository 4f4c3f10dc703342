"""Settings: described once, and that drives validation, environment, flags and the sample file.

A settings type is a frozen msgspec Struct whose fields carry a description; a field that is a
Struct itself is a TOML table. A value is taken from, in this order: a flag, an environment
variable (`NODECAST_<TABLE>_<KEY>`, upper case), the TOML file, the default. Errors name the place
and the key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import orjson

from nodecast.errors import SettingsError
from nodecast.settings_errors import explain, say, where

PREFIX = "NODECAST_"
_WEEK = 7 * 24 * 3600.0

Seconds = Annotated[float, msgspec.Meta(ge=0, le=_WEEK)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0, le=_WEEK)]

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its dotted key, type, default and what it is for."""

    key: str
    type: Any
    default: Any
    description: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.key.upper().replace(".", "_")

    @property
    def scalar(self) -> bool:
        """Whether a flag or a variable can hold it."""
        plain = set(_plain(self.type))
        return not any(get_origin(t) in (list, dict, tuple) or _is_struct(t) for t in plain)

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values that it takes; empty where it takes any of its type."""
        return tuple(each for each in _plain(self.type) if isinstance(each, str))


def load(
    kind: type[S],
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> S:
    """The settings of type `kind`; `flags` by dotted key, None where not given.

    Raises SettingsError: one line with the file, variable or flag, the key and the reason.
    """
    tree = _read(path) if path else {}
    origin: dict[str, str] = {}
    settings = list(describe(kind))
    for setting in settings:
        name = setting.variable
        if setting.scalar and environ and name in environ:
            _put(tree, setting.key, _from_text(setting, environ[name], f"variable {name}"))
            origin[setting.key] = f"variable {name}"
    for key, value in (flags or {}).items():
        if value is not None:
            _put(tree, key, value)
            origin[key] = "flag --" + re.sub(r"[._]", "-", key)
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(explain(error, settings, path, origin)) from error
    except SettingsError as error:  # of a type's own check; it begins with the key
        begins = re.findall(r"^[\w.]+", str(error))
        at = where(begins[0] if begins else "", path, origin)
        raise SettingsError(f"{at}: {error}") from error


def describe(kind: type[msgspec.Struct], table: str = "") -> Iterator[Setting]:
    """All settings of a type, tables flattened, in the order of the source."""
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        key = f"{table}.{field.name}" if table else field.name
        inner = _struct_of(hints[field.name])
        if inner is not None:
            yield from describe(inner, key)
            continue
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        yield Setting(key, hints[field.name], default, _description(hints[field.name]))


def sample(kind: type[msgspec.Struct], title: str) -> str:
    """A commented TOML file that shows every setting with its default."""
    lines = [f"# {title}", "# Every line that is commented out shows the default."]
    table = ""
    for setting in describe(kind):
        head, _, name = setting.key.rpartition(".")
        if head != table:
            lines += ["", f"[{head}]"]
            table = head
        lines.append("")
        lines += [f"# {part}" for part in setting.description.splitlines()]
        if setting.choices:
            lines.append(f"# One of: {', '.join(setting.choices)}")
        if setting.scalar:
            lines.append(f"# Variable: {setting.variable}")
        lines.append(_assignment(name, setting.default))
    return "\n".join(lines) + "\n"


def _assignment(name: str, default: Any) -> str:
    if default is msgspec.NODEFAULT:
        return f"# {name} = …    (must be given)"
    if default is None:
        return f"# {name} = …    (not set)"
    return f"# {name} = {orjson.dumps(default).decode()}"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror or error}") from error
    except ValueError as error:  # also of a number that is too long to be one
        raise SettingsError(f"settings file {path} is not TOML: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"settings file {path} is nested too deeply") from error


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *tables, name = key.split(".")
    for table in tables:
        inner = tree.setdefault(table, {})
        if not isinstance(inner, dict):
            return  # the file has a value where a table belongs: convert says so
        tree = inner
    tree[name] = value


def _from_text(setting: Setting, text: str, at: str) -> Any:
    try:
        return msgspec.convert(text, setting.type, strict=False)
    except UnicodeEncodeError as error:
        raise SettingsError(f"{at} ({setting.key}): holds bytes that are no text") from error
    except msgspec.ValidationError as error:
        reason = say(str(error), setting.choices)
        raise SettingsError(f"{at} ({setting.key}): {reason}") from error


def _plain(annotation: Any) -> Iterator[Any]:
    """The types inside Annotated and unions."""
    if get_origin(annotation) is Annotated:
        yield from _plain(get_args(annotation)[0])
    elif get_origin(annotation) in (None, list, dict, tuple):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _plain(part)


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def _struct_of(annotation: Any) -> type[msgspec.Struct] | None:
    inner = [t for t in _plain(annotation) if _is_struct(t)]
    return inner[0] if inner else None


def _description(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        for extra in get_args(annotation)[1:]:
            if isinstance(extra, msgspec.Meta) and extra.description:
                return extra.description
    return ""
