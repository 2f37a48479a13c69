"""`evenly mapping`: the versions of a streaming query's mapping, from the shell, whether or not the query runs."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import numpy as np
import typer

from evenly.cli.local_folders import local_folder
from evenly.cli.options import Json
from evenly.cli.output import note, print_json, print_table, say
from evenly.errors import DamagedData, InvalidParameter, MissingFile, NewerFormat
from evenly.files import read_whole, write_new
from evenly.keys.mapping import Mapping
from evenly.keys.versions import (
    ANSWER,
    LOG,
    REQUEST,
    Request,
    RequestAnswer,
    Version,
    VersionLog,
    digest_of,
    mapping_file,
)

app = typer.Typer(no_args_is_help=True, help="Look at the versions of a streaming query's mapping, or go back to one.")
_Checkpoint = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The checkpoint= of a query of stream_by_key. A local path.")
]
_FIGURES = ("before_pct", "expected_pct", "after_pct", "kept_pct", "moved_load_pct")


class _Checkpointed:
    """What is kept beside a checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self.folder = local_folder(checkpoint, what="the checkpoint of a query of stream_by_key") / "evenly"
        if not (self.folder / LOG).is_file():
            raise MissingFile(f"{checkpoint} has no evenly/{LOG}: give the checkpoint of a query of stream_by_key")
        self.log = VersionLog.from_json(self._read(LOG), source=str(self.folder / LOG))

    @property
    def in_force(self) -> Version:
        return self.log.versions[-1]

    def version(self, number: int) -> Version:
        for it in self.log.versions:
            if it.number == number:
                return it
        raise InvalidParameter(f"there is no version {number} of the mapping: there are 1 to {self.in_force.number}")

    def mapping(self, number: int) -> Mapping:
        name = mapping_file(self.version(number).number)
        if not (self.folder / name).is_file():
            raise MissingFile(f"{self.folder / name} has gone: restore it from a backup, or name another version")
        text = self._read(name)
        if digest_of(text) != self.log.digests.get(number):
            raise DamagedData(f"{self.folder / name} is not what {LOG} says: restore it from a backup")
        return Mapping.from_json(text, source=str(self.folder / name))

    def has_again(self, number: int) -> bool:
        """Whether the version in force has the mapping of another one: what was asked for has been done."""
        try:
            earlier, now = self.mapping(number), self.mapping(self.in_force.number)
        except (DamagedData, InvalidParameter, MissingFile, NewerFormat):
            return False
        return replace(earlier, version=now.version) == now

    @property
    def begun(self) -> int | None:
        """The version to which a change has been begun that is not in force, as far as is known."""
        number = self.in_force.number + 1
        return number if (self.folder / mapping_file(number)).is_file() else None

    @property
    def request(self) -> Request | None:
        """What is asked of the query; one that cannot be read has no version, and can be taken back all the same."""
        path = self.folder / REQUEST
        if not path.is_file():
            return None
        try:
            return Request.from_json(self._read(REQUEST), source=str(path))
        except (DamagedData, NewerFormat) as error:
            note(f"{error}, or take it back with evenly mapping rollback --cancel")
            return Request(0, "", "an unknown time")

    @property
    def answer(self) -> RequestAnswer | None:
        path = self.folder / ANSWER
        return RequestAnswer.from_json(self._read(ANSWER), source=str(path)) if path.is_file() else None

    def _read(self, name: str) -> bytes:
        return read_whole(self.folder / name, what="what is kept beside a checkpoint")


@app.command("list")
def list_command(checkpoint: _Checkpoint, json: Json = False) -> None:
    """List the versions of a query's mapping: since when and why, what was promised of each and what came of it; and what was
    asked of the query."""
    found = _Checkpointed(checkpoint)
    request, answer = found.request, found.answer
    if json:
        results = [_told(found, it) for it in found.log.versions]
        results += [] if request is None else [_asked(request)]
        results += [] if answer is None else [_answered(answer)]
        print_json("mapping list", {"checkpoint": checkpoint}, results)
        return
    lines = [
        (str(it.number), it.written_at, *(_pct(it.figures.get(name)) for name in _FIGURES[:3]), it.reason)
        for it in found.log.versions
    ]
    print_table(("version", "in force since", "λ before", "λ expected", "λ after", "why"), lines, left=(1, 5), folded=5)
    _say_asked(request, answer)


