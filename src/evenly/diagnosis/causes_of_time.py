"""Causes that rows do not explain: memory, the shuffle, disks, machines, waiting, and what rows cost."""

from __future__ import annotations

import numpy as np

from evenly.diagnosis.advice import GROUPED, MIB, runs, with_tasks
from evenly.diagnosis.calls import apply_by_cost_call, stream_apply_by_cost_call
from evenly.diagnosis.findings import Advice, Cause, Confidence, Finding, Thresholds
from evenly.diagnosis.placing import placed_groups
from evenly.diagnosis.stages import PastStage, Tasks
from evenly.kernels.types import I64

_SURELY_WAITED = 0.7
"""This part of the longest task's excess without cpu time: it did not compute, it waited."""
_COSTLIER = 1.15
"""So many times as long a row as others the longest task must have taken, for its rows to be what cost more."""
_WARM_MS = 5_000
"""After so long with tasks an executor has loaded and compiled its code."""
_APART = 0.85
"""So often must a task of one executor be slower than one elsewhere, of all such pairs, for the executor to be the reason."""
_LEAST_APART = 1.15
"""And so many times as long, by the medians."""
_LEAST_TASKS = 4
_FILL = 4
"""So many tasks a slot let short tasks fill the gaps that long ones leave."""


def explained_by(stage: PastStage, part: I64) -> float:
    """How much of what the longest task took beyond the mean is in this part of its time."""
    work = stage.tasks.work_ms
    longest = stage.deciding
    excess = float(work[longest] - work.mean())
    return float(part[longest] - part.mean()) / excess if excess > 0.0 else 0.0


def by_time(stage: PastStage, limits: Thresholds) -> Finding | None:
    """What made the longest task longer than the mean, where what it read does not; None if nothing in the log tells."""
    for cause, part, remedy in (
        (
            Cause.GC,
            stage.tasks.gc_ms,
            "give executors more memory, or fewer slots each (spark.executor.memory, spark.executor.cores)",
        ),
        (Cause.FETCH, stage.tasks.fetch_wait_ms, "look at the network and the disks of the executors that it fetched from"),
    ):
        explained = explained_by(stage, part)
        if explained >= limits.explained:
            why = f"{cause.value} explains {min(1.0, explained):.0%} of what {stage.decider} took beyond the mean"
            return Finding(stage, cause, stage.saved_s, why, remedy, None, Confidence.by(explained))
    return (
        _not_kept(stage, limits)
        or _slow_executor(stage, limits)
        or _cold_executor(stage, limits)
        or _spill(stage, limits)
        or _waiting(stage, limits)
        or _slower_here(stage, limits)
        or _by_cost(stage, limits)
    )


def _at(stage: PastStage, executor: str) -> str:
    host = stage.hosts.get(executor)
    return f"executor {executor}" + (f" on {host}" if host else "")


def _copies(stage: PastStage) -> str:
    if stage.speculates:
        return "slow tasks are copied elsewhere already (spark.speculation), and the copy was no faster or came too late"
    return "spark.speculation=true, set at the start, copies slow tasks elsewhere"


def _not_kept(stage: PastStage, limits: Thresholds) -> Finding | None:
    """Rows that are kept on executors were at hand for some tasks, and not for the longest: it got them from elsewhere."""
    tasks = stage.tasks
    if tasks.kept[stage.deciding] or not tasks.kept.any():
        return None
    anew, at_hand = (float(tasks.pace_ms[which].mean()) for which in (~tasks.kept, tasks.kept))
    if anew < limits.slower * at_hand:
        return None
    count = int((~tasks.kept).sum())
    why = (
        f"{count} of {stage.instances} tasks ran where the kept rows (cache, persist) were not: these were fetched, read or "
        "computed again"
    )
    remedy = (
        "keep all of them: more memory, or a storage level with disk; a longer spark.locality.wait lets tasks wait for their "
        "place. Balance does not help"
    )
    return Finding(stage, Cause.CACHE, stage.saved_s, why, remedy)


def _a_row(stage: PastStage) -> str:
    """What times are compared by: see `Tasks.pace_ms`."""
    return "a row " if int(stage.tasks.rows.min()) > 0 else ""


def _by_machine(stage: PastStage, times: float) -> float:
    """How much of what the longest task took beyond the mean a machine explains on which all takes so many times as long."""
    work = stage.tasks.work_ms
    excess = float(work[stage.deciding] - work.mean())
    return float(work[stage.deciding]) * (1.0 - 1.0 / times) / excess if excess > 0.0 else 0.0


