"""The live table as lines of text. Pure: a picture, what changed lately, and a size go in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

from picture import AT_BROKER, NO_AGENT, ON_DISK, NodePicture, Picture, ResourceLine

SHOWN_OPS = 8
_HEADINGS = ("NODE", "AGENT", "REV", "RESOURCE", "STATE")
_WIDTHS = (7, 9, 7, 42)  # 80 columns with the longest state
_MODELS = 40
_LEAST_BELOW = 5
"""Lines that models and ops have however many resources there are: a heading and four."""
_RESET = "\x1b[0m"

Cell = tuple[str, "Style"]


class Style(Enum):
    """How a cell is drawn on a terminal."""

    PLAIN = ""
    BOLD = "\x1b[1m"
    DIM = "\x1b[2m"
    FRESH = "\x1b[1;32m"
    PENDING = "\x1b[33m"
    BAD = "\x1b[31m"


def draw(
    picture: Picture, fresh: Collection[tuple[str, str]], notes: Sequence[str], height: int
) -> list[str]:
    """The table in `height` lines; `fresh`: (node, key) of what changed lately; `notes` stand above
    it. What does not fit is counted where it is missing."""
    above = [paint(_title(picture), Style.BOLD), *notes]
    nodes = [paint(_row(_HEADINGS), Style.DIM)]
    for node in picture.nodes:
        nodes += _node(node, fresh)
    models = list(_models(picture, fresh))
    spare = max(0, height - len(above) - len(nodes) - len(models))
    low, high = [""] * (spare > 0), [""] * (spare > 1)
    below = _cut(models, max(_LEAST_BELOW, height - len(above) - len(nodes)))
    nodes = _cut(nodes, height - len(above) - len(below))
    return [*above, *high, *nodes, *low, *below]


def _title(picture: Picture) -> str:
    alone = ", ".join(node.name for node in picture.nodes if node.agent == NO_AGENT)
    purpose = f"; {alone}: no agent, on purpose" if alone else ""
    return f"nodecast demo   bridge {picture.bridge}, broker {picture.broker}{purpose}"


def _cut(lines: list[str], height: int) -> list[str]:
    """The first of `lines`, and how many are left out."""
    if len(lines) <= max(height, 2):
        return lines
    kept = lines[: max(height, 2) - 1]
    left = len(lines) - len(kept)
    return [*kept, paint(f"... {left} lines more: they need a higher terminal", Style.DIM)]


def paint(text: str, style: Style) -> str:
    """`text` in a style, for a terminal."""
    return f"{style.value}{text}{_RESET}" if style.value else text


def clip(line: str, width: int) -> str:
    """The first `width` characters of a line that may be painted."""
    out, shown, rest = [], 0, line
    while rest and shown < width:
        if rest.startswith("\x1b["):
            end = rest.index("m") + 1
            out.append(rest[:end])
            rest = rest[end:]
            continue
        out.append(rest[0])
        rest = rest[1:]
        shown += 1
    return "".join(out) + (_RESET if rest else "")


def _row(cells: Sequence[str]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False)]
    return " ".join([*padded, cells[-1]])


def _node(node: NodePicture, fresh: Collection[tuple[str, str]]) -> Iterator[str]:
    head = (node.name, node.agent, node.revision)
    for line in node.resources or (None,):
        if line is None:
            yield _row((*head, "nothing", ""))
        else:
            style = _style(node, line, fresh)
            yield paint(_row((*head, _name(line.key), line.state)), style)
        head = ("", "", "")


def _style(node: NodePicture, line: ResourceLine, fresh: Collection[tuple[str, str]]) -> Style:
    if line.state.startswith("failed"):
        return Style.BAD
    if line.state == AT_BROKER:
        return Style.DIM
    if line.state != ON_DISK:
        return Style.PENDING
    return Style.FRESH if (node.name, line.key) in fresh else Style.PLAIN


def _models(picture: Picture, fresh: Collection[tuple[str, str]]) -> Iterator[str]:
    """Models on the left, the last ops on the right."""
    left: list[Cell] = [
        (f"{node.name:<7} {model.name:<20} {model.state}", Style.PLAIN)
        for node in picture.nodes
        for model in node.models
    ]
    right: list[Cell] = [
        (
            f"{op.node} #{op.seq} {op.text}",
            Style.FRESH if (op.node, f"#{op.seq}") in fresh else Style.PLAIN,
        )
        for op in reversed(picture.ops[-SHOWN_OPS:])
    ]
    nothing: Cell = ("", Style.PLAIN)
    yield paint(f"{'MODELS':<{_MODELS}} MODEL OPS, the last first", Style.DIM)
    for index in range(max(len(left), len(right))):
        text, style = left[index] if index < len(left) else nothing
        op, op_style = right[index] if index < len(right) else nothing
        yield f"{paint(text.ljust(_MODELS), style)} {paint(op, op_style)}".rstrip()


def _name(key: str) -> str:
    kind, namespace, name = key.split("/")
    return f"{kind.partition('.')[0]} {namespace}/{name}"
