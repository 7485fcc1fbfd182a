"""Drives that live in this process."""

from __future__ import annotations

import ipaddress
import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from types import TracebackType
from typing import Any, Literal

from ._arguments import Duration, Size, checked_class, duration, size as bytes_of
from ._tranche import LiveDrive, LiveZones, Profile
from ._zones import Zones


@dataclass(frozen=True)
class Namespace:
    """A namespace of a live drive, as it was when it was listed or created."""

    nsid: int
    blocks: int
    """Its size in logical blocks."""
    block_size: int
    """Bytes of a logical block."""
    nvm_set: int
    """Its NVM Set, which is its medium; from 1."""
    attached: bool
    """Whether this process had it attached."""
    _live: LiveDrive = field(repr=False, compare=False)

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.blocks * self.block_size

    def read(self, lba: int, blocks: int = 1) -> bytes:
        """Reads logical blocks from ``lba`` on."""
        return self._live.read(self.nsid, lba, blocks)

    def write(self, lba: int, data: bytes | bytearray | memoryview, *, fua: bool = False) -> None:
        """Writes whole logical blocks from ``lba`` on. With ``fua`` they are durable when this returns.

        Raises:
            ArgumentError: ``data`` is no whole number of blocks.
            CommandError: The drive refuses it, or fails.
        """
        self._live.write(self.nsid, lba, data, fua=fua)

    def flush(self) -> None:
        """Makes everything that was written durable."""
        self._live.flush(self.nsid)

    def deallocate(self, lba: int, blocks: int) -> None:
        """Gives up the contents of logical blocks (trim)."""
        self._live.deallocate(self.nsid, lba, blocks)

    @property
    def zones(self) -> Zones:
        """Its zones.

        Raises:
            Error: It has none, or is not attached to this process.
        """
        return Zones(self._live, self.nsid)

    def attach(self, host: str | None = None) -> None:
        """Attaches it to the controllers of a host by its NQN, or to all hosts that are connected, this process among them.

        The drive remembers it for hosts that connect again. Where it is attached already, nothing changes.
        """
        self._live.change_attachment(self.nsid, attach=True, host=host)

    def detach(self, host: str | None = None) -> None:
        """The opposite of :meth:`attach`."""
        self._live.change_attachment(self.nsid, attach=False, host=host)

    def delete(self) -> None:
        """Deletes it, with all that is on it."""
        self._live.delete_namespace(self.nsid)


