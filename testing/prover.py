"""Proofs on the gates of a component, with the SAT solver inside Yosys."""

from amaranth.back import rtlil
from amaranth.hdl import Value

from ..hw.yosys import yosys


def prove(top, folder, *, steps: int, name: str = "proof") -> str:
    """Try to show that ``top.ok`` is 1 in every cycle of every run from reset in which ``top.fair``
    is 1 all along.

    ``top.chosen`` are the signals that the solver may choose, cycle by cycle; reset is one of them
    too.

    Returns
    -------
    str
        ``proved``: for runs of any length, by induction over at most ``steps`` cycles. ``refuted``:
        a run of at most so many cycles from reset breaks it. ``open``: neither.
    """
    (folder / f"{name}.il").write_text(
        rtlil.convert(
            top,
            name="top",
            emit_src=False,
            ports=[top.ok, top.fair, *(Value.cast(x) for x in top.chosen)],
        )
    )
    script = (
        f"read_rtlil {name}.il; prep -flatten -top top; memory_map; opt -full; async2sync; "
        f"sat -tempinduct -prove ok 1 -set fair 1 -maxsteps {steps} -verify top"
    )
    done = yosys(script, folder)
    for text, answer in (
        ("Induction step proven: SUCCESS!", "proved"),
        ("model found for base case: FAIL!", "refuted"),
        ("Reached maximum number of time steps", "open"),
    ):
        if text in done.stdout:
            assert (done.returncode == 0) == (answer == "proved"), done.stdout[-2000:]
            return answer
    raise AssertionError(done.stdout[-2000:] + done.stderr[-2000:])
