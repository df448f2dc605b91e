"""Project files for synthesis or lint beside the Verilog: a file a module, lists of files, a clock,
waivers with their reasons, a FuseSoC core.
"""

import re
from dataclasses import dataclass
from importlib.metadata import version

from .verilog import Export


@dataclass(frozen=True)
class Waiver:
    """A warning of ``verilator --lint-only -Wall`` that an export gives, and why it is none."""

    rule: str  # Verilator's name of it
    reason: str  # why what it says of is right as it is
    match: str = ""  # what its text has; empty: any

    def __str__(self) -> str:
        narrowed = f' -match "{self.match}"' if self.match else ""
        return f'// {self.reason}\nlint_off -rule {self.rule} -file "*"{narrowed}\n'


WAIVERS = (
    Waiver(
        "WIDTHEXPAND",
        "Operands are extended as the language says; Amaranth makes results as wide as they get.",
    ),
    Waiver(
        "WIDTHTRUNC",
        "The negation of a vector asks whether it is zero.",
        "Logical operator LOGNOT expects 1 bit*",
    ),
    Waiver(
        "WIDTHTRUNC",
        "A word is selected by a shift, of which the low bits are taken.",
        "Operator ASSIGNW expects*Assign RHS's SHIFTR*",
    ),
    Waiver(
        "UNUSEDSIGNAL",
        "Results keep their carry, and ports all fields of a beat, where few are looked at.",
    ),
    Waiver("UNSIGNED", "A bound is compared as it is, where it is 0 too."),
    Waiver("CMPCONST", "A bound is compared as it is, where it is the largest number too."),
    Waiver("PROCASSINIT", "An FPGA loads initial values; reset gives the same ones."),
    Waiver("DECLFILENAME", "A module's own parts, named after it, are in its file."),
    Waiver("VARHIDDEN", "The arguments of a function are its own."),
)
"""Warnings that may be waived; a test holds that exports give nothing else, and each of these."""


def split(verilog: str) -> dict[str, str]:
    """The modules of a design, by name, in the order of the text; with each the parts of its own,
    which are named after it: ``\\module.part``.
    """
    modules: dict[str, str] = {}
    for text in re.split(r"(?<=^endmodule\n)", verilog, flags=re.M):
        if found := re.search(r"^module \\?(\w+)", text, re.M):
            modules[found[1]] = modules.get(found[1], "") + text.lstrip("\n")
    return modules


def files_of(done: Export, clock_mhz: float | None) -> dict[str, str]:
    """Files of an export by name: a project for a clock, in MHz, or where none is given one
    file.
    """
    return {f"{done.top}.v": done.verilog} if clock_mhz is None else project_files(done, clock_mhz)


def project_files(done: Export, clock_mhz: float) -> dict[str, str]:
    """Files by name: every module's, and what lists, constrains, waives and instantiates them.

    Parameters
    ----------
    done : Export
        The design.
    clock_mhz : float
        The clock that place and route aims at, in MHz.
    """
    modules = split(done.verilog)
    sources = [f"{name}.v" for name in modules]
    files = {f"{name}.v": text for name, text in modules.items()}
    top = done.top
    files[f"{top}.f"] = "".join(f"{source}\n" for source in sources)
    files[f"{top}.vlt"] = "`verilator_config\n" + "".join(map(str, WAIVERS))
    clock = f"create_clock -name clk -period {1e3 / clock_mhz:.3f} [get_ports clk]\n"
    files[f"{top}.sdc"] = files[f"{top}.xdc"] = clock
    files[f"{top}.qsf"] = _quartus(top, sources)
    files[f"{top}.lpf"] = f'FREQUENCY PORT "clk" {clock_mhz:g} MHZ;\n'
    files[f"{top}_instance.vh"] = _instance(done)
    files[f"{top}.core"] = _core(top, sources)
    return files


def _quartus(top: str, sources: list[str]) -> str:
    """Quartus's assignments: the top, its files, its clock."""
    assigned = [("TOP_LEVEL_ENTITY", top), ("SDC_FILE", f"{top}.sdc")]
    assigned += [("VERILOG_FILE", source) for source in sources]
    return "".join(f"set_global_assignment -name {name} {value}\n" for name, value in assigned)


def _instance(done: Export) -> str:
    """The top, with ``clk`` and ``rst`` of the module around it and for every other port a net of
    the same width, named after both.
    """
    top = done.top
    nets = {port["name"]: f"{top}_{port['name']}" for port in done.sidecar["ports"]}
    declared = "".join(
        f"wire {_range(port['bits'])}{nets[port['name']]};\n" for port in done.sidecar["ports"]
    )
    joined = ",\n".join(
        f"    .{port}({net})" for port, net in {"clk": "clk", "rst": "rst", **nets}.items()
    )
    return f"{declared}\n{top} {top}_instance (\n{joined}\n);\n"


def _range(bits: int) -> str:
    return f"[{bits - 1}:0] " if bits > 1 else ""


def _core(top: str, sources: list[str]) -> str:
    """A FuseSoC core (CAPI 2): targets ``default`` and ``lint``."""
    listed = "".join(f"      - {source}\n" for source in sources)
    return (
        "CAPI=2:\n"
        f"name: penstock::{top}:{version('penstock')}\n"
        f"description: {top}, as Penstock exports it\n"
        "filesets:\n"
        "  rtl:\n"
        f"    files:\n{listed}"
        "    file_type: verilogSource\n"
        "  waivers:\n"
        f"    files:\n      - {top}.vlt\n"
        "    file_type: vlt\n"
        "targets:\n"
        "  default:\n"
        "    filesets: [rtl]\n"
        f"    toplevel: {top}\n"
        "  lint:\n"
        "    default_tool: verilator\n"
        "    filesets: [waivers, rtl]\n"
        "    tools:\n"
        "      verilator:\n"
        "        mode: lint-only\n"
        "        verilator_options: [-Wall]\n"
        f"    toplevel: {top}\n"
    )
