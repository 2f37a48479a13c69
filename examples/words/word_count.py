"""Words of sentences, sent one by one to a collector that counts them: python word_count.py

All tasks of the machine share its link. The queue with the largest backlog goes first (the policy `lbf`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from collector import Collector
from pyspark.sql import DataFrame, SparkSession

import evenly

SENTENCES, VOCABULARY = 2_000, 500


def texts() -> list[str]:
    """Sentences of 1 to 32 words, the most frequent ones as frequent as in a language."""
    draw = np.random.default_rng(5)
    shares = 1.0 / np.arange(1, VOCABULARY + 1)
    lengths = draw.integers(1, 33, SENTENCES)
    words = iter(draw.choice(VOCABULARY, int(lengths.sum()), p=shares / shares.sum()).tolist())
    return [" ".join(f"word{next(words)}" for _ in range(length)) for length in lengths]


def sentences(spark: SparkSession) -> DataFrame:
    """The source."""
    return spark.createDataFrame([(text,) for text in texts()], "text string")


def split(row: Any) -> Iterator[tuple[str]]:
    """The words of a sentence."""
    for word in row.text.split():
        yield (word,)


def flow(port: int) -> evenly.Flow:
    """Sentences, dealt out evenly, split, and sent."""
    made = evenly.Flow("word count")
    words = made.source("sentences", function=sentences).shuffle(instances=4).row(split, schema="word string")
    to = {"host": "127.0.0.1", "port": port, "column": "word", "link": "example", "policy": "lbf"}
    words.sink("collector", format="tcp", options=to)
    return made


def main() -> None:
    with Collector() as collector:
        evenly.run(flow(collector.port))
        print(f"{collector.words.total():,} words, {collector.doubles} sent twice and counted once")
        for word, count in collector.words.most_common(5):
            print(f"{count:8,}  {word}")


if __name__ == "__main__":
    main()
