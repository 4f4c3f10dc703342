"""The phases of taking charge, and everything that refuses it."""

from __future__ import annotations

import math

import pytest

from bridge.charge import Charge, Identity, Phase
from nodecast.errors import SettingsError, Superseded, Unavailable
from nodecast.messages import MAX_NUMBER, Ledger, Wire, encode, pack
from nodecast.names import BridgeName

NAME = BridgeName("b")


def charge(*, source: str = "s", adopt: bool = False, leased: bool = False) -> Charge:
    return Charge(Identity(NAME, source, "me", adopt, leased))


def ledger(
    epoch: int = 5, *, instance: str = "other", source: str = "s", bridge: str = "b", mark: int = 0
) -> Wire:
    body = encode(
        Ledger(
            bridge=bridge,
            source=source,
            instance=instance,
            epoch=epoch,
            mark=mark,
            nodes=["n"],
            kinds={"Alone.x": 1},
        )
    )
    return Wire(body)


def in_charge(epoch: int = 100, *, leased: bool = False) -> Charge:
    """In charge with `epoch`."""
    made = charge(leased=leased)
    made.connected()
    made.echoed(made.probe, 0)
    made.listed(epoch)
    made.written()
    assert (made.phase, made.epoch) == (Phase.IN_CHARGE, epoch)
    return made


def test_a_process_goes_through_every_phase_once() -> None:
    made = charge()
    assert made.phase is Phase.OFFLINE
    made.connected()
    assert made.phase is Phase.READING
    made.ledger_came(ledger(5))
    assert made.echoed(made.probe, 33.0)
    assert (made.phase, made.listing_since, made.epoch) == (Phase.LISTING, 33.0, None)
    made.listed(3.0)
    assert (made.phase, made.epoch) == (Phase.WRITING, 6)
    made.written()
    assert made.phase is Phase.IN_CHARGE
    made.disconnected()
    assert made.phase is Phase.OFFLINE


def test_a_reconnection_keeps_the_epoch_and_needs_no_lists() -> None:
    made = in_charge(100)
    made.disconnected()
    made.connected()
    made.ledger_came(ledger(100, instance="me"))
    made.echoed(made.probe, 0)
    assert (made.phase, made.epoch) == (Phase.WRITING, 100)


@pytest.mark.parametrize(
    ("last", "clock", "epoch"), [(5, 3.7, 6), (5, 6.9, 6), (5, 1000.9, 1000), (5, -7.0, 6)]
)
def test_the_epoch_is_the_next_or_the_time_whichever_is_greater(
    last: int, clock: float, epoch: int
) -> None:
    made = charge()
    made.connected()
    made.ledger_came(ledger(last))
    made.echoed(made.probe, 0)
    made.listed(clock)
    assert made.epoch == epoch


def test_without_a_ledger_the_epoch_is_the_time_and_at_least_one() -> None:
    for clock, epoch in ((77.0, 77), (-5.0, 1), (0.0, 1)):
        made = charge()
        made.connected()
        made.echoed(made.probe, 0)
        made.listed(clock)
        assert (made.epoch, made.ledger) == (epoch, None)


def test_only_the_echo_of_this_connection_ends_the_wait() -> None:
    made = charge()
    made.connected()
    first = made.probe
    made.disconnected()
    made.connected()
    assert not made.echoed(first, 0)
    assert not made.echoed(b"", 0)
    assert not made.echoed(Charge(Identity(NAME, "s", "other")).probe, 0)
    assert made.phase is Phase.READING
    assert made.echoed(made.probe, 0)
    assert not made.echoed(made.probe, 0)


def test_an_acknowledgement_out_of_turn_changes_nothing() -> None:
    made = charge()
    made.connected()
    made.written()
    assert made.phase is Phase.READING


# -- refusals


def test_another_source_is_refused_with_exit_code_78() -> None:
    made = charge(source="mine")
    made.connected()
    with pytest.raises(SettingsError, match="belongs to source 'theirs'") as refused:
        made.ledger_came(ledger(source="theirs"))
    assert refused.value.exit_code == 78
    assert "--adopt" in str(refused.value)


def test_another_source_is_taken_over_where_that_was_asked_for() -> None:
    made = charge(source="mine", adopt=True)
    made.connected()
    made.ledger_came(ledger(41, source="theirs"))
    made.echoed(made.probe, 0)
    made.listed(1)
    assert made.epoch == 42


@pytest.mark.parametrize("epoch", [100, 101])
@pytest.mark.parametrize("phase", [Phase.READING, Phase.WRITING, Phase.IN_CHARGE])
def test_another_instance_with_no_lower_epoch_supersedes_with_exit_code_69(
    epoch: int, phase: Phase
) -> None:
    made = in_charge(100)
    if phase is not Phase.IN_CHARGE:
        made.disconnected()
        made.connected()
    if phase is Phase.WRITING:
        made.echoed(made.probe, 0)
    assert made.phase is phase
    with pytest.raises(Superseded) as stopped:
        made.ledger_came(ledger(epoch))
    assert stopped.value.exit_code == 69


def test_another_instance_with_a_lower_epoch_does_not() -> None:
    made = in_charge(100)
    made.ledger_came(ledger(99))
    assert made.phase is Phase.IN_CHARGE


def test_the_own_ledger_does_not_supersede() -> None:
    made = in_charge(100)
    made.ledger_came(ledger(100, instance="me"))
    assert made.phase is Phase.IN_CHARGE


