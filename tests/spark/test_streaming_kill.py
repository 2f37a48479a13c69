"""A driver killed with SIGKILL between batches and in the midst of changes: the results are those of an undisturbed run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

DRIVER = Path(__file__).with_name("killed_driver.py")
STEPS = {
    "window": ("written", "proposed", "enforced"),
    "moved": ("exchanged", "moved", "enforced"),
    "states": ("written", "moved"),
}


def stage(folder, files):
    """Files of one visit a second, of skewed users, some of them without a name."""
    for name in ("staged", "in", "out"):
        (folder / name).mkdir()
    rng = np.random.default_rng(3)
    parts = []
    for part in range(files):
        second = pd.Series(np.arange(part * 700, (part + 1) * 700))
        user = [f"u{int(50**it)}" if it < 0.97 else None for it in rng.random(second.size)]
        ts = (pd.Timestamp("1970-01-01 10:00", tz="UTC") + pd.to_timedelta(second, "s")).astype("datetime64[us, UTC]")
        parts.append(pd.DataFrame({"user": user, "ts": ts}))
        parts[-1].to_parquet(folder / "staged" / f"{part}.parquet")
    return pd.concat(parts)


def drive(folder, kind, step):
    command = [sys.executable, str(DRIVER), str(folder), kind, step]
    # A driver that lives for seconds is not worth optimised machine code.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, capture_output=True, text=True, timeout=900, start_new_session=True, env=environment)


def last_counts(folder, keys):
    batches = pd.concat([pd.read_parquet(path) for path in (folder / "out").glob("*.parquet")])
    return batches.groupby(keys, dropna=False)["count"].max().to_dict()


@pytest.mark.parametrize("kind", ["window", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("moved", "states"))])
def test_a_killed_driver_goes_on_as_if_nothing_had_happened(tmp_path, kind):
    rows = stage(tmp_path, len(STEPS[kind]) + 4)
    for step in STEPS[kind]:
        run = drive(tmp_path, kind, step)
        assert run.returncode == -signal.SIGKILL, run.stderr
        assert f"killed at {step}" in run.stdout
    run = drive(tmp_path, kind, "none")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.splitlines()[-1])
    assert list((tmp_path / "staged").iterdir()) == []

    keys = ["window", "user"] if kind == "window" else ["user"]
    start = rows["ts"].dt.floor("10min")
    text = "%Y-%m-%d %H:%M:%S"
    window = "{" + start.dt.strftime(text) + ", " + (start + pd.Timedelta("10min")).dt.strftime(text) + "}"
    expected = rows.assign(window=window).groupby(keys, dropna=False).size().to_dict()
    found = last_counts(tmp_path, keys)
    assert {repr(key): count for key, count in found.items()} == {repr(key): count for key, count in expected.items()}
    if kind == "states":
        assert told["versions"] == [1, 2]
        return
    assert told["groups"] > 30
    assert told["misplaced"] == 0
    if kind == "moved":
        assert told["rows"] == len(rows)
        # Version 2 was completed after the first death, version 3 after the second, and put in force as the third driver died.
        assert told["versions"] == [1, 2, 3]
    else:
        assert told["versions"] == [1, 2]
