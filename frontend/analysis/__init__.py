"""What is known of a program before it runs: traffic, memory, FLOP."""
