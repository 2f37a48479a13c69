"""Causes that are about the number of tasks, their start, and their failures: not about which rows they got."""

from __future__ import annotations

import math

import numpy as np

from evenly.diagnosis.advice import MIB, scans_files, with_tasks
from evenly.diagnosis.findings import Cause, Confidence, Finding, Thresholds
from evenly.diagnosis.savings import in_turn_ms, rounds_lost_ms
from evenly.diagnosis.stages import PastStage

_ANYWHERE = 3
"""How far from its rows a task can run."""
_MOST_BYTES = 128 * MIB
"""Fewer tasks may not have more than this each: what they save in starts they would lose in memory."""
NO_REMEDY = "nothing that Spark lets be changed: the number of tasks follows from the input here"


def too_few(stage: PastStage, limits: Thresholds) -> Finding | None:
    """Slots that stood idle while few tasks worked. A total or a limit is few tasks by its nature, and not told.

    Work is cpu time where the log has it, else run time: a task that waits, or loads classes, does not get shorter by halves.
    """
    free = math.floor(max(stage.cluster_slots, stage.given_back) - stage.others_busy)
    tasks = stage.tasks
    native = stage.work.cpu_tells and int(tasks.cpu_ms.sum()) > 0
    known = bool(tasks.cpu_ms.any())
    work = np.minimum(tasks.cpu_ms, tasks.work_ms) if native else np.maximum(tasks.work_ms - tasks.fetch_wait_ms, 0)
    wanted = min(free, int(float(work.sum()) / 1000.0 / limits.least_task_s))
    if wanted < 2 or stage.instances > limits.few_tasks * wanted or stage.work.limited:
        return None
    advice = with_tasks(stage, wanted)
    if advice is None:
        return None
    now = in_turn_ms(work[np.argsort(tasks.launch_ms, kind="stable")], stage.slots)
    saved = max(0.0, now - float(work.sum()) / wanted) / 1000.0
    why = f"{stage.instances} {'task' if stage.instances == 1 else 'tasks'} on {free} slots that were free"
    confidence = Confidence.LIKELY
    if not known:
        why += ", if what they took was work: the log has no cpu time"
        confidence = Confidence.GUESS
    if stage.given_back > stage.cluster_slots:
        why += ", or had been there before and were given back for want of tasks (dynamic allocation)"
        confidence = Confidence.GUESS
    remedy = f"{advice.remedy}, if each slot is a core of its own"
    return Finding(stage, Cause.TOO_FEW, min(saved, stage.seconds), why, remedy, advice.call, confidence)


def too_many(stage: PastStage, limits: Thresholds) -> Finding | None:
    """Tasks so small that starting them costs more than a part of their work.

    What a task more costs is what the median one took to start: a few that took long had another reason than their number.
    """
    slots = stage.slots
    wanted = max(2 * max(slots, stage.cluster_slots), math.ceil(int(stage.tasks.bytes.sum()) / _MOST_BYTES))
    settled = ~stage.tasks.first
    start_ms = float(np.median(stage.tasks.start_ms[settled])) if settled.any() else 0.0
    overhead_s = start_ms * int(settled.sum()) / 1000.0
    held_s = overhead_s + float(stage.tasks.work_ms.sum()) / 1000.0
    if stage.instances <= 2 * wanted or held_s <= 0.0 or overhead_s / held_s < limits.overhead:
        return None
    advice = with_tasks(stage, wanted)
    if advice is None:
        return None
    saved = overhead_s / slots * (1.0 - wanted / stage.instances)
    started = f"{overhead_s / held_s:.0%} of their time went on starting them"
    why = f"{stage.instances} tasks of {stage.tasks.run_ms.mean():,.0f} ms: {started}"
    return Finding(stage, Cause.TOO_MANY, saved, why, advice.remedy, advice.call)


def in_rounds(stage: PastStage, limits: Thresholds) -> bool:
    """Whether its tasks are about equal, and what it lost is that the last round of them left slots without one."""
    tasks, slots, work = stage.instances, stage.slots, stage.tasks.work_ms
    if tasks <= slots or slots < 2 or float(work.std()) > limits.equal_spread * float(work.mean()):
        return False
    lost = rounds_lost_ms(tasks, slots, float(work.mean())) / 1000.0
    if lost <= 0.0 or lost < limits.explained * stage.saved_s:
        return False
    return stage.others_busy >= 0.5 or _ends_with_the_last(stage) >= limits.explained * stage.saved_s


def _ends_with_the_last(stage: PastStage) -> float:
    """How much later the tasks beyond full rounds ended than all others, in s: not at all where some slots are faster."""
    order = np.argsort(stage.tasks.launch_ms, kind="stable")
    over = stage.instances % stage.slots
    finish = stage.tasks.finish_ms[order]
    return float(finish[-over:].max() - finish[:-over].max()) / 1000.0 if over else 0.0


