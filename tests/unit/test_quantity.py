"""Quantities: the grammar, exactness, bounds."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched.errors import GangschedError, InvalidValueError
from gangsched.quantity import MILLI, format_quantity, parse_quantity

MOST = 2**63 - 1
POWERS = {
    "": Fraction(1),
    **{suffix: Fraction(1, 1000**n) for n, suffix in enumerate("mun", start=1)},
    **{suffix: Fraction(1000**n) for n, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**n) for n, suffix in enumerate("KMGTPE", start=1)},
}


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        *(("0", 0), ("1", 1000), ("+1", 1000), ("-1", -1000), ("007", 7000), ("1.", 1000)),
        *((".5", 500), ("-0.5", -500), ("0.001", 1), ("1.500000", 1500)),
        *(("100m", 100), ("-250m", -250), ("1000u", 1), ("1.0m", 1), ("1000000n", 1), ("0n", 0)),
        *(("1k", 10**6), ("1M", 10**9), ("1G", 10**12), ("1T", 10**15), ("1P", 10**18)),
        *(("1E", 10**21), ("1Ki", 1024 * MILLI), ("1.5Gi", 3 * 2**29 * MILLI)),
        *(("0.0009765625Ki", MILLI), ("0.001Ki", 1024), ("7Ei", 7 * 2**60 * MILLI)),
        *(("1e3", 10**6), ("1E3", 10**6), ("1e+3", 10**6), ("1e-3", 1), ("12.5e1", 125_000)),
        *(("0e9999", 0), ("0e-9999", 0), ("1" + "0" * 9000 + "e-9000", 1000)),
        *(("0" * 9000 + "1", 1000), ("0." + "0" * 9000, 0)),
        *((str(MOST), MOST * MILLI), (f"-{MOST}", -MOST * MILLI), (f"{MOST}000m", MOST * MILLI)),
    ],
    ids=lambda value: f"{value:.30}" if isinstance(value, str) else "",
)
def test_parse_returns_thousandths(text: str, thousandths: int) -> None:
    assert thousandths == parse_quantity(text)


NO_GRAMMAR = [
    *("", "1 Gi", " 1", "1 ", "1\n", ".", "-", "+.", "m", "Ki", "1K", "1ki", "1KI", "1mm", "1kk"),
    *("1e", "1e+", "1e1.5", "1e3Ki", "1e3m", "1Em", "1i", "1_000", "1,5", "0x10", "--1", "+-1"),
    *("inf", "-Infinity", ".inf", "nan", "NaN", "1e99999", "\u0661", "1\u00b5", "1\u039c"),
]
TOO_FINE = [
    *["1n", "1u", "100u", "999999n", "0.1m", "0.0001", "1.0005", "1e-4", "1e-9999", "0.0001Ki"],
    *(f"0.{'0' * 9000}1", f"0.{'0' * 9000}1Ki", f"0.{'0' * 10**6}1"),
]
TOO_LARGE = [
    *["1e9999", "-1e9999", "8Ei", "9.3E"],
    *(f"{MOST + 1}", f"{MOST}001m", "9" * 10**6, f"{'9' * 9000}Ei", f"{'9' * 100}e-78"),
    *(MOST + 1, -MOST - 1, 10**100),
]


@pytest.mark.parametrize(
    ("quantities", "sentence"),
    [
        (NO_GRAMMAR, "must be a Kubernetes quantity such as"),
        (TOO_FINE, "no finer than a thousandth"),
        (TOO_LARGE, "at most 2**63 - 1 units"),
    ],
)
def test_parse_refuses_what_is_no_quantity_or_out_of_bounds(
    quantities: list[Any], sentence: str
) -> None:
    """Long texts and large exponents are read in no time."""
    for quantity in quantities:
        with pytest.raises(InvalidValueError, match=re.escape(sentence)):
            parse_quantity(quantity)


@pytest.mark.parametrize("value", [True, None, 1.5, b"1", [], {}])
def test_parse_refuses_values_that_are_neither_str_nor_int(value: Any) -> None:
    with pytest.raises(InvalidValueError, match="must be a Kubernetes quantity") as caught:
        parse_quantity(value, field="cpu")
    assert caught.value.field == "cpu"
    assert value is caught.value.value


def test_parse_reads_an_int_as_whole_units() -> None:
    assert parse_quantity(8) == 8000
    assert parse_quantity(MOST) == MOST * MILLI


@pytest.mark.parametrize(
    ("thousandths", "plain", "binary"),
    [
        (0, "0", "0"),
        (500, "500m", "500m"),
        (-1500, "-1500m", "-1500m"),
        (1000, "1", "1"),
        (4 * 2**30 * MILLI, "4294967296", "4Gi"),
        (-(2**10) * MILLI, "-1024", "-1Ki"),
        (1536 * MILLI, "1536", "1536"),
        (1536 * 1024 * MILLI, "1572864", "1536Ki"),
        (2**60 * MILLI, str(2**60), "1Ei"),
    ],
)
def test_format_writes_as_kubernetes_does(thousandths: int, plain: str, binary: str) -> None:
    assert plain == format_quantity(thousandths)
    assert binary == format_quantity(thousandths, binary=True)


@given(st.integers(-MOST * MILLI, MOST * MILLI), st.booleans())
@example(MOST * MILLI, False)
@example(2**60 * MILLI, True)
def test_parse_inverts_format(thousandths: int, binary: bool) -> None:
    assert thousandths == parse_quantity(format_quantity(thousandths, binary=binary))


@st.composite
def quantities(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text in the grammar, and what it stands for by rational arithmetic."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.text("0123456789", max_size=24))
    fraction = draw(st.text("0123456789", min_size=0 if whole else 1, max_size=12))
    point = "." if fraction or (whole and draw(st.booleans())) else ""
    suffix = draw(
        st.sampled_from(sorted(POWERS)) | st.integers(-30, 30).map(lambda power: f"e{power}")
    )
    power = Fraction(10) ** int(suffix[1:]) if suffix[:1] == "e" else POWERS[suffix]
    value = Fraction(int(whole + fraction), 10 ** len(fraction)) * power
    return f"{sign}{whole}{point}{fraction}{suffix}", -value if sign == "-" else value


@given(quantities())
@example(("0.0009765625Ki", Fraction(1)))
def test_parse_agrees_with_rational_arithmetic(quantity: tuple[str, Fraction]) -> None:
    text, value = quantity
    thousandths = value * MILLI
    if thousandths.denominator != 1 or abs(value) > MOST:
        with pytest.raises(InvalidValueError):
            parse_quantity(text)
    else:
        assert thousandths == parse_quantity(text)


@given(st.text() | st.text("+-.0123456789eEKMGTPinumk", max_size=12))
def test_parse_raises_only_invalid_value_errors(text: str) -> None:
    try:
        amount = parse_quantity(text)
    except GangschedError:
        return

    assert amount == parse_quantity(format_quantity(amount))


@pytest.mark.parametrize(
    ("value", "instead"), [(1.5, "1500m"), (2.0, "2"), (-0.25, "-250m"), (1e-9, "0")]
)
def test_parse_states_what_to_write_instead_of_a_float(value: Any, instead: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_quantity(value, field="cpu")

    text = f"a Kubernetes quantity as text, such as {instead!r}, or an int of whole units"
    assert text == caught.value.expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_parse_gives_no_example_for_a_float_without_one(value: Any) -> None:
    with pytest.raises(InvalidValueError, match="such as 500m, 4Gi or 1e3"):
        parse_quantity(value)


@pytest.mark.parametrize("value", ["x", "500m", None, 1.0, True])
def test_format_refuses_what_is_not_an_int(value: Any) -> None:
    with pytest.raises(InvalidValueError, match="an int") as caught:
        format_quantity(value)

    assert (caught.value.field, caught.value.value) == ("thousandths", value)
