"""Table of PyTorch's operations, and the canonical operations that each becomes.

One line serves all overloads of an operation, and its form in place (``div_`` is ``div``).
"""

from __future__ import annotations

from difflib import get_close_matches

from ..form import Ref
from ..graph import Node
from ..translation import Call, Translation, refusal
from . import arithmetic as a
from . import indexing as i
from . import matrices as m
from . import views as v

VIEWS = {
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "view_as", "reshape_as"), v.reshape),
    **dict.fromkeys(("flatten", "unflatten", "ravel", "squeeze", "unsqueeze"), v.reshape),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), v.transpose),
    **dict.fromkeys(("t", "numpy_T"), v.reverse),
    **dict.fromkeys(("mT", "adjoint", "mH"), v.matrix_transpose),
    "permute": v.permute,
    **dict.fromkeys(("movedim", "moveaxis"), v.movedim),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), v.expand),
    "slice": v.slice_,
    "narrow": v.narrow,
    "select": v.select,
    **dict.fromkeys(("chunk", "split", "split_with_sizes", "tensor_split"), v.split),
    **dict.fromkeys(("unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"), v.split),
    "unbind": v.unbind,
    **dict.fromkeys(("contiguous", "detach", "alias", "to", "type_as"), v.same),
    **dict.fromkeys(("lift_fresh", "positive"), v.same),
    **dict.fromkeys(("dropout", "feature_dropout", "native_dropout"), v.drop),
}
"""Operations whose result may share its argument's memory."""
MAY_COPY = ("reshape", "reshape_as", "flatten", "ravel", "contiguous", "to", "type_as")
"""Those of them that make a copy where the memory is in another order, or of another type."""
COPIES = {
    **dict.fromkeys(("clone", "_to_copy", "lift_fresh_copy"), v.same),
    **dict.fromkeys(("repeat", "tile"), v.repeat),
    "repeat_interleave": v.repeat_interleave,
    **dict.fromkeys(("cat", "concat", "concatenate"), v.cat),
    "stack": v.stack,
    **dict.fromkeys(("constant_pad_nd", "pad"), v.pad),
    "flip": v.flip,
    "roll": v.roll,
    **dict.fromkeys(("slice_scatter", "select_scatter"), v.slice_update),
}
ELEMENTS = {
    "add": a.add("add"),
    **dict.fromkeys(("sub", "subtract"), a.add("sub")),
    "rsub": a.rsub,
    **dict.fromkeys(("mul", "multiply"), a.binary("mul")),
    **dict.fromkeys(("div", "divide", "true_divide"), a.div),
    "floor_divide": a.binary("floor_div"),
    "remainder": a.binary("mod"),
    "pow": a.power,
    "maximum": a.binary("maximum"),
    "minimum": a.binary("minimum"),
    **{op: a.binary(op) for op in ("lt", "le", "gt", "ge", "eq", "ne")},
    **dict.fromkeys(("bitwise_and", "__and__"), a.binary("and")),
    **dict.fromkeys(("bitwise_or", "__or__"), a.binary("or")),
    **dict.fromkeys(("bitwise_xor", "__xor__"), a.binary("xor")),
    "bitwise_not": a.unary("not"),
    "logical_and": a.logical("and"),
    "logical_or": a.logical("or"),
    "logical_xor": a.logical("xor"),
    "logical_not": a.logical("not"),
    **{op: a.unary(op) for op in ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "sin", "cos")},
    **{op: a.unary(op) for op in ("sigmoid", "silu", "tanh", "erf", "floor", "ceil", "round")},
    **{op: a.unary(op) for op in ("trunc", "sign", "log1p", "expm1", "log2", "exp2")},
    "gelu": a.gelu,
    "relu": a.relu,
    "leaky_relu": a.leaky_relu,
    "softplus": a.softplus,
    "mish": a.mish,
    "glu": a.glu,
    "hardswish": a.hardswish,
    "hardsigmoid": a.hardsigmoid,
    "square": a.square,
    "reciprocal": a.reciprocal,
    **dict.fromkeys(("clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "relu6"), a.clamp),
    "elu": a.elu,
    "log_sigmoid": a.log_sigmoid,
    "where": a.where,
    "masked_fill": a.masked_fill,
    "addcmul": a.addc("mul"),
    "addcdiv": a.addc("div"),
    "lerp": a.lerp,
    "diff": a.diff,
}
REDUCTIONS = {
    **{op: a.reduction(op) for op in ("sum", "mean", "amax", "amin", "prod", "all", "any")},
    "max": a.extreme("max"),
    "min": a.extreme("min"),
    "var": a.variance,
    **dict.fromkeys(("linalg_vector_norm", "norm"), a.norm),
    "logsumexp": a.logsumexp,
    **dict.fromkeys(("softmax", "_softmax", "_safe_softmax"), a.softmax),
    **dict.fromkeys(("log_softmax", "_log_softmax"), a.log_softmax),
    **dict.fromkeys(("rms_norm", "_fused_rms_norm"), a.rms_norm),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), a.layer_norm),
}
PRODUCTS = {
    "linear": m.linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), m.matmul),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), m.addmm),
    **dict.fromkeys(("outer", "ger"), m.outer),
    "einsum": m.einsum,
    "scaled_dot_product_attention": m.attention,
    **dict.fromkeys(("_grouped_mm", "grouped_mm", "grouped_mm_fallback"), m.grouped_mm),
}
INDICES = {
    "topk": i.topk,
    "sort": i.sort,
    "argsort": i.argsort,
    "argmax": i.arg_extreme("argmax"),
    "argmin": i.arg_extreme("argmin"),
    "index": i.index,
    "index_select": i.index_select,
    "embedding": i.embedding,
    "gather": i.along("gather", "index"),
    "index_put": i.index_put,
    "index_add": i.index_rows(True),
    "index_copy": i.index_rows(False),
    "scatter": i.scatter(False),
    "scatter_add": i.scatter(True),
    "masked_select": i.plain("masked_select", "mask"),
    "nonzero": i.plain("argwhere"),
    "one_hot": i.one_hot,
    "cumsum": i.along("cumsum"),
    "histc": i.plain("histc", "bins", "min", "max"),
    "bincount": i.plain("bincount", "minlength"),
    "tril": i.plain("tril", "diagonal"),
    "triu": i.plain("triu", "diagonal"),
}
FILLED = {
    "arange": i.arange,
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), i.filled(0)),
    **dict.fromkeys(("empty", "empty_like", "new_empty", "empty_permuted"), i.filled(0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), i.filled(1)),
    **dict.fromkeys(("full", "full_like", "new_full", "scalar_tensor"), i.full),
    "fill": i.fill,
    "copy": i.copy,
}
CLASSES = {
    "views": VIEWS,
    "copies and joins": COPIES,
    "element by element": ELEMENTS,
    "reductions and norms": REDUCTIONS,
    "products and attention": PRODUCTS,
    "indices and orders": INDICES,
    "made of nothing": FILLED,
}
"""Classes of operations: each a table of rules by name."""
RULES = {name: rule for table in CLASSES.values() for name, rule in table.items()}
IMPLIED = frozenset(
    "size sizes shape dtype out_dtype dim keepdim start_dim end_dim end length num_classes "
    "output_size split_size split_sizes chunks sections indices tensor_indices_or_sections "
    "layout device pin_memory memory_format physical_layout non_blocking copy other sorted stable "
    "sparse sparse_grad scale_grad_by_freq padding_idx cudnn_enable threshold p path half_to_float "
    "implicit unsafe".split()
)
"""Arguments that the description of the result has, or that change none."""
SPACES = ("aten", "transformers")
"""Namespaces of operations: PyTorch's, and that of transformers for its own."""


