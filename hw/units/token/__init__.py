"""Processing elements of the token-dataflow overlay."""
