"""Snapshots in any order, repeated, lost, live or replayed, with crashes and lost stores between:
the node ends with the newest, and never loses what no accepted snapshot took away."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.intake import Accept, Current, Foreign, Refuse, Standing, decide
from nodecast.messages import Version, Wire, decode_snapshot
from nodecast.names import BridgeName
from tests.support.device import BRIDGE, NODE, Device, resource, snapshot

KEYS = [f"{kind}/n/{name}" for kind in ("Dataset.sedna.io", "Model.sedna.io") for name in "abc"]
KINDS = ["Dataset.sedna.io", "Model.sedna.io"]
QUICK = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass(frozen=True)
class Said:
    """One version of the bridge's word: values by key, held kinds, omitted keys."""

    values: Mapping[str, int]
    held: frozenset[str]
    omitted: frozenset[str]

    def wire(self, version: tuple[int, int]) -> Wire:
        bodies = [resource(key, value) for key, value in self.values.items()]
        return snapshot(version, bodies, held=self.held, omitted=self.omitted)

    def keeps(self, key: str) -> bool:
        return key.partition("/")[0] in self.held or key in self.omitted


@st.composite
def words(draw: st.DrawFn) -> Said:
    values = draw(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3)))
    held = draw(st.frozensets(st.sampled_from(KINDS), max_size=1))
    omitted = draw(st.frozensets(st.sampled_from(KEYS), max_size=2)) - values.keys()
    return Said(values, held, omitted)


arrivals = st.tuples(st.just("snapshot"), st.integers(0, 5), st.booleans())
faults = st.sampled_from(["crash", "crash early", "lose store", "back up", "restore", "poison"])
events = st.lists(st.one_of(arrivals, arrivals, faults.map(lambda f: (f, 0, False))), max_size=14)


class Run:
    """A device beside what its files may be."""

    def __init__(self, device: Device, history: list[Said]) -> None:
        self.device = device
        self.history = history
        device.start()

    def version(self, index: int) -> tuple[int, int]:
        return (10 + index // 2, 1 + index % 2)

    def arrive(self, index: int, *, retained: bool) -> None:
        before, version = self.device.values, self.device.agent.accepted.version
        doubtful = self.device.agent.incomplete
        self.device.receive(self.history[index].wire(self.version(index)), retained=retained)
        self.check_removals(before, version, doubtful, retained)

    def check_removals(
        self, before: dict[str, object], version: Version, doubtful: bool, retained: bool
    ) -> None:
        now = self.device.agent.accepted.version
        gone = before.keys() - self.device.values.keys()
        if not gone:
            return
        assert now > version or (now == version and doubtful)
        said = next(s for i, s in enumerate(self.history) if self.version(i) == now)
        assert not [key for key in gone if key in said.values or said.keeps(key)]
        if doubtful and retained and version == (0, 0):
            raise AssertionError(f"{gone} went on what the broker kept")

    def fault(self, what: str) -> None:
        device, before = self.device, self.device.files
        if what == "poison":
            device.receive(Wire(b"[]"), retained=True)
        elif what == "crash early":
            device.kill()
            device.start(work=False)
            device.kill()
            device.start()
        elif what == "crash":
            device.restart()
        elif what == "back up":
            device.kill()
            device.back_up()
            device.start()
        elif what == "lose store":
            device.kill()
            device.lose_store()
            device.start()
        elif (device.root / "backup").exists():
            device.kill()
            device.restore()
            device.start()
        assert before.keys() <= device.files.keys(), "a fault alone took files away"

    def end(self) -> None:
        """The bridge speaks: its newest word, kept by the broker and then live."""
        newest = len(self.history) - 1
        self.arrive(newest, retained=True)
        if self.device.agent.incomplete or self.device.agent.refused:
            self.arrive(newest, retained=False)


@QUICK
@given(st.lists(words(), min_size=6, max_size=6), events)
def test_every_run_ends_in_the_newest_snapshot(
    history: list[Said], steps: list[tuple[str, int, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run = Run(Device(Path(directory), durable=False), history)
        for what, index, retained in steps:
            if what == "snapshot":
                run.arrive(index, retained=retained)
            else:
                run.fault(what)
        run.end()
        newest = history[-1]
        values = run.device.values
        assert {k: v for k, v in values.items() if k in newest.values} == newest.values
        assert all(newest.keeps(key) for key in values.keys() - newest.values.keys())
        assert run.device.agent.accepted.version == run.version(5)
        assert not run.device.agent.incomplete
        run.device.kill()


@QUICK
@given(st.lists(words(), min_size=6, max_size=6), st.lists(arrivals, max_size=12), st.data())
def test_disk_and_store_agree_after_a_kill_at_any_action(
    history: list[Said], steps: list[tuple[str, int, bool]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run = Run(Device(Path(directory), durable=False), history)
        device = run.device
        for _, index, retained in steps:
            device.agent.receive(history[index].wire(run.version(index)), retained=retained)
            for _ in range(data.draw(st.integers(0, 4))):
                device.agent._step(device.clock.now)
            device.restart()
            assert device.agent.orphans == {}, "an orphan of a file of our own"
            states = device.states()
            assert set(states.values()) <= {"Applied"}
            assert device.files.keys() == {f"{key}.json" for key in states}
        device.kill()


versions = st.builds(Version, st.integers(0, 3), st.integers(0, 3))


@given(versions, versions, st.booleans(), st.booleans(), st.booleans())
def test_a_decision_never_goes_back_and_never_mixes_up_live_and_kept(
    held: Version, came: Version, same: bool, incomplete: bool, retained: bool
) -> None:
    message = decode_snapshot(snapshot(came, [resource(KEYS[0])]))
    digest = message.digest if same else "0" * 32
    state = Standing(BridgeName(BRIDGE), NODE, held, digest, incomplete)
    decision = decide(state, message, retained=retained)
    if isinstance(decision, Accept):
        assert decision.live is not retained
        assert came > held or (came == held and same and incomplete)
    elif isinstance(decision, Current):
        assert came == held
        assert same
        assert not incomplete
    else:
        assert isinstance(decision, Refuse)
        assert came < held or not same or min(came) < 1


@given(versions, st.booleans())
def test_what_another_bridge_says_or_says_of_another_node_is_foreign(
    came: Version, bridge: bool
) -> None:
    message = decode_snapshot(snapshot(came))
    held = Standing(BridgeName("x" if bridge else BRIDGE), NODE, Version(0, 0), "", True)
    if not bridge:
        held = Standing(held.bridge, type(NODE)("edge-b"), held.version, held.digest, True)
    assert isinstance(decide(held, message, retained=False), Foreign)
