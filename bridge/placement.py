"""Placement rules: which nodes an object belongs to, as data.

`nodes`: fields that name nodes. `carries`: objects that go wherever this one goes. `follows`: this
one goes wherever that one is. References stay in the owner's namespace and group. A kind without a
rule is not served. The table of six kinds is built in; settings add or replace rules by kind.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from bridge.fields import FieldPath, parse_path
from nodecast.errors import InvalidName, SettingsError
from nodecast.names import KindName, parse_kind

_TEMPLATES = tuple(
    f"spec.{part}.template.spec.nodeName" for part in ("trainSpec", "evalSpec", "deploySpec")
)
_ANNOTATIONS = tuple(
    f"metadata.annotations['sedna.io/{part}']" for part in ("Train", "Eval", "Deploy")
)


@dataclass(frozen=True, slots=True)
class Reference:
    """Names an object of `kind` by the fields at `path`."""

    kind: KindName
    path: FieldPath


@dataclass(frozen=True, slots=True)
class Rule:
    """How objects of one kind are placed.

    `version`, `plural`: where an API server serves it; None: as the server says.
    """

    kind: KindName
    nodes: tuple[FieldPath, ...] = ()
    carries: tuple[Reference, ...] = ()
    follows: tuple[Reference, ...] = ()
    namespaced: bool = True
    version: str | None = None
    plural: str | None = None


def make_rule(
    kind: str,
    nodes: Iterable[str] = (),
    carries: Iterable[tuple[str, str]] = (),
    follows: Iterable[tuple[str, str]] = (),
    namespaced: bool = True,
    version: str | None = None,
    plural: str | None = None,
) -> Rule:
    """A rule from text; references are (kind without group, path). Raises SettingsError."""
    try:
        owner = parse_kind(kind)
        _, dot, group = owner.partition(".")

        def references(pairs: Iterable[tuple[str, str]]) -> tuple[Reference, ...]:
            return tuple(
                Reference(parse_kind(f"{short}{dot}{group}"), parse_path(path))
                for short, path in pairs
            )

        return Rule(
            owner,
            tuple(map(parse_path, nodes)),
            references(carries),
            references(follows),
            namespaced,
            version,
            plural,
        )
    except (InvalidName, SettingsError) as error:
        raise SettingsError(f"rule for {kind!r}: {error}") from error


def built_in(group: str = "sedna.io") -> tuple[Rule, ...]:
    """The rules of the six edge-AI kinds."""
    learning = ("spec.nodeName", *_TEMPLATES, *_ANNOTATIONS)
    dataset = [("Dataset", "spec.dataset.name")]
    workers = "spec.trainingWorkers[]"

    def rule(
        short: str,
        nodes: Iterable[str] = (),
        carries: Iterable[tuple[str, str]] = (),
        follows: Iterable[tuple[str, str]] = (),
    ) -> Rule:
        plural = f"{short.lower()}s"
        return make_rule(
            f"{short}.{group}", nodes, carries, follows, version="v1alpha1", plural=plural
        )

    return (
        rule("Dataset", ["spec.nodeName"]),
        rule(
            "JointInferenceService",
            ["spec.edgeWorker.nodeName", "spec.edgeWorker.template.spec.nodeName"],
            carries=[("Model", "spec.edgeWorker.model.name")],
        ),
        rule(
            "FederatedLearningJob",
            [f"{workers}.nodeName", f"{workers}.template.spec.nodeName"],
        ),
        rule(
            "IncrementalLearningJob",
            learning,
            carries=[
                ("Model", "spec.initialModel.name"),
                ("Model", "spec.deploySpec.model.name"),
            ],
            follows=dataset,
        ),
        rule("LifelongLearningJob", learning, follows=dataset),
        rule("Model"),
    )


class Rules:
    """The table: one rule a kind, and what depends on what. Immutable."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Later rules replace earlier ones of the same kind. Raises SettingsError."""
        self._rules: dict[KindName, Rule] = {rule.kind: rule for rule in rules}
        self._check()
        depends = _depends_on(self._rules)
        self._receiving = frozenset(kind for kind, on in depends.items() if on)
        self._cyclic = frozenset(kind for kind, on in depends.items() if kind in on)
        self._depends = {kind: on - {kind} for kind, on in depends.items()}

    def _check(self) -> None:
        for rule in self._rules.values():
            for reference in (*rule.carries, *rule.follows):
                if reference.kind not in self._rules:
                    group = rule.kind.partition(".")[2]
                    near = [kind for kind in self._rules if kind.partition(".")[2] == group]
                    raise SettingsError(
                        f"rule for {rule.kind} refers to {reference.kind}, which has no rule:"
                        f" add one for it{suggestion(reference.kind, near)}"
                    )
                if self._rules[reference.kind].namespaced and not rule.namespaced:
                    raise SettingsError(
                        f"rule for {rule.kind}, which has no namespace, refers to"
                        f" {reference.kind}, which has: it could never find one"
                    )

    def __iter__(self) -> Iterator[Rule]:
        """The rules, by kind."""
        return (self._rules[kind] for kind in self.kinds)

    @property
    def kinds(self) -> tuple[KindName, ...]:
        """The kinds served, by name."""
        return tuple(sorted(self._rules))

    def get(self, kind: KindName) -> Rule | None:
        return self._rules.get(kind)

    def only(self, kinds: Iterable[KindName]) -> Rules:
        """The rules of these kinds and of those that they refer to."""

        def refers_to(kind: KindName) -> list[KindName]:
            rule = self._rules[kind]
            return [reference.kind for reference in (*rule.carries, *rule.follows)]

        wanted = _reached(kinds, refers_to)
        return Rules(rule for rule in self if rule.kind in wanted)

    def depends_on(self, kind: KindName) -> frozenset[KindName]:
        """The other kinds whose objects decide where objects of `kind` are."""
        return self._depends.get(kind, frozenset())

    def namespaced(self, kind: KindName) -> bool:
        """Whether its objects have a namespace: so do those of a kind without a rule."""
        rule = self._rules.get(kind)
        return rule is None or rule.namespaced

    def receives(self, kind: KindName) -> bool:
        """Whether objects of `kind` can be on nodes that they do not name."""
        return kind in self._receiving

    def cyclic(self, kind: KindName) -> bool:
        """Whether an object of `kind` can be on a node because of itself, through others or not."""
        return kind in self._cyclic

    def with_dependents(self, kinds: Iterable[KindName]) -> frozenset[KindName]:
        """`kinds`, and every kind whose placement depends on one of them."""
        given = frozenset(kinds)
        return given | {kind for kind, on in self._depends.items() if on & given}


