"""JSON sidecar of an export: ports, fields of streams, modules; of a fabric also units, tensors,
memory ports, and streams from and to outside.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import TypedDict

from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data, wiring

from ...machine.beat import STOP_DONE, payload_to_dict
from ...machine.config import Config, to_dict
from ...machine.unitgraph import UnitGraph
from ..yosys import VERSION as YOSYS
from .place import Library, ports_of
from .rewrite import OPERATOR

SHARED = ("lane", "tile", "site")
"""Modules of these kinds are worth compiling once and linking many times."""


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
    return {"unit": u, "name": unit.name, "kind": unit.kind.name, "operator": unit.node}


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
    (tensor,) = [x for x in graph.tensors if x.name == unit.kind.tensor]
    return {
        "port": port,
        **_unit(graph, u),
        "direction": unit.kind.offchip,
        "tensor": tensor.name,
        "dtype": tensor.dtype,
        "base": unit.kind.base,
        "pitch": unit.kind.pitch,
    }


def _streams(graph: UnitGraph, kind: str, prefix: str) -> list[dict]:
    """Streams from or to outside; each ends with a Done beat."""
    out = []
    for u in graph.units:
        if u.kind.name == kind:
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


def _fields(layout: ShapeLike) -> dict:
    """Fields of a layout: name -> {offset, bits, fields}."""
    if isinstance(layout, data.StructLayout):
        return {
            key: {
                "offset": field.offset,
                "bits": Shape.cast(field.shape).width,
                **_nested(field.shape),
            }
            for key, field in layout
        }
    return {}


def _nested(shape: ShapeLike) -> dict:
    if isinstance(shape, data.ArrayLayout):
        return {"length": shape.length, **_nested(shape.elem_shape)}
    return {"fields": _fields(shape)} if isinstance(shape, data.StructLayout) else {}


def described(
    component: wiring.Component, name: str, library: Library, names: Mapping[str, str]
) -> dict:
    """The sidecar of a component whose modules a library has, with the names that leave."""
    ports = [
        {"name": port, "direction": "input" if flow == wiring.In else "output", "bits": len(value)}
        for port, (value, flow) in ports_of(component).items()
        if len(value)
    ]
    streams = {}
    for path, _, value in component.signature.flatten(component):
        if path[-1] == "payload" and isinstance(value, data.View):
            streams["_".join(map(str, path[:-1]))] = _fields(value.shape())
    config = getattr(component, "config", None)
    config = config if isinstance(config, Config) else None
    return {
        "top": name,
        "config": {"name": config.name, **to_dict(config)} if config else None,
        "graph": None,
        "ports": ports,
        "streams": streams,
        "registers": [],
        **getattr(component, "sidecar", {}),
        "modules": [
            {
                "name": names[key.name],
                "kind": key.kind,
                "parameters": key.parameters,
                "digest": key.digest,
            }
            for key in library.keys.values()
            if key.kind != OPERATOR
        ],
        "shared": [names[key.name] for key in library.keys.values() if key.kind in SHARED],
        "versions": {
            "penstock": version("penstock"),
            "amaranth": version("amaranth"),
            "yosys": YOSYS,
        },
    }
