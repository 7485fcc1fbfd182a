"""Sweeps over thousands of traces, drives and policies, on this machine or on a cluster of Ray (docs/howto/fleet.md).

Running a fleet needs pyarrow, traces at URLs need fsspec, and clusters need Ray: ``pip install 'tranche[fleet]'``.
"""

from ._directory import Status
from ._errors import FleetError
from ._executor import Ended, Executor
from ._loads import Job, Trace
from ._local import LocalExecutor
from ._plan import Plan, PlannedSet, PublicSet, SETS, measure, plan
from ._progress import Line, Progress
from ._ray import RayExecutor
from ._run import run, status
from ._spec import Combination, Fleet, FleetRun
from ._task import Done, Task

__all__ = [
    "SETS",
    "Combination",
    "Done",
    "Ended",
    "Executor",
    "Fleet",
    "FleetError",
    "FleetRun",
    "Job",
    "Line",
    "LocalExecutor",
    "Plan",
    "PlannedSet",
    "Progress",
    "PublicSet",
    "RayExecutor",
    "Status",
    "Task",
    "Trace",
    "measure",
    "plan",
    "run",
    "status",
]