def suggestion(kind: str, kinds: Iterable[str]) -> str:
    """`; did you mean X?` where one of `kinds` is close. Names count without their groups, which
    are mostly the same: by them alone, any two kinds would look alike."""

    def short(name: str) -> str:
        return name.partition(".")[0].lower()

    names: dict[str, list[str]] = {}
    for each in kinds:
        names.setdefault(short(each), []).append(each)
    close = difflib.get_close_matches(short(kind), names, 1)
    found = [each for name in close for each in names[name]]
    meant = difflib.get_close_matches(kind, found, 1, 0.0)
    return "".join(f"; did you mean {each}?" for each in meant)


def _depends_on(rules: Mapping[KindName, Rule]) -> dict[KindName, frozenset[KindName]]:
    """Transitively: the kinds that carry it, and those it follows; itself, if it is in a cycle."""
    direct: dict[KindName, set[KindName]] = {kind: set() for kind in rules}
    for kind, rule in rules.items():
        direct[kind] |= {reference.kind for reference in rule.follows}
        for reference in rule.carries:
            direct[reference.kind].add(kind)
    return {kind: frozenset(_reached(on, direct.__getitem__)) for kind, on in direct.items()}


def _reached(
    start: Iterable[KindName], onward: Callable[[KindName], Iterable[KindName]]
) -> set[KindName]:
    """`start`, and all that can be reached from it."""
    seen: set[KindName] = set()
    todo = list(start)
    while todo:
        kind = todo.pop()
        if kind not in seen:
            seen.add(kind)
            todo += onward(kind)
    return seen
