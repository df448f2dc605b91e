"""Verification: cocotb agents, the model's scoreboard, streams and stall patterns from a seed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agents import Bench, ConfigDriver, StreamBus, StreamDriver, StreamMonitor
    from .memory_agent import MemoryAgent
    from .scoreboard import ModelScoreboard

__all__ = [
    "Bench",
    "ConfigDriver",
    "MemoryAgent",
    "ModelScoreboard",
    "StreamBus",
    "StreamDriver",
    "StreamMonitor",
]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import (
        agents,
        memory_agent,
        scoreboard,
    )  # cocotb and the model: most modules need neither

    home = {"MemoryAgent": memory_agent, "ModelScoreboard": scoreboard}.get(name, agents)
    return getattr(home, name)
