"""Records as messages of Python's logging."""

from __future__ import annotations

import logging

from evenly.facts.records import Fact


class LoggerSink:
    """A message for every record, its JSON: a refusal is a warning, an end by an error is one, all else is information."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger

    def write(self, fact: Fact) -> None:
        """One message."""
        level = logging.INFO
        if fact.event == "refusal":
            level = logging.WARNING
        elif fact.error:
            level = logging.ERROR
        if self.logger.isEnabledFor(level):
            self.logger.log(level, "%s", fact.to_json().decode())

    def close(self) -> None:
        """Nothing is kept open."""
