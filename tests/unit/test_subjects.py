"""A performance model knows what it was measured of: it is not taken for another operator of the same name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evenly.dataflow.builder import Flow
from evenly.dataflow.subjects import Subject, subject_of
from evenly.errors import InvalidModel
from evenly.planning.micro_batches import CurvePoint, EngineCosts, MeasuredEdge, SlotCurve, SparkModels, plan_on_spark
from evenly.planning.model_files import models_yaml, read_spark_models


def parse(row):
    return row


def other(row):
    return row, row


class Kept:
    def __call__(self, row):
        return row


def flow_of(function, *, kind="row", where="", model="", name="flow", schema="id long", takes="id  long"):
    flow = Flow(name)
    rows = flow.source("s", format="parquet", path="/x", schema=takes)
    rows = rows.where(where) if where else rows
    made = getattr(rows, kind)(function, name="work", schema=schema, model=model)
    made.sink("k", format="noop")
    return flow.dataflow()


def measured(flow, where=""):
    one = flow.by_name["work"]
    curve = SlotCurve(one.model_name, (CurvePoint(1, 100.0),), of=subject_of(flow, one))
    return SparkModels(EngineCosts(2), {curve.name: curve}, {flow.name: {("s", "work"): MeasuredEdge(0.5, where)}})


def plan(flow, models):
    return plan_on_spark(flow, models, rate=10.0, slots=2, trigger_s=5.0)


def test_what_was_measured_is_planned_without_doubt():
    assert plan(flow_of(parse), measured(flow_of(parse))).doubts == ()
    assert subject_of(flow_of(parse), flow_of(parse).by_name["work"]).code
    assert subject_of(flow_of(Kept()), flow_of(Kept()).by_name["work"]).function.endswith(":Kept")


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (flow_of(other), "measured of the function .*:parse, and it has .*:other"),
        (flow_of(parse, kind="batch"), "measured of kind row, and it is of kind batch"),
        (flow_of("no_such_module:parse"), "and it has no_such_module:parse"),
        (flow_of(parse, where="id > 3"), "s -> work was measured without a condition, and is taken where id > 3 now"),
    ],
)
def test_a_model_of_another_operator_or_edge_is_refused_with_the_remedy(now, told):
    with pytest.raises(InvalidModel, match=told) as error:
        plan(now, measured(flow_of(parse)))
    assert "evenly profile FLOW --on spark" in str(error.value)


def test_two_functions_without_a_name_of_their_own_are_told_apart_by_their_code():
    first, second = (lambda row: row), (lambda row: None)  # noqa: ARG005 - functions of one name
    with pytest.raises(InvalidModel, match="of another"):
        plan(flow_of(second), measured(flow_of(first)))


def test_a_model_that_a_description_names_is_taken_and_the_plan_says_of_what_it_is():
    known = measured(flow_of(parse, model="shared"))
    assert plan(flow_of(parse, model="shared"), known).doubts == ()
    (doubt,) = plan(flow_of(other, model="shared"), known).doubts
    assert re.search("'shared', which 'work' names, was measured of the function .*parse", doubt)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"code": "00"}, "the code of .* has changed"),
        ({"schema": "id string"}, "it gives 'id long' in place of 'id string'"),
        ({"takes": "id long, x long"}, "it takes 'id long' in place of"),
        (None, "does not say what it was measured of"),
    ],
)
def test_what_has_changed_since_is_said(change, told):
    known = measured(flow_of(parse))
    curve = known.curves["work"]
    older = replace(curve, of=None if change is None else replace(curve.of, **change))
    (doubt,) = plan(flow_of(parse), replace(known, curves={"work": older})).doubts
    assert re.search(told, doubt)
    assert "evenly profile" in doubt


def test_an_edge_that_was_never_measured_is_said():
    known = replace(measured(flow_of(parse)), edges={})
    assert plan(flow_of(parse), known).doubts == ()  # all that a source has
    (doubt,) = plan(flow_of(parse, where="id > 3"), known).doubts
    assert "the rows of s -> work where id > 3 were not measured, and are taken to be 1" in doubt
    unknown = measured(flow_of(parse), None)
    (doubt,) = plan(flow_of(parse, where="id > 3"), unknown).doubts
    assert "nobody knows whether where id > 3" in doubt


def test_code_that_cannot_be_looked_at_is_a_doubt_and_no_error():
    known = measured(flow_of("no_such_module:parse"))
    assert plan(flow_of("no_such_module:parse"), known).doubts == ()
    curve = known.curves["work"]
    seen = replace(known, curves={"work": replace(curve, of=replace(curve.of, code="1234"))})
    (doubt,) = plan(flow_of("no_such_module:parse"), seen).doubts
    assert "not to be had here" in doubt


def test_a_file_keeps_what_was_measured(tmp_path):
    known = measured(flow_of(parse, where="id > 3 and `a.b` = 'x: y'"), "id > 3 and `a.b` = 'x: y'")
    digits = replace(known.curves["work"], of=Subject("row", "m:f", "1234567890123456", takes="id long"))
    known = replace(known, curves={"work": digits})
    path = tmp_path / "models.yaml"
    path.write_text(models_yaml([], known))
    assert read_spark_models(path) == known


def test_measuring_into_a_file_does_not_lose_another_operators_model():
    known = measured(flow_of(parse))
    known.check_replaced(flow_of(parse))
    with pytest.raises(InvalidModel, match=r"there is a model 'work' already, measured of the function .*parse"):
        known.check_replaced(flow_of(other))
