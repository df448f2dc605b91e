"""Static analysis of a program: traffic, memory, FLOP."""
