"""Compiles the engine in a process beside this one, which meanwhile builds a simulator.

The code goes into numba's cache, where this process finds it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable

from ..machine.unitgraph import UnitGraph
from ..system import children


def beside(graphs: Iterable[UnitGraph]) -> Callable[[], None]:
    """Begin to compile the functions of runs of ``graphs``; the returned function waits for them.

    What does not compile there is compiled, and told, by the run.
    """
    graphs = list(graphs)
    command = children.module(__name__, *sorted(_kernels(graphs) | _units(graphs)))
    thread = threading.Thread(target=children.run, args=[command], daemon=True)
    thread.start()
    return thread.join


def _units(graphs: Iterable[UnitGraph]) -> set[str]:
    """``unit:FUNCTION`` for each function of the units, those of users left out."""
    from .acts import act_of, built_in

    acts = {act_of(unit.kind.name) for g in graphs for unit in g.units}
    return {f"unit:{act}" for act in acts if act is not None and built_in(act)}


def _kernels(graphs: Iterable[UnitGraph]) -> set[str]:
    """Tile kernels of the units, those that a user has registered left out."""
    from . import functions

    own = set()
    for unit in (u for g in graphs for u in g.units):
        if unit.kind.name == "matmul":
            own.add("matmul_bt" if unit.kind.transposed else "matmul")
        own |= {getattr(unit.kind, "fn", None), unit.kind.values}
    return own & {"matmul", "matmul_bt", *functions.BUILT_IN}


def _compile(names: Iterable[str]) -> None:
    from . import acts, engine, kernels

    engine.compile_all()
    for name in names:
        kind, _, function = name.rpartition(":")
        if kind == "unit":
            acts.address(function)
        elif name.startswith("matmul"):
            kernels.matmul_address(name == "matmul_bt")
        else:
            kernels.address(name)


if __name__ == "__main__":
    _compile(sys.argv[1:])
