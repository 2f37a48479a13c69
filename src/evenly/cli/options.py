"""Options that several commands take, and what is checked of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from evenly.checks import checked_instances
from evenly.errors import InvalidParameter

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead, for programs.")]


def names_in(texts: Sequence[str]) -> list[str]:
    """The names in texts with commas between, each once."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",")))


def wanted_names(texts: Sequence[str]) -> list[str]:
    """The same of names of the catalogue or of a user's own, which are looked for where the command is run, too."""
    import_from_here()
    return names_in(texts)


def import_from_here() -> None:
    """Let modules be found in the folder where the command is run: an installed command has its own folder there instead."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def instance_numbers(text: str) -> list[int]:
    """The numbers of `--instances`, each once."""
    try:
        return list(dict.fromkeys(checked_instances(int(part)) for part in text.split(",")))
    except InvalidParameter:
        raise
    except ValueError as error:
        raise InvalidParameter(
            f"--instances must be whole numbers with commas between, such as 4,8,16, got {text!r}"
        ) from error


def check_file(path: Path | None, option: str) -> None:
    """Before the work, so that a bad path does not cost it."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise InvalidParameter(f"{option} must name a file in a folder that exists, got {path}")
    if path is not None and not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidParameter(f"{option} must name a file that you may write, got {path}")


def make_folder(path: Path, option: str) -> None:
    """Before the work, so that a bad folder does not cost it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(f"{option} must name a folder that can be made and written to, got {path}: {error}") from error


def session_settings(conf: Sequence[str], master: str | None) -> dict[str, str]:
    """Settings of Spark given as `name=value`, and its master."""
    settings = {} if master is None else {"spark.master": master}
    for text in conf:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise InvalidParameter(f"--conf must be name=value, such as spark.executor.memory=4g, got {text!r}")
        settings[name.strip()] = value
    where = settings.get("spark.master", "local")
    if not (re.fullmatch(r"local(-cluster)?(\[[^\]]+\])?|yarn", where) or "://" in where):
        raise InvalidParameter(
            f"--master must be local, local[8], yarn, or an address such as spark://host:7077 or k8s://host:443, got {where!r}"
        )
    return settings
