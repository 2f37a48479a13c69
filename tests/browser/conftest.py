"""Every page that Evenly writes, made once, and one browser to look at them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command
import event_logs as made
from browsing import Browser
from evenly.cli.run_output import run_results
from evenly.diagnosis.keys import HeavyKey, KeysAt, KeysDiagnosis
from evenly.diagnosis.state import StateDiagnosis, checkpoint_diagnosis
from evenly.lab.papers.verdicts import number
from evenly.planning.observed.verdict import verdict
from evenly.report.comparison import Comparison, PlacedRun
from evenly.report.comparison_page import comparison_page
from evenly.report.diagnosis_page import checkpoint_page, keys_page
from evenly.report.figures import Bars, Curve, Curves, HeatMap, PaperFigure
from evenly.report.paper_page import Paper, paper_page
from evenly.report.run_page import run_page
from evenly.report.verdict_table import PaperVerdicts, verdict_page
from evenly.streams import zipf
from flow_batches import PLAN, batch, measured

LONG = "a_column_name_of_a_table_that_somebody_has_given_without_thinking_of_telephones"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    one = Browser(tmp_path_factory.mktemp("browser"))
    yield one
    one.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Files by the name of what wrote them."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        written = _of_commands(folder, patch)
    for name, text in _of_objects(str(folder)).items():
        written[name] = folder / f"{name}.html"
        written[name].write_text(text)
    return written


def _of_commands(folder, patch):
    keys, log = folder / f"{LONG}.parquet", folder / "app-1"
    pq.write_table(pa.table({LONG: zipf(1.0, 200).draw(4_000, seed=1), "cost": np.ones(4_000)}), keys)
    log.write_bytes(made.text(made.skewed_job(rows=(100, 110, 90, 200))))
    of_keys = (keys, "--key", LONG, "--instances", "4,16", "--grouping", "evenly,universal,w-choices")
    of_rows = (keys, "--key", LONG, "--cost", "cost", "--instances", "4", "--load", "50,100", "--grouping", "evenly,posg-c")
    commands = {
        "simulate keys": of_keys,
        "simulate shuffle": of_rows,
        "diagnose log": (log,),
        "plan": ("diamond", "--rate", "100", "--compare"),
    }
    written = {}
    for name, arguments in commands.items():
        written[name] = folder / f"{name}.html"
        assert command.run(patch, *name.split(), *arguments, "--page", written[name]) == 0, name
    assert command.run(patch, "paper", "model-driven", "--figure", "slots-micro", "--out", folder) == 0
    return {**written, "paper model-driven": folder / "model-driven.html"}


def _of_objects(source):
    by_hash = PlacedRun("hash", np.array([100, 100, 100, 300]), np.array([1.0, 1.1, 0.9, 3.0]), 3.1, 4.0)
    by_evenly = PlacedRun("evenly", np.array([150, 150, 151, 149]), np.array([1.5, 1.5, 1.6, 1.5]), 1.7, 2.4)
    compared = Comparison(by_hash, by_evenly, learning_s=0.3, least_imbalance_pct=0.0, same_results=True)
    drawn = [
        Curves(
            LONG, LONG, "λ", [Curve("dkg", (1, 10), (3, 4)), Curve("dkg", (1, 10), (5, 9), worst=True)], log_x=True, log_y=True
        ),
        Curves("b", "x", "y", [Curve(LONG, (1, 2), (3, 4)), Curve("b", (1,), (2,), published=True)], levels={LONG: 2.5}),
        Curves("c", "x", "y", [Curve("a", (1, 2), (3, 4))], x_names=("one of them", "two"), marks={"here": 1.5}),
        Bars("d", "s", 0.5, {"a": np.array([1.0, 1.1, 2.0]), "b": np.array([1.0])}, {"stated": 1.2}),
        HeatMap("e", "x", "y", (1, 2), (1, 2), np.array([[1.0, 2.0], [3.0, 4.0]])),
    ]
    stated = number(LONG, LONG, published=2.0, measured=1.0, within_pct=20.0, neutral=1.0, why=LONG)
    figure = PaperFigure("2", LONG, drawn, verdicts=[stated.row()], table=[(LONG, LONG, "b"), ("1", "2", "3")])
    papers = [PaperVerdicts("x", LONG, f"evenly paper {LONG}", [figure])]
    at = KeysAt((LONG,), 4, (100, 400, 50, 50), (150, 150, 150, 150), 0.1)
    keys = KeysDiagnosis((LONG,), 600, 30, (HeavyKey("</script><script>alert(1)", 60, 0.1),), (at,))
    table = [("instances", "hash λ", "Evenly λ", "least λ", "verdict"), ("4", "166.7 %", "0.0 %", "0.0 %", "by_key")]
    state = checkpoint_diagnosis("/data/c", [StateDiagnosis(0, LONG, "default", 7, (900, *([20] * 199)))], ())
    batches = [batch(at, 1_000, 1.0 + at / 40, measured(LONG, 1_000, 0.5), completion_s=1.5) for at in range(64)]
    judged = verdict(batches, PLAN, trigger_s=2.0)
    results = run_results(batches, judged, (), None, {})
    return {
        "demo": comparison_page(compared, rows=600, wait_us=5.0),
        "paper figures": paper_page(Paper(LONG, LONG, 2, 0, 1.0, LONG, LONG), [figure]),
        "paper all": verdict_page(papers, "evenly paper all"),
        "diagnose keys": keys_page(f"{source} <b>", keys, table),
        "diagnose checkpoint": checkpoint_page(state, table),
        "run": run_page(LONG, batches, judged, [LONG], None, numbers=results),
    }
