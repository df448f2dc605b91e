"""``penstock overlay`` and its part of ``penstock synth``."""
