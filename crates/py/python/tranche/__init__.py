"""An NVMe SSD in software: loads on drives in virtual time, and drives that live in this process."""

from . import models
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
from ._study import Study, study
from ._tranche import Error, Load, Profile, Table, __version__
from ._zones import Zone, ZoneAreas, ZoneState, Zones

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
    "Study",
    "Sweep",
    "Table",
    "Zone",
    "ZoneAreas",
    "ZoneState",
    "Zones",
    "__version__",
    "models",
    "simulate",
    "study",
    "sweep",
]
