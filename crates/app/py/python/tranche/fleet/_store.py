"""Directories of files that are local, or anywhere that fsspec reaches."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ._errors import FleetError

# Where a file is there all at once or not at all when it is written, and a rename is a copy.
_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}

T = TypeVar("T")


def local_path(url: str) -> Path | None:
    """The path that a URL names; ``None`` if it is not of this machine."""
    if url.startswith("file://"):
        return Path(url.removeprefix("file://"))
    return None if "://" in url or "::" in url else Path(url)


def file_system(url: str) -> tuple[Any, str]:
    """The file system of fsspec for a URL, and the path there."""
    try:
        import fsspec.core
    except ImportError:
        raise FleetError(f"{url}: this needs fsspec: pip install 'tranche[fleet]'") from None
    try:
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as error:
        raise FleetError(f"{url}: {error}") from None


def unique(name: str) -> str:
    """A name for what becomes ``name`` when it is whole. Who reads a dataset leaves out what begins so, or what ends so."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}.{secrets.token_hex(8)}.partial"


def replace_with(path: Path, write: Callable[[Path], T]) -> T:
    """Lets a function write a file under another name, and then gives it this one."""
    partial = path.with_name(unique(path.name))
    try:
        done = write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.rename(path)
        return done
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Makes an ``OSError`` of what file systems of fsspec raise: each has errors of its own."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        raise OSError(f"{what}: {type(error).__name__}: {error}") from error


class Store:
    """A directory. Names of files in it have slashes. A file is there whole, or not at all.

    All methods raise an ``OSError`` if the directory cannot be used.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/") or "/"
        self.path = local_path(self.url)
        if self.path is None:
            self._fs, self._root = file_system(self.url)
            protocol = self._fs.protocol
            self._whole = bool(_WHOLE & ({protocol} if isinstance(protocol, str) else set(protocol)))

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _put(self, name: str, put: Callable[[str], object]) -> None:
        """Lets a function write a file of fsspec."""
        with _told(f"{self.url}/{name}"):
            if self._whole:
                put(self._at(name))
                return
            partial = self._at(unique(name))
            self._fs.makedirs(partial.rpartition("/")[0], exist_ok=True)
            put(partial)
            self._fs.mv(partial, self._at(name))

    def read(self, name: str) -> bytes | None:
        """A file; ``None`` if there is none."""
        try:
            if self.path is not None:
                return (self.path / name).read_bytes()
            with _told(f"{self.url}/{name}"):
                data: bytes = self._fs.cat_file(self._at(name))
            return data
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, or another one in its place."""
        if self.path is not None:
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_with(path, lambda partial: partial.write_bytes(data))
        else:
            self._put(name, lambda to: self._fs.pipe_file(to, data))

    def names(self, folder: str) -> list[str]:
        """The files that are directly in a folder (``""``: this directory), sorted; none if it is not there. Those that are not whole are left out."""
        try:
            if self.path is not None:
                found = [entry.name for entry in os.scandir(self.path / folder) if entry.is_file()]
            else:
                with _told(f"{self.url}/{folder}"):
                    self._fs.invalidate_cache()
                    entries = self._fs.ls(self._at(folder).rstrip("/"), detail=True)
                found = [entry["name"].rpartition("/")[2] for entry in entries if entry["type"] == "file"]
        except (FileNotFoundError, NotADirectoryError):
            return []
        at = f"{folder}/" if folder else ""
        return sorted(at + name for name in found if not name.endswith(".partial"))

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        if self.path is not None:
            return (self.path / name).is_file()
        with _told(f"{self.url}/{name}"):
            there: bool = self._fs.isfile(self._at(name))
        return there

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        try:
            if self.path is not None:
                (self.path / name).unlink()
            else:
                with _told(f"{self.url}/{name}"):
                    self._fs.rm_file(self._at(name))
        except FileNotFoundError:
            pass

    def download(self, name: str, to: Path) -> bool:
        """Brings a file here; false if there is none. On the same file system it is the same file under another name."""
        to.parent.mkdir(parents=True, exist_ok=True)

        def get(partial: Path) -> None:
            if self.path is None:
                with _told(f"{self.url}/{name}"):
                    self._fs.get_file(self._at(name), str(partial))
                return
            try:
                os.link(self.path / name, partial)
            except FileNotFoundError:
                raise
            except OSError:
                shutil.copyfile(self.path / name, partial)

        try:
            replace_with(to, get)
        except FileNotFoundError:
            return False
        return True

    def upload(self, file: Path, name: str) -> None:
        """Takes a file from here."""
        if self.path is not None:
            Store(str(file.parent)).download(file.name, self.path / name)
        else:
            self._put(name, lambda to: self._fs.put_file(str(file), to))
