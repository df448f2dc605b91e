"""A module of a PyTorch model, replaced by its program on this machine (extra ``torch``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..machine.errors import PenstockError
from ..runs import api
from . import emit, reader
from .given import checked_sizes, layer_of
from .values import GIVEN, Given, size_names


def from_torch(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    out: str | Path,
    dynamic_shapes: Any = None,
    config: Any = "fig8",
    on: str = "model",
) -> Any:
    """A module that computes a layer on this machine, in the place of ``module``.

    Exports the layer with torch.export to ``out``.pt2 and writes the program ``out``.py and its
    schedule, unless there is one; each call runs the program on its tensors.

    Parameters
    ----------
    module
        In eval mode.
    args, kwargs, dynamic_shapes
        As of torch.export.export.
    out
        Path of the three files, without a suffix.
    config, on
        As of :func:`penstock.run`.

    Returns
    -------
    torch.nn.Module
        It takes and returns what ``module`` does, of the same types; numbers and None are those of
        the export. Its ``records`` are those of the last call, its ``program`` the program's path.

    Raises
    ------
    PenstockError
        No torch, or a layer that is refused.
    """
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise PenstockError(
            "needs torch", "from_torch", remedy="pip install penstock[torch]"
        ) from None
    if not (name := Path(out).name).isidentifier():
        raise PenstockError(f"{name!r} is no name of a program", "from_torch: out")
    exported = torch.export.export(module, tuple(args), kwargs, dynamic_shapes=dynamic_shapes)
    archive = f"{out}.pt2"
    torch.export.save(exported, archive)
    emit.write(reader.read(archive), f"{name}.pt2", f"{out}.py", f"{out}.toml")
    return _module(torch, exported, (tuple(args), dict(kwargs or {})), f"{out}.py", config, on)


def _module(torch: Any, exported: Any, given: tuple, program: str, config: Any, on: str) -> Any:
    """A module that runs a program on its arguments, which are arranged as those ``given``."""
    tree = torch.utils._pytree
    wanted, arranged = tree.tree_flatten(given)
    fixed = [x for x in wanted if not isinstance(x, torch.Tensor)]
    form = layer_of(program).form
    types = [getattr(torch, form.values[o.name].dtype) for o in form.outputs]

    class Imported(torch.nn.Module):
        """The layer on this machine."""

        def __init__(self):
            super().__init__()
            self.program, self.records = program, []

        def forward(self, *args: Any, **named: Any) -> Any:
            named = {k: named[k] for k in given[1] if k in named} | named  # in the order of export
            leaves, found = tree.tree_flatten((args, named))
            if found != arranged or fixed != [x for x in leaves if not isinstance(x, torch.Tensor)]:
                raise PenstockError(
                    "takes the arguments that it was exported with, and other tensors",
                    program,
                    remedy="replace the module with the arguments of this call",
                )
            inputs = [x.detach() for x in leaves if isinstance(x, torch.Tensor)]
            arrays = [(x.float() if x.is_floating_point() else x).numpy() for x in inputs]
            self.records, results = run(program, arrays, config, on)
            named = dict(zip((v.name for v in form.inputs), inputs, strict=True))
            found = [torch.from_numpy(a).to(t) for a, t in zip(results, types, strict=True)]
            tensors = iter(
                [
                    named[o.mutates].copy_(t) if o.mutates else t
                    for o, t in zip(form.outputs, found, strict=True)
                ]
            )
            specs = exported.graph_signature.output_specs
            values = [s.arg.value if hasattr(s.arg, "value") else next(tensors) for s in specs]
            return tree.tree_unflatten(values, exported.call_spec.out_spec)

    return Imported()


def run(
    program: str, arrays: Sequence[np.ndarray], config: Any, on: str
) -> tuple[list, list[np.ndarray]]:
    """Records of an imported program's run on arrays in the order of its signature, and results."""
    layer = layer_of(program)
    form = layer.form
    named = {v.name: a for v, a in zip(form.inputs, arrays, strict=True)}
    sizes = checked_sizes(form, named, program)
    params = {name: sizes[symbol] for symbol, name in size_names(form).items()}
    GIVEN[layer.program] = Given(named)
    try:
        records = api.run(program, config, params, on=on)
    finally:
        del GIVEN[layer.program]
    return records, layer.results(records[-1].outputs or {}, sizes)
