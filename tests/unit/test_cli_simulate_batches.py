"""`evenly simulate batches` on a user's own file, and the comparison behind it."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenly.cli.main import main
from evenly.errors import EmptyStream, InvalidCost, InvalidParameter
from evenly.lab.simulation.batch_comparison import compare_batches

ROWS = 4_000


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 60, ROWS)
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    pq.write_table(pa.table({"host": keys, "ms": rng.exponential(100.0, 60)[keys], "name": ["a"] * ROWS}), path)
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["evenly", "simulate", "batches", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return stopped.value.code, printed.out, " ".join(printed.err.split())

    return run


def test_json_has_every_scheduler_and_number_of_instances(run, file):
    code, out, _ = run(file, "--key", "host", "--cost", "ms", "--instances", "4,8", "--batch-rows", "800", "--json")
    assert code == 0
    printed = json.loads(out)
    assert printed["command"] == "simulate batches"
    assert printed["parameters"]["batch_rows"] == 800
    by = {(row["scheduler"], row["instances"]): row for row in printed["results"]}
    assert by.keys() == {(name, count) for name in ("by-cost", "repartition") for count in (4, 8)}
    for count in (4, 8):
        ours, even = by["by-cost", count], by["repartition", count]
        assert (even["ratio"], even["speedup_mean"], even["by_cost_batches"]) == (1.0, 1.0, 0)
        assert (ours["batches"], ours["by_cost_batches"], ours["baseline"]) == (5, 4, "repartition")
        assert ours["bound_s"] < ours["seconds"] < even["seconds"]
        assert ours["speedup_mean"] > 1.3


def test_people_get_a_table_and_ones_own_is_in_it(run, file, tmp_path, monkeypatch):
    own = "from evenly.lab.simulation.batches import EvenScheduler\nclass Mine(EvenScheduler):\n    pass\n"
    (tmp_path / "own_batches.py").write_text(own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    options = ("--key", "host", "--cost", "ms", "--instances", "4", "--scheduler", "by-cost,own_batches:Mine")
    code, out, _ = run(file, *options)
    assert code == 0
    shown = " ".join(out.split())
    assert "own_batches:Mine 4 2 0" in shown
    assert "S_L: mean of repartition(k) over this mean" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cost", "nothing"], "has no column 'nothing'"),
        (["--cost", "name"], "--cost must name a column of numbers, and 'name' has type string"),
        (["--cost", "ms", "--unit", "h"], "--unit must be one of s, ms, us, ns, got 'h'"),
        (["--cost", "ms", "--scheduler", "best"], "there is no scheduler of batches 'best': choose from by-cost, repartition"),
        (["--cost", "ms", "--scheduler", "evenly:by_key"], "evenly:by_key"),
        (["--cost", "ms", "--objective", "soon"], "--objective must be one of completion, batch-time, arrival, got 'soon'"),
        (["--cost", "ms", "--batch-rows", "0"], "batch_rows must be a whole number"),
        (["--cost", "ms", "--parts", "0"], "parts must be a whole number"),
    ],
)
def test_a_bad_option_gives_one_sentence(run, file, options, said):
    code, out, err = run(file, "--key", "host", *options)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_rows_that_cannot_be_are_refused():
    options = {"schedulers": ["by-cost"], "instances": [2], "batch_rows": 10}
    for keys, costs, error in (([], [], EmptyStream), ([1], [0.0], EmptyStream), ([1], [-1.0], InvalidCost)):
        with pytest.raises(error):
            compare_batches(keys, costs, **options)
    with pytest.raises(InvalidParameter, match="got 0"):
        compare_batches([1], [1.0], **{**options, "instances": [0]})
