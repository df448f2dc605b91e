"""Program part of a fabric's JSON sidecar: units, tensors, memory ports, and streams from and to
outside.
"""

from typing import TypedDict

from ..machine.beat import STOP_DONE, payload_to_dict
from ..machine.kinds import kind_of
from ..machine.unitgraph import UnitGraph


class Register(TypedDict):
    """A run-time register: ``param`` of ``unit`` (element ``index`` of a list), its address on
    ``cfg_addr``, its bits, and its value after configuration.
    """

    unit: int
    param: str
    index: int | None
    addr: int
    bits: int
    init: int


def program(graph: UnitGraph) -> dict:
    """The part of the sidecar that a bench needs besides ports and registers (docs/top.md)."""
    return {
        "units": [_unit(graph, u.id) for u in graph.units],
        "tensors": [_tensor(x) for x in graph.tensors],
        "memory": [_port(graph, p, u) for p, u in enumerate(graph.ports)],
        "memory_bytes": graph.memory_bytes,
        "sources": _streams(graph, "source", "src"),
        "sinks": _streams(graph, "sink", "snk"),
    }


def _unit(graph: UnitGraph, u: int) -> dict:
    unit = graph.units[u]
    return {"unit": u, "name": unit.name, "kind": unit.kind, "operator": unit.node}


def _tensor(x) -> dict:
    return {
        "name": x.name,
        "role": x.role,
        "rows": x.rows,
        "cols": x.cols,
        "dtype": x.dtype,
        "base": x.base,
        "pitch": x.pitch,
    }


def _port(graph: UnitGraph, port: int, u: int) -> dict:
    """An off-chip unit: its id on the wire, and the tensor that it reads or writes."""
    unit = graph.units[u]
    (tensor,) = [x for x in graph.tensors if x.name == unit.params["tensor"]]
    return {
        "port": port,
        **_unit(graph, u),
        "direction": kind_of(unit.kind).offchip,
        "tensor": tensor.name,
        "dtype": tensor.dtype,
        "base": unit.params["base"],
        "pitch": unit.params["pitch"],
    }


def _streams(graph: UnitGraph, kind: str, prefix: str) -> list[dict]:
    """Streams from or to outside; each ends with a Done beat."""
    out = []
    for u in graph.units:
        if u.kind == kind:
            (channel,) = graph.outputs(u.id) if kind == "source" else graph.inputs(u.id)
            out.append(
                {
                    **_unit(graph, u.id),
                    "stream": f"{prefix}{u.id}",
                    "payload": payload_to_dict(channel.payload),
                    "done": {"data": 0, "stop": STOP_DONE},
                }
            )
    return out