def translate(node: Node, t: Translation) -> None:
    """Add the canonical operations of a node.

    Raises
    ------
    ProgramError
        Its operation is not in the table, or has arguments that no canonical operation has.
    """
    space, _, name = node.base.partition(".")
    in_place = name.endswith("_") and not name.endswith("__")
    name = name.removesuffix("_") if in_place else name
    rule = RULES.get(name) if space in SPACES else None
    if rule is None:
        close = "".join(f"; did you mean {n!r}?" for n in get_close_matches(name, RULES, 1))
        raise refusal(
            f"operation {node.target} (node {node.name}) is not one that is read",
            node.line,
            f"write it with others: docs/layers.md lists those that are read{close}",
        )
    made = len(t.operations)
    call = Call(t, node)
    try:
        results = rule(call)
    except (KeyError, AssertionError, TypeError, ValueError, IndexError) as e:
        raise refusal(
            f"{node.target} (node {node.name}) has arguments that are not as its schema says: "
            f"{type(e).__name__} {e}",
            node.line,
            "export the layer again",
        ) from None
    found = (results,) if isinstance(results, Ref) else results
    if left := [k for k in call.unread() if k not in IMPLIED]:
        raise refusal(
            f"{node.target} (node {node.name}) has the argument {left[0]!r}, which is not read",
            node.line,
            "leave it out, or write the operation with others",
        )
    t.define(node, found, made)
    first = next(iter(node.args.values()), None)
    if in_place and isinstance(first, Ref):
        t.mutate(node, first.name, Ref(t.current(node.outs[0].name) if node.outs[0] else ""))
    elif name in VIEWS and isinstance(first, Ref):
        t.share(node, first.name, made, name not in MAY_COPY)
