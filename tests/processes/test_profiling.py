"""Profiling: the search on made-up operators, and the real thing at a small scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from command import run
from evenly.dataflow import Dataflow, Edge, Operator
from evenly.errors import DamagedData, InvalidParameter
from evenly.lab.slots.operators import OperatorSpec
from evenly.lab.slots.run import run_plan
from evenly.lab.slots.trials import SlotTrials, TrialOptions
from evenly.planning import Assumptions, Models, PerformanceModel, Point, plan, read_models, shipped_models
from evenly.planning.examples import BatchFileWrite, BlobDownload, Pi, TableLookup, XmlParse
from evenly.planning.machines import Catalogue, MachineSize
from evenly.planning.profiling.search import SearchOptions, SlotTrial, flat_or_falling, model_of, profile_threads, thread_counts
from evenly.planning.profiling.trial_log import TrialLog


class Made:
    """An operator whose peak rates are known, and that counts trials."""

    def __init__(self, peak):
        self.peak = peak
        self.trials = []

    def __call__(self, threads, rate):
        self.trials.append((threads, rate))
        return SlotTrial(threads, rate, rate <= self.peak(threads), 50.0, 5.0)


@pytest.mark.parametrize("first", [0.5, 10.0, 5_000.0])
@pytest.mark.parametrize("precision", [0.01, 0.2])
def test_the_peak_is_bracketed(first, precision):
    made = Made(lambda threads: 100.0 * min(threads, 4))
    peaks = list(profile_threads(made, SearchOptions(first_rate=first, precision=precision, most_threads=9)))
    for one in peaks:
        peak = 100.0 * min(one.threads, 4)
        assert one.stable
        assert peak * (1.0 - precision) - 1e-9 <= one.rate <= peak


def test_threads_stop_when_the_rate_is_flat_or_falls():
    flat = list(profile_threads(Made(lambda threads: 10.0 * min(threads, 4)), SearchOptions(precision=0.01)))
    assert [one.threads for one in flat] == [1, 2, 3, 4, 6, 9]
    falling = list(profile_threads(Made(lambda threads: 300.0 - 10.0 * threads), SearchOptions(precision=0.01)))
    assert [one.threads for one in falling] == [1, 2, 3]
    rising = list(profile_threads(Made(lambda threads: 10.0 * threads), SearchOptions(precision=0.01, most_threads=20)))
    assert [one.threads for one in rising] == [1, 2, 3, 4, 6, 9, 13, 19]


def test_steps_are_the_papers():
    made = Made(lambda _: 35.0)
    (peak,) = profile_threads(made, SearchOptions(rate_step=10.0, most_threads=1))
    assert peak.rate == 30.0
    assert [rate for _, rate in made.trials] == [10.0, 20.0, 30.0, 40.0]
    assert list(thread_counts(SearchOptions(thread_step=5, most_threads=12))) == [1, 6, 11]
    with pytest.raises(InvalidParameter, match="even 50 tuples/s are not stable with 1 threads"):
        list(profile_threads(made, SearchOptions(rate_step=50.0)))


def test_bisecting_needs_fewer_trials_than_steps():
    bisected, stepped = Made(lambda _: 997.0), Made(lambda _: 997.0)
    list(profile_threads(bisected, SearchOptions(most_threads=1, precision=0.01)))
    list(profile_threads(stepped, SearchOptions(most_threads=1, rate_step=10.0)))
    assert len(bisected.trials) < len(stepped.trials) / 4


def test_an_operator_that_carries_nothing_or_anything_ends_the_search():
    with pytest.raises(InvalidParameter, match="no rate down to"):
        list(profile_threads(Made(lambda _: 0.0)))
    (peak,) = profile_threads(Made(lambda _: 1e12), SearchOptions(most_threads=1, most_rate=1_000.0))
    assert 500.0 < peak.rate <= 1_000.0


@pytest.mark.parametrize(
    "options",
    [{"precision": 0.0}, {"rate_step": -1.0}, {"thread_step": 0}, {"most_threads": 0}, {"window": 1}, {"first_rate": 0}],
)
def test_search_options_are_checked(options):
    with pytest.raises(InvalidParameter, match=str(next(iter(options.values())))):
        SearchOptions(**options)


@pytest.mark.parametrize("options", [{"seconds": 0}, {"warm_up": 0.95}, {"slope": 0.0}, {"memory_mib": 3}])
def test_trial_options_are_checked(options):
    with pytest.raises(InvalidParameter, match=str(next(iter(options.values())))):
        TrialOptions(**options)


def test_flat_looks_at_the_last_few_only():
    how = SearchOptions(window=3, flat=0.02)
    assert not flat_or_falling([10.0, 10.0], how)
    assert flat_or_falling([10.0, 10.0, 10.0], how)
    assert not flat_or_falling([10.0, 10.0, 10.0, 12.0], how)
    assert flat_or_falling([1.0, 10.0, 9.0, 8.0], how)


def test_an_interrupted_search_goes_on_from_its_log(tmp_path):
    path = tmp_path / "trials"
    made = Made(lambda _: 100.0)
    search = profile_threads(TrialLog(path, "key").wrap(made), SearchOptions(most_threads=3))
    next(search)
    before = len(made.trials)
    again = Made(lambda _: 100.0)
    log = TrialLog(path, "key")
    assert log.known == before
    peaks = list(profile_threads(log.wrap(again), SearchOptions(most_threads=3)))
    assert len(peaks) == 3
    assert {threads for threads, _ in again.trials} == {2, 3}
    assert TrialLog(path, "another key").known == 0
    assert not path.exists()
    path.write_text("no log")
    with pytest.raises(DamagedData, match="remove it to begin anew"):
        TrialLog(path, "key")


def test_the_model_of_the_peaks_has_their_numbers():
    peaks = [
        SlotTrial(1, 10.0, stable=True, cpu_pct=120.0, mem_pct=5.0),
        SlotTrial(2, 20.0, stable=True, cpu_pct=60.0, mem_pct=6.0),
    ]
    assert model_of("x", peaks).points == (Point(1, 10.0, 100.0, 5.0), Point(2, 20.0, 60.0, 6.0))


@pytest.mark.parametrize(
    "target", ["evenly", "evenly:", ":x", "no.such.module:f", "evenly.planning.examples:none", "evenly:__version__"]
)
def test_an_operator_that_is_none_is_refused(target):
    with pytest.raises(InvalidParameter):
        OperatorSpec(target).load()


def test_the_examples_do_what_they_say():
    assert XmlParse(books=3)(1) == 1 + 3 * 4
    assert Pi(terms=20, times=1)(1) == pytest.approx(3.14159265, abs=1e-6)
    writer = BatchFileWrite(window=3)
    assert [writer(number) for number in range(4)] == [0, 0, 3, 0]
    assert writer.path.stat().st_size == 300
    writer.close()
    with BlobDownload.serve(latency_ms=0.0, size=500) as options:
        blob, table = BlobDownload(**options), TableLookup(**options)
        assert len(blob(7)) == 500
        assert table(7).startswith(b"row 7 row 7")
        blob.close()
        table.close()


def test_an_operator_that_fails_says_so():
    options = TrialOptions(seconds=0.5)
    with SlotTrials(OperatorSpec("json:loads"), options) as trials, pytest.raises(InvalidParameter, match="TypeError"):
        trials.run(1, 20.0)
    with pytest.raises(InvalidParameter, match="with block"):
        SlotTrials(OperatorSpec("json:loads"), options).run(1, 1.0)


SMALL = ("--seconds", "0.4", "--precision", "0.5", "--most-threads", "2", "--slope", "0.5", "--first-rate", "20")


@pytest.mark.parametrize("name", ["XmlParse", "Pi", "BatchFileWrite", "BlobDownload", "TableLookup"])
def test_the_examples_are_profiled_for_real(monkeypatch, capsys, tmp_path, name):
    out, picture = tmp_path / "models.yaml", tmp_path / "model.svg"
    target = f"evenly.planning.examples:{name}"
    assert run(monkeypatch, "profile", target, "--out", str(out), "--picture", str(picture), "--json", *SMALL) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [row["threads"] for row in rows] == [1, 2]
    assert all(row["rate"] > 0.0 and 0.0 <= row["cpu_pct"] <= 100.0 for row in rows)
    model = read_models(out)[name]
    assert [point.rate for point in model.points] == [row["rate"] for row in rows]
    assert picture.read_text().startswith("<svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.svg", "models.yaml"]


def test_a_plan_is_run_for_real_with_its_threads_and_slots():
    slow = PerformanceModel("slow", (Point(1, 20.0, 30.0, 1.0), Point(2, 40.0, 40.0, 1.0)))
    models = Models([*shipped_models().values(), slow])
    operators = [Operator(name, "slow", function="evenly.planning.examples:Pi") for name in "ab"]
    ends = (Operator("source", kind="source"), *operators, Operator("sink", kind="sink"))
    flow = Dataflow("two", ends, (Edge("source", "a"), Edge("a", "b", 0.5), Edge("b", "sink")))
    here = Catalogue((MachineSize("here", max(2, os.cpu_count() or 1)),))
    made = plan(flow, models, 30.0, machines=here, assumptions=Assumptions("slot-aware"))
    found = run_plan(made, seconds=4.0)
    assert not found.aborted
    assert found.observed_rate == pytest.approx(30.0, rel=0.3)
    assert len(found.cpu_pct) == made.placement.slots
    assert found.completion_ms_p99 >= found.completion_ms_mean > 0.0


def test_a_plan_without_functions_is_not_run():
    made = plan(
        Dataflow(
            "none",
            (Operator("source", kind="source"), Operator("a", "pi"), Operator("sink", kind="sink")),
            (Edge("source", "a"), Edge("a", "sink")),
        ),
        shipped_models(),
        10.0,
    )
    with pytest.raises(InvalidParameter, match="'a' has no function to run"):
        run_plan(made)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["evenly.planning.examples:Nothing", "--out", "m.yaml"], "cannot be loaded"),
        (["fractions:Fraction", "--out", "m.yaml"], "the class fractions:Fraction has no method __call__"),
        (["evenly.planning.examples:Pi", "--out", "no/such/folder/m.yaml"], "--out must name a file in a folder that exists"),
        (["evenly.planning.examples:Pi", "--out", "m.yaml", "--repeat", "0"], "--repeat must be from 1 to 50, got 0"),
        (["evenly.planning.examples:Pi", "--out", "m.yaml", "--precision", "2"], "precision must be from 0.005 to 0.5, got 2"),
    ],
)
def test_a_bad_option_gives_one_sentence(monkeypatch, capsys, tmp_path, options, said):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "profile", *options) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_the_installed_command_finds_a_module_in_the_folder_where_it_is_run(tmp_path):
    (tmp_path / "mine.py").write_text("def work(number):\n    return number\n", encoding="utf-8")
    # As the script that pip makes: its folder is the first place to look for modules, not the user's.
    start = "import sys; sys.path[0] = '/nowhere'; from evenly.cli.main import main; sys.exit(main())"
    options = ["--out", "m.yaml", "--seconds", "0.1", "--most-threads", "1"]
    done = subprocess.run(
        [sys.executable, "-c", start, "profile", "mine:work", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "work" in read_models(tmp_path / "m.yaml")
