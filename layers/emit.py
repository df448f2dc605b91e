"""A program's text from the form of a layer, and its schedule's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from pathlib import Path

from ..machine.errors import ProgramError
from ..system import output
from . import schedule
from .elements import ELEMENTS, UNARY, Elements
from .form import Argument, Body, Layer, Operation, Ref, Size
from .lines import BLOCKS, FRONT, Appended, Chosen, Data, Off, Turned, imported, text, wrapped
from .patterns import search
from .translation import product
from .values import size_names, turned_by


class Emitter(Elements):
    """Operations one after the other."""

    def run(self, operations: Iterable[Operation]) -> None:
        for op in operations:
            if any(v.name in self.early for v in op.outputs):
                continue
            pattern = self.patterns.get(op.out.name)
            if pattern and pattern.kind == "skip":
                continue
            self.comment(op.module)
            if pattern:
                self.found[op.out.name] = getattr(self, f"made_{pattern.kind}")(op, *pattern.args)
                continue
            method: Callable | None = getattr(self, f"do_{op.op}", None)
            if op.op in ELEMENTS:
                method = self.do_elements
            elif op.op in UNARY:
                method = self.do_unary
            if method is None:
                raise self.refuse(
                    op,
                    "has no form on this machine on values that only the run knows",
                    "docs/layers.md lists the operations",
                )
            result = method(op)
            if isinstance(result, tuple):
                for v, r in zip(op.outputs, result, strict=True):
                    self.found[v.name] = r
            else:
                self.found[op.out.name] = result

    # ---- products
    # ----------------------------------------------------------------------

    def _setting(self, module: str, kind: str, settings: dict[str, int]) -> str:
        self.settings.setdefault(module, {}).update(settings)
        return f"**s.{kind}({text(module)})"

    def do_linear(self, op: Operation) -> Data:
        weight = op.args["weight"]
        assert isinstance(weight, Ref)
        bias = op.args["bias"]
        added = self._weight(op, bias) if isinstance(bias, Ref) else None
        return self._linear(op, op.args["x"], self._weight(op, weight), added)

    def _weight(self, op: Operation, weight: Ref) -> Off:
        off = self.found[weight.name]
        if not isinstance(off, Off):
            raise self.refuse(op, "has a weight that the run makes")
        return off

    def _linear(self, op: Operation, x: Argument, weight: Off, bias: Off | None) -> Data:
        d = self.data(op, x)
        args = [d.name, weight.text, *([bias.text] if bias else [])]
        named = {"at": weight.at} if weight.at else {}
        out = op.out.shape[-1]
        sizes = self.products.setdefault(op.module, [])
        sizes.append((int(out), int(d.width)))
        call = self.call("linear", *args, **named)
        setting = self._setting(op.module, "linear", schedule.products(sizes))
        call = f"{call[:-1]}, {setting})"
        return self.assign(_leaf(weight.text) or op.out.name, call, d, width=out)

    def made_part(
        self, op: Operation, made: Operation, bias: Ref | None, cut: tuple[int, int, int]
    ) -> Data:
        """Columns of a product: a part of the weight's rows."""
        where = ", ".join(map(str, cut if cut[2] != 1 else cut[:2]))

        def part(how: str, argument: Ref) -> Off:
            off = self._weight(op, argument)
            return replace(off, text=f"w.{how}({_inner(off.text)}, {where})")

        how, weight = ("part", "weight") if made.op == "linear" else ("turned", "y")
        added = part("columns", bias) if bias else None
        return self._linear(op, made.args["x"], part(how, made.args[weight]), added)

    def do_matmul(self, op: Operation) -> Data:
        a, b = op.args["x"], op.args["y"]
        assert isinstance(b, Ref)
        off = self.found[b.name]
        if isinstance(off, Off) and len(off.shape) == 2:
            turned = Off(f"w.turned({_inner(off.text)})", off.shape, off.at)
            return self._linear(op, a, turned, None)
        x, y = self.data(op, a), self.data(op, b)
        if "h" not in x.roles or "h" not in y.roles or x.heads != y.heads:
            raise self.refuse(op, "of two values that are no heads")
        first, second = (self.call("cast", n, "dtype") for n in self.join(x, y))
        fn = "matmul(transposed=True)" if y.roles[-1] != "c" else "matmul()"
        return self.assign(op.out.name, self.map(fn, first, second), x, y, width=op.out.shape[-1])

    def do_append(self, op: Operation) -> Appended:
        cache, rows = op.args["cache"], op.args["rows"]
        assert isinstance(cache, Ref)
        d = self._as_heads(op, rows)
        shape = self.layer.values[cache.name].shape
        tokens = self.layer.values[rows.name].shape[2] if isinstance(rows, Ref) else 0
        if len(shape) != 4 or op.args["dim"] != 2 or tokens != 1 or "h" not in d.roles:
            raise self.refuse(
                op,
                "appends other than one row to each head of a cache [batch, heads, rows, columns]",
            )
        outs = [i for i, o in enumerate(self.layer.outputs) if o.name == op.out.name]
        if not outs:
            raise self.refuse(op, "makes a cache that is no result", "return it from the layer")
        if self._readers(cache.name) != {"append"}:
            raise self.refuse(op, "changes a cache whose old content is read, too")
        name, at = self.variable(f"{cache.name}_cache"), op.args["at"]
        place = f', "{at.name}"' if isinstance(at, Ref) else ""
        call = f'w.cache("{cache.name}", {outs[0]}, s.whole("kv_tile"){place})'
        self.lines += wrapped(f"{name} = {call}")
        return Appended(cache.name, d, name, at.name if isinstance(at, Ref) else "")

    def do_attention(self, op: Operation) -> Data:
        named = {"factor": repr(self._constant(op, op.args["scale"]))}
        groups = op.args["groups"]
        if groups != 1:
            named["groups"] = str(groups)
        if (sink := op.args["sink"]) is not None:
            weight = _inner(self._weight(op, sink).text)
            named["sink"] = f"w.column({weight})"
        q = self._as_heads(op, op.args["q"])
        others = [self.found[a.name] for a in (op.args["k"], op.args["v"]) if isinstance(a, Ref)]
        if all(isinstance(o, Appended) for o in others):
            return self._cached(op, q, others, named)  # type: ignore[arg-type]
        if op.args["lengths"] is not None:
            raise self.refuse(op, "has lengths over keys that are no cache")
        k, v = (self._as_heads(op, op.args[n]) for n in "kv")
        mask = op.args["mask"]
        scores = (*op.out.shape[:-1], self.layer.values[op.args["k"].name].shape[2])  # type: ignore
        if isinstance(mask, Ref):
            if self.is_data(mask):
                raise self.refuse(op, "has a mask that the run makes")
            off = self.found[mask.name]
            assert isinstance(off, Off)
            off = replace(off, text=f"w.mask({_inner(off.text)})")
            named["added"] = self.beside(op, off, q, scores)
        if op.args["causal"]:
            named["diagonal"] = self._diagonal(op, q)
        text = self.call("attention", q.name, k.name, v.name, "dtype", **named)
        return self.assign("attended", text, q, k, v, width=op.out.shape[-1])

    def _diagonal(self, op: Operation, q: Data) -> str:
        batch, heads = op.out.shape[:2]
        return f'w.ones("{op.out.name}_diagonal", {self.size(batch)}, {self.size(heads)})'

    def _cached(self, op: Operation, q: Data, others: list[Appended], named: dict) -> Data:
        if op.args["mask"] is not None or op.args["causal"]:
            raise self.refuse(op, "has a mask over a cache that is no length")
        lengths, last = op.args["lengths"], op.args["last"]
        k, v = others
        if k.at != v.at or op.out.shape[2] != 1:
            raise self.refuse(
                op, "has several new rows, or those of keys and values at different places"
            )
        if last != "next" if k.at else lengths is not None and last != "end":
            raise self.refuse(
                op,
                "does not see the rows up to the new ones, and no others",
                "let its mask be `column <= position`, of the position that is written"
                if k.at
                else None,
            )
        name = f'"{lengths.name}"' if isinstance(lengths, Ref) else "None"
        variable = self.variable("lengths" if lengths is None else f"{lengths.name}_rows")  # type: ignore
        self.lines += wrapped(f'{variable} = w.lengths({name}, "{k.cache}", s.whole("kv_tile"))')
        text = self.call(
            "cached_attention",
            q.name,
            *(f"({o.variable}, {o.rows.name})" for o in others),
            variable,
            **named,
        )
        more = 1 + max(q.regrouped, k.rows.regrouped, v.rows.regrouped)
        return self.assign("attended", text, q, k.rows, v.rows, width=v.rows.width, regrouped=more)

    # ---- views
    # ----------------------------------------------------------------------

    def do_reshape(self, op: Operation) -> object:
        (name,) = op.reads()
        x, new = self.found[name], op.out.shape
        if not isinstance(x, Data):
            if isinstance(x, Chosen):
                return x
            x = self.data(op, op.args["x"])
        if not x.roles:
            return self._rows_reshaped(op, x, self.layer.values[name].shape, new)
        old = self.layer.values[name].shape if name in self.layer.values else op.out.shape
        have = [(s, r) for s, r in zip(old, x.roles, strict=True) if r != "1" and s != 1]
        want = [s for s in new if s != 1]
        if x.heads == 1 and "".join(r for _, r in have) in ("ntc", "nc", "tc"):
            text = self.call("beside", x.name, x.height)
            x = self.assign(f"{x.name}_rows", text, x, roles=(), regrouped=x.regrouped + 1)
            return self._rows_reshaped(op, x, old, new)
        if [s for s, _ in have] == want and (not have or have[-1][1] != "h"):
            return replace(x, roles=_spread([r for _, r in have], new))
        order = "".join(r for _, r in have) + ("c" if x.width == 1 else "")
        if order.endswith("hc") and want and want[-1] == x.heads * x.width:
            text = self.call("beside", x.name, "height")
            more = x.regrouped + 1
            hint = f"{x.name}_rows"
            return self.assign(
                hint, text, x, width=want[-1], height="height", roles=(), heads=1, regrouped=more
            )
        raise self.refuse(op, f"from {self.shape(old)} to {self.shape(new)} mixes heads and tokens")

    def _rows_reshaped(
        self, op: Operation, x: Data, old: tuple[Size, ...], new: tuple[Size, ...]
    ) -> Data:
        same = [s for s in old if s != 1] == [s for s in new if s != 1]
        if same or (new and new[-1] == x.width):
            return x
        if len(new) >= 2 and new[-1] * new[-2] == x.width:
            return self._headed(x, new[:-2], new[-2], new[-1:])
        if len(new) >= 3 and new[-1] * new[-2] * new[-3] == x.width:
            return self._headed(x, new[:-3], new[-3], new[-2:])
        raise self.refuse(op, f"to {self.shape(new)} cuts rows of {self.size(x.width)}")

    def _headed(self, x: Data, tokens: Sequence[Size], heads: Size, inner: Sequence[Size]) -> Data:
        """Columns of tokens as heads: their last dimension lies in a tile."""
        tall = tokens[-1] if len(tokens) > 1 else 1
        width = product(inner)
        text = self.call("heads", x.name, self.size(tall), self.size(width))
        outer = "n" * (len(tokens) - 1) + "t" if len(tokens) > 1 else "n" * len(tokens)
        roles = (*outer, "h", *"ac"[2 - len(inner) :])
        height = self.size(tall)
        return self.assign(
            f"{x.name}_heads", text, x, width=width, height=height, roles=roles, heads=heads
        )

    def _as_heads(self, op: Operation, argument: Argument) -> Data:
        """A value [batch, heads, tokens, columns] as heads, also where there is one."""
        x = self.data(op, argument)
        assert isinstance(argument, Ref)
        shape = self.layer.values[argument.name].shape
        if x.roles or len(shape) != 4 or shape[1] != 1:
            roles = zip(x.roles, "nht", shape, strict=False)
            if any(r != want and n != 1 for r, want, n in roles):
                raise self.refuse(op, "takes tokens of one sequence that lie in different tiles")
            return x
        return replace(self._headed(x, (shape[0], shape[2]), 1, shape[3:]), roles=(*"nhtc",))

    def do_permute(self, op: Operation) -> object:
        (name,) = op.reads()
        x, dims = self.data(op, op.args["x"]), op.args["dims"]
        assert isinstance(dims, tuple)
        old = self.layer.values[name].shape
        if not x.roles:
            if [d for d in dims if old[d] != 1] == [i for i, s in enumerate(old) if s != 1]:
                return x
            if turned_by(self.layer, op.out.name) and self._readers(op.out.name) == {"result"}:
                return Turned(x)
            raise self.refuse(op, "changes the order of tokens, or of their columns")
        return replace(x, roles=tuple(x.roles[d] for d in dims))

    def do_slice(self, op: Operation) -> object:
        (name, *_) = op.reads()
        if op.out.name in self.found:
            return self.found[op.out.name]
        if self.layer.values[name].shape == op.out.shape:
            return self.found[name]
        if op.args["start"] == op.args["end"]:
            return None
        x, cut = self.data(op, op.args["x"]), self._columns(op)
        cuts = {o.out.name: self._columns(o) for o in self._slices(op, name)}
        bounds = sorted(set(cuts.values()))
        ends = [0, *(last for _, last in bounds)]
        if any(first < end for (first, _), end in zip(bounds, ends, strict=False)):
            raise self.refuse(op, "takes columns twice")
        edges = sorted({0, x.width, *(e for pair in bounds for e in pair)})
        widths = [b - a for a, b in pairwise(edges)]
        parts = [self.variable(f"{x.name}_{a}") for a in edges[:-1]]
        turns = self._turns(x.name, widths)
        text = self.call("split", x.name, turns, *map(str, widths))
        self.lines += wrapped(f"{', '.join(parts)} = {text}")
        makers = x.makers | {x.name}
        made = {
            pair: replace(x, name=part, width=pair[1] - pair[0], makers=makers)
            for part, pair in zip(parts, pairwise(edges), strict=True)
        }
        self.lines += [self.call("Sink", d.name) for pair, d in made.items() if pair not in bounds]
        roles = tuple("1" if r == "a" else r for r in x.roles)
        self.found |= {n: replace(made[pair], roles=roles) for n, pair in cuts.items()}
        return self.found[op.out.name] if op.out.name in cuts else made[cut]

    def _slices(self, op: Operation, name: str) -> list[Operation]:
        """Slices of a value that are needed, and are not empty."""
        found = [o for o in self.layer.operations if o.op == "slice" and name in o.reads()]
        skipped = {n for n, f in self.patterns.items() if f.kind == "skip"}
        return [o for o in found if o.out.name not in skipped and o.args["start"] != o.args["end"]]

    def _columns(self, op: Operation) -> tuple[int, int]:
        """First column of a slice, and the one behind its last."""
        x = self.data(op, op.args["x"])
        role = x.roles[op.args["dim"]] if x.roles else "c"  # type: ignore[index]
        start, end = op.args["start"], op.args["end"]
        last = op.args["dim"] == len(op.out.shape) - 1
        if op.args["step"] != 1 or role not in "ac" or not (last or role == "a"):
            raise self.refuse(op, "takes part of a value that the run makes")
        if not isinstance(start, int) or not isinstance(end, int):
            raise self.refuse(op, "takes columns that the sizes of a run decide")
        width = op.out.shape[-1] if role == "a" else 1
        return start * width, end * width  # type: ignore[return-value]

    def _turns(self, x: str, widths: Sequence[int]) -> str:
        size = gcd(*widths)
        return f"w.turns({x}, {', '.join(str(n // size) for n in widths)})"

    def do_cat(self, op: Operation) -> object:
        parts = [self.found[n] for n in op.reads()]
        parts = [p for p in parts if p is not None]
        if len(parts) == 1:
            return parts[0]
        if op.args["dim"] != len(op.out.shape) - 1 or not all(isinstance(p, Data) for p in parts):
            raise self.refuse(op, "puts together other than columns of values that the run makes")
        first, *rest = (p for p in parts if isinstance(p, Data))
        if any(p.roles != first.roles or p.height != first.height for p in rest):
            raise self.refuse(op, "puts together values in different tiles")
        turns = self._turns(first.name, [p.width for p in (first, *rest)])
        text = self.call("join", turns, first.name, *(p.name for p in rest))
        return self.assign(op.out.name, text, first, *rest, width=op.out.shape[-1])

    def do_expand(self, op: Operation) -> object:
        (name, *_) = op.reads()
        if self.layer.values[name].shape == op.out.shape:
            return self.found[name]
        raise self.refuse(op, "repeats a value that the run makes")

    # ---- experts
    # ----------------------------------------------------------------------

    def do_topk(self, op: Operation) -> tuple[Data, Chosen]:
        x, k = self.data(op, op.args["x"]), op.args["k"]
        if x.roles[-1:] not in ((), ("c",)) or op.args["dim"] != len(op.out.shape) - 1:
            raise self.refuse(op, "along another dimension than the last")
        if not op.args["largest"]:
            raise self.refuse(op, "of the least")
        names = self.variable("chances"), self.variable("chosen")
        largest, indices = (self._readers(v.name) for v in op.outputs)
        routes = [o for o in self.layer.operations if o.op == "experts"]
        chosen = any(self.layer.maker(o.args["indices"], "reshape") is op for o in routes)
        choices = [f"w.choices({x.name}, {k})"] if chosen else []
        text = self.call("top_k", x.name, str(k), *choices)
        self.lines += wrapped(f"{names[0]}, {names[1]} = {text}")
        unread = (
            (names[0], not largest),
            (f"{names[1]}[0]", not chosen),
            (f"{names[1]}[1]", not indices),
        )
        self.lines += [self.call("Sink", name) for name, is_unread in unread if is_unread]
        makers = x.makers | {x.name}
        values = replace(x, name=names[0], width=k, height="1", makers=makers)
        return values, Chosen(names[1], k, x.width, x.regrouped + 1, makers | {names[0]})  # type: ignore

    def _readers(self, name: str) -> set[str]:
        """Operations that take a value, and are emitted."""
        found = {"result" for o in self.layer.outputs if o.name == name}
        for op in self.layer.operations:
            pattern = self.patterns.get(op.out.name)
            if name in op.reads() if pattern is None else Ref(name) in pattern.args:
                found.add(op.op)
        return found

    def _chosen(self, op: Operation) -> Chosen:
        """The top-k that an operation along the last dimension has its indices of."""
        index, x = (self.layer.values[op.args[k].name].shape for k in ("index", "x"))
        found = self.found[op.args["index"].name]
        if not isinstance(found, Chosen) or op.args["dim"] != len(index) - 1:
            raise self.refuse(op, "along another dimension than the last, or not by a top-k")
        if index[-1] != found.k or product(index[:-1]) != product(x[:-1]):
            raise self.refuse(op, "by indices of other rows")
        return found

    def do_gather(self, op: Operation) -> Data:
        x, chosen = self.data(op, op.args["x"]), self._chosen(op)
        if x.roles or x.width != chosen.width:
            raise self.refuse(op, "of other columns than those that its indices are of")
        unit = f"w.unit({self.size(x.width)})"
        text = self.call("picked", x.name, f"{chosen.name}[1]", unit)
        more = 1 + max(x.regrouped, chosen.regrouped)
        return self.assign(op.out.name, text, x, height="1", width=chosen.k, regrouped=more)

    def made_marked(self, op: Operation, scatter: Operation, again: int, index: Ref) -> Data:
        """1 in the columns of what is chosen, 0 in others; each column ``again`` times."""
        chosen, x = self._chosen(scatter), self.layer.maker(scatter.args["x"])
        plain = x is not None and x.op == "full" and x.args["value"] == 0
        if scatter.args["value"] != 1 or not plain or scatter.out.shape[-1] != chosen.width:
            raise self.refuse(scatter, "of other numbers than 1, in a tensor of 0")
        unit = f"w.unit({self.size(chosen.width)}, {again})"
        name = self.variable("marked")
        self.lines.append(f"{name} = {self.call('marked', f'{chosen.name}[1]', unit)}")
        width = op.out.shape[-1]
        return Data(name, width, "1", regrouped=chosen.regrouped + 1, makers=chosen.makers)

    def do_experts(self, op: Operation) -> Data:
        x, weights = self.data(op, op.args["x"]), self.data(op, op.args["weights"])
        chosen, body = self.found[op.args["indices"].name], op.args["body"]  # type: ignore
        assert isinstance(body, Body)
        if not isinstance(chosen, Chosen):
            raise self.refuse(op, "takes indices that are no top-k's")
        name = self.variable("expert")
        lines, result = self._body(body)
        self.lines += ["", f"def {name}(x, e):", *(f"    {line}" for line in lines if line)]
        self.lines += [f"    return {result.name}", ""]
        inside = [self.settings.get(o.module, {}) for o in body.operations]
        rows = 16 if any(t.get("columns") or t.get("inner") for t in inside) else 0
        setting = self._setting(op.module, "experts", {"tile_rows": rows, "regions": 0})
        count = str(op.args["count"])
        call = self.call("experts", x.name, chosen.name, weights.name, name, count)
        call = f"{call[:-1]}, {setting})"
        more = 1 + max(x.regrouped, weights.regrouped)
        return self.assign(
            "mixed", call, x, weights, height="1", width=op.out.shape[-1], regrouped=more
        )

    def _body(self, body: Body) -> tuple[list[str], Data]:
        inner = Emitter(self.layer)
        inner.used, inner.settings, inner.taken = self.used, self.settings, Counter(self.taken)
        inner.products = self.products
        inner.module = body.operations[0].module
        inner.early = set()
        inner.layer = replace(self.layer, operations=(*self.layer.operations, *body.operations))
        inner.found[body.rows.name] = Data("x", body.rows.shape[-1], "0")
        for n, ref in body.weights.items():
            if isinstance(ref, Ref):
                off = self.found[ref.name]
                assert isinstance(off, Off)
                inner.found[n] = Off(off.text, off.shape[1:], "e")
            else:
                paths = [self.layer.weights[r.name].path for r in ref]
                shape = self.layer.values[ref[0].name].shape
                inner.found[n] = Off(_stack(paths), shape, "e")
        off = {n: f.shape for n, f in inner.found.items() if isinstance(f, Off)}
        inner.patterns = search(body.operations, [body.out.name], off)
        inner.run(body.operations)
        result = inner.found[body.out.name]
        assert isinstance(result, Data)
        return inner.lines, result

    # ---- results
    # ----------------------------------------------------------------------

    def results(self) -> None:
        self.lines.append("")
        for i, o in enumerate(self.layer.outputs):
            found = self.found[o.name]
            if isinstance(found, Appended):
                continue
            turned = isinstance(found, Turned)
            found = found.rows if isinstance(found, Turned) else found
            if not isinstance(found, Data):
                raise ProgramError(
                    f"result {i} is known before the start, or is no tensor", self.layer.name
                )
            columns, x = "", found.name
            order = [r for r in found.roles if r != "1"]
            if found.heads != 1 and order != sorted(order, key="nthac".index):
                maker = self.layer.makers[o.name]
                raise self.refuse(maker, "gives heads before tokens as a result", "transpose it")
            if turned:
                columns = ", turned=True"
            if "h" in found.roles:
                x = self.call("beside", x, "height")
                columns = f", {self.size(found.heads * found.width)}"
            self.lines += wrapped(self.call("store", x, f"w.output({i}{columns})"))