def _slow_executor(stage: PastStage, limits: Thresholds) -> Finding | None:
    """An executor that was slow in several stages, this one among them: in one stage alone its rows may be the reason.

    The first tasks of an executor are slow anyway: they are compared with first ones elsewhere, and later ones with later ones.
    """
    suspect = str(stage.tasks.executor[stage.deciding])
    if suspect not in stage.slow_executors:
        return None
    alike = stage.tasks.first == stage.tasks.first[stage.deciding]
    pace, its = stage.tasks.pace_ms[alike], stage.tasks.executor[alike] == suspect
    others = float(np.median(pace[~its])) if (~its).any() else 0.0
    times = float(np.median(pace[its])) / others if others > 0.0 else 0.0
    if times < limits.slower or _by_machine(stage, times) < limits.explained:
        return None
    why = (
        f"tasks on {_at(stage, suspect)} took {times:.1f} times as long {_a_row(stage)}as tasks elsewhere, here and in other "
        "stages"
    )
    remedy = f"look at the host of executor {suspect}; {_copies(stage)}"
    return Finding(stage, Cause.EXECUTOR, stage.saved_s, why, remedy)


def _cold_executor(stage: PastStage, limits: Thresholds) -> Finding | None:
    """The longest task was the first on its executor, and tasks on executors that had run before were equal.

    Or they were not, but each of the first ones (three or more, of no more than half the tasks) took longer than any that came
    later, in all and a row: costs that differ by themselves do not fall so.
    """
    tasks = stage.tasks
    longest = stage.deciding
    warm = ~tasks.first & (tasks.age_ms >= _WARM_MS)
    # Second tasks of an executor that has just come are slow too: they are no measure where older executors are.
    settled = tasks.pace_ms[warm if warm.sum() >= 2 else ~tasks.first]
    if not tasks.first[longest] or settled.size < 2:
        return None
    usual = float(np.median(settled))
    times = float(tasks.pace_ms[longest]) / usual if usual > 0.0 else 0.0
    if times < limits.slower or (settled.max() > limits.slower * usual and not _apart(tasks, limits)):
        return None
    suspect = str(tasks.executor[longest])
    why = (
        f"{stage.decider} was the first on {_at(stage, suspect)} and took {times:.1f} times as long {_a_row(stage)}as those "
        "on executors that had run before"
    )
    remedy = "the rows are not the reason: an executor's first tasks load and compile code. There is nothing to balance"
    return Finding(stage, Cause.COLD, stage.saved_s, why, remedy)


def _apart(tasks: Tasks, limits: Thresholds) -> bool:
    """Whether all first tasks of executors took longer than all later ones.

    Spark launches the next task of a slot some ms before it notes the end of the one before: what follows a long one is later.
    """
    first = tasks.first & (tasks.age_ms < _WARM_MS)
    if not 3 <= int(first.sum()) <= first.size // 2:
        return False
    return all(float(took[first].min()) >= limits.slower * float(took[~first].max()) for took in (tasks.work_ms, tasks.pace_ms))


def _spill(stage: PastStage, limits: Thresholds) -> Finding | None:
    """The longest task spilled, and tasks that spilled took longer a row than tasks that did not."""
    work, rows, spilled = stage.tasks.work_ms, stage.tasks.rows, stage.tasks.spilled > 0
    if not spilled[stage.deciding] or spilled.all():
        return None
    pace = work / np.maximum(rows, 1)
    others = float(np.median(pace[~spilled]))
    times = float(np.median(pace[spilled])) / others if others > 0.0 else 0.0
    if times < limits.slower:
        return None
    why = (
        f"{int(spilled.sum())} tasks spilled {stage.spilled_bytes / MIB:,.0f} MiB to disk and took {times:.1f} times as long "
        "a row as the others"
    )
    advice = with_tasks(stage, 2 * stage.instances)
    more = f"more tasks with fewer rows each ({advice.remedy}), or " if advice is not None else ""
    call = advice.call if advice is not None else None
    return Finding(stage, Cause.SPILL, stage.saved_s, why, f"{more}more memory a slot (spark.executor.memory)", call)


def _waiting(stage: PastStage, limits: Thresholds) -> Finding | None:
    """Cpu times were even and times were not. Of Python, which is another process, the log has no cpu time."""
    tasks = stage.tasks
    if not stage.work.cpu_tells or int(tasks.cpu_ms.sum()) == 0:
        return None
    explained = 1.0 - explained_by(stage, tasks.cpu_ms)
    if explained < limits.explained:
        return None
    longest = stage.deciding
    why = (
        f"{stage.decider} took {tasks.work_ms[longest] / 1000.0:.1f} s, the mean is {tasks.work_ms.mean() / 1000.0:.1f} s, "
        f"but its cpu time is {tasks.cpu_ms[longest] / 1000.0:.1f} s against {tasks.cpu_ms.mean() / 1000.0:.1f} s: it waited"
    )
    remedy = (
        f"not the rows: a disk, the network, another service, or a busy machine ({_at(stage, str(tasks.executor[longest]))}). "
        f"Balance does not help; {_copies(stage)}"
    )
    sure = Confidence.LIKELY if explained >= _SURELY_WAITED else Confidence.GUESS
    return Finding(stage, Cause.WAITING, stage.saved_s, why, remedy, None, sure)


