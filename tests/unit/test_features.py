"""Which Spark has what: the table, and the words of the gates that ask it."""

import pyspark.sql.functions as F
import pytest
from pyspark.sql import DataFrame

from evenly.errors import UnsupportedSpark
from evenly.spark import features
from evenly.spark.features import Feature, Found, missing, release, require, untested


@pytest.mark.parametrize(
    ("version", "is_of"),
    [
        ("4.1.0", (4, 1)),
        ("4.2.0-preview3", (4, 2)),
        ("4.3.0.dev1", (4, 3)),
        ("4.3.0-SNAPSHOT", (4, 3)),
        ("4.3.0-amzn-1", (4, 3)),
        ("3.5.1-amzn-0", (3, 5)),
        ("4.10.2", (4, 10)),
        ("5.0.0", (5, 0)),
        ("mine", ()),
    ],
)
def test_a_version_is_of_a_release(version, is_of):
    assert release(version) == is_of


@pytest.mark.parametrize(
    ("feature", "public"),
    [
        (Feature.SCALAR_SUBQUERY, DataFrame.scalar),
        (Feature.TO_ARROW, DataFrame.toArrow),
        (Feature.REPARTITION_BY_ID, DataFrame.repartitionById),
        (Feature.ARROW_UDF, F.arrow_udf),
        (Feature.SUMS_BY_KEY, F.tuple_sketch_agg_double),
    ],
)
def test_the_table_says_what_pyspark_says_of_its_public_functions(feature, public):
    assert f"versionadded:: {'.'.join(map(str, feature.value.since))}.0" in public.__doc__


@pytest.mark.parametrize(
    ("version", "has"), [("3.5.8", False), ("4.0.9", False), ("4.1.0", True), ("4.10.0", True), ("5.0.0", True)]
)
def test_what_a_release_brought_later_ones_have_and_earlier_ones_lack(version, has):
    assert (missing(Feature.REPARTITION_BY_ID, Found(version)) is None) is has


def test_classic_sessions_have_what_spark_connect_lacks():
    assert missing(Feature.PLANS, Found("3.5.0")) is None
    assert missing(Feature.PLANS, Found("4.3.0", connect=True)) == (
        "plans in the driver's Java, which a classic session of Spark 3.5 or later has; "
        "this is Spark 4.3.0 through Spark Connect"
    )


@pytest.mark.parametrize(
    ("server", "client", "counts"),
    [("4.0.1", "4.3.0", "4.0.1"), ("4.3.0", "4.1.0", "4.1.0"), ("mine", "4.3.0", "4.3.0"), ("mine", "ours", "mine")],
)
def test_of_client_and_server_the_earlier_one_counts(monkeypatch, server, client, counts):
    class Session:
        version = server

    monkeypatch.setattr(features.pyspark, "__version__", client)
    assert Found.of(Session()) == Found(counts, connect=True)


def test_a_gate_names_the_feature_the_spark_that_has_it_the_one_found_and_the_remedy():
    class Session:
        version = "4.0.2"

    with pytest.raises(UnsupportedSpark) as refused:
        require(Session(), Feature.REPARTITION_BY_ID, by="a key that is split", remedy="Keep it whole")
    assert str(refused.value) == (
        "a key that is split needs DataFrame.repartitionById, which Spark 4.1 or later has; "
        "this is Spark 4.0.2 through Spark Connect. Keep it whole"
    )


def test_a_spark_that_does_not_say_its_version_is_told_so():
    assert missing(Feature.TO_ARROW, Found("mine")) == "DataFrame.toArrow, which Spark 4.0 or later has; this is Spark mine"


def test_internals_of_spark_are_trusted_on_the_releases_that_they_were_tested_with():
    assert untested(Feature.STATE_REWRITER, Found("4.3.7")) is None
    for other in ("4.2.0", "4.4.0"):
        assert untested(Feature.STATE_REWRITER, Found(other)) == (
            f"Spark's internal StateRewriter, which was tested with Spark 4.3 alone; this is Spark {other}"
        )
    assert untested(Feature.TO_ARROW, Found("9.0.0")) is None