@app.command("show")
def show_command(
    checkpoint: _Checkpoint,
    version: Annotated[int | None, typer.Option(help="Which one; the one in force if not given.")] = None,
    json: Json = False,
) -> None:
    """Show one version of a query's mapping: keys with an entry of their own, buckets, and the loads it was learnt from."""
    found = _Checkpointed(checkpoint)
    number = found.in_force.number if version is None else version
    entry, mapping = found.version(number), found.mapping(number)
    loads = mapping.fitted_loads
    if json:
        told = {**_told(found, entry), **_content(mapping)}
        instances = [{"series": "instance", "x": at, "load": float(load)} for at, load in enumerate(loads)]
        print_json("mapping show", {"checkpoint": checkpoint, "version": number}, [told, *instances])
        return
    state = "in force" if entry == found.in_force else "not in force any more"
    say((f"Version {number}", "bold"), f" of {', '.join(found.log.key)} over {mapping.instances} instances, {state}.")
    say(f"Since {entry.written_at}: {entry.reason}.")
    say(f"{mapping.heavy_keys.size:,} keys have an entry of their own, all others are in {mapping.buckets.size:,} buckets.")
    if loads.sum() > 0.0:
        say(f"λ of the rows that it was learnt from: {mapping.fitted_imbalance_pct:.1f} %.")
    else:
        say("It was made before any row was known.")


@app.command("diff")
def diff_command(
    checkpoint: _Checkpoint,
    version: Annotated[int | None, typer.Option(help="The earlier one; the one before the one in force if not given.")] = None,
    to: Annotated[int | None, typer.Option(help="The later one; the one in force if not given.")] = None,
    json: Json = False,
) -> None:
    """Compare two versions of a query's mapping: how many buckets and keys are on another instance, and their load."""
    found = _Checkpointed(checkpoint)
    later = found.in_force.number if to is None else to
    numbers = [it.number for it in found.log.versions if it.number < later]
    if version is None and not numbers:
        raise InvalidParameter(f"there is no version before version {later}: name two with --version and --to")
    earlier = numbers[-1] if version is None else version
    told = _difference(found.mapping(earlier), found.mapping(later))
    if json:
        parameters = {"checkpoint": checkpoint, "version": earlier, "to": later}
        print_json("mapping diff", parameters, [{"series": "difference", **told}])
        return
    say((f"From version {earlier} to version {later}", "bold"), f": {found.version(later).reason}.")
    say(f"{told['buckets_moved']:,} of {told['buckets']:,} buckets are on another instance.")
    say(
        f"{told['keys_moved']:,} of the keys with an entry of their own are on another instance, {told['keys_new']:,} have one "
        f"now, and {told['keys_gone']:,} no more."
    )
    if told["moved_load_pct"] is not None:
        say(f"That is {told['moved_load_pct']:.1f} % of the load that version {later} was learnt from.")


@app.command("rollback")
def rollback_command(
    checkpoint: _Checkpoint,
    to: Annotated[int | None, typer.Option(help="Which version; the one before the one in force if not given.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Take back a request that the query has not answered yet.")] = False,
    json: Json = False,
) -> None:
    """Ask a query to go back to the mapping of an earlier version.

    State lies where the mapping in force looks for it, so only the query can change that: it stops, moves its state, and
    starts again, under a new version with the earlier mapping. A query that runs looks for the request every five seconds; one
    that does not run, after its next start. Whether it was carried out, or refused and why, is in `evenly mapping list`.
    Nothing is changed by this command itself.
    """
    found = _Checkpointed(checkpoint)
    pending = found.request
    if cancel:
        if to is not None:
            raise InvalidParameter("--cancel takes back what was asked for: give it without --to")
        if pending is None:
            raise InvalidParameter(f"nothing is asked of the query of {checkpoint}: there is nothing to cancel")
        (found.folder / REQUEST).unlink(missing_ok=True)
        left = _Checkpointed(checkpoint)  # as the query has left it by now
        done = pending.version != 0 and left.has_again(pending.version)
        if json:
            told = [_asked(pending), *([_told(left, left.in_force)] if done else [])]
            print_json("mapping rollback", {"checkpoint": checkpoint, "cancel": True}, told)
        else:
            _say_taken_back(left, pending, done=done)
        return
    earlier = [it.number for it in found.log.versions[:-1]]
    if not earlier:
        raise InvalidParameter(f"the query of {checkpoint} has had one version of its mapping: there is none to go back to")
    wanted = earlier[-1] if to is None else to
    if wanted == found.in_force.number:
        raise InvalidParameter(f"version {wanted} is in force: name an earlier one with --to")
    found.mapping(wanted)  # one that cannot be read is not asked for
    if pending is not None:
        raise InvalidParameter(
            f"the query was asked for version {pending.version or '?'} at {pending.asked_at} and has not answered: wait, or "
            "take that back with --cancel"
        )
    request = Request(wanted, uuid.uuid4().hex, datetime.now(UTC).isoformat(timespec="seconds"))
    if not write_new(found.folder / REQUEST, request.to_json()):
        raise InvalidParameter(f"somebody else has just asked the query of {checkpoint} for a version: see evenly mapping list")
    if json:
        print_json("mapping rollback", {"checkpoint": checkpoint, "to": wanted}, [_asked(request)])
        return
    say(f"Asked for version {wanted}. A query that runs answers within seconds, another one after its next start.")
    note(f"See what becomes of it: evenly mapping list {checkpoint}")


