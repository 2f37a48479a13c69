"""`evenly remember`: what runs have left in a folder for the next ones (`remember=`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from evenly.cli.local_folders import local_folder
from evenly.cli.options import Json
from evenly.cli.output import note, print_json, print_table, say
from evenly.errors import EvenlyError, UnwritableFile
from evenly.files import read_whole
from evenly.numbers import plain
from evenly.remembered import MOST_BYTES, PastRun, Remembered, is_memory

app = typer.Typer(
    no_args_is_help=True, help="Look at what runs with remember= have left for the next ones, or have it learnt anew."
)
_Folder = Annotated[
    str, typer.Argument(metavar="PATH", help="A folder given as remember=, or one with such folders in it. A local path.")
]


@dataclass(frozen=True)
class _Found:
    """A file of ours, and what is in it, or why that cannot be read."""

    path: Path
    remembered: Remembered | None
    damage: str | None = None


@app.command("list")
def list_command(folder: _Folder, json: Json = False) -> None:
    """List what is remembered in a folder and in the folders in it: of which key and weight, over how many instances, and λ."""
    found = list(_found(_local(folder)))
    if json:
        print_json("remember list", {"path": folder}, [_memory(it) for it in found])
        return
    if not found:
        say(f"Nothing is remembered in {folder}.")
        return
    lines = [_line(it) for it in found]
    print_table(
        ("folder", "what", "learnt at", "runs", "λ promised", "λ carried", "next run"), lines, left=(0, 1, 2, 6), folded=1
    )


@app.command("show")
def show_command(folder: _Folder, json: Json = False) -> None:
    """Show all that is remembered in a folder: what was learnt, when and why, and how its last runs turned out."""
    found = list(_found(_local(folder)))
    if json:
        results = [one for it in found for one in (_memory(it), *(_run(it, run) for run in _runs(it)))]
        print_json("remember show", {"path": folder}, results)
        return
    if not found:
        say(f"Nothing is remembered in {folder}.")
    for it in found:
        kept = it.remembered
        if kept is None:
            say((str(it.path), "bold"), f" cannot be read, and is learnt anew by the next run: {it.damage}")
            continue
        say((str(kept.subject), "bold"), f" ({it.path})")
        say(f"Learnt at {kept.learnt_at}: {kept.why}. {_next(kept)}.")
        weight = kept.subject.weight
        if kept.runs:
            lines = [
                (
                    run.ended_at,
                    run.did,
                    plain(run.rows, 4) if weight else f"{run.rows:,.0f}",
                    _pct(run.promised_pct),
                    _pct(run.carried_pct),
                    run.judged,
                )
                for run in kept.runs
            ]
            headings = ("run ended at", "mapping", "weight" if weight else "rows", "λ promised", "λ carried", "judged")
            print_table(headings, lines, left=(0, 1, 5), folded=5)


@app.command("forget")
def forget_command(folder: _Folder, json: Json = False) -> None:
    """Remove what is remembered in a folder and in the folders in it, and nothing else: the next run learns anew."""
    found = list(_found(_local(folder)))
    for it in found:
        try:
            it.path.unlink(missing_ok=True)
            it.path.with_name(f".{it.path.name}.crc").unlink(missing_ok=True)  # Hadoop's, beside a local file
        except OSError as error:
            raise UnwritableFile(f"{it.path} cannot be removed: {error}") from error
    if json:
        print_json("remember forget", {"path": folder}, [_memory(it) for it in found])
    else:
        say(f"Forgotten: {len(found)} in {folder}.")
    if not found:
        note(f"Nothing is remembered in {folder}.")


def _local(given: str) -> Path:
    """The folder, if it is on this machine."""
    what = "what remember= was given, or the folder of spark.evenly.remember"
    return local_folder(given, what=what, remedy="Copy it here first, or delete its files there, and the next run learns anew")


def _found(folder: Path) -> Iterator[_Found]:
    for path in sorted((*folder.glob("*.json"), *folder.glob("*/*.json"))):
        if is_memory(path.name) and path.is_file():
            yield _read(path)


def _read(path: Path) -> _Found:
    try:
        if path.stat().st_size > MOST_BYTES:
            return _Found(path, None, f"it has {path.stat().st_size:,} bytes")
        return _Found(path, Remembered.from_json(read_whole(path, what="what runs have left"), source=str(path)))
    except (EvenlyError, OSError) as error:
        return _Found(path, None, str(error))


def _runs(found: _Found) -> tuple[PastRun, ...]:
    return () if found.remembered is None else found.remembered.runs


def _memory(found: _Found) -> dict[str, object]:
    told: dict[str, object] = {"series": "memory", "folder": str(found.path.parent), "file": found.path.name}
    kept = found.remembered
    if kept is None:
        return {**told, "damage": found.damage}
    return {
        **told,
        "use": kept.subject.use,
        "key": ", ".join(kept.subject.columns),
        "types": ", ".join(kept.subject.types),
        "instances": kept.subject.instances,
        "weight": kept.subject.weight,
        "learnt_at": kept.learnt_at,
        "why": kept.why,
        "anew": kept.anew,
        "past_runs": len(kept.runs),
    }


def _run(found: _Found, run: PastRun) -> dict[str, object]:
    return {
        "series": "past run",
        "folder": str(found.path.parent),
        "file": found.path.name,
        "ended_at": run.ended_at,
        "did": run.did,
        "why": run.why,
        "rows": int(run.rows) if run.rows.is_integer() else run.rows,
        "promised_pct": run.promised_pct,
        "carried_pct": run.carried_pct,
        "judged": run.judged,
    }


def _line(found: _Found) -> tuple[str, ...]:
    kept = found.remembered
    if kept is None:
        return str(found.path.parent), f"cannot be read: {found.damage}", "", "", "", "", "learns anew"
    last = kept.runs[-1] if kept.runs else None
    outcome = ("", "") if last is None else (_pct(last.promised_pct), _pct(last.carried_pct))
    following = "learns anew" if kept.anew else "keeps it"
    return str(found.path.parent), str(kept.subject), kept.learnt_at, str(len(kept.runs)), *outcome, following


def _next(kept: Remembered) -> str:
    return f"The next run learns anew: {kept.anew}" if kept.anew else "The next run keeps it"


def _pct(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"
