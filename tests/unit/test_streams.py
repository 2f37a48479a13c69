"""Synthetic and recorded streams."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenly.errors import DamagedData, InvalidParameter, UnknownColumn
from evenly.streams import KeyStream, normal, read_column, spread_costs, uniform, zipf
from evenly.streams.recorded import replay
from evenly.streams.synthetic import injection

STREAMS = {
    "zipf-0.0": zipf(0.0, 50),
    "zipf-1.0": zipf(1.0, 50),
    "zipf-2.5": zipf(2.5, 50),
    "uniform": uniform(50),
    "normal-25-8": normal(25.0, 8.0, 50),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_named_and_its_probabilities_sum_to_one(name):
    assert STREAMS[name].name == name
    assert STREAMS[name].n == 50
    assert STREAMS[name].probabilities.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", STREAMS)
def test_keys_come_as_often_as_their_probability_says(name):
    tuples = 400_000
    ranks = STREAMS[name].draw_ranks(tuples, np.random.default_rng(6))
    shares = np.bincount(ranks, minlength=50) / tuples
    p = STREAMS[name].probabilities
    assert np.all(np.abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / tuples) + 1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_zipf_gives_the_ith_key_a_weight_of_one_over_i_to_the_alpha(alpha):
    p = zipf(alpha, 1_000).probabilities
    assert p[0] / p[[1, 9, 999]] == pytest.approx([2**alpha, 10**alpha, 1000**alpha])


def test_zipf_2_gives_its_first_key_the_share_that_the_paper_states():
    assert zipf(2.0).probabilities[0] == pytest.approx(0.608, abs=0.001)


def test_normal_has_the_bell_shape_around_its_mean():
    p = normal(30.0, 5.0, 100).probabilities
    assert p.argmax() == 29
    assert p[[24, 34]] / p[29] == pytest.approx([np.exp(-0.5)] * 2)


def test_a_distribution_far_from_all_keys_still_has_probabilities():
    assert normal(1e6, 1.0, 100).probabilities[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("n", [1, 7, 10_000])
def test_keys_are_mapped_to_distinct_values_of_a_universe_a_hundred_times_larger(n):
    values = injection(n, np.random.default_rng(3))
    assert np.unique(values).size == n
    assert 1 <= values.min() <= values.max() <= 100 * n


def test_the_whole_universe_is_used_and_in_random_order():
    values = injection(10_000, np.random.default_rng(3))
    assert np.bincount(values // 100_001, minlength=10) == pytest.approx(1_000, abs=150)
    assert abs(np.corrcoef(np.arange(10_000), values)[0, 1]) < 0.05


def test_another_seed_draws_another_mapping_and_other_tuples():
    first, second = (zipf(2.0).draw(1_000, seed=seed) for seed in (1, 2))
    assert np.bincount(first).argmax() != np.bincount(second).argmax()


@pytest.mark.parametrize("name", STREAMS)
def test_the_same_seed_draws_the_same_stream(name):
    assert np.array_equal(STREAMS[name].draw(500, seed=9), STREAMS[name].draw(500, seed=9))


def test_no_tuples_can_be_drawn():
    assert zipf(1.0, 10).draw(0, seed=1).size == 0


def test_a_stream_can_have_any_probabilities():
    stream = KeyStream("two of three", np.array([0.25, 0.0, 0.75]))
    ranks = stream.draw_ranks(10_000, np.random.default_rng(1))
    assert np.bincount(ranks) / 10_000 == pytest.approx([0.25, 0.0, 0.75], abs=0.02)
    assert 1 not in ranks


@pytest.mark.parametrize("mean", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_mean_that_is_no_number_is_refused(mean):
    with pytest.raises(InvalidParameter):
        normal(mean, 1.0, 10)


@pytest.mark.parametrize(("n", "values"), [(640, 64), (64, 64), (100, 1), (10_000, 50)])
def test_each_cost_is_given_to_the_same_number_of_keys(n, values):
    costs, keys = np.unique(spread_costs(n, values=values, seed=1), return_counts=True)
    assert costs == pytest.approx(np.linspace(1.0, 64.0, values))
    assert set(keys.tolist()) == {n // values}


def test_costs_that_do_not_divide_the_keys_differ_by_one_key_at_most():
    _, keys = np.unique(spread_costs(100, values=64, least_ms=2.0, most_ms=9.0, seed=1), return_counts=True)
    assert set(keys.tolist()) == {1, 2}


def test_costs_are_given_at_random_and_the_same_for_a_seed():
    first, again, other = (spread_costs(640, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert abs(np.corrcoef(np.arange(640), first)[0, 1]) < 0.2


@pytest.fixture
def recording(tmp_path):
    """A Parquet file of several row groups."""
    path = tmp_path / "recorded.parquet"
    table = pa.table({"user": [f"user {i % 7}" for i in range(1_000)], "at": range(1_000)})
    pq.write_table(table, path, row_group_size=300)
    return path


def test_a_column_is_read_in_the_order_recorded(recording):
    assert read_column(recording, "at").to_pylist() == list(range(1_000))
    assert read_column(str(recording), "user")[8].as_py() == "user 1"


@pytest.mark.parametrize("batch", [1, 7, 300, 65_536])
def test_a_replay_gives_all_tuples_in_order_in_batches(recording, batch):
    parts = list(replay(recording, "at", batch=batch))
    assert [value for part in parts for value in part.to_pylist()] == list(range(1_000))
    assert max(len(part) for part in parts) <= batch


def test_a_replay_can_be_left_early(recording):
    parts = replay(recording, "at", batch=10)
    assert next(parts).to_pylist() == list(range(10))
    parts.close()
    recording.unlink()


@pytest.mark.parametrize("read", [read_column, lambda path, column: next(replay(path, column))])
class TestUnreadable:
    def test_an_unknown_column_is_named_beside_those_there_are(self, read, recording):
        with pytest.raises(UnknownColumn, match="no column 'item': it has user, at"):
            read(recording, "item")

    @pytest.mark.parametrize("name", ["none.parquet", "."])
    def test_what_is_no_file_is_refused(self, read, tmp_path, name):
        with pytest.raises(DamagedData, match="is not a file"):
            read(tmp_path / name, "at")

    @pytest.mark.parametrize("content", [b"", b"PAR1", b"a,b\n1,2\n" * 100])
    def test_another_kind_of_file_is_refused(self, read, tmp_path, content):
        (tmp_path / "table.csv").write_bytes(content)
        with pytest.raises(DamagedData, match=r"table\.csv"):
            read(tmp_path / "table.csv", "at")

    def test_a_truncated_file_is_refused(self, read, recording):
        recording.write_bytes(recording.read_bytes()[:-100])
        with pytest.raises(DamagedData, match=r"recorded\.parquet"):
            read(recording, "at")

    @pytest.mark.parametrize("part", ["page", "footer"])
    def test_a_file_damaged_inside_is_refused(self, read, recording, part):
        content = bytearray(recording.read_bytes())
        page = pq.read_metadata(recording).row_group(0).column(1).data_page_offset
        start = page if part == "page" else len(content) - 700
        content[start : start + 20] = bytes(20)
        recording.write_bytes(content)
        with pytest.raises(DamagedData, match=r"recorded\.parquet"):
            read(recording, "at")
