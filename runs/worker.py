"""Worker process: a batch of points, and the watch over its parent."""

from __future__ import annotations

import os
import threading
from dataclasses import asdict
from multiprocessing import connection, parent_process
from typing import Any

from ..machine.errors import PenstockError
from .outcomes import Outcome, outcomes
from .task import Batch, sources_digest

turn = threading.Lock()
"""Points of one process run one after the other: workers of a cluster may have several threads."""


def run(batch: Batch) -> list[Outcome]:
    """Run the points of a batch; those that fail carry their errors.

    Raises
    ------
    PenstockError
        What is wrong with the call itself, and sources other than those that were asked for.
    """
    with turn:
        wanted = batch.sources
        if wanted is not None and sources_digest(batch.program, batch.how.on_rtl) != wanted:
            raise PenstockError(
                "a worker has other sources than this process",
                rule="all of a store's records are of the sources in their keys",
                remedy="install the same Penstock, and the same program, where the workers run",
            )
        options: dict[str, Any] = asdict(batch.how) | {"keep_going": True}
        return outcomes(
            batch.program, batch.config, list(batch.points), seed=list(batch.seeds), **options
        )


def begin() -> None:
    """Have this process end as soon as the one that started it is gone."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
