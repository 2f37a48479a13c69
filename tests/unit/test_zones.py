"""Time zones by every name that Spark gives them."""

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from evenly.errors import InvalidResult
from evenly.worker.results import Shape
from evenly.worker.zones import zone_of


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("America/New_York", -5), ("+05:30", 5.5), ("-08:00", -8), ("+1:00", 1), ("Etc/GMT+3", -3)],
)
def test_regions_and_offsets(name, hours):
    assert zone_of(name).utcoffset(datetime(2024, 1, 1)) == timedelta(hours=hours)  # noqa: DTZ001


@pytest.mark.parametrize("name", ["GMT+8", "Nowhere/City", "../etc"])
def test_a_zone_that_only_java_knows_is_told_where_it_is_needed(name):
    with pytest.raises(ValueError, match=r"knows no time zone .* '\+08:00'"):
        zone_of(name)


def test_a_moment_with_a_zone_of_its_own_needs_no_other():
    shape = Shape(pa.schema([("t", pa.timestamp("us", "GMT+8"))]))
    columns, wrong = shape.columns([(datetime(2024, 1, 1, tzinfo=zone_of("UTC")),), (datetime(2024, 1, 1),)])  # noqa: DTZ001
    assert columns[0].cast(pa.timestamp("us", "UTC")).to_pylist()[0].hour == 0
    assert isinstance(wrong[1], InvalidResult)
    assert "knows no time zone 'GMT+8'" in str(wrong[1])
