from __future__ import annotations

from fractions import Fraction

import pytest

from agent.models.quantity import quantity
from nodecast.errors import InvalidQuantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1Gi", 1073741824),
        ("1024Mi", 1073741824),
        (1073741824, 1073741824),
        ("1G", 10**9),
        ("1e9", 10**9),
        ("1E9", 10**9),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("0.5Gi", 536870912),
        (".5k", 500),
        ("5.", 5),
        ("+5", 5),
        ("-5", -5),
        (1.5, Fraction(3, 2)),
        ("500m", Fraction(1, 2)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        (1e20, 10**20),
    ],
)
def test_a_quantity_has_its_exact_value(text: object, value: int | Fraction) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "Gi", "1gi", "1 Gi", " 1Gi", "1Gi\n", "1KI", "1e", "e5", "1.2.3", "1e5Mi", "٣Gi"),
        *("inf", "nan", "0x10", "1_000", "1e65", "1e-65", "1" * 65),
        *(True, None, [], {}, float("inf")),
    ],
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(InvalidQuantity):
        quantity(text)


@pytest.mark.parametrize(
    "text", ["1e1000000000", "1e-999999999", 1 << 20_000], ids=["large", "small", "long"]
)
def test_a_quantity_that_would_be_slow_to_compute_is_refused_at_once(text: object) -> None:
    with pytest.raises(InvalidQuantity):
        quantity(text)