def _leaf(weight: str) -> str:
    """Name of the module, or the parameter, that a weight is; "" for a number."""
    path = weight.split('"')[1].removesuffix(".weight")
    leaf = path.rpartition(".")[2]
    return "" if leaf.isdigit() or "{" in leaf else leaf


def _spread(roles: list[str], shape: Sequence[Size]) -> tuple[str, ...]:
    """Roles of a shape's dimensions, in order; those of size 1 have none."""
    left = iter(roles)
    return tuple("1" if s == 1 else next(left) for s in shape)


def _inner(text: str) -> str:
    """The name in ``w["name"]``, or what else is between the brackets."""
    return text.removeprefix("w[").removesuffix("]")


def _stack(paths: list[str]) -> str:
    """One weight of each expert, named by a pattern where there is one."""
    for m in re.finditer(r"(?<![^.])0(?![^.])", paths[0]):
        head, tail = paths[0][: m.start()], paths[0][m.end() :]
        if paths == [f"{head}{i}{tail}" for i in range(len(paths))]:
            return f'w[w.stack(*(f"{head}{{i}}{tail}" for i in range({len(paths)})))]'
    return f"w[w.stack({', '.join(repr(p) for p in paths)})]"


def height_of(e: Emitter) -> str:
    """Rows of a tile of tokens: a sequence, or, where each has one token, the batch."""
    if len(e.tokens) > 1 and e.tokens[-1] != 1:
        return e.size(e.tokens[-1])
    return e.size(product(e.tokens))


