"""The overlay's machine, images and dataflow graphs, which every side shares."""
