"""Five operators profiled for real, a plan made of their models, and the plan run: does it hold its rate?

python benchmarks/real_plan.py [--seconds 3] [--part 0.6] [--models models.yaml] [--json]

The plan is for a part of the highest rate that this machine's cores have room for: the source, the sink and the remote
service run on the same cores, and no slot is charged for them. It is run with its number of threads and slots, the slots
as processes. Run it on an idle machine: what others take from the cores changes from the profile to the run.
"""

from __future__ import annotations

import os
from pathlib import Path

from arguments import benchmark_parser
from evenly.cli.output import print_json, results
from evenly.dataflow.files import shipped_dataflow
from evenly.dataflow.functions import target_of
from evenly.lab.slots.operators import OperatorSpec
from evenly.lab.slots.run import run_plan
from evenly.lab.slots.trials import SlotTrials, TrialOptions
from evenly.planning import Assumptions, Catalogue, MachineSize, highest_rate, plan, read_models, shipped_models
from evenly.planning.models import Models
from evenly.planning.profiling.search import SearchOptions, model_of, profile_threads

TOLERANCE = 0.15


def measured(seconds: float) -> Models:
    """A model of each of the five example operators."""
    models = shipped_models()
    how = SearchOptions(precision=0.08, most_threads=24, first_rate=40.0)
    for one in shipped_dataflow("examples").operators:
        if one.function:
            with SlotTrials(OperatorSpec(target_of(one.function)), TrialOptions(seconds=seconds, slope=0.05)) as trials:
                model = model_of(one.model, list(profile_threads(trials.run, how)))
            best = model.best
            results.print(f"{one.model}: {best.rate:,.4g} tuples/s with {best.threads} threads at {best.cpu_pct:.0f} % cpu")
            models = models.with_others([model])
    return models


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of a trial")
    parser.add_argument("--part", type=float, default=0.6, help="of the highest rate")
    parser.add_argument("--run", type=float, default=20.0, help="seconds of the run")
    parser.add_argument("--models", type=Path, help="models of an earlier profile")
    options = parser.parse_args()
    models = shipped_models().with_others(read_models(options.models).values()) if options.models else measured(options.seconds)
    flow = shipped_dataflow("examples")
    here = Catalogue((MachineSize("here", os.cpu_count() or 1),)).take([("here", 1)])
    assumed = Assumptions("slot-aware")
    most = highest_rate(flow, models, here, assumptions=assumed)
    made = plan(flow, models, options.part * most.rate, machines=here, assumptions=assumed)
    found = run_plan(made, seconds=options.run)
    ratio = found.observed_rate / made.rate
    result = {
        "planned_rate": made.rate,
        "predicted_rate": made.prediction.rate,
        "observed_rate": found.observed_rate,
        "ratio": ratio,
        "threads": made.placement.allocation.threads,
        "slots": made.placement.slots,
        "highest_rate": most.rate,
        "completion_ms_mean": found.completion_ms_mean,
        "holds": ratio >= 1.0 - TOLERANCE,
    }
    if options.json:
        print_json("real_plan", {"seconds": options.seconds, "part": options.part}, [result])
    else:
        results.print(
            f"planned {made.rate:.4g} tuples/s ({result['threads']} threads on {result['slots']} slots), "
            f"observed {found.observed_rate:.4g}: {100 * ratio:.0f} %, {'held' if result['holds'] else 'not held'} "
            f"within {100 * TOLERANCE:.0f} %; the cores have room for {most.rate:.4g}"
        )


if __name__ == "__main__":
    main()
