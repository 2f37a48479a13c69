"""`evenly simulate keys` on a user's own file."""

from __future__ import annotations

import json
from functools import partial

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from command import told
from evenly.streams import zipf
from page_texts import runs_nothing

ROWS = 6_000


@pytest.fixture(scope="module")
def table():
    users = [f"user {key}" for key in zipf(1.2, 300).draw(ROWS, seed=1)]
    numbers = list(range(ROWS))
    return pa.table({"user": users, "id": numbers, "cost": [1.0 + n % 3 for n in numbers], "share": [0.5] * ROWS})


@pytest.fixture(scope="module", params=["parquet", "csv"])
def file(request, table, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / f"rows.{request.param}"
    pq.write_table(table, path) if request.param == "parquet" else pa_csv.write_csv(table, path)
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    return partial(told, monkeypatch, capsys, "simulate", "keys")


def test_json_has_both_fits_of_every_grouping_and_number_of_instances(run, file):
    code, out, _ = run(
        file, "--key", "user", "--json", "--instances", "2,8", "--grouping", "evenly,universal", "--grouping", "pkg"
    )
    assert code == 0
    printed = json.loads(out)
    assert printed["command"] == "simulate keys"
    assert printed["parameters"]["instances"] == [2, 8]
    results = printed["results"]
    assert len(results) == 3 * 2 * 2
    fields = {"grouping", "instances", "series", "imbalance_pct_mean", "sigma_mean", "least_imbalance_pct", "memory_bytes"}
    assert all(fields | {"mapping_bytes", "moved_load_pct", "needs_merge"} == row.keys() for row in results)
    by = {(row["grouping"], row["instances"], row["series"]): row["imbalance_pct_mean"] for row in results}
    assert by["evenly", 2, "fitted on the evaluated part"] < 1.0
    assert by["evenly", 8, "fitted on the first part"] < by["universal", 8, "fitted on the first part"]


def test_parquet_and_csv_give_the_same_answer(run, table, tmp_path):
    pq.write_table(table, tmp_path / "a.parquet")
    pa_csv.write_csv(table, tmp_path / "a.csv")
    for key in ("user", "id"):
        parquet, csv = (
            json.loads(run(tmp_path / name, "--key", key, "--json", "--instances", "4")[1])["results"]
            for name in ("a.parquet", "a.csv")
        )
        assert parquet == csv


def test_a_weight_column_changes_the_load(run, file):
    options = ("--key", "user", "--json", "--instances", "8", "--grouping", "o-apx")
    plain, weighted = (json.loads(run(file, *options, *more)[1])["results"] for more in ((), ("--weight", "cost")))
    assert plain[0]["sigma_mean"] != weighted[0]["sigma_mean"]


def test_people_get_a_table_and_a_page(run, file, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = run(file, "--key", "user", "--page", page, "--grouping", "evenly,w-choices")
    assert code == 0
    shown = " ".join(out.split())
    assert "evenly" in shown
    assert "merged afterwards" in shown
    text = page.read_text()
    assert "<svg" in text
    assert "w-choices *" in text
    assert runs_nothing(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--key", "nobody"], "has no column 'nobody': it has user, id, cost, share"),
        (["--key", "share"], "keys of type double have no stable id"),
        (["--key", "user", "--grouping", "best"], "there is no grouping 'best': choose from evenly, dkg"),
        (["--key", "user", "--instances", "4,x"], "--instances must be whole numbers with commas between, such as 4,8,16"),
        (["--key", "user", "--instances", ""], "--instances must be whole numbers"),
        (["--key", "user", "--instances", "0"], "instances must be a whole number from 1 to 10000, got 0"),
        (["--key", "user", "--fit-share", "0"], "must be above 0 and below 1, got 0.0"),
        (["--key", "user", "--fit-share", "nan"], "must be above 0 and below 1, got nan"),
        (["--key", "user", "--weight", "user"], "--weight must name a column of numbers, and 'user' has type string"),
        (["--key", "user", "--weight", "nothing"], "has no column 'nothing'"),
        (
            ["--key", "user", "--page", "no/such/folder/p.html"],
            "--page must name a file in a folder that exists, got no/such/folder/p.html",
        ),
    ],
)
def test_a_bad_option_gives_one_sentence(run, file, options, said):
    code, out, err = run(file, *options)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["none.parquet", "none.csv"])
def test_a_file_that_is_not_there(run, tmp_path, name):
    code, _, err = run(tmp_path / name, "--key", "user")
    assert code == 2
    assert "is not a file" in err


@pytest.mark.parametrize("name", ["broken.parquet", "broken.csv"])
def test_a_file_that_cannot_be_read(run, tmp_path, name):
    (tmp_path / name).write_bytes(b"" if name.endswith("csv") else b"nothing of the kind")
    code, _, err = run(tmp_path / name, "--key", "user")
    assert code == 2
    assert "damaged" in err


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_with_too_few_rows(run, table, tmp_path, rows, suffix):
    path = tmp_path / f"few.{suffix}"
    pq.write_table(table.slice(0, rows), path) if suffix == "parquet" else pa_csv.write_csv(table.slice(0, rows), path)
    code, _, err = run(path, "--key", "user")
    assert code == 2
    assert ("has no rows" if rows == 0 else "cannot be cut") in err


def test_a_null_weight_is_refused(run, tmp_path):
    pq.write_table(pa.table({"k": ["a", "b", "c"], "w": [1.0, None, 2.0]}), tmp_path / "w.parquet")
    code, _, err = run(tmp_path / "w.parquet", "--key", "k", "--weight", "w", "--fit-share", "0.5")
    assert code == 2
    assert "weights[1] is nan" in err
