"""Work goes to the region that reports first: the feedback loop of dynamic parallelisation."""

from collections.abc import Callable

from ..frontend import (
    EagerMerge,
    Flatten,
    Graph,
    Loop,
    Partition,
    Reassemble,
    SelectorType,
    Sink,
    Source,
    Stream,
    StreamType,
    dim,
)


def turns(count, regions, prefix=""):
    """Elements of the sources: the regions in order first, then as they report; the last reports
    leave the loop.
    """
    after = count - regions
    return {
        f"{prefix}first": list(range(regions)),
        f"{prefix}turn": [0] * regions + [1] * after,
        f"{prefix}feed": [0] * after + [1] * regions,
    }


def deal(g: Graph, count: int, regions: int, prefix: str = "") -> tuple[Stream, Callable]:
    """Region that takes each of ``count`` pieces of work, at least one for each region.

    Returns that stream of selectors [count], and a function that closes the loop: it takes a list
    of streams, one per region, of rank 0 with an element for each piece that the region has done.
    """

    def source(name, n, targets):
        return Source(graph=g, shape=(n,), selector=targets, name=prefix + name)

    first = source("first", regions, regions)
    rest = dim(count - regions) if count > regions else g.dynamic(f"{prefix}rest")
    again = Loop(StreamType(SelectorType(regions), (rest,)), graph=g, name=f"{prefix}again")
    to = Flatten(
        Reassemble(first, again, source("turn", count, 2), rank=0, name=f"{prefix}dispatch"),
        lo=0,
        hi=1,
        name=f"{prefix}to",
    ).stream.assert_shape((count,))

    def close(reports):
        ready = EagerMerge(reports, name=f"{prefix}ready")
        Sink(ready[0], name=f"{prefix}tokens")
        back, idle = Partition(
            ready[1], source("feed", count, 2), rank=0, outputs=2, name=f"{prefix}feedback"
        )
        again.close(back)
        Sink(idle, name=f"{prefix}idle")

    return to, close
