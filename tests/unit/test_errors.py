"""One tree of exceptions, each raised with the value that was refused."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from evenly import errors
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.universal import Universal
from evenly.sketches import CostSketch, SpaceSaving, UniversalHash, key_ids
from evenly.streams import normal, spread_costs, uniform, zipf

BUILTIN = {
    errors.InvalidParameter: ValueError,
    errors.InvalidKeys: TypeError,
    errors.InvalidCost: ValueError,
    errors.UnknownColumn: LookupError,
    errors.ColumnConflict: ValueError,
    errors.EmptyStream: ValueError,
    errors.FunctionFailed: RuntimeError,
    errors.SparkFailed: RuntimeError,
    errors.RowTooSlow: TimeoutError,
    errors.WorkerDied: RuntimeError,
    errors.MissingFile: FileNotFoundError,
    errors.UnreadableFile: OSError,
    errors.UnwritableFile: OSError,
    errors.IncompatibleMerge: ValueError,
    errors.DamagedData: ValueError,
    errors.NewerFormat: ValueError,
    errors.InvalidResult: ValueError,
    errors.MissingDependency: ImportError,
    errors.JavaNotFound: RuntimeError,
    errors.KeyTooHot: ValueError,
    errors.StreamingMismatch: ValueError,
    errors.UnsupportedSpark: RuntimeError,
    errors.WrongPython: RuntimeError,
    errors.LinkUnavailable: OSError,
    errors.SendFailed: RuntimeError,
    errors.DestinationFailed: ConnectionError,
    errors.QueueClosed: ValueError,
    errors.CheckpointMismatch: ValueError,
    errors.InvalidCheckpoint: ValueError,
    errors.ImmovableState: ValueError,
    errors.WaitsForItself: RuntimeError,
    errors.DidNotEnd: TimeoutError,
    errors.InvalidDataflow: ValueError,
    errors.InvalidModel: ValueError,
    errors.DoesNotFit: ValueError,
}


@pytest.mark.parametrize("error", BUILTIN)
def test_every_error_is_ours_and_the_builtin_of_its_kind(error):
    assert issubclass(error, errors.EvenlyError)
    assert issubclass(error, BUILTIN[error])
    assert str(error("what is wrong")).strip("'") == "what is wrong"


def test_no_error_is_left_out_of_the_table_above():
    defined = {member for _, member in inspect.getmembers(errors, inspect.isclass) if member.__module__ == errors.__name__}
    assert defined == {*BUILTIN, errors.EvenlyError}


OUT_OF_RANGE = [
    (UniversalHash, (0, -3, 2**31)),
    (SpaceSaving, (0, -1)),
    (lambda v: CostSketch(v, 55), (0, -1)),
    (lambda v: CostSketch(4, v), (0, -7)),
    (lambda v: CostSketch.for_precision(epsilon=v, delta=0.1), (0.0, 1.0, -0.5, math.nan)),
    (lambda v: CostSketch.for_precision(epsilon=0.1, delta=v), (0.0, 1.0, -0.5, math.nan)),
    (DKG, (0, -1, 10_001, 2.0, "4", True, None)),
    (lambda v: DKG(2, theta=v), (0.0, -0.1, 1.5, math.nan)),
    (lambda v: DKG(2, theta=0.1, epsilon=v), (0.0, 0.1, 0.2, -1.0, math.nan)),
    (lambda v: DKG(2, mu=v), (0.5, -2.0, math.inf, math.nan)),
    (DKG.automatic, (0, 10_001, 1.5)),
    (lambda v: DKG(2).mapping(v), (0, -1, 1.0)),
    (lambda v: ExactGreedy().mapping(v), (0, 10_001, "2")),
    (lambda v: Universal().mapping(v), (0, 10_001, False)),
    (lambda v: Modulo().mapping(v), (0, 10_001, 3.0)),
    (lambda v: OneInstance().mapping(v), (0, 10_001, None)),
    (zipf, (-1.0, math.inf, math.nan)),
    (lambda v: zipf(1.0, v), (0, -5)),
    (uniform, (0, -5)),
    (lambda v: normal(5.0, v), (0.0, -1.0, math.inf, math.nan)),
    (lambda v: normal(5.0, 1.0, v), (0, -5)),
    (lambda v: zipf(1.0, 10).draw(v, seed=1), (-1,)),
    (lambda v: spread_costs(v, seed=1), (0, -2)),
    (lambda v: spread_costs(10, values=v, seed=1), (0, 11)),
    (lambda v: spread_costs(100, least_ms=v, seed=1), (-1.0, 65.0, math.nan)),
    (lambda v: spread_costs(100, most_ms=v, seed=1), (0.5, math.inf, math.nan)),
]


@pytest.mark.parametrize(
    ("make", "value"),
    [pytest.param(make, value, id=f"{row}: {value!r}") for row, (make, values) in enumerate(OUT_OF_RANGE) for value in values],
)
def test_a_parameter_out_of_range_is_refused_by_its_value(make, value):
    with pytest.raises(errors.InvalidParameter) as refused:
        make(value)
    assert str(value) in str(refused.value)


FITS = {
    "SpaceSaving": SpaceSaving(3).update,
    "CostSketch": CostSketch().update,
    "DKG": DKG(2).fit,
    "ExactGreedy": ExactGreedy().fit,
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("bad", [-0.25, math.nan, math.inf, -math.inf])
def test_a_weight_or_cost_that_is_none_is_refused_by_its_place_and_value(fit, bad):
    with pytest.raises(errors.InvalidCost, match=rf"\[2\] is {bad}"):
        fit([1, 2, 3], [1.0, 2.0, bad])


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("weights", [[], [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 5.0])
def test_weights_that_do_not_fit_the_keys_are_refused(fit, weights):
    with pytest.raises(errors.InvalidCost, match="2 keys came with"):
        fit([1, 2], weights)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("keys", [[0.5], np.array([np.nan]), [1, "a"]], ids=["float", "nan", "mixed"])
def test_keys_of_a_wrong_kind_are_refused(fit, keys):
    with pytest.raises(errors.InvalidKeys):
        fit(keys, [1.0] * len(keys))


@pytest.mark.parametrize("make", [Universal, Modulo, OneInstance])
def test_groupings_with_different_seeds_are_not_merged(make):
    with pytest.raises(errors.IncompatibleMerge, match="3 and 4"):
        make(seed=3).merge(make(seed=4))


@pytest.mark.parametrize(
    "keys",
    [[2**63], ["\ud800"], 5, None, np.array([[1, 2], [3, 4]])],
    ids=["wide integer", "lone surrogate", "number", "none", "matrix"],
)
def test_keys_that_cannot_be_read_are_refused_too(keys):
    with pytest.raises(errors.InvalidKeys):
        UniversalHash(3)(key_ids(keys))


def test_a_weight_that_is_text_is_refused_too():
    with pytest.raises(errors.InvalidCost):
        SpaceSaving(3).update([1], ["heavy"])


@pytest.mark.parametrize("make", [SpaceSaving, UniversalHash])
def test_a_size_that_is_no_whole_number_is_refused_too(make):
    with pytest.raises(errors.InvalidParameter, match=r"2\.5"):
        make(2.5)
