"""Which publish goes next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodecast.session.window import Entry, Window
from tests.support.sessions import message


def window(*sizes: tuple[str, int], size: int = 100) -> Window:
    made = Window()
    made.size = size
    for token, (topic, length) in enumerate(sizes):
        made.add(Entry(message(topic), token, length))
    return made


def send_all(made: Window, alone_above: int | None) -> list[object]:
    """Send whatever may go at once; the tokens in order."""
    tokens = []
    while (entry := made.take(alone_above)) is not None:
        made.sent(entry.token, entry, 0.0)  # type: ignore[arg-type]
        tokens.append(entry.token)
    return tokens


def test_messages_go_in_order_up_to_the_window() -> None:
    made = window(("a", 1), ("b", 2), ("c", 3), size=2)
    assert send_all(made, None) == [0, 1]
    made.answered(0, 0.0)
    assert send_all(made, None) == [2]


def test_free_counts_what_flies_and_what_waits() -> None:
    made = window(("a", 1), ("b", 2), ("c", 3), size=5)
    assert made.free(None) == 2
    send_all(made, None)
    assert made.free(None) == 2
    made.answered(1, 0.0)
    assert made.free(None) == 3


def test_free_is_never_below_zero() -> None:
    assert window(("a", 1), ("b", 2), size=1).free(None) == 0


def test_a_suspect_goes_only_alone_and_nothing_follows_it() -> None:
    made = window(("big", 900), ("small", 10), ("other", 20))
    assert send_all(made, 100) == [1, 2]
    made.answered(1, 0.0)
    assert send_all(made, 100) == []
    made.answered(2, 0.0)
    assert send_all(made, 100) == [0]
    made.add(Entry(message("late"), 9, 5))
    assert send_all(made, 100) == []


def test_the_smallest_suspect_goes_first() -> None:
    made = window(("a", 900), ("b", 700), ("c", 800))
    assert send_all(made, 0) == [1]


def test_messages_of_one_topic_keep_their_order_though_the_first_is_a_suspect() -> None:
    made = window(("ops", 900), ("ops", 10), ("other", 500))
    assert send_all(made, 100) == [2]
    made.answered(2, 0.0)
    assert send_all(made, 100) == [0]
    made.answered(0, 0.0)
    assert send_all(made, 900) == [1]


def test_a_wary_window_takes_nothing_new_while_it_has_something_queued() -> None:
    made = window(("a", 900))
    assert made.free(100) == 0
    send_all(made, 100)
    assert made.free(100) == 99


def test_clear_gives_the_tokens_in_order() -> None:
    made = window(("a", 1), ("b", 2), ("c", 3), size=2)
    send_all(made, None)
    assert made.clear() == [0, 1, 2]
    assert made.clear() == []


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30)), max_size=30),
    st.integers(0, 30),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_every_message_goes_once_suspects_alone_and_topics_in_order(
    sizes: list[tuple[str, int]], alone_above: int, size: int, rng: object
) -> None:
    made = window(*sizes, size=size)
    flying: list[int] = []
    order: list[int] = []
    while len(order) < len(sizes) or flying:
        for token in send_all(made, alone_above):
            assert isinstance(token, int)
            flying.append(token)
            order.append(token)
        assert flying, "nothing moves any more"
        assert len(flying) <= size
        if any(sizes[token][1] > alone_above for token in flying):
            assert len(flying) == 1
        made.answered(flying.pop(rng.randrange(len(flying))), 0.0)  # type: ignore[attr-defined]
    assert sorted(order) == list(range(len(sizes)))
    for topic in "abc":
        of_topic = [token for token in order if sizes[token][0] == topic]
        assert of_topic == sorted(of_topic)
