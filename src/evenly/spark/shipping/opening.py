"""How a worker loads a function: first it makes sure that its Evenly is the driver's, then it unpickles.

A worker gets this module's functions by their code, for it may have no Evenly yet: nothing here may need another module of
Evenly, nor a name of this module that is not a function or a plain value.
"""

from __future__ import annotations

from typing import Any


def opened(version: str, archive: str | None, home: str, payload: bytes) -> Any:
    """What was pickled at the driver, by Evenly `version`: with the code of the file `archive`, which Spark has put on the
    path, or, if there is none, with that which is installed here as `home`."""
    import pickle  # noqa: PLC0415 - here and below: whoever has the code of a function only imports what it needs itself

    if archive is None:
        use_installed(version, home)
    else:
        use_archive(version, archive)
    try:
        return pickle.loads(payload)  # noqa: S301 - what the driver has just made
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "evenly":
            raise wrong(
                f"{error.name} of Evenly {version} is not sent to Spark's workers, and a function refers to it"
            ) from error
        if missing in ("numpy", "pandas", "pyarrow"):
            raise wrong(f"it has no {missing}, which the function needs there: pip install {missing}") from error
        raise


def use_archive(version: str, archive: str) -> None:
    """Import Evenly from the archive, also where a worker has another Evenly, or has loaded one for a task before."""
    import importlib  # noqa: PLC0415
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    there = next((path for path in sys.path if os.path.basename(path) == archive), None)  # noqa: PTH119
    if there is None:
        raise wrong(f"Evenly {version} was not sent to it: {archive} is not on its path")
    loaded = sys.modules.get("evenly")
    if loaded is not None and str(getattr(loaded, "__file__", None)).startswith(os.path.join(there, "")):  # noqa: PTH118
        return
    for name in [name for name in sys.modules if name == "evenly" or name.startswith("evenly.")]:
        del sys.modules[name]
    # Before all else: Spark leaves the folder that a worker was started in before what was sent.
    sys.path.remove(there)
    sys.path.insert(0, there)
    found = importlib.import_module("evenly")
    if not str(found.__file__).startswith(os.path.join(there, "")):  # noqa: PTH118
        raise wrong(f"it loads Evenly from {found.__file__}, and not what was sent to it: uninstall that one there")


def use_installed(version: str, home: str) -> None:
    """Import the Evenly that is installed here, if it is the driver's."""
    import importlib  # noqa: PLC0415

    try:
        found = importlib.import_module("evenly")
    except ModuleNotFoundError as error:
        raise wrong(f"it does not find Evenly, which the driver has from {home}") from error
    if found.__version__ != version or str(found.__file__) != home:
        raise wrong(
            f"it has Evenly {found.__version__} from {found.__file__}, and the driver Evenly {version} from {home}: "
            "start Python and its session anew"
        )


def wrong(why: str) -> Exception:
    """An error that the driver takes for a `WrongPython`, which is not to be had here."""
    import platform  # noqa: PLC0415
    import sys  # noqa: PLC0415

    kind: type[Exception] = type("WrongPython", (RuntimeError,), {"__module__": "evenly.errors"})
    return kind(f"the Python of a Spark worker ({sys.executable}, {platform.python_version()}, on {platform.node()}): {why}")
