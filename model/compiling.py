"""Numba as the model uses it: options and forms that Numba's own type stubs leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numba
from numba.core.ccallback import CFunc
from numba.core.compiler import Compiler
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Compiled(Protocol[P, R]):
    """A function that Numba compiles, once for each signature."""

    signatures: list[Any]
    py_func: Callable[..., Any]

    def __call__(self, *args: P.args, **named: P.kwargs) -> R: ...

    def compile(self, signature: object) -> object: ...


def jit(**options: bool | str | type) -> Callable[[Callable[P, R]], Compiled[P, R]]:
    """A decorator: ``numba.njit`` with these options."""
    decorate: Callable[..., Any] = numba.njit
    return decorate(**options)


class Part(Compiler):
    """Compiles what callers inline, and no one else calls: they optimise it and make it machine
    code, which would else be done at every level.
    """

    def __init__(self, typing, target, library, *rest):
        library = target.codegen().create_library("part")
        super().__init__(typing, target, library, *rest)
        library._optimize_final_module = lambda: None
        library._finalize_final_module = lambda: setattr(library, "_finalized", True)
        self.state.targetctx.get_executable = lambda *_: [].append  # a key, as good as any


def inlined(emit: Callable[Concatenate[Any, P], object]) -> Callable[P, Any]:
    """An intrinsic: compiled code calls it without its first argument, the typing context."""
    decorate: Callable[..., Any] = intrinsic
    return decorate(emit)


def is_cached(function: Any) -> bool:
    """True if compiled code of a function is at hand, in this process or in Numba's cache."""
    return bool(function.signatures or function._cache._cache_file._load_index())


def address_of(function: CFunc) -> int:
    """Address of a C function."""
    if function.address is None:
        raise ValueError("C function must be compiled before its address is asked for")
    return function.address


def stamp(function: Any, digest: str) -> None:
    """Let Numba's cache know a function's code by a digest of all that it inlines: it looks at the
    function's own file only.
    """
    function._cache._cache_file._source_stamp = digest


def c_function(
    function: Callable[..., Any], signature: Any, options: dict[str, Any], digest: str | None
) -> CFunc:
    """A function compiled for callers in C; with a digest of all that it inlines from Numba's
    cache, where it is there.
    """
    compiled = CFunc(function, signature, locals={}, options=options)
    if digest is not None:
        compiled.enable_caching()
        stamp(compiled, digest)
    compiled.compile()
    return compiled
