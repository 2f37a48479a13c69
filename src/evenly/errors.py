"""Every exception that a user of Evenly can meet, in one tree.

Each is also the built-in exception that its kind suggests, so `except ValueError` works as expected.
The message names the offending value and the remedy.
"""

from __future__ import annotations


class EvenlyError(Exception):
    """The root: catch this to catch all of Evenly's own errors.

        try:
            evenly.send(df, to=evenly.TcpLines("collector", 9000))
        except evenly.EvenlyError as error:
            print(f"not sent: {error}")

    Each says which value is wrong and what to do.
    """


class InvalidParameter(EvenlyError, ValueError):
    """A parameter is outside its range."""


class InvalidKeys(EvenlyError, TypeError):
    """Keys of a kind that has no stable 64-bit identity here."""


class InvalidCost(EvenlyError, ValueError):
    """A cost or weight that is negative, infinite or not a number."""


class UnknownColumn(EvenlyError, LookupError):
    """A column that the data does not have."""


class ColumnConflict(EvenlyError, ValueError):
    """A column that Evenly would add exists already."""


class EmptyStream(EvenlyError, ValueError):
    """A question that has no answer for a stream without tuples."""


class InvalidResult(EvenlyError, ValueError):
    """A user's function returned something else than it must."""


class FunctionFailed(EvenlyError, RuntimeError):
    """A user's function raised on a row, and rows that fail are not to be skipped."""


class SparkFailed(EvenlyError, RuntimeError):
    """Spark has ended a job with an error of its own."""


class RowTooSlow(EvenlyError, TimeoutError):
    """A call of a user's function that took longer than its time limit."""


class WorkerDied(EvenlyError, RuntimeError):
    """A process that ended while it ran a user's function: it exited, crashed in native code or was killed."""


class IncompatibleMerge(EvenlyError, ValueError):
    """Two summaries that were not made with the same parameters."""


class MissingFile(EvenlyError, FileNotFoundError):
    """A file that is to be read and is not there."""


class UnreadableFile(EvenlyError, OSError):
    """A file that cannot be read: a folder, one without permission, a file system that is not at hand."""


class UnwritableFile(EvenlyError, OSError):
    """A file that cannot be written: no such folder, one without permission, a full disk."""


class DamagedData(EvenlyError, ValueError):
    """Saved bytes or a saved file that cannot be read back."""


class NewerFormat(EvenlyError, ValueError):
    """A saved file written by a later version of Evenly."""


class MissingDependency(EvenlyError, ImportError):
    """An optional library that a feature needs is not installed."""


class JavaNotFound(EvenlyError, RuntimeError):
    """No Java that Spark can run on."""


class WrongPython(EvenlyError, RuntimeError):
    """Spark would start its Python workers with a Python that cannot run Evenly."""


class UnsupportedSpark(EvenlyError, RuntimeError):
    """A Spark that lacks what is asked for: too early a release, Spark Connect, or one that hashes in another way."""


class StreamingMismatch(EvenlyError, ValueError):
    """A streaming DataFrame used in a way that only a batch DataFrame allows, or the reverse."""


class CheckpointMismatch(EvenlyError, ValueError):
    """A streaming query started in a way that does not fit the state in its checkpoint."""


class InvalidCheckpoint(EvenlyError, ValueError):
    """A folder that is not the checkpoint of a stateful query, or one without a finished batch."""


class ImmovableState(EvenlyError, ValueError):
    """State that cannot be moved to another mapping. Nothing was changed."""


class DidNotEnd(EvenlyError, TimeoutError):
    """What was waited for did not come about in time."""


class WaitsForItself(EvenlyError, RuntimeError):
    """A query that is asked, by its own sink or `build`, for what would wait for the end of that sink or `build`."""


class InvalidDataflow(EvenlyError, ValueError):
    """A dataflow that is cyclic, incomplete or contradictory, or a file that describes none."""


class InvalidModel(EvenlyError, ValueError):
    """A performance model that is missing, incomplete or contradictory, or a file that describes none."""


class DoesNotFit(EvenlyError, ValueError):
    """Threads that the machines at hand have no room for."""


class KeyTooHot(EvenlyError, ValueError):
    """A key with more than an instance's share of the rows, and a function that cannot be split over instances."""


class LinkUnavailable(EvenlyError, OSError):
    """The shared memory of a link cannot be made or joined."""


class SendFailed(EvenlyError, RuntimeError):
    """Tuples of an outgoing queue that were not sent, or not in time."""


class DestinationFailed(EvenlyError, ConnectionError):
    """A destination that refuses, fails, hangs or does not acknowledge what it was sent."""


class QueueClosed(EvenlyError, ValueError):
    """An outgoing queue used after its end, or in another process than the one that opened it."""
