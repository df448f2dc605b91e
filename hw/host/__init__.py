"""Parts between a design and its host: registers, memory, streams, a serial line."""
