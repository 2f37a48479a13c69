"""The cost model: small cases by hand, forgetting, files, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evenly.costs import CostMeter, CostModel, InstanceReport
from evenly.errors import DamagedData, IncompatibleMerge, InvalidCost, InvalidParameter, NewerFormat


def report(ids, costs, *, executor="host:1", weight=1.0):
    meter = CostMeter()
    meter.add(np.asarray(ids), np.asarray(costs, np.float64), weight=weight)
    return meter.report(instance=0, executor=executor)


TWO_KEYS = report([1, 1, 2, 2], [0.1, 0.1, 0.3, 0.3])


def test_keys_of_steady_cost_are_known_at_once_and_others_have_the_mean():
    model = CostModel().learn(TWO_KEYS)
    assert model.estimate(np.array([1, 2, 3])) == pytest.approx([0.1, 0.3, 0.2])
    assert (model.rows, model.keys, model.mean_s) == (4, 2, pytest.approx(0.2))
    assert model.gain > 0.1
    assert not model.constant


def test_a_model_that_has_seen_nothing_answers_and_claims_nothing():
    model = CostModel()
    assert model.estimate(np.array([5, 6])).tolist() == [1e-3, 1e-3]
    assert (model.rows, model.mean_s, model.gain, model.constant) == (0.0, 0.0, 0.0, False)


def test_rows_that_cost_nothing_have_a_cost_above_zero():
    assert (CostModel().learn(report([1, 1, 2], [0.0, 0.0, 0.0])).estimate(np.array([1, 2, 3])) > 0.0).all()
    assert (CostModel().learn(report([1, 1, 2, 2], [0.0, 0.0, 1.0, 1.0])).estimate(np.array([1])) > 0.0).all()


def test_keys_that_were_folded_share_the_mean_of_those():
    dear, cheap = np.repeat(np.arange(10), 20), np.repeat(np.arange(100, 200), 2)
    model = CostModel(capacity=10).learn(report(np.r_[dear, cheap], np.r_[np.full(200, 5.0), np.full(200, 0.5)]))
    assert model.estimate(np.array([3, 100, 12345])) == pytest.approx([5.0, 0.5, 0.5], rel=0.02)


def test_a_slow_executors_costs_are_told_as_those_of_a_usual_one():
    slow = report([1, 1, 2, 2], [0.4, 0.4, 1.2, 1.2])
    one = CostModel().learn(TWO_KEYS).learn(slow, speed=0.25)
    assert one.estimate(np.array([1, 2])) == pytest.approx([0.1, 0.3])
    with pytest.raises(InvalidParameter, match="speed of 'host:1' is 0"):
        one.learn(slow, speed=0.0)


def test_one_timed_row_of_sixteen_is_one_observation():
    rng = np.random.default_rng(1)
    ids, costs = rng.integers(0, 5, 60), rng.exponential(1.0, 60)
    one, sixteen = CostModel().learn(report(ids, costs)), CostModel().learn(report(ids, costs, weight=16.0))
    assert sixteen.estimate(np.arange(6)) == pytest.approx(one.estimate(np.arange(6)))
    assert sixteen.rows == 60


def test_forgetting_and_rescaling():
    model = CostModel().learn(TWO_KEYS).forget(0.25)
    assert model.rows == 1.0
    assert model.mean_s == pytest.approx(0.2)
    assert model.rescale(3.0).mean_s == pytest.approx(0.6)
    assert model.forget(0.0).rows == 0.0
    for bad in (-0.1, 1.1, np.nan):
        with pytest.raises(InvalidParameter, match="factor"):
            model.forget(bad)
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(InvalidParameter, match="factor"):
            model.rescale(bad)


def test_a_copy_learns_on_its_own():
    model = CostModel().learn(TWO_KEYS)
    other = model.copy().learn(TWO_KEYS)
    assert (model.rows, other.rows) == (4, 8)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("field", ["counts", "sums_s", "squares"])
def test_moments_that_are_none_are_refused_and_change_nothing(bad, field):
    parts = {"ids": np.array([1, 2]), "counts": np.ones(2), "sums_s": np.ones(2), "squares": np.ones(2)}
    parts[field] = np.array([1.0, bad])
    broken = InstanceReport(4, "host:1", 2, 2.0, 0.0, 0.0, 0.0, 0.0, 0, **parts)
    model = CostModel().learn(TWO_KEYS)
    before = model.copy()
    with pytest.raises(InvalidCost, match=rf"{field}\[1\] in the report of instance 4 is {bad}"):
        model.learn(broken)
    assert model == before


def test_ids_that_are_not_sorted_are_refused():
    broken = InstanceReport(4, "host:1", 2, 2.0, 0.0, 0.0, 0.0, 0.0, 0, np.array([2, 1]), np.ones(2), np.ones(2), np.ones(2))
    with pytest.raises(InvalidCost, match="sorted ids"):
        CostModel().learn(broken)


def test_only_models_of_one_cost_key_merge():
    with pytest.raises(IncompatibleMerge, match=r"'user'.*'item'"):
        CostModel(("user",)).merge(CostModel(("item",)))
    with pytest.raises(IncompatibleMerge, match=r"user as int .* as bigint"):
        CostModel("user", types=["int"]).merge(CostModel("user", types=["bigint"]))
    assert CostModel("user").merge(CostModel("user", types=["bigint"])).types == ("bigint",)
    with pytest.raises(IncompatibleMerge, match="5 and 6 ids"):
        CostModel(capacity=5).merge(CostModel(capacity=6))


def test_parameters_out_of_range_are_named():
    for bad in (0, 16_385):
        with pytest.raises(InvalidParameter, match=str(bad)):
            CostModel(capacity=bad)
    for bad in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidParameter, match=f"half_life_rows.*{bad}"):
            CostModel(half_life_rows=bad)
    assert CostModel("user").expressions == ("user",)


def test_a_model_is_saved_and_loaded(tmp_path):
    model = CostModel(("user", "length(text)"), types=("string", "int"), half_life_rows=1e6).learn(TWO_KEYS)
    model.save(tmp_path / "costs.json")
    assert CostModel.load(tmp_path / "costs.json") == model == model.copy()
    assert CostModel.load(tmp_path / "costs.json").types == ("string", "int")
    assert json.loads((tmp_path / "costs.json").read_text())["expressions"] == ["user", "length(text)"]


def test_files_that_say_no_types_are_read():
    content = CostModel("user").learn(TWO_KEYS).content()
    del content["types"]
    model = CostModel.of_content(content)
    assert (model.types, model.rows) == ((), CostModel("user").learn(TWO_KEYS).rows)
    typed = model.typed(["int"])
    assert (model.types, typed.types, typed.typed(["bigint"]).types) == ((), ("int",), ("int",))


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "costs.json"
    good = CostModel(("user",)).learn(TWO_KEYS).to_json()
    for text in ("", "[]", "{}", good[:-20], good.replace('"user"', '"item"')):
        path.write_text(text)
        with pytest.raises(DamagedData, match=r"costs\.json"):
            CostModel.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DamagedData, match=r"costs\.json"):
        CostModel.load(path)
    with pytest.raises(NewerFormat, match="upgrade"):
        CostModel.from_json(good.replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(FileNotFoundError):
        CostModel.load(tmp_path / "none.json")


def test_ids_from_end_to_end_of_64_bits_are_known():
    ends = np.array([-(2**63), -1, 0, 2**63 - 1])
    model = CostModel().learn(report(np.repeat(ends, 2), np.repeat([1.0, 2.0, 3.0, 4.0], 2)))
    assert model.estimate(ends) == pytest.approx([1.0, 2.0, 3.0, 4.0])


def test_a_key_that_was_never_seen_is_estimated_as_the_keys_that_were_seen_once():
    frequent = np.repeat(np.arange(10), 50)
    rare = np.arange(1_000, 1_200)
    model = CostModel().learn(
        report(np.concatenate([frequent, rare]), np.concatenate([np.full(500, 0.01), np.full(200, 0.001)]))
    )
    assert model.mean_s > 0.005
    assert model.estimate(np.array([5, 99_999])) == pytest.approx([0.01, 0.001], rel=0.05)
