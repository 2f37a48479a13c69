"""State is rewritten by internals of Spark: only by releases that they were tested with, unless a session allows others."""

from dataclasses import replace

import pytest

from evenly.errors import ImmovableState, InvalidCheckpoint
from evenly.keys.dkg import DKG
from evenly.spark.features import Found
from evenly.spark.jvm.state_stores import ALLOW_UNTESTED
from evenly.spark.state.migration import check_movable, migrate_state

KEY = {"key": ("user",), "slot": "slot"}


@pytest.fixture
def on(spark, monkeypatch):
    """A session that says it is of another Spark."""

    def told(version, *, connect=False):
        monkeypatch.setattr(Found, "of", classmethod(lambda cls, _: cls(version, connect)))
        return spark

    yield told
    spark.conf.unset(ALLOW_UNTESTED)


@pytest.mark.parametrize("version", ["4.2.1", "4.4.0", "5.0.0"])
def test_a_release_that_was_not_tested_is_refused_before_anything_is_read(on, tmp_path, version):
    with pytest.raises(ImmovableState) as refused:
        check_movable(on(version), tmp_path, **KEY)
    assert f"was tested with Spark 4.3 alone; this is Spark {version}" in str(refused.value)
    assert f"spark.conf.set('{ALLOW_UNTESTED}', 'true')" in str(refused.value)


def test_moving_state_there_is_refused_and_nothing_written(on, tmp_path):
    mapping = DKG.automatic(3, ids="xxhash64").mapping(columns=("user",))
    with pytest.raises(ImmovableState, match=r"this is Spark 4\.4\.0"):
        migrate_state(on("4.4.0"), tmp_path, **KEY, old=mapping, new=replace(mapping, version=2))
    assert not list(tmp_path.iterdir())


def test_a_session_that_says_so_is_let_pass(on, tmp_path):
    spark = on("4.4.0")
    spark.conf.set(ALLOW_UNTESTED, "true")
    with pytest.raises(InvalidCheckpoint):  # the next question, which an empty folder does not pass
        check_movable(spark, tmp_path, **KEY)


@pytest.mark.parametrize(("version", "connect"), [("4.1.3", False), ("4.3.0", True)])
def test_where_there_is_nothing_to_rewrite_with_no_setting_helps(on, tmp_path, version, connect):
    spark = on(version, connect=connect)
    spark.conf.set(ALLOW_UNTESTED, "true")
    with pytest.raises(ImmovableState, match=r"StateRewriter, which a classic session of Spark 4\.2 or later has; this is"):
        check_movable(spark, tmp_path, **KEY)
