"""Whether costs were learnt in the types that a cost key has now: an id is a hash, and another type has other hashes."""

from __future__ import annotations

from evenly.costs.model import CostModel
from evenly.errors import InvalidParameter
from evenly.spark.placing.mapping_check import hashed_alike


def of_these_types(model: CostModel, types: tuple[str, ...]) -> bool:
    """Whether a key of these types has the ids that a model knows; True where the model does not say."""
    return not model.types or (len(model.types) == len(types) and all(map(hashed_alike, model.types, types)))


def checked_types(model: CostModel, types: tuple[str, ...]) -> CostModel:
    """The model, which says now which types its key has; refused if its ids are of others."""
    if not of_these_types(model, types):
        now, then = (
            ", ".join(f"{name} ({kind})" for name, kind in zip(model.expressions, told, strict=False))
            for told in (types, model.types)
        )
        raise InvalidParameter(
            f"the costs are of the key {then}, and here it is {now}: Spark hashes equal keys of these types differently, so no "
            "row would find its cost. Cast the columns to the types of then, or leave out costs= once and learn them anew"
        )
    return model if model.types else model.typed(types)
