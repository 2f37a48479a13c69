"""The page of a diagnosis: what is wrong, the picture that shows it, and the call that fixes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from evenly.diagnosis.causes import LogDiagnosis
from evenly.diagnosis.findings import SIZED, Cause, Repeated
from evenly.diagnosis.keys import COMBINED, KeyAdvice, KeysDiagnosis
from evenly.diagnosis.past import Application
from evenly.diagnosis.state import CheckpointDiagnosis
from evenly.kernels.types import F64
from evenly.report.diagnosis_pictures import Loads, bars, stage_bars
from evenly.report.page import rendered

MOST_SECTIONS = 10
"""How many findings get a picture."""

_VERDICTS = {
    KeyAdvice.NOTHING: "even: nothing to do",
    KeyAdvice.BY_KEY: "uneven: place the keys by their weight",
    KeyAdvice.SPLIT: "uneven: split the heaviest key",
}


@dataclass(frozen=True)
class Section:
    """One finding: what, whether it is good, its picture, why, and what to do."""

    title: str
    verdict: str
    good: bool
    picture: Markup
    why: str
    remedy: str
    call: str | None = None


STAGES_EXPLAINED = (
    "s: how long the stage took; max, med: its longest and its median task; λ = (max / mean - 1) · 100 % of the tasks' times "
    "and rows; saved: the seconds that the stage would have saved at best, of its tasks' own work."
)


def log_page(
    source: str,
    application: Application,
    diagnosis: LogDiagnosis,
    findings: Sequence[Repeated],
    table: Sequence[Sequence[str]],
) -> str:
    """The page of an event log. `table` has its headings first; `findings` are those of `repeated_findings`."""
    wrong = [one for one in findings if one.worst.cause is not Cause.EVEN]
    headline = _log_headline(application, diagnosis, wrong)
    sections = [
        Section(
            title=one.worst.stage.where + (f", {one.times} times" if one.times > 1 else ""),
            verdict=f"{one.worst.cause.value} ({one.worst.confidence.value}): {one.saved_s:,.1f} s could be saved",
            good=False,
            picture=stage_bars(one.worst.stage),
            why=one.worst.why,
            remedy=one.worst.remedy,
            call=one.worst.call,
        )
        for one in wrong[:MOST_SECTIONS]
    ]
    lead = (
        f"{application.name} ({application.id}), {application.seconds:,.0f} s on {application.slots} slots. Event log: {source}"
    )
    apart = [application.own_told] if application.own_told else []
    told = ". ".join([*apart, *application.notes()])
    numbers = log_results(application, diagnosis)
    return _page("Where the time went", lead, headline, sections, [table], numbers, told, STAGES_EXPLAINED)


def log_results(application: Application, diagnosis: LogDiagnosis) -> list[dict[str, object]]:
    """Flat objects: the application, its findings, and what is told apart of them."""
    apart = [*(one.row() for one in application.own.values()), *(one.row() for one in application.unfinished)]
    return [application.row(diagnosis.saved_s), *(finding.row() for finding in diagnosis.findings), *apart]


def _log_headline(application: Application, diagnosis: LogDiagnosis, wrong: Sequence[Repeated]) -> str:
    """How many stages were held up, and what the application would save: stages that ran at the same time count once."""
    uneven = sum(one.times for one in wrong if one.worst.cause not in SIZED)
    sized = sum(one.times for one in wrong) - uneven
    if not application.finished:
        return "No stage had finished"
    if not wrong:
        return f"All finished stages ({application.finished}) were even: there is nothing to do"
    told = [f"{uneven} {'was' if uneven == 1 else 'were'} uneven or held up"] if uneven else []
    told += [f"{sized} had too few or too many tasks"] if sized else []
    saved = f"the application would save at most {diagnosis.saved_s:,.1f} s"
    stages = "stage" if application.finished == 1 else "stages"
    return f"Of {application.finished} finished {stages} {' and '.join(told)}: {saved}"


def keys_page(source: str, diagnosis: KeysDiagnosis, table: Sequence[Sequence[str]]) -> str:
    """The page of a table's keys."""
    uneven = [one for one in diagnosis.at if one.advice is not KeyAdvice.NOTHING]
    headline = (
        f"Spark's hash is uneven on {', '.join(str(one.instances) for one in uneven)} instances"
        if uneven
        else "Spark's hash is even: there is nothing to do"
    )
    sections = [
        Section(
            title=f"{one.instances} instances",
            verdict=_VERDICTS[one.advice],
            good=one.advice is KeyAdvice.NOTHING,
            picture=bars(
                [
                    Loads(f"Spark's hash: λ = {one.hash_pct:.1f} %", diagnosis.unit, "instance", _array(one.rows_by_hash)),
                    Loads(f"Evenly: λ = {one.evenly_pct:.1f} %", diagnosis.unit, "instance", _array(one.rows_by_evenly)),
                ],
                same_scale=True,
            ),
            why=one.why,
            remedy="",
            call=one.call,
        )
        for one in diagnosis.at[:MOST_SECTIONS]
    ]
    named = ", ".join(diagnosis.keys)
    lead = f"{diagnosis.rows:,} {diagnosis.unit} of {source}, {diagnosis.distinct_keys:,} distinct keys by {named}"
    heavy = [
        ("heaviest keys", diagnosis.unit, "share"),
        *((one.key, f"{one.rows:,}", f"{one.share:.2%}") for one in diagnosis.heaviest),
    ]
    return _page("How even the keys are", lead, headline, sections, [table, heavy], diagnosis.results(), COMBINED)


def checkpoint_page(diagnosis: CheckpointDiagnosis, table: Sequence[Sequence[str]]) -> str:
    """The page of a streaming query's state."""
    sections = [
        Section(
            title=f"operator {store.operator}: {store.name}, store {store.store}",
            verdict="even" if store.even else "uneven",
            good=store.even,
            picture=bars(
                [Loads(f"State rows: λ = {store.imbalance_pct:,.0f} %", "state rows", "partition", _array(store.rows))]
            ),
            why=store.why,
            remedy="",
        )
        for store in diagnosis.stores[:MOST_SECTIONS]
    ]
    lead = f"Checkpoint {diagnosis.checkpoint}, after batch {diagnosis.stores[0].batch}"
    return _page("Where the state is", lead, diagnosis.advice.rstrip("."), sections, [table], diagnosis.results())


def _array(rows: Sequence[float]) -> F64:
    return np.asarray(rows, np.float64)


def _page(
    title: str,
    lead: str,
    headline: str,
    sections: Sequence[Section],
    tables: Sequence[Sequence[Sequence[str]]],
    numbers: Sequence[Mapping[str, object]],
    remark: str = "",
    explained: str = "",
) -> str:
    return rendered(
        "diagnosis",
        numbers=numbers,
        title=title,
        lead=lead,
        headline=headline,
        sections=sections,
        tables=tables,
        remark=remark,
        explained=explained,
    )
