"""Archives of `torch.export`, written by hand."""

import json
import zipfile

import numpy as np

CODES = {"float32": 7, "float64": 8, "bfloat16": 13, "int64": 5, "int32": 4, "bool": 12}


class Archive:
    """A layer in the making: inputs, weights, nodes and outputs in order.

    Sizes are integers or texts, as ``Symbol('s1', positive=True, integer=True)``. An argument that
    is a text names a tensor; ``("string", "floor")`` is one of a kind that is named.
    """

    def __init__(self):
        self.tensors, self.specs, self.nodes, self.weights = {}, [], [], {}
        self.outputs, self.ranges, self.guards, self.sizes, self.extra = [], {}, [], {}, {}
        self.version, self.pickled = {"major": 8, "minor": 20}, False

    def _tensor(self, name, shape, dtype="float32"):
        self.tensors[name] = {
            "dtype": CODES[dtype],
            "sizes": [_size(n) for n in shape],
            "strides": [{"as_int": 1}] * len(shape),
            "storage_offset": {"as_int": 0},
        }
        return name

    def input(self, name, *shape, dtype="float32"):
        self.specs.append({"user_input": {"arg": {"as_tensor": {"name": name}}}})
        return self._tensor(name, shape, dtype)

    def weight(self, path, array):
        name = f"p_{path.replace('.', '_')}"
        array = np.ascontiguousarray(array)
        self.weights[path] = array
        self.specs.append({"parameter": {"arg": {"name": name}, "parameter_name": path}})
        return self._tensor(name, array.shape, array.dtype.name)

    def node(self, target, /, *shape, dtype="float32", line="net.py", outs=1, module="mlp", **args):
        """Add a call of an operation of a module; returns its result's name."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outs)]
        kinds = dtype if isinstance(dtype, tuple) else (dtype,) * outs
        for name, kind in zip(names, kinds, strict=True):
            self._tensor(name, shape, kind)
        place = f'File "/x/site-packages/net/{line}", line {len(self.nodes)}, in forward'
        self.nodes.append(
            {
                "name": names[0],
                "target": f"torch.ops.aten.{target}" if target.count(".") < 2 else target,
                "inputs": [{"name": k, "arg": _argument(a)} for k, a in args.items()],
                "outputs": [{"as_tensor": {"name": n}} for n in names],
                "metadata": {
                    "stack_trace": f"{place}\n    y = f(x)",
                    "nn_module_stack": f"L__self__,,net.Net;L__self__{module},{module},net.MLP",
                },
            }
        )
        return names[0] if outs == 1 else names

    def output(self, *names):
        self.outputs += [{"user_output": {"arg": {"as_tensor": {"name": n}}}} for n in names]

    def entries(self):
        """The archive's files by name."""
        config = {
            path: {
                "path_name": f"weight_{i}",
                "use_pickle": self.pickled,
                "tensor_meta": {
                    "dtype": CODES[a.dtype.name],
                    "sizes": [{"as_int": n} for n in a.shape],
                    "strides": [{"as_int": s // a.itemsize} for s in a.strides],
                    "storage_offset": {"as_int": 0},
                },
            }
            for i, (path, a) in enumerate(self.weights.items())
        }
        model = {
            "schema_version": self.version,
            "range_constraints": self.ranges,
            "guards_code": self.guards,
            "graph_module": {
                "graph": {
                    "tensor_values": self.tensors,
                    "nodes": self.nodes,
                    "sym_int_values": self.sizes,
                },
                "signature": {"input_specs": self.specs, "output_specs": self.outputs},
            },
        }
        found = {
            f"data/weights/weight_{i}": a.tobytes() for i, a in enumerate(self.weights.values())
        }
        found |= {
            "byteorder": b"little",
            "data/weights/model_weights_config.json": json.dumps({"config": config}).encode(),
            "models/model.json": json.dumps(model).encode(),
        }
        return found | self.extra

    def write(self, path, *, compressed=()):
        with zipfile.ZipFile(path, "w") as z:
            for name, data in self.entries().items():
                way = zipfile.ZIP_DEFLATED if name in compressed else zipfile.ZIP_STORED
                z.writestr(f"net/{name}", data, way)
        return path


def symbol(name):
    return f"Symbol('{name}', positive=True, integer=True)"


def _size(n):
    return {"as_int": n} if isinstance(n, int) else {"as_expr": {"expr_str": n, "hint": None}}


def _argument(a):
    if a is None:
        return {"as_none": True}
    if isinstance(a, str):
        return {"as_tensor": {"name": a}}
    if isinstance(a, bool):
        return {"as_bool": a}
    if isinstance(a, int):
        return {"as_int": a}
    if isinstance(a, float):
        return {"as_float": a}
    if isinstance(a, tuple):
        return {f"as_{a[0]}": a[1]}
    if all(isinstance(x, int) for x in a):
        return {"as_ints": a}
    return {"as_optional_tensors": [_argument(x) for x in a]}