def _told(found: _Checkpointed, version: Version) -> dict[str, object]:
    figures = {name: version.figures[name] for name in _FIGURES if name in version.figures}
    return {
        "series": "version",
        "mapping_version": version.number,
        "in_force": version == found.in_force,
        "written_at": version.written_at,
        "why": version.reason,
        "key": ", ".join(found.log.key),
        "instances": found.log.instances,
        **figures,
    }


def _content(mapping: Mapping) -> dict[str, object]:
    return {
        "own_entries": int(mapping.heavy_keys.size),
        "buckets": int(mapping.buckets.size),
        "fitted_pct": mapping.fitted_imbalance_pct,
    }


def _asked(request: Request) -> dict[str, object]:
    return {"series": "request", "mapping_version": request.version or None, "asked_at": request.asked_at}


def _answered(answer: RequestAnswer) -> dict[str, object]:
    return {
        "series": "answer",
        "mapping_version": answer.version,
        "asked_version": answer.asked_version,
        "answered_at": answer.answered_at,
        "why": answer.refused or None,
    }


def _say_asked(request: Request | None, answer: RequestAnswer | None) -> None:
    if request is not None:
        say(f"Asked for at {request.asked_at}: back to version {request.version or '?'}. The query has not answered yet.")
    if answer is not None and not answer.refused:
        say(f"At {answer.answered_at} the query went back to version {answer.asked_version}, as version {answer.version}.")
    if answer is not None and answer.refused:
        say(f"At {answer.answered_at} the query refused to go back to version {answer.asked_version}: {answer.refused}")


def _say_taken_back(left: _Checkpointed, request: Request, *, done: bool) -> None:
    """What is left of a request that the query has not answered: it, or a driver that died meanwhile, may have got far."""
    asked = f"Taken back: version {request.version or '?'} is not asked for any more."
    if done:
        say(
            f"Taken back, but the mapping of version {request.version} is in force already, as version {left.in_force.number}, "
            "and stays: the query had not answered yet. To undo that, ask for another version."
        )
    elif left.begun is not None:
        say(
            f"{asked} But a change to a version {left.begun} has been begun: if it is under way, or the state had been moved "
            "when the driver ended, it comes into force all the same, in the latter case at the next start."
        )
    else:
        say(asked)


def _difference(earlier: Mapping, later: Mapping) -> dict[str, int | float | None]:
    same = earlier.buckets.size == later.buckets.size
    moved = earlier.buckets != later.buckets if same else np.ones(later.buckets.size, bool)
    before = dict(zip(earlier.heavy_keys.tolist(), earlier.heavy_instances.tolist(), strict=True))
    now = dict(zip(later.heavy_keys.tolist(), later.heavy_instances.tolist(), strict=True))
    load = float(later.heavy_weights.sum() + later.bucket_weights.sum())
    elsewhere = earlier.assign_ids(later.heavy_keys) != later.heavy_instances if later.heavy_keys.size else np.zeros(0, bool)
    moved_load = float(later.heavy_weights[elsewhere].sum())
    if later.bucket_weights.size:
        moved_load += float(later.bucket_weights[moved].sum())
    return {
        "buckets": int(later.buckets.size),
        "buckets_moved": int(moved.sum()),
        "keys_moved": sum(before[key] != now[key] for key in before.keys() & now.keys()),
        "keys_new": len(now.keys() - before.keys()),
        "keys_gone": len(before.keys() - now.keys()),
        "moved_load_pct": 100.0 * moved_load / load if load > 0.0 else None,
    }


def _pct(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"