def _slower_here(stage: PastStage, limits: Thresholds) -> Finding | None:
    """Nearly every task of one executor slower a row than nearly every one elsewhere: the machine, in this stage.

    By so much that this is why the longest task took longer, and by more where tasks had other rows, too.
    """
    tasks = stage.tasks
    equal = max(stage.rows_imbalance_pct, stage.bytes_imbalance_pct) < limits.uneven_rows_pct
    if int(tasks.rows.sum() if equal else tasks.rows.min()) == 0:
        return None
    suspect = str(tasks.executor[int(tasks.finish_ms.argmax())])
    its = tasks.pace_ms[~tasks.first & (tasks.executor == suspect)]
    others = tasks.pace_ms[~tasks.first & (tasks.executor != suspect)]
    if min(its.size, others.size) < _LEAST_TASKS or np.median(others) <= 0.0:
        return None
    times = float(np.median(its) / np.median(others))
    slower = float(np.searchsorted(np.sort(others), its).sum()) / (its.size * others.size)
    if times < (_LEAST_APART if equal else limits.slower) or slower < _APART:
        return None
    if suspect != tasks.executor[stage.deciding] or _by_machine(stage, times) < limits.explained:
        return None
    alike = ", with about the same rows" if equal else ""
    why = (
        f"tasks on {_at(stage, suspect)} took {times:.1f} times as long {_a_row(stage)}as tasks elsewhere, nearly every one "
        f"of them{alike}"
    )
    advice = with_tasks(stage, _FILL * stage.instances)
    finer = "" if advice is None else f". Shorter tasks leave it less at the end: {advice.remedy}"
    remedy = f"look at the host of executor {suspect}; of other stages the log does not say that it was slow{finer}"
    return Finding(stage, Cause.EXECUTOR, stage.saved_s, why, remedy, None if advice is None else advice.call)


def _by_cost(stage: PastStage, limits: Thresholds) -> Finding | None:
    tasks = stage.tasks
    pace = tasks.pace_ms
    if pace[stage.deciding] < _COSTLIER * np.median(pace):
        return None
    # Python's own RDDs have batches of rows in a shuffle, and these are what is counted.
    known = int(tasks.rows.sum()) > 0 and not (stage.work.python and not stage.operators)
    if not known and _says_nothing_of_rows(stage, limits):
        return None
    took = float(tasks.work_ms[stage.deciding]) / 1000.0
    why = f"{stage.decider} took {took:.1f} s, the mean is {tasks.work_ms.mean() / 1000.0:.1f} s, "
    if not known:
        why += "and rows were not counted"
    elif stage.rows_imbalance_pct >= limits.uneven_rows_pct:
        why += f"and it is not the rows (λ {stage.rows_imbalance_pct:.0f} %)"
    else:
        why += f"with about the same rows (λ {stage.rows_imbalance_pct:.0f} %)"
    if stage.work.gpu:
        remedy = (
            "not the number of rows: tasks share the GPU and read files, and the log does not have what a task waited for. "
            "Balance by rows does not help"
        )
        return Finding(stage, Cause.WAITING, stage.saved_s, why.rstrip(", "), remedy, None, Confidence.GUESS)
    advice = _cost_advice(stage)
    sure = Confidence.LIKELY if known and stage.work.python else Confidence.GUESS
    return Finding(
        stage, Cause.COST, stage.saved_s, why, f"some rows cost more than others: {advice.remedy}", advice.call, sure
    )


def _says_nothing_of_rows(stage: PastStage, limits: Thresholds) -> bool:
    """Whether the log has neither rows nor cpu times, and the longest task read what others did: disks may differ, too."""
    tasks = stage.tasks
    usual = float(tasks.bytes.mean()) * (1.0 + limits.uneven_rows_pct / 100.0)
    return 0 < int(tasks.bytes[stage.deciding]) <= usual and not tasks.cpu_ms.any() and not stage.work.python


def _cost_advice(stage: PastStage) -> Advice:
    """Rows go to instances by their cost where a Python function gets them one by one; else more tasks than slots may help."""
    filled = _FILL * stage.slots
    exchange = stage.exchange
    if stage.work.python and stage.operators and not runs(stage, *GROUPED):
        instances = max(stage.slots, stage.cluster_slots) if stage.instances > filled else max(stage.instances, stage.slots)
        remedy = "spread rows by their cost, with the function called for each row"
        if exchange is not None and exchange.keys:
            remedy += " (where rows of a key need not stay together)"
        return Advice(remedy, stream_apply_by_cost_call(instances) if stage.work.streaming else apply_by_cost_call(instances))
    if stage.instances >= filled:
        return Advice("there are more tasks than slots already, so nothing short of cheaper rows helps here")
    if exchange is not None and exchange.keys and runs(stage, *GROUPED):
        placed = placed_groups(stage, exchange.placeable, filled)
        remedy = f"rows of a key stay together here, so let short tasks fill the gaps: {filled} instances; {placed.remedy}"
        return Advice(remedy, placed.call)
    advice = with_tasks(stage, filled)
    if advice is None:
        return Advice("nothing that Spark lets be changed helps here")
    return Advice(f"let short tasks fill the gaps: {advice.remedy}", advice.call)
