"""Which modules workers need: all of `evenly.worker` and whatever those import, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

Imports = tuple[frozenset[str], frozenset[str]]
"""What a module imports when it is loaded, and what a function of it imports when it is called."""
Sources = Callable[[str], "bytes | None"]
"""The source of a module by its name; None for a name that is no module of the package."""


def imports_of(source: bytes) -> Imports:
    """The names that a source imports. Each may be a module, or a name in one: who has the sources can tell."""
    loaded: set[str] = set()
    called: set[str] = set()
    _read(ast.parse(source).body, loaded, called)
    return frozenset(loaded), frozenset(called)


def closure(roots: Iterable[str], sources: Sources, *, package: str, without: str) -> dict[str, bytes]:
    """The sources of `roots` and of all modules of `package` that these import, by name, in order of their names.

    A module that cannot be loaded without the library `without` stays behind, as does what only it imports. That must not be
    one that another module loads with itself: then that one stays behind too, and so on up to the root.
    """
    found: dict[str, tuple[bytes, frozenset[str], frozenset[str]]] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or (source := sources(name)) is None:
            continue
        loaded, called = imports_of(source)
        found[name] = (source, loaded | _parents(name), called)
        waiting.extend(each for each in found[name][1] | called if _within(each, package))
    barred = _barred({name: loaded for name, (_, loaded, _) in found.items()}, without)
    kept: dict[str, bytes] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found and name not in kept and name not in barred:
            kept[name] = found[name][0]
            waiting.extend(found[name][1] | found[name][2])
    return dict(sorted(kept.items()))


def _barred(loaded: dict[str, frozenset[str]], without: str) -> set[str]:
    barred = {name for name, names in loaded.items() if any(_within(each, without) for each in names)}
    while more := {name for name, names in loaded.items() if name not in barred and names & barred}:
        barred |= more
    return barred


def _read(body: Iterable[ast.AST], loaded: set[str], called: set[str]) -> None:
    for node in body:
        if isinstance(node, ast.Import):
            loaded.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            # Nothing here imports by dots (ruff sees to that).
            loaded.update((str(node.module), *(f"{node.module}.{each.name}" for each in node.names)))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _read(node.body, called, called)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            _read(node.orelse, loaded, called)
        else:
            _read(_statements(node), loaded, called)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    return (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt | ast.ExceptHandler | ast.match_case))


def _parents(name: str) -> frozenset[str]:
    parts = name.split(".")
    return frozenset(".".join(parts[:at]) for at in range(1, len(parts)))


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
