"""Quantities: the grammar, exactness, bounds."""

from __future__ import annotations

import re
import time
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
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(1024),
    "Mi": Fraction(1024**2),
    "Gi": Fraction(1024**3),
    "Ti": Fraction(1024**4),
    "Pi": Fraction(1024**5),
    "Ei": Fraction(1024**6),
}


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("0", 0),
        ("1", 1000),
        ("+1", 1000),
        ("-1", -1000),
        ("007", 7000),
        ("1.", 1000),
        (".5", 500),
        ("0.5", 500),
        ("-0.5", -500),
        ("0.001", 1),
        ("1.500000", 1500),
        ("100m", 100),
        ("1500m", 1500),
        ("-250m", -250),
        ("1000u", 1),
        ("1.0m", 1),
        ("1000000n", 1),
        ("0n", 0),
        ("1k", 1_000_000),
        ("1M", 10**9),
        ("1G", 10**12),
        ("1T", 10**15),
        ("1P", 10**18),
        ("1E", 10**21),
        ("1Ki", 1024 * MILLI),
        ("1.5Gi", 3 * 2**29 * MILLI),
        ("0.5Ki", 512 * MILLI),
        ("0.0009765625Ki", 1 * MILLI),
        ("0.001Ki", 1024),
        ("7Ei", 7 * 2**60 * MILLI),
        ("1e3", 10**6),
        ("1E3", 10**6),
        ("1e+3", 10**6),
        ("1e-3", 1),
        ("12.5e1", 125_000),
        ("0e9999", 0),
        ("0e-9999", 0),
        ("1" + "0" * 9000 + "e-9000", 1000),
        ("0" * 9000 + "1", 1000),
        ("0." + "0" * 9000, 0),
        (str(MOST), MOST * MILLI),
        (f"-{MOST}", -MOST * MILLI),
        (f"{MOST}000m", MOST * MILLI),
    ],
)
def test_parse_returns_thousandths(text: str, thousandths: int) -> None:
    assert thousandths == parse_quantity(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "-",
        "+.",
        "m",
        "Ki",
        "1K",
        "1ki",
        "1KI",
        "1 Gi",
        " 1",
        "1 ",
        "1\n",
        "1mm",
        "1kk",
        "1e",
        "1e+",
        "1e1.5",
        "1e3Ki",
        "1e3m",
        "1Em",
        "1i",
        "1_000",
        "1,5",
        "0x10",
        "--1",
        "+-1",
        "inf",
        "-Infinity",
        ".inf",
        "nan",
        "NaN",
        "\u0661",
        "1\u00b5",
        "1\u039c",
        "1e99999",
    ],
)
def test_parse_refuses_text_outside_the_grammar(text: str) -> None:
    with pytest.raises(InvalidValueError, match="must be a Kubernetes quantity such as"):
        parse_quantity(text)


@pytest.mark.parametrize(
    "text",
    [
        "1n",
        "1u",
        "100u",
        "999999n",
        "0.1m",
        "0.0001",
        "1.0005",
        "1e-4",
        "1e-9999",
        "0.0001Ki",
        f"0.{'0' * 9000}1",
        f"0.{'0' * 9000}1Ki",
    ],
)
def test_parse_refuses_a_quantity_finer_than_a_thousandth(text: str) -> None:
    with pytest.raises(InvalidValueError, match="no finer than a thousandth"):
        parse_quantity(text)


@pytest.mark.parametrize(
    "text",
    [
        "1e9999",
        "-1e9999",
        "8Ei",
        "9.3E",
        f"{MOST + 1}",
        f"{MOST}001m",
        "9" * 9000,
        f"{'9' * 9000}Ei",
        f"{'9' * 100}e-78",
    ],
)
def test_parse_refuses_a_quantity_that_kubernetes_would_cap(text: str) -> None:
    with pytest.raises(InvalidValueError, match=re.escape("at most 2**63 - 1 units")):
        parse_quantity(text)


@pytest.mark.parametrize("units", [MOST + 1, -MOST - 1, 10**100])
def test_parse_bounds_an_int_as_it_bounds_text(units: int) -> None:
    assert parse_quantity(MOST) == MOST * MILLI

    with pytest.raises(InvalidValueError, match=re.escape("at most 2**63 - 1 units")):
        parse_quantity(units)


@pytest.mark.parametrize("value", [True, None, 1.5, b"1", [], {}])
def test_parse_refuses_values_that_are_neither_str_nor_int(value: Any) -> None:
    with pytest.raises(InvalidValueError, match="must be a Kubernetes quantity") as caught:
        parse_quantity(value, field="cpu")

    assert caught.value.field == "cpu"
    assert value is caught.value.value


def test_parse_is_fast_for_long_text_and_large_exponents() -> None:
    started = time.process_time()
    for text in ("1e9999", "1e-9999", "9" * 10**6, f"0.{'0' * 10**6}1", f"0.{'3' * 10**6}Ei"):
        with pytest.raises(InvalidValueError):
            parse_quantity(text)

    assert time.process_time() - started < 30


def test_parse_reads_an_int_as_whole_units() -> None:
    assert parse_quantity(8) == 8000


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
