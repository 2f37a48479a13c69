"""Notebooks and scripts, as pages."""

from __future__ import annotations

import ast
import json
import re


def notebook_page(text: str) -> str:
    """The words and the code of a notebook, without what it has shown."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"


def script_page(name: str, text: str) -> str:
    """What a script says of itself, then the script."""
    told = ast.get_docstring(ast.parse(text)) or ""
    title, _, more = told.partition("\n")
    code = re.sub(r'\A"""(?:.|\n)*?"""\n+', "", text)
    return f"# {title.rstrip('.')}\n\n{more.strip()}\n\n`{name}`:\n\n```python\n{code}```\n"
