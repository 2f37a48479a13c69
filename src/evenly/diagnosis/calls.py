"""Code to paste: the call that a recommendation asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence


def key_argument(keys: Sequence[str]) -> str:
    """One name, or a list of names, as Python writes it."""
    names = [json.dumps(name, ensure_ascii=False) for name in keys]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def by_key_call(keys: Sequence[str], instances: int) -> str:
    """Whole keys on the instance that has least to do."""
    grouped = ", ".join(json.dumps(name, ensure_ascii=False) for name in (*keys, "slot"))
    return f"df.transform(evenly.by_key, key={key_argument(keys)}, instances={instances}).groupBy({grouped})"


def aggregate_by_key_call(keys: Sequence[str], instances: int) -> str:
    """A key too hot for one instance on several, and a merge."""
    merging = "evenly.Merging(partial, merge, schema)"
    return f"evenly.aggregate_by_key(df, {merging}, key={key_argument(keys)}, instances={instances})"


def apply_by_cost_call(instances: int) -> str:
    """Rows to instances by what they cost; without cost_key Evenly finds the column that predicts it best."""
    return f"df.transform(evenly.apply_by_cost, function=function, schema=schema, instances={instances})"
