"""The five example operators as functions of rows: `function: "evenly.planning.row_examples:Pi"` in a dataflow for Spark.

Each works for the `number` of a row and hands the row on as it is, so they can be put together in any order. The two that ask
a service find one in their own Python worker: a web server in a thread, as slow as a remote one, made when it is first asked
for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from evenly.planning import examples
from evenly.planning.examples import serve_here

_MUTEX = threading.Lock()
_PORTS: list[int] = []


class _OfRows:
    """An example operator that is called with rows."""

    makes: ClassVar[Callable[[], Any]]

    def __init__(self) -> None:
        self.operator = type(self).makes()

    def __call__(self, row: Any) -> Any:
        self.operator(row.number)
        return row

    def close(self) -> None:
        close = getattr(self.operator, "close", None)
        if close is not None:
            close()


class XmlParse(_OfRows):
    """Parses an XML text for every row; bound by the cpu."""

    makes = examples.XmlParse


class Pi(_OfRows):
    """Pi by Viète's series, over and over; bound by the cpu."""

    makes = examples.Pi


class BatchFileWrite(_OfRows):
    """Keeps 100 bytes of every row and writes them to a file when there are enough; bound by the disk."""

    makes = examples.BatchFileWrite


class BlobDownload(_OfRows):
    """Downloads an object from a web server; bound by the service, so threads help."""

    @staticmethod
    def makes() -> examples.BlobDownload:
        return examples.BlobDownload(service_port())


class TableLookup(_OfRows):
    """Looks a row up by its key in a remote table; bound by the service, so threads help."""

    @staticmethod
    def makes() -> examples.TableLookup:
        return examples.TableLookup(service_port())


def service_port() -> int:
    """The port of this process's service, which runs as long as the process."""
    with _MUTEX:
        if not _PORTS:
            _PORTS.append(serve_here())
        return _PORTS[0]
