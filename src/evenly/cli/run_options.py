"""What `evenly run` is asked for: which options go together, and what they make of a dataflow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evenly.cli.options import check_file, session_settings
from evenly.cli.output import note
from evenly.dataflow.ends import REPLAY, check_ends
from evenly.dataflow.files import read_dataflow
from evenly.dataflow.functions import check_functions
from evenly.dataflow.graph import Dataflow
from evenly.dataflow.replay import MOST_ROWS_PER_S, pace_of
from evenly.dataflow.stages import only_source, settings_of, stages_of
from evenly.errors import InvalidParameter
from evenly.planning.micro_batches import SparkPlan, plan_on_spark
from evenly.planning.model_files import read_spark_models

_DAY_S = 86_400.0
_LEAST_TRIGGER_S = 1e-3


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run, as the command names them."""

    dataflow: Path
    checkpoint: str | None = None
    batch: bool = False
    until_read: bool = False
    trigger: float | None = None
    rate: float | None = None
    plan: bool = False
    models: Path | None = None
    slots: int | None = None
    seconds: float | None = None
    until_unstable: bool = False
    replan: bool = False
    page: Path | None = None
    master: str | None = None
    conf: list[str] = field(default_factory=list)
    exactly_once: bool = False
    show: bool = False
    submit: Path | None = None

    def check(self) -> None:
        """Refuse what cannot be meant, before anything is read."""
        if self.batch == (self.checkpoint is not None) and not self.show:
            raise InvalidParameter("give --checkpoint FOLDER to run a streaming query, or --batch to run once")
        self._check_stream()
        if self.plan != (self.models is not None):
            raise InvalidParameter("--plan and --models FILE go together: `evenly profile --on spark` writes such a file")
        if self.replan and not self.plan:
            raise InvalidParameter("--replan compares with a plan: give --plan too")
        if self.slots is not None and self.slots < 1:
            raise InvalidParameter(f"--slots must be at least 1, got {self.slots}")
        check_file(self.page, "--page")
        self._check_script()
        session_settings(self.conf, self.master)

    def _check_stream(self) -> None:
        stream = {
            "--until-read": self.until_read,
            "--trigger": self.trigger is not None,
            "--replan": self.replan,
            "--until-unstable": self.until_unstable,
            "--seconds": self.seconds is not None,
        }
        if self.batch and (given := [name for name, is_given in stream.items() if is_given]):
            verb = "are" if len(given) > 1 else "is"
            raise InvalidParameter(f"{' and '.join(given)} {verb} for a streaming query: leave --batch out")
        if self.until_read and self.trigger is not None:
            raise InvalidParameter("--until-read reads all that is there, without waiting: leave --trigger out")
        if self.until_unstable and (self.seconds is not None or self.replan):
            raise InvalidParameter("--until-unstable ends by itself and changes rates alone: leave --seconds and --replan out")
        if self.until_read and self.until_unstable:
            raise InvalidParameter("--until-unstable replays again and again: leave --until-read out")
        if self.trigger is not None and not _LEAST_TRIGGER_S <= self.trigger < _DAY_S:
            raise InvalidParameter(
                f"--trigger must be seconds, from {_LEAST_TRIGGER_S:g} (the least that Spark knows) to below a "
                f"day, got {self.trigger:g}"
            )
        if self.rate is not None and not 0.0 < self.rate <= MOST_ROWS_PER_S:
            raise InvalidParameter(
                f"--rate must be rows per second, above 0 and at most {MOST_ROWS_PER_S:,.0f}, got {self.rate:g}"
            )
        if self.seconds is not None and not self.seconds > 0.0:
            raise InvalidParameter(f"--seconds must be above 0, got {self.seconds}")

    def _check_script(self) -> None:
        if self.submit is None:
            return
        left_out = {
            "--plan": self.plan,
            "--replan": self.replan,
            "--until-unstable": self.until_unstable,
            "--seconds": self.seconds is not None,
            "--slots": self.slots is not None,
            "--page": self.page is not None,
        }
        if given := [name for name, is_given in left_out.items() if is_given]:
            raise InvalidParameter(f"a script of --submit runs the dataflow alone: leave {' and '.join(given)} out")
        if self.master is not None or self.conf:
            raise InvalidParameter("--master and --conf of a script are those of spark-submit: give them there")
        if self.submit.suffix != ".py":
            raise InvalidParameter(f"--submit must name a file that ends in .py, which spark-submit takes, got {self.submit}")
        check_file(self.submit, "--submit")

    def flow(self) -> Dataflow:
        """The dataflow, with the rate that is asked for; one that could not be run is refused."""
        found = self._paced(read_dataflow(self.dataflow))
        stages_of(found)
        check_ends(found, exactly_once=self.exactly_once)
        if self.checkpoint is not None:
            only_source(found)
        if not self.show:
            check_functions(found)
        return found

    def _paced(self, flow: Dataflow) -> Dataflow:
        if self.rate is None:
            return flow
        replays = [one for one in flow.operators if one.kind == "source" and one.format == REPLAY]
        if not replays and not self.plan:
            raise InvalidParameter("--rate is of a source of `format: replay`, or of a plan: give --plan")
        changed = {one.name: replace(one, options={**one.options, "rate": repr(self.rate)}) for one in replays}
        return replace(flow, operators=tuple(changed.get(one.name, one) for one in flow.operators))

    def planned(self, flow: Dataflow) -> SparkPlan | None:
        """The plan for the rate that is asked for, or that of the replay."""
        if self.models is None:
            return None
        rate, source = self.rate, only_source(flow)
        if rate is None and "rate" in source.options:
            rate = pace_of(source.options).rate
        if rate is None and not self.until_unstable:
            raise InvalidParameter("a plan is for a rate: give --rate, in rows per second")
        found = read_spark_models(self.models)
        plan = plan_on_spark(flow, found, rate=rate, slots=self.slots or found.engine_costs().slots, trigger_s=self.trigger)
        for doubt in plan.doubts:
            note(("in doubt: ", "bold"), doubt)
        return plan

    def settings(self, flow: Dataflow) -> dict[str, str]:
        """Spark's settings: those that are given, and what the dataflow needs."""
        return {**settings_of(flow), **session_settings(self.conf, self.master)}

    def query_trigger(self) -> dict[str, Any] | None:
        """The trigger of the query."""
        if self.until_read:
            return {"availableNow": True}
        return None if self.trigger is None else {"processingTime": f"{round(1e3 * self.trigger)} milliseconds"}
