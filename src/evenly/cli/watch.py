"""`evenly watch`: a live page of what runs, from its records."""

from __future__ import annotations

import secrets
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from evenly.cli.output import note, say
from evenly.errors import InvalidParameter
from evenly.watching.live import PORT, LiveWatch, check_installed
from evenly.watching.sources import Waited, check_readable, demonstration, files_of, follow, replay


def watch(
    path: Annotated[
        Path | None, typer.Argument(help="A file of JSON lines that evenly.emit_to writes, or a folder of such files.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show a drifting stream being rebalanced. Needs no set-up.")] = False,
    again: Annotated[bool, typer.Option("--replay", help="Show what is in the file as it once came, and end there.")] = False,
    speed: Annotated[float, typer.Option(help="With --replay: so many times as fast.")] = 1.0,
    host: Annotated[
        str, typer.Option(help="The address to serve at. Others than this machine's own need a --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to serve at; 0: any free one.")] = PORT,
    token: Annotated[
        str | None,
        typer.Option(help="What a browser must know to read the page; new: one is made.", envvar="EVENLY_WATCH_TOKEN"),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Show what runs in the browser, while it runs: instances, λ, heavy keys, batches, backlogs and every decision.

    A job tells what it does after evenly.emit_to("facts.jsonl") in its program. Ends with Ctrl-C.

    Try: evenly watch --demo
    """
    check_installed()
    source, title = _source(path, demo=demo, again=again, speed=speed)
    made = secrets.token_urlsafe(24) if token == "new" else token  # noqa: S105 - the word, not a token
    ended = "The replay has ended: this is the last of the file." if again else ""
    try:  # an interrupt may come as soon as the address is there
        with LiveWatch(title=title, source=source, host=host, port=port, token=made, ended=ended) as live:
            say(live.url)
            note("Ctrl-C ends it." + " Its very first start compiles for some seconds before records come." * demo)
            if browser:
                webbrowser.open(live.url)
            live.wait()
    except KeyboardInterrupt:
        note("Ended.")


def _source(path: Path | None, *, demo: bool, again: bool, speed: float) -> tuple[Iterator[Waited], str]:
    if demo:
        if path is not None or again:
            raise InvalidParameter("--demo shows records of its own: leave the path and --replay out")
        return demonstration(time.time()), "A demonstration: keys drift, and the mapping follows"
    if path is None:
        raise InvalidParameter("name a file or folder that evenly.emit_to writes to, or try evenly watch --demo")
    if speed != 1.0 and not again:
        raise InvalidParameter(f"--speed {speed:g} is of a replay: give --replay too")
    check_readable(path)
    if not again:
        return follow(path), f"Records of {path.name or path}"
    if not files_of(path):
        raise InvalidParameter(f"{path} has no file that ends in .jsonl: there is nothing to replay")
    return replay(path, speed=speed), f"Replay of {path.name or path}"
