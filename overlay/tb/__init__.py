"""The overlay's bench: images on the RTL."""
