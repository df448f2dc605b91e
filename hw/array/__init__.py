"""The array in Amaranth: slots and switches that an image sets, and the whole of them."""
