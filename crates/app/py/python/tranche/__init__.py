"""An NVMe SSD in software: loads on drives in virtual time, and drives that live in this process."""

from . import models
from ._drive import Drive, Namespace
from ._errors import ArgumentError, CommandError
from ._policies import PlacementPolicy, VictimPolicy
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
from ._tranche import Candidate, Candidates, Error, Load, Profile, Table, __version__
from ._zones import Zone, ZoneAreas, ZoneState, Zones

__all__ = [
    "ArgumentError",
    "Candidate",
    "Candidates",
    "CommandError",
    "CommandLatency",
    "Direction",
    "Drive",
    "Error",
    "Load",
    "Namespace",
    "NamespaceCounts",
    "PlacementPolicy",
    "Profile",
    "Run",
    "SimulationError",
    "SimulationWarning",
    "Study",
    "Sweep",
    "Table",
    "VictimPolicy",
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
