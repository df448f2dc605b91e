"""Forms in which a dataflow graph for the token overlay is named, on the command line and in
Python.
"""

SHAPES = ("balanced", "arrival", "chains")
"""Shapes of sums and products of several terms.

Balanced trees, trees that join what is there first, or one after the other.
"""

_STEP = (
    "a small STeP program (name or .py file), scalarised: T is every size not given, "
    "E the tile edge (4), S draws inputs and routing"
)

FORMS = {
    "device:NAME[*N]": "N instances of a device model, by its name or its file, NAME.py",
    "lu:FILE[:order=ORDER]": "sparse LU of a Matrix Market file (.mtx, .mtx.gz); "
    "ORDER amd, mmd or natural",
    "column:FILE:K[:d=D,SHAPE,order=ORDER]": "front solve of column K (pivot order), "
    f"D rows substituted together (1), SHAPE one of {', '.join(SHAPES)}",
    "gen:KIND:N[:SEED]": "sparse LU of a generated circuit: ladder, ring or gates of N elements",
    "step:PROGRAM[,t=T,tile=E,seed=S,param=value..]": _STEP,
    "expr:NAME = EXPRESSION; ..": "NumPy-like assignments",
    "FILE.dfg": "a graph file",
}
"""Form -> the graph that it names; :func:`penstock.overlay.graphs.graph_from` reads them."""
