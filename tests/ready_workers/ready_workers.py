"""Spark's daemon of Python workers, which has loaded what every worker loads before it forks them.

Spark's own loads nothing, so that no thread runs when it forks, and each worker begins with a second of imports. Nothing of
Evenly is loaded here: tests see what its workers load. What is loaded is frozen, else each task ends with a search through it.
"""

import gc

import pandas as pd  # noqa: F401
import pyarrow as pa  # noqa: F401
from pyspark import (
    daemon,
    worker,  # noqa: F401
)
from pyspark.sql.pandas import serializers  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    daemon.manager()
