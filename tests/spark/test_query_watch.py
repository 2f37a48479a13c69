"""The live page of a real query."""

import json
import urllib.request

import pytest
from visiting import INSTANCES, turned

import evenly
from waiting import until


@pytest.mark.usefixtures("rocksdb")
def test_a_query_is_watched_from_its_last_batches_on_and_over_a_change(visits):
    visits.add(files=2)
    query = evenly.stream_by_key(
        visits.stream(), visits.counts("user"), key="user", instances=INSTANCES, checkpoint=visits.checkpoint, query_name="seen"
    )
    query.processAllAvailable()
    with query.watch() as live:
        assert "iframe" in live._repr_html_()
        assert urllib.request.urlopen(live.url).status == 200
        query.change_mapping(turned(query.mapping), reason="to try it")
        visits.add()
        query.processAllAvailable()
        query.stop()

        def told():
            return [json.loads(entry.line) for entry in live.history.since(0)]

        until(lambda: told()[-1]["event"] == "end", "the end of the query is shown")
        facts = told()
    events = [fact["event"] for fact in facts]
    assert events[0] == "start"
    assert events.count("batch") >= 3
    assert "change" in events
    assert {fact["run"] for fact in facts} == {query.id}
    assert len({(fact["time"], fact["event"], fact.get("batch", {}).get("number")) for fact in facts}) == len(facts)
