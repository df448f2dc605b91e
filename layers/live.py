"""A module of a PyTorch model, replaced by its program on this machine (extra ``torch``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..machine.errors import PenstockError
from ..runs import api
from ..system import output
from . import emit, reader
from .given import checked_sizes, layer_of
from .values import GIVEN, Given, LayerFile, size_names


def write(archive: Path, out: Path) -> str:
    """Write the program and the schedule of an archive in the same folder; the program's path."""
    program, schedule = emit.program(reader.read(archive), archive.name)
    output.write_text(out.with_suffix(".toml"), schedule)
    output.write_text(out.with_suffix(".py"), program)
    return str(out.with_suffix(".py"))


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
    schedule; each call runs the program on its tensors.

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
        Its ``records`` are those of the last call, its ``program`` the path of the program.

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
    out = Path(out)
    exported = torch.export.export(module, tuple(args), kwargs, dynamic_shapes=dynamic_shapes)
    archive = out.with_suffix(".pt2")
    torch.export.save(exported, str(archive))
    program = write(archive, out)

    class Imported(torch.nn.Module):
        """The layer on this machine."""

        def __init__(self):
            super().__init__()
            self.program, self.records = program, []

        def forward(self, *tensors: Any, **named: Any) -> Any:
            arrays = [
                (x.float() if x.is_floating_point() else x).detach().numpy()
                for x in (*tensors, *named.values())
            ]
            self.records, results = run(program, arrays, config, on)
            found = tuple(torch.from_numpy(a) for a in results)
            return found[0] if len(found) == 1 else found

    return Imported()


def run(
    program: str, arrays: Sequence[np.ndarray], config: Any, on: str
) -> tuple[list, list[np.ndarray]]:
    """Records of an imported program's run on arrays in the order of its signature, and results."""
    layer: LayerFile = layer_of(program)
    form = layer.form
    if len(arrays) != len(form.inputs):
        raise PenstockError(f"takes {len(form.inputs)} tensors, not {len(arrays)}", program)
    named = {v.name: a for v, a in zip(form.inputs, arrays, strict=True)}
    sizes = checked_sizes(form, named, program)
    params = {name: sizes[symbol] for symbol, name in size_names(form).items()}
    GIVEN[layer.program] = Given(named)
    try:
        records = api.run(program, config, params, on=on)
    finally:
        del GIVEN[layer.program]
    return records, layer.results(records[-1].outputs or {}, sizes)
