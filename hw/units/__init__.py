"""One component per unit kind, and the channel FIFO."""
