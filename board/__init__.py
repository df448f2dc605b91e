"""Designs on boards: the host's side of the serial line, a board in simulation, bitstreams."""
