"""Exceptions with more than a message."""

from ._tranche import Error


class ArgumentError(Error, ValueError):
    """An argument makes no sense for this load, or on this drive."""


class CommandError(Error):
    """The drive carried out a command and reported an error."""

    def __init__(self, message: str, status: str, code: int) -> None:
        super().__init__(message, status, code)
        self.status = status
        """The status in the specification's words."""
        self.code = code
        """Status Code Type and Status Code: ``0x281`` is Unrecovered Read Error."""

    def __str__(self) -> str:
        return str(self.args[0])
