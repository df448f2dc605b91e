"""The machine, executable: cycle-exact model of every unit, with or without values."""


def run(graph, config, tensors=None, **options):
    """Run a unit graph: see :func:`penstock.model.simulate.run` (imported on first use: it loads
    compiled code).
    """
    from .simulate import run

    return run(graph, config, tensors, **options)


def compiled() -> bool:
    """See :func:`penstock.model.simulate.compiled`."""
    from .simulate import compiled

    return compiled()