def last_round(stage: PastStage) -> Finding | None:
    """What is said of such a stage: nothing where others had slots meanwhile, or Spark chose the number of tasks."""
    tasks, slots = stage.instances, stage.slots
    if stage.others_busy >= 0.5 or stage.work.part:
        return None
    rounds, over = divmod(tasks, slots)
    wanted = rounds * slots
    why = (
        f"{tasks} equal tasks on {slots} slots are {rounds} full {'round' if rounds == 1 else 'rounds'} and {over} more "
        f"{'task' if over == 1 else 'tasks'}, for which the other {slots - over} slots waited"
    )
    advice = with_tasks(stage, wanted)
    if advice is None and scans_files(stage) and (advice := with_tasks(stage, 4 * tasks)) is not None:
        finer = f"tasks read whole files; shorter tasks leave less for the last round: {advice.remedy}"
        return Finding(stage, Cause.ROUNDS, stage.saved_s, why, finer, advice.call, Confidence.CERTAIN)
    remedy = f"{advice.remedy if advice else NO_REMEDY} ({wanted} tasks instead of {tasks} would fill the rounds)"
    return Finding(stage, Cause.ROUNDS, stage.saved_s, why, remedy, advice.call if advice else None, Confidence.CERTAIN)


def cold_start(stage: PastStage) -> Finding | None:
    """Executors that had just come: what their first tasks took to begin, beyond what tasks take to begin elsewhere."""
    tasks = stage.tasks
    if not tasks.first.any():
        return None
    start = tasks.start_ms
    settled = start[~tasks.first]
    usual = float(np.median(settled)) if settled.size else float(start.min())
    order = np.argsort(tasks.launch_ms, kind="stable")
    begun = np.where(tasks.first, np.minimum(start, int(usual)), start)
    now, then = (in_turn_ms((tasks.work_ms + one)[order], stage.slots) for one in (start, begun))
    saved = min(max(0.0, now - then) / 1000.0, stage.seconds)
    slowest = int(np.argmax(np.where(tasks.first, start, -1)))
    why = (
        f"the first tasks on an executor took up to {start[slowest] / 1000.0:.1f} s to begin "
        f"(executor {tasks.executor[slowest]}), others {usual / 1000.0:.1f} s: it had just started"
    )
    remedy = (
        "the rows are not the reason, and there is nothing to balance. Executors that stay are warm: raise "
        "spark.dynamicAllocation.minExecutors or executorIdleTimeout where they come and go; once per application it is the "
        "price of its start"
    )
    return Finding(stage, Cause.COLD, saved, why, remedy, None, Confidence.CERTAIN)


def locality_wait(stage: PastStage) -> Finding | None:
    """Moments in which none of its tasks ran though some were left, after which tasks began that are further from their rows.

    Spark holds tasks back for a while (`spark.locality.wait`) in the hope that a slot comes free where their rows are.
    """
    if stage.others_busy >= 0.5:
        return None
    begun, ended = np.sort(stage.schedule.launch_ms), np.sort(stage.schedule.finish_ms)
    launch, place = stage.tasks.launch_ms, stage.tasks.place
    lost = 0
    for at in np.flatnonzero(begun[1:] > ended[:-1]).tolist():  # as many had ended as had begun: none ran
        until = begun[at + 1]
        if place[launch == until].min(initial=_ANYWHERE) > place[launch < until].min(initial=_ANYWHERE):
            lost += int(until - ended[at])
    why = (
        f"no task ran for {lost / 1000.0:.1f} s of the stage, while tasks waited for a slot near their rows, and then ran "
        "further away all the same"
    )
    remedy = "a shorter spark.locality.wait (3s unless set), given at the start; with 0s tasks run anywhere at once"
    return Finding(stage, Cause.LOCALITY, lost / 1000.0, why, remedy) if lost else None


def failed_tasks(stage: PastStage) -> Finding | None:
    """Attempts that failed and were run again: the stage is longer than its tasks that succeeded."""
    if not stage.failed:
        return None
    tasks = stage.tasks
    order = np.argsort(tasks.launch_ms, kind="stable")
    alone = in_turn_ms((tasks.work_ms + tasks.start_ms)[order], stage.slots) / 1000.0
    times = f"{stage.failed} {'attempt' if stage.failed == 1 else 'attempts'}"
    why = f"{times} of tasks failed and ran again" + (f" ({stage.failure})" if stage.failure else "")
    remedy = "find out why they failed; balance does not help there"
    return Finding(
        stage, Cause.FAILED, max(0.0, min(stage.seconds - alone, stage.failed_s)), why, remedy, None, Confidence.CERTAIN
    )
