"""What the tests share."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

JOB = """
[global]
bs=4k
iodepth=8
[w]
rw=randwrite
size=32m
[r]
stonewall
rw=randread
size=16m
numjobs=2
"""


class CommandLine:
    """The program `tranche` in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = os.environ["TRANCHE"]

    def sim(self, *arguments: str) -> dict[str, Any]:
        """What `tranche sim` prints with `--output json`."""
        command = [self.program, "sim", *arguments, "--no-cache", "--output", "json"]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result


@pytest.fixture
def command_line(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)
