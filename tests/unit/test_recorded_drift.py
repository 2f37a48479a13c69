"""The drift controller on recorded streams: whatever it changes helps, and it leaves alone what does not drift."""

import os
from pathlib import Path

import pytest

from evenly.lab.simulation.controlled import KeyedBatch, controlled
from evenly.sketches import key_ids
from evenly.streams.recorded import read_column

FOLDER = Path(os.environ.get("EVENLY_DATA", "no recorded streams"))


def batches(name, column, rows, *, begin=0, end=None):
    path = FOLDER / f"{name}.parquet"
    if not path.is_file():
        pytest.skip(f"{path} is not there: EVENLY_DATA names the folder of recorded streams")
    keys = read_column(path, column)[begin:end]
    ids = key_ids(keys.combine_chunks(), hash_integers=True)
    return [KeyedBatch.of(ids[at : at + rows]) for at in range(0, ids.size - rows + 1, rows)]


@pytest.mark.parametrize(("rows", "instances", "least"), [(20_000, 32, 1), (60_000, 8, 0)])
def test_mentions_drift_and_every_change_lowers_λ_in_the_ten_batches_after_it(rows, instances, least):  # noqa: PLC2401
    found = controlled(batches("congress_mentions", "key", rows), instances)
    assert len(found.changes) >= least
    assert all(change.gain > 0.0 for change in found.changes)
    assert found.imbalances_pct.mean() <= found.kept_pct.mean()


@pytest.mark.parametrize("instances", [8, 16])
def test_flights_are_left_alone(instances):
    assert controlled(batches("flights3m", "key", 40_000, end=1_200_000), instances).changes == ()
