"""POSG's states and messages by example, and what its machines and the default scheduler's refuse."""

from __future__ import annotations

import numpy as np
import pytest

from evenly.errors import InvalidCost, InvalidParameter
from evenly.lab.rivals.shuffle.posg import POSG, InstanceState, PosgState
from evenly.lab.rivals.shuffle.posg_messages import Matrices, SyncReply, SyncRequest
from evenly.lab.rivals.shuffle.virtual_finish import Correction, Report, VirtualFinish


def reporting(k: int = 2, **options) -> tuple[POSG, list[Matrices]]:
    """A scheduler, and matrices of each of its instances after 2 windows of one tuple."""
    scheduler = POSG(k, reading="c", window=1, **options)
    said = []
    for i in range(k):
        instance = scheduler.instance(i)
        assert instance.execute([7], 4.0, 4.0) == []
        assert instance.state is InstanceState.STABILIZING
        said += instance.execute([7], 4.0 + i, 9.0)
        assert instance.state is InstanceState.START
    return scheduler, said


def test_the_schedulers_states_in_the_order_of_figure_3():
    scheduler, matrices = reporting()
    assert scheduler.route([1, 1, 1], 0.0).tolist() == [0, 1, 0]
    scheduler.receive(matrices[0])
    assert scheduler.state is PosgState.ROUND_ROBIN
    scheduler.receive(matrices[1])
    assert scheduler.state is PosgState.SEND_ALL
    assert scheduler.route([7], 0.0).tolist() == [0]
    assert scheduler.requests == [(0, SyncRequest(1, 4.0))]
    assert scheduler.route([7], 0.0).tolist() == [1]
    assert scheduler.requests == [(0, SyncRequest(1, 4.5))]
    assert scheduler.state is PosgState.WAIT_ALL
    assert scheduler.route([7, 7], 0.0).tolist() == [0, 1], "as in RUN while replies are awaited"
    scheduler.receive(SyncReply(0, 1, 100.0))
    assert scheduler.sent_ms.tolist() == [8.0, 9.0], "replies are applied together"
    scheduler.receive(SyncReply(0, 1, 100.0))
    scheduler.receive(SyncReply(1, 0, 5.0))
    assert scheduler.state is PosgState.WAIT_ALL, "a doubled reply and one of another epoch do not count"
    scheduler.receive(SyncReply(1, 1, 1.0))
    assert scheduler.state is PosgState.RUN
    assert scheduler.sent_ms.tolist() == [108.0, 10.0]
    scheduler.receive(SyncReply(1, 1, 1.0))
    assert scheduler.sent_ms.tolist() == [108.0, 10.0]
    assert scheduler.route([7] * 3, 0.0).tolist() == [1, 1, 1]
    scheduler.receive(matrices[0])
    assert scheduler.state is PosgState.RUN, "matrices that came before are not news"
    scheduler.receive(Matrices(0, 2, matrices[0].cells))
    assert scheduler.state is PosgState.SEND_ALL


def test_an_instance_answers_by_its_reading():
    for reading, account in (("a", 7.0), ("b", 50.0)):
        instance = POSG(1, reading=reading).instance(0)
        instance.execute([1], 3.0, 10.0)
        assert instance.execute([1], 4.0, 50.0, [(0, SyncRequest(3, 2.0))]) == [SyncReply(0, 3, account - 2.0)]


def test_equation_1_passes_over_empty_cells_and_waits_for_stability():
    instance = POSG(1, reading="a", window=2, tolerance=0.05).instance(0)
    costs = [10.0, 10.0, 20.0, 20.0, 15.0, 15.0]
    said = [instance.execute([1], cost, 0.0) for cost in costs]
    assert [len(messages) for messages in said] == [0, 0, 0, 0, 0, 1], "10 to 15 is too much, 15 to 15 is stable"


@pytest.mark.parametrize("make", [POSG, VirtualFinish])
def test_bad_parameters_and_costs_are_refused(make):
    for instances in (0, -1, 1.5):
        with pytest.raises(InvalidParameter):
            make(instances)
    with pytest.raises(InvalidParameter):
        make(2, window=0)
    with pytest.raises(InvalidParameter):
        make(2).instance(2)
    extra = (np.array([np.nan, 0.0, 0.0]),) if make is VirtualFinish else ()
    for cost in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidCost):
            make(2).instance(0).execute([1], cost, 1.0, *extra)


def test_bad_options_of_each_are_refused():
    for options in ({"reading": "d"}, {"tolerance": -0.1}, {"tolerance": np.nan}, {"patience": 0}):
        with pytest.raises(InvalidParameter):
            POSG(2, **options)
    for options in ({"theta": -1.0}, {"theta": np.nan}, {"estimator": "guess"}, {"latency_ms": [1.0]}, {"first_report": 0}):
        with pytest.raises(InvalidParameter):
            VirtualFinish(2, **options)
    with pytest.raises(InvalidParameter):
        POSG(2).receive(SyncReply(2, 1, 0.0))


def test_messages_and_tuples_that_cannot_be_are_refused():
    scheduler = VirtualFinish(2, schedulers=2)
    ticket = np.array([[np.nan, 0.0, 0.0]])
    with pytest.raises(InvalidParameter, match="no scheduler 2"):
        scheduler.instance(0).execute([1], 1.0, 1.0, ticket, 2)
    with pytest.raises(InvalidParameter, match="2 tuples came with 1 tickets"):
        scheduler.instance(0).execute([1, 1], [1.0, 1.0], [1.0, 2.0], ticket)
    with pytest.raises(InvalidCost, match="each of 2 tuples must have a cost"):
        scheduler.instance(0).execute([1, 1], 1.0, [1.0, 2.0], np.repeat(ticket, 2, axis=0))
    with pytest.raises(InvalidCost):
        scheduler.receive(Correction(0, 1, np.nan))
    with pytest.raises(InvalidParameter, match="no instance 2"):
        scheduler.receive(Correction(2, 1, 0.0))
    report = VirtualFinish(2, first_report=1).instance(0).execute([1], 1.0, 1.0, ticket)[0]
    assert isinstance(report, Report)
    with pytest.raises(InvalidParameter, match="a report to 1 schedulers came to one of 2"):
        scheduler.receive(report)
    with pytest.raises(InvalidParameter):
        VirtualFinish(2, schedulers=2, index=2)
