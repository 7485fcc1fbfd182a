"""What a fleet raises."""

from .._tranche import Error


class FleetError(Error):
    """A fleet cannot be so, or cannot go on: what it says is what to change. What it has so far stays in its directory."""
