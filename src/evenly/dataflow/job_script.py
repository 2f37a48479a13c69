"""A dataflow as a script for `spark-submit`: one file, with the description in it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenly.dataflow.files import dataflow_yaml
from evenly.dataflow.functions import target_of
from evenly.dataflow.graph import Dataflow
from evenly.dataflow.stages import settings_of, stages_of

_SCRIPT = '''"""A dataflow for spark-submit, which says on which master and with which settings.

{command}
"""

import evenly
from evenly.dataflow.files import parse_dataflow

FLOW = {flow}


def main() -> None:
    query = evenly.run(
        parse_dataflow(FLOW, file={file!r}),
        checkpoint={checkpoint!r},
        trigger={trigger!r},
        exactly_once={exactly_once!r},
    )
    if query is not None:
        query.awaitTermination()


if __name__ == "__main__":
    main()
'''


def job_script(flow: Dataflow, checkpoint: str | None, trigger: Mapping[str, Any] | None, *, exactly_once: bool = False) -> str:
    """The script. A dataflow that cannot be run is refused now."""
    stages_of(flow)
    text = dataflow_yaml(flow)
    plain = not any(mark in text for mark in ("\\", '"""'))
    return _SCRIPT.format(
        command=submit_command(flow, Path("job.py")),
        flow=f'"""\\\n{text}"""' if plain else repr(text),
        file=flow.file or "dataflow",
        checkpoint=checkpoint,
        trigger=None if trigger is None else dict(trigger),
        exactly_once=exactly_once,
    )


def submit_command(flow: Dataflow, script: Path) -> str:
    """How to call it, with the modules of functions that are in the folder where it is called."""
    modules = {target_of(one.function).partition(":")[0].partition(".")[0] for one in flow.operators if one.function}
    beside = sorted(f"{name}.py" for name in modules if Path(f"{name}.py").is_file())
    state = [part for setting in settings_of(flow).items() for part in ("--conf", "=".join(setting))]
    return shlex.join(["spark-submit", *state, *(["--py-files", ",".join(beside)] if beside else []), str(script)])
