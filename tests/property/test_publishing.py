"""The publisher with settle and holding, in any sequence of events: what must never happen, and
that every node has exactly what it should once all is quiet."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.publisher import PublishPolicy
from bridge.sources.events import KindStatus
from nodecast.backoff import Backoff
from nodecast.messages import Snapshot, Version
from nodecast.names import KindName, NodeName, ResourceKey
from tests.support.core import RULES, Core, names, record, snapshot_of

NODES = ["n1", "n2"]
POLICY = PublishPolicy(interval=0.5, refused=Backoff(1.0, 4.0, floor=1.0))

nodes = st.lists(st.sampled_from(NODES), unique=True, max_size=2)
short_names = st.sampled_from(["Owner/a", "Owner/b", "Part/a", "Part/b", "Alone/a", "Alone/b"])
kinds = st.sampled_from(RULES.kinds)
events = st.one_of(
    st.tuples(st.just("put"), short_names, nodes, st.sampled_from(["", "x"]), st.booleans()),
    st.tuples(st.just("remove"), short_names),
    st.tuples(st.just("after"), st.sampled_from([0.1, 0.5, 1.0, 3.0, 7.0, 70.0])),
    st.tuples(st.just("list"), kinds, st.sampled_from(list(KindStatus))),
    st.tuples(st.just("lists")),
    st.tuples(st.just("acknowledge")),
    st.tuples(st.just("refuse")),
    st.tuples(st.just("reconnect")),
    st.tuples(st.just("limit"), st.sampled_from([None, 5000, 100])),
    st.tuples(st.just("again"), st.sampled_from(NODES)),
    st.tuples(
        st.just("ahead"), st.sampled_from(NODES), st.integers(6, 9), st.sampled_from([1, 2**53 - 1])
    ),
)


class Watched(Core):
    """A core that checks every snapshot on its way out."""

    def __init__(self) -> None:
        super().__init__(hold=10.0, policy=POLICY)
        self.looked = 0
        self.last: dict[str, Snapshot] = {}
        self.lost_at: dict[ResourceKey, float] = {}
        self.sent_at: dict[str, float] = {}

    def step(self) -> None:
        self.pump()
        assert max(Counter(token.node for token in self.port.under_way).values(), default=1) == 1
        assert self.port.free >= 4
        for message, token in self.port.sent[self.looked :]:
            snapshot = snapshot_of(message)
            assert token.node == snapshot.node
            self._judge(snapshot)
            self.last[snapshot.node] = snapshot
        self.looked = len(self.port.sent)

    def _judge(self, new: Snapshot) -> None:
        node, old = NodeName(new.node), self.last.get(new.node)
        assert self.now >= self.sent_at.get(node, 0) + POLICY.interval
        self.sent_at[node] = self.now
        assert new.held_kinds == set(self.holding.held) or old == new
        if old is None:
            return
        assert new.version >= old.version
        assert (new.version == old.version) == (new == old)
        there = {each.key for each in new.resources}
        for gone in {each.key for each in old.resources} - there:
            if not new.keeps(gone):
                self._may_go(gone, node)

    def _may_go(self, gone: ResourceKey, node: NodeName) -> None:
        assert node not in self.catalog.nodes_of(gone)
        kind = KindName(gone.partition("/")[0])
        assert kind not in self.holding.held
        assert kind not in self.holding.waiting
        assert self.holding.view(kind).status is KindStatus.OK

    def do(self, event: tuple) -> None:
        match event:
            case ("put", name, at, spec, carries) if name.startswith("Owner"):
                self.put(record(name, *at, spec=spec, carries=["Part/a"] if carries else []))
            case ("put", name, at, spec, _):
                self.put(record(name, *at, spec=spec))
            case ("remove", name):
                self.remove(name)
            case ("after", seconds):
                self.after(seconds)
            case ("list", kind, status):
                self.listed(kind, status=status)
            case ("lists",):
                self.listed()
            case ("acknowledge",):
                self.acknowledge()
            case ("refuse",):
                self.refuse()
            case ("reconnect",):
                self.reconnect()
            case ("limit", limit):
                self.publisher.limit_changed(limit)
            case ("again", node):
                self.publisher.again([NodeName(node)])
            case ("ahead", node, epoch, revision):
                self.ahead(NodeName(node), Version(epoch, revision))

    def ahead(self, node: NodeName, version: Version) -> None:
        """As the bridge answers a report of a version that it never gave."""
        state = self.publisher.nodes.get(node)
        if state is None or state.content is None:
            self.publisher.expect(node, version)
        elif version > state.version:
            self.publisher.renew(node, version)

    def calm(self) -> None:
        """No more faults: lists answer, the broker takes everything, time goes on."""
        self.publisher.limit_changed(None)
        for _ in range(40):
            self.listed()
            self.step()
            self.acknowledge()
            self.after(2.0)


@settings(max_examples=150)
@given(st.lists(events, max_size=40), st.booleans())
def test_any_sequence_ends_with_every_node_having_exactly_what_it_should(
    sequence: list[tuple], ledger: bool
) -> None:
    core = Watched()
    core.put(record("Alone/a", "n1"), record("Part/a", "n2"), record("Owner/a", "n1"))
    core.charge(None if ledger else {})
    core.publisher.connected(None)
    for event in sequence:
        core.do(event)
        core.after(0)
        core.step()
    core.calm()
    for node in map(NodeName, NODES):
        expected = [names_of.key for names_of in core.catalog.on_node(node)]
        if core.publisher.nodes.get(node) is None:
            assert expected == []
            continue
        last = core.last[node]
        assert [each.key for each in last.resources] == expected
        assert (last.held_kinds, last.omitted) == (frozenset(), frozenset())
        state = core.publisher.nodes[node]
        assert state.acknowledged == state.version == last.version
    sent = len(core.port.sent)
    core.publisher.dirty(list(core.publisher.nodes))
    core.calm()
    assert len(core.port.sent) == sent


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=30), st.integers(1, 5))
def test_a_burst_of_changes_costs_a_node_one_publish_a_round_trip(
    changes: list[str], every: int
) -> None:
    core = Core(policy=PublishPolicy(interval=0.0))
    core.put(record("Alone/a", "n1"))
    core.charge()
    core.publisher.connected(None)
    core.settled()
    core.port.sent.clear()
    for number, spec in enumerate(changes):
        core.put(record("Alone/a", "n1", spec=spec))
        core.pump()
        if number % every == 0:
            core.acknowledge()
    core.acknowledge()
    core.pump()
    acknowledgements = -(-len(changes) // every) + 1
    assert len(core.port.sent) <= acknowledgements + 1
    if core.port.sent:
        body = snapshot_of(core.port.sent[-1][0])
        assert names(body) == ["Alone/a"]
        assert f'"spec":"{changes[-1]}"'.encode() in body.resources[0].body
