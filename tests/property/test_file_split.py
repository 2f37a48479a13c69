"""What a split into files promises: no load is lost, no key is on more instances than it has files, light keys are whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_planned_split import mappings

from evenly.errors import InvalidParameter
from evenly.keys.file_split import file_split


@given(mappings(), st.integers(1, 5_000))
def test_large_keys_are_on_as_many_instances_as_they_have_files_at_most(mapping, rows_per_file):
    split = file_split(mapping, rows_per_file)
    assert split.fitted_loads.sum() == pytest.approx(mapping.fitted_loads.sum())
    large = mapping.heavy_keys[mapping.heavy_weights > rows_per_file] if mapping.instances > 1 else mapping.heavy_keys[:0]
    assert split.split.tolist() == sorted(large.tolist())
    weights = dict(zip(mapping.heavy_keys.tolist(), mapping.heavy_weights.tolist(), strict=True))
    for number, key in enumerate(split.split.tolist()):
        here = slice(split.starts[number], split.starts[number + 1])
        assert len(split.shares(key)) == split.parts[here].size <= np.ceil(weights[key] / rows_per_file)
        assert split.part_loads[here].sum() == pytest.approx(weights[key])


def test_a_file_has_rows():
    with pytest.raises(InvalidParameter, match="rows_per_file"):
        file_split(mappings, 0)
