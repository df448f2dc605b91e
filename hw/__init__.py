"""The machine in Amaranth: arithmetic, units, memory, fabric and export to Verilog."""