@checked_class
class Drive:
    """A drive that lives in this process, with an NVMe/TCP port that others can attach to.

    It begins with its construction, and ends with the ``with`` statement, or with :meth:`stop`. Without an image it is in memory, and ends for good.
    All methods may be called from any thread, and other threads go on meanwhile. Of a power cut that comes later (``after``), the method that is under
    way hears as an :class:`Error`, or else the next one. The one after that waits until the drive is back.

    Args:
        profile: A :class:`Profile`, the name of a built-in one, or the path of a TOML file. Without: that of the image, or ``default``.
        tcp: Addresses of its NVMe/TCP ports, as ``"127.0.0.1:4420"``; port 0 is one that is free. None at all with ``()``.
        image: Directory in which the drive outlives the process. It is made if it is not there.
        timing: Whether operations take their modelled time. Without: as the profile says.
        network_faults: Whether hosts on the network may cut its power and inject faults, too.

    Raises:
        Error: The drive cannot be so, its image cannot be used, or an address is taken.
    """

    def __init__(
        self,
        profile: Profile | str | os.PathLike[str] | None = None,
        *,
        tcp: str | Iterable[str] = "127.0.0.1:0",
        image: str | os.PathLike[str] | None = None,
        timing: bool | None = None,
        network_faults: bool = False,
    ) -> None:
        if profile is None:
            kept = None if image is None else FilePath(image) / "drive.toml"
            profile = kept if kept is not None and kept.exists() else "default"
        if not isinstance(profile, Profile):
            profile = Profile.open(profile)
        self._live = LiveDrive(
            profile,
            tcp=[tcp] if isinstance(tcp, str) else list(tcp),
            image=image,
            timing=timing,
            network_faults=network_faults,
        )
        for url in self.urls:
            host = url.removeprefix("tcp://").rpartition(":")[0].strip("[]")
            if not ipaddress.ip_address(host).is_loopback:
                warnings.warn(
                    f"every host that reaches {url} may use the drive and manage it: it is beyond loopback, and asks for no key",
                    RuntimeWarning,
                    # Of the caller, who called what looks at arguments first.
                    stacklevel=3,
                )

    def __enter__(self) -> Drive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        where = ", ".join(self.urls) or "no port"
        return f"<tranche.Drive {where}{'' if self.running else ', stopped'}>"

    def stop(self) -> None:
        """Ends it in order: what it has accepted goes to its media, and an image opens without recovery. Hosts are disconnected."""
        self._live.stop()

    @property
    def running(self) -> bool:
        """Whether it has not been stopped."""
        return self._live.running

    @property
    def urls(self) -> tuple[str, ...]:
        """Its NVMe/TCP ports, as ``tranche … --on`` has them: ``tcp://127.0.0.1:40123``."""
        return tuple(self._live.urls)

    @property
    def url(self) -> str:
        """The first of its ports."""
        return self._live.urls[0]

    @property
    def nqn(self) -> str:
        """The NQN of its subsystem, for ``nvme connect --nqn``."""
        return self._live.nqn

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how the image was opened."""
        return tuple(self._live.notes)

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        """Its namespaces, attached or not, by their identifiers."""
        return tuple(Namespace(*row, self._live) for row in self._live.namespaces())

    def namespace(self, nsid: int) -> Namespace:
        """The namespace of this identifier.

        Raises:
            KeyError: There is none.
        """
        for namespace in self.namespaces:
            if namespace.nsid == nsid:
                return namespace
        raise KeyError(nsid)

    def create_namespace(
        self, size: Size, *, block_size: Size = 4096, nvm_set: int = 1, attach: bool = True
    ) -> Namespace:
        """Creates a namespace.

        Args:
            size: Bytes, a multiple of ``block_size``, or a text such as ``"64MiB"``.
            block_size: Bytes of a logical block.
            nvm_set: The medium: an NVM Set of the drive, from 1.
            attach: Whether it is attached to all hosts that are connected, this process among them.
        """
        nsid = self._live.create_namespace(
            bytes_of("size", size), block_size=bytes_of("block_size", block_size), nvm_set=nvm_set
        )
        if attach:
            self._live.change_attachment(nsid, attach=True, host=None)
        return self.namespace(nsid)

    def create_zoned_namespace(
        self,
        size: Size,
        *,
        block_size: Size | None = None,
        nvm_set: int = 1,
        max_active: int | None = None,
        max_open: int | None = None,
        areas: int = 0,
        attach: bool = True,
    ) -> Namespace:
        """Creates a zoned namespace (docs/howto/zones.md). Its zones are :attr:`Namespace.zones`.

        Args:
            size: Bytes, a whole number of zones, or a text such as ``"64MiB"``.
            block_size: Bytes of a logical block. By default the first that zones can have.
            nvm_set: An NVM Set with zones, from 1.
            max_active: Zones that may be active, that is written in part, at a time. By default as the drive says, or what is left.
            max_open: Zones that may be open at a time. By default as ``max_active``.
            areas: Zones that may have a Zone Random Write Area at a time.
            attach: Whether it is attached to all hosts that are connected, this process among them.
        """
        nsid = LiveZones.create(
            self._live,
            bytes_of("size", size),
            block_size=None if block_size is None else bytes_of("block_size", block_size),
            nvm_set=nvm_set,
            max_active=max_active or 0,
            max_open=max_open or 0,
            areas=areas,
        )
        if attach:
            self._live.change_attachment(nsid, attach=True, host=None)
        return self.namespace(nsid)

    def power_cut(
        self, *, off: Duration = 0.1, after: int = 0, seed: int = 0, capacitors_fail: bool = False
    ) -> None:
        """Cuts the power. What no capacitor or flush saved is lost, as on such a drive.

        Args:
            off: Seconds without power, or a text such as ``"100ms"``.
            after: Media operations until then. With 0 the cut comes at once, and this returns when the drive is back: no other method hears of it.
            seed: Seed of the media's faults from now on; 0 keeps theirs. A cut tears all that is under way.
            capacitors_fail: Also what relies on power-loss protection is lost.
        """
        seconds = duration("off", off)
        if not 0 <= seconds <= 4e6:
            raise ValueError(f"off is {off}: seconds from 0 to 4,000,000")
        self._live.power_cut(
            after=after, off_ms=round(seconds * 1000), seed=seed, capacitors_fail=capacitors_fail
        )

    def inject_fault(
        self,
        kind: Literal[
            "bit-errors",
            "uncorrectable",
            "program-failure",
            "erase-failure",
            "stuck-die",
            "lost-write",
            "misdirected-write",
            "weak-page",
            "slow",
            "host-disk-full",
            "host-disk-error",
        ],
        *,
        nvm_set: int = 0,
        count: int = 0,
        one_in: int = 1,
        parameter: int = 0,
    ) -> None:
        """Arms a fault of the media (docs/vendor.md).

        Args:
            kind: What goes wrong, as ``tranche fault`` names it.
            nvm_set: Only of this NVM Set; 0 for all.
            count: So many of the next operations are hit, then no more. 0: by chance, until :meth:`clear_faults`.
            one_in: By chance: one in so many.
            parameter: The die of ``stuck-die``, from 0; the factor of ``slow``, 2 or more.
        """
        self._live.inject_fault(
            kind, nvm_set=nvm_set, count=count, one_in=one_in, parameter=parameter
        )

    def faults(self) -> list[dict[str, Any]]:
        """The faults that are active, and a planned power cut (``tranche fault list``)."""
        faults: list[dict[str, Any]] = json.loads(self._live.faults())
        return faults

    def clear_faults(self) -> None:
        """Ends all faults. What they have damaged stays so."""
        self._live.inject_fault("clear", nvm_set=0, count=0, one_in=0, parameter=0)

    def smart(self) -> dict[str, Any]:
        """The SMART / Health log, with the keys of ``nvme smart-log -o json``."""
        log: dict[str, Any] = json.loads(self._live.smart())
        return log

    def counts(self) -> dict[str, Any]:
        """What the drive counts at this moment, by namespace, NVM Set and host. No command is sent for it. Keys may change between versions."""
        counts: dict[str, Any] = json.loads(self._live.counts())
        return counts
