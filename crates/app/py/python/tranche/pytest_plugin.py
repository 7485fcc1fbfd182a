"""A drive for tests with pytest: the fixture ``tranche_drive``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ._drive import Drive


def pytest_configure(config: pytest.Config) -> None:
    """Says which marker there is."""
    config.addinivalue_line(
        "markers",
        "tranche_drive(profile, **options): what drive the fixture tranche_drive is; the arguments are those of tranche.Drive",
    )


@pytest.fixture
def tranche_drive(request: pytest.FixtureRequest) -> Iterator[Drive]:
    """A new drive in memory for each test, with an NVMe/TCP port. The marker ``tranche_drive`` says which."""
    marker = request.node.get_closest_marker("tranche_drive")
    arguments, options = ((), {}) if marker is None else (marker.args, marker.kwargs)
    with Drive(*arguments, **options) as drive:
        yield drive
