"""A session that `local_session` starts, and one of the user's whose workers would run another Python."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from evenly import local_session
from evenly.errors import InvalidParameter, WrongPython
from evenly.spark import python_workers

OTHER_PYTHON = """#!/bin/sh
exec {python} -I -S "$@"
"""


def run(program, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=900,
        env={name: it for name, it in os.environ.items() if name != "PYSPARK_PYTHON"}
        | {"PYTHONWARNINGS": "ignore"}
        | environment,
    )


def test_a_session_that_runs_is_given_out_as_it_is_or_not_at_all(spark):
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert local_session(slots=2, settings={"spark.sql.session.timeZone": "UTC"}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
    with pytest.raises(
        InvalidParameter, match=r"has a Spark session already, with spark.master = local\[2\] and not local\[3\]"
    ):
        local_session(slots=3)
    with pytest.raises(InvalidParameter, match=r"spark.sql.session.timeZone = UTC and not Asia/Tokyo"):
        local_session(slots=2, settings={"spark.sql.session.timeZone": "Asia/Tokyo"})


def test_settings_that_are_no_text_are_as_spark_keeps_them(spark):
    changed = {"spark.sql.session.timeZone": "UTC", "spark.sql.adaptive.enabled": True}
    there = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        assert local_session(slots=2, settings=changed) is spark
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", there)


def test_another_thread_gets_the_session_as_it_is_or_not_at_all(spark):
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    with ThreadPoolExecutor(1) as threads:
        same = threads.submit(local_session, slots=2).result()
        assert same.sparkContext is spark.sparkContext
        with pytest.raises(InvalidParameter, match=r"spark.master = local\[2\] and not local\[1\]"):
            threads.submit(local_session, slots=1).result()
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions


@pytest.mark.parametrize("memory", ["lots", "2gb", "2048", "", "0g", 2])
def test_memory_is_a_size_that_java_takes(memory):
    with pytest.raises(InvalidParameter, match="memory must be a size"):
        local_session(memory=memory)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("no program at all", "which does not run"),
        ("#!/bin/sh\necho 2.7\n", "Python 2.7, and this is"),
        ("#!/bin/sh\nprintf '\\377' >&2\nexit 3\n", "lacks what is needed"),
    ],
)
def test_whatever_stands_for_python_is_told_in_a_sentence(tmp_path, program, said):
    other = tmp_path / "python3"
    other.write_text(program)
    other.chmod(0o755)
    with pytest.raises(WrongPython, match=said):
        python_workers._check(str(other))


def test_an_environment_that_greets_is_no_other_python(tmp_path):
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\necho hello\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    assert python_workers._check(str(other)) == (False, True)


@pytest.mark.parametrize("slots", [0, True, "2", 1.5])
def test_slots_are_a_whole_number(slots):
    with pytest.raises(InvalidParameter, match="slots must be a whole number"):
        local_session(slots=slots)


def test_workers_of_another_python_are_told_before_the_first_job(tmp_path):
    """As in a kernel or from cron, where the environment is not activated and `python3` is another one."""
    other = tmp_path / "bin with a space" / "python3"
    other.parent.mkdir()
    other.write_text(OTHER_PYTHON.format(python=sys.executable))
    other.chmod(0o755)
    program = """
        import os, sys
        from pyspark.sql import SparkSession
        import evenly
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        df = spark.range(100).selectExpr("id", "id % 5 as user")
        print(evenly.by_key(df, key="user", instances=2).count())  # which has no need of it
        for call in (
            lambda: evenly.apply_by_key(df, lambda group: group, df.schema, key="user", instances=2),
            lambda: evenly.apply_by_cost(df, lambda row: [], "n int", instances=2),
            lambda: evenly.send(df, to=evenly.TcpLines("127.0.0.1", 1)),
        ):
            try:
                call()
            except evenly.errors.WrongPython as error:
                print(error)
        spark.sparkContext.pythonExec = sys.executable
        print(evenly.apply_by_key(df, lambda group: group, df.schema, key="user", instances=2).count())
    """
    done = run(program, PATH=f"{other.parent}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr[-3000:]
    placed, *said, counted = done.stdout.splitlines()
    assert (placed, counted) == ("100", "100")
    assert len(said) == 3
    for line in said:
        assert line.startswith(f"Spark's Python workers would run {other}, not {sys.executable}, and it lacks what is needed")
        assert "PYSPARK_PYTHON" in line
