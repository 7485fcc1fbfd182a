"""An NVMe SSD in software: loads on drives in virtual time, and drives that live in this process."""

from ._drive import Drive, Namespace
from ._errors import CommandError
from ._simulation import (
    CommandLatency,
    Direction,
    NamespaceCounts,
    Run,
    SimulationError,
    SimulationWarning,
    Sweep,
    simulate,
    sweep,
)
from ._tranche import Error, Load, Profile, Table, __version__

__all__ = [
    "CommandError",
    "CommandLatency",
    "Direction",
    "Drive",
    "Error",
    "Load",
    "Namespace",
    "NamespaceCounts",
    "Profile",
    "Run",
    "SimulationError",
    "SimulationWarning",
    "Sweep",
    "Table",
    "__version__",
    "simulate",
    "sweep",
]