def test_a_process_that_has_just_started_takes_charge_whatever_the_ledger_says() -> None:
    made = charge()
    made.connected()
    made.ledger_came(ledger(10**9))
    made.echoed(made.probe, 0)
    made.listed(5)
    assert made.epoch == 10**9 + 1


def test_of_two_that_start_at_once_the_later_takes_a_greater_epoch() -> None:
    made = charge()
    made.connected()
    made.echoed(made.probe, 0)
    made.ledger_came(ledger(5000, instance="twin"))
    made.listed(5000)
    assert made.epoch == 5001


def test_a_ledger_of_a_newer_schema_is_refused_with_exit_code_69() -> None:
    made = charge()
    made.connected()
    with pytest.raises(Unavailable, match="newer") as refused:
        made.ledger_came(Wire(b'{"schema": 2}'))
    assert refused.value.exit_code == 69


def test_an_epoch_without_a_successor_is_refused() -> None:
    made = charge()
    made.connected()
    made.ledger_came(ledger(MAX_NUMBER))
    made.echoed(made.probe, 0)
    with pytest.raises(Unavailable, match="no successor"):
        made.listed(5)


@pytest.mark.parametrize(
    "wire",
    [Wire(b""), Wire(b"[]"), Wire(b"\xff"), Wire(b"{}", "zlib"), ledger(bridge="another")],
)
def test_a_ledger_that_is_none_of_ours_counts_as_lost(wire: Wire) -> None:
    made = charge()
    made.connected()
    made.ledger_came(wire)
    assert made.ledger is None


# -- with a Lease


def test_a_lease_that_is_lost_ends_the_epoch_and_one_won_again_takes_the_next() -> None:
    made = in_charge(100, leased=True)
    made.step_down()
    assert (made.phase, made.epoch) == (Phase.OFFLINE, None)
    made.connected()
    made.ledger_came(ledger(100, instance="me"))
    assert made.echoed(made.probe, 7.0)
    assert (made.phase, made.listing_since) == (Phase.LISTING, 7.0)
    made.listed(50)
    assert made.epoch == 101


def test_the_next_epoch_is_greater_than_the_own_before_whatever_became_of_the_ledger() -> None:
    made = in_charge(100, leased=True)
    made.step_down()
    made.connected()
    made.echoed(made.probe, 0)
    made.listed(50)
    assert made.epoch == 101


@pytest.mark.parametrize("epoch", [100, 105])
def test_with_a_lease_another_instance_in_the_ledger_means_the_next_epoch(epoch: int) -> None:
    made = in_charge(100, leased=True)
    made.disconnected()
    made.connected()
    made.ledger_came(ledger(epoch))
    assert made.phase is Phase.READING
    made.echoed(made.probe, 0)
    assert made.phase is Phase.LISTING
    made.listed(1)
    assert made.epoch == epoch + 1


@pytest.mark.parametrize("phase", [Phase.WRITING, Phase.IN_CHARGE])
def test_with_a_lease_another_instance_that_writes_the_ledger_ends_the_connection(
    phase: Phase,
) -> None:
    made = in_charge(100, leased=True)
    made.phase = phase
    made.ledger_came(ledger(100))
    assert (made.phase, made.epoch) == (Phase.OFFLINE, None)


def test_with_a_lease_an_older_ledger_is_only_written_over() -> None:
    made = in_charge(100, leased=True)
    assert not made.ledger_came(ledger(99))
    assert (made.phase, made.epoch) == (Phase.IN_CHARGE, 100)


def test_what_comes_after_the_lease_was_lost_is_not_looked_at() -> None:
    made = in_charge(100, leased=True)
    made.step_down()
    assert made.ledger_came(ledger(500, source="another"))
    assert made.ledger_came(Wire(b'{"schema": 2}'))
    assert (made.phase, made.epoch) == (Phase.OFFLINE, None)


# -- the mark


def test_the_mark_is_what_came_back_in_this_connection_of_this_instance() -> None:
    made = in_charge(100)
    made.ledger_came(ledger(100, instance="me", mark=9))
    assert made.mark is None
    made.disconnected()
    made.connected()
    made.ledger_came(ledger(100, instance="me", mark=12))
    assert made.mark == 12
    made.disconnected()
    made.connected()
    assert made.mark is None


def test_the_mark_of_another_instance_is_none() -> None:
    made = charge()
    made.connected()
    made.ledger_came(ledger(5, mark=7))
    assert made.mark is None


def test_a_compressed_ledger_is_read() -> None:
    big = Ledger(
        bridge="b", source="s", instance="o", epoch=3, nodes=[f"node-{i}" for i in range(999)]
    )
    wire = pack(encode(big), compress=True)
    assert wire.encoding == "zlib"
    made = charge()
    made.connected()
    made.ledger_came(wire)
    assert made.ledger == big
    assert made.listing_since == math.inf


@pytest.mark.parametrize(
    "wire", [Wire(b""), Wire(b"[]"), ledger(5), ledger(5, bridge="c")], ids=range(4)
)
def test_a_ledger_that_is_not_ours_any_more_is_as_good_as_lost(wire: Wire) -> None:
    made = in_charge(100)
    assert not made.ledger_came(wire)
    assert made.ledger_came(ledger(100, instance="me"))