def _empty(line: str, following: str) -> bool:
    """True for a module's name above no line of it."""
    return line.lstrip().startswith("# ") and (not following or following.lstrip()[:2] == "# ")


def default_sizes(layer: Layer) -> dict[str, int]:
    """Small sizes for a program's parameters."""
    found = {}
    for symbol, name in size_names(layer).items():
        least, most = layer.symbols[symbol]
        found[name] = min(max(least, 2 if name == "batch" else 8), most or 8)
    return found


def program(layer: Layer, archive: str) -> tuple[str, str]:
    """A program's text and its schedule's; ``archive``: its path as seen from the program."""
    e = Emitter(layer)
    e.run(layer.operations)
    e.results()
    given = ", ".join(
        [*(f"{n}={size}" for n, size in default_sizes(layer).items()), 'dtype="fp32"']
    )
    passed = ", ".join(["g", "dtype", *(f"{name}={name}" for name in e.names.values())])
    head = [f'"""Layer {layer.name}, of {Path(archive).name}.', ""]
    for symbol, name in e.names.items():
        least, most = layer.symbols[symbol]
        head.append(f"{name}: {least} to {most}." if most else f"{name}: {least} at least.")
    head += [
        "Weights stay in the archive; tiles and regions are in the .toml file beside.",
        '"""',
        "",
    ]
    head += imported("penstock.frontend", sorted({"Graph", *(n for n in e.used if n in FRONT)}))
    head += imported("penstock.layers.blocks", sorted(n for n in e.used if n in BLOCKS))
    head += ["from penstock.layers.values import LayerFile", "", "layer = LayerFile("]
    head += ["    __file__,", f"    {text(archive)},", f"    {text(layer.digest)},", ")"]
    head += ["inputs, streams, reference = layer.inputs, layer.streams, layer.reference", "", ""]
    head.append(f"def program({given}):")
    body = [
        f"g = Graph({text(layer.name)})",
        f"w = layer.tensors({passed})",
        "s = layer.schedule",
        f'height = s.whole("rows") or {height_of(e)}',
        *e.lines,
        "return g",
    ]
    body = [x for x, y in zip(body, [*body[1:], ""], strict=True) if not _empty(x, y)]
    body = [x for x, y in zip(body, ["", *body], strict=False) if x or not y.startswith("#")]
    whole = "\n".join([*head, *(f"    {line}" if line else "" for line in body), ""])
    return re.sub(r"\n\n\n+(?=    )", "\n\n", whole), schedule.text(layer.name, e.settings)


def write(layer: Layer, archive: str, program_path: str, schedule_path: str) -> bool:
    """Write a program and its schedule; True if there is another schedule, which is kept."""
    text, plan = program(layer, archive)
    kept = Path(schedule_path).is_file() and Path(schedule_path).read_bytes() != plan.encode()
    if not kept:
        output.write_text(schedule_path, plan)
    output.write_text(program_path, text)
    return kept
