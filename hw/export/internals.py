"""Private names of Amaranth, all of which the package takes from here.

They fit 0.5.8 to 0.5.10, and pyproject.toml admits 0.5 alone. Amaranth has no public names for the
netlist, which :mod:`.nets` lets hold more bits, goes through for loops and whose ports it names;
for the direction of a port of given bits; and for a dictionary by signal. The development version
renames some: there ``Matches`` is ``Match``.
"""

from typing import TypeAlias

from amaranth.back import rtlil
from amaranth.hdl import _ast, _ir, _nir

ModuleEmitter: TypeAlias = rtlil.ModuleEmitter
SignalDict: TypeAlias = _ast.SignalDict
PortDirection: TypeAlias = _ir.PortDirection
Net: TypeAlias = _nir.Net
Netlist: TypeAlias = _nir.Netlist
NetFlipFlop: TypeAlias = _nir.FlipFlop
NetMemory: TypeAlias = _nir.Memory
NetModule: TypeAlias = _nir.Module
NetOperator: TypeAlias = _nir.Operator
NetValue: TypeAlias = _nir.Value

CombinationalCycle = _nir.CombinationalCycle
WHOLE = (_nir.Part, _nir.Matches, _nir.AsyncReadPort)
"""Cells of a netlist each of whose outputs follows all inputs."""
LOGIC = (*WHOLE, _nir.Operator, _nir.PriorityMatch, _nir.AssignmentList, _nir.IOBuffer)
"""Cells whose outputs follow inputs within a cycle."""
PORTS = _ir._compute_ports
"""Names of ports, ``port$<cell>$<bit>`` where no signal has the port's bits alone."""
LOOPS = Netlist.check_comb_cycles
"""Search for combinational loops, bit by bit."""


def replace(net: dict, value, loops, memory, ports) -> None:
    """Steps of Amaranth by others: members of ``Net``, how a ``NetValue`` is made, the search for
    loops, how RTLIL has a memory's first contents, the names of ports.
    """
    for name, member in net.items():
        setattr(Net, name, member)
    NetValue.__new__ = value
    Netlist.check_comb_cycles = loops
    ModuleEmitter.emit_memory = memory
    _ir._compute_ports = ports
