"""Build a site beside the one that stands, and put it in its place when it is whole.

A build that fails or is killed costs nothing, and one site is built by one build at a time.
"""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from galley.run.dependencies import digest

DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES}  # no fault of a program
LEAST_SPACE = 2**20  # bytes that each folder must take before a build begins


class BuildStopped(Exception):
    """Why a site is not built, for people."""


class SiteFolder:
    """Where a site belongs, and where it is built. One that is built beside begins with `claim`, ends with `close`."""

    def __init__(self, place: Path, cache: Path, in_place: bool = False) -> None:
        self.place = place.resolve()
        self.cache = cache
        self.folder = self.place
        # A mounted folder, as of a container, cannot be renamed: a site in one is built where it stands. Any other is
        # built beside its place, and so on the same disk, within which a folder is moved at once.
        if not in_place and not os.path.ismount(self.place):
            self.folder = self.place.with_name(f"{self.place.name}.part")
        self.old = self.place.with_name(f"{self.place.name}.old")
        self.lock = FileLock(cache / f"{digest(str(self.place))[:8]}.lock", timeout=0)

    def claim(self) -> None:
        """Keep others from building this site, and clear away what a build that was killed has left."""
        self.cache.mkdir(parents=True, exist_ok=True)
        try:
            self.lock.acquire()
        except Timeout:
            left = f"the site in {self.place} is left to it"
            raise BuildStopped(f"another build of this site is under way; {left}") from None
        self.place.parent.mkdir(parents=True, exist_ok=True)
        self._clear()
        self.check_room()

    def close(self) -> None:
        """Leave nothing beside the site, and let others build it."""
        if self.lock.is_locked:
            self._clear()
            self.lock.release()

    def replace(self, pages: list[str]) -> None:
        """Put what was built in the place of the site. Killed at any moment, it leaves one of them whole."""
        # Where a plugin or a hook leaves nothing of a page, MkDocs skips it and goes on.
        missing = [page for page in pages if not (self.folder / page).exists()]
        if missing and self.lock.is_locked:
            count = f"{len(missing)} of {len(pages)} pages"
            raise BuildStopped(f"{count} are not in the new site, such as {missing[0]}; {self._state()}")
        if self.folder != self.place:
            # Python cannot swap two folders at once. Between the two moves `old` is the whole site; of a build that is
            # killed there, the next one brings it back.
            if self.place.exists():
                self.place.rename(self.old)
            self.folder.rename(self.place)
            self._finish()

    def check_room(self) -> None:
        """Raise OSError where a folder that a build writes in takes nothing; it names the folder."""
        if not self.lock.is_locked:
            return
        for folder in (self.place.parent, self.cache, Path(tempfile.gettempdir())):
            # Free bytes do not say it: a quota or a read-only disk shows only when something is written.
            try:
                with tempfile.TemporaryFile(dir=folder) as probe:
                    probe.write(bytes(LEAST_SPACE))
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(folder)) from None

    def reason(self, error: BaseException | None) -> str:
        """Return why a build ends, as one sentence; nothing where the error is the fault of a program."""
        if isinstance(error, BuildStopped):
            return f"build: {error}"
        if isinstance(error, KeyboardInterrupt):
            return f"build: interrupted; {self._state()}"
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            # Of a copy the second name is where it was to go.
            path = error.filename2 or error.filename
            where = f": {path}" if path else ""
            return f"build: {error.strerror}{where}; {self._state()}"
        return ""

    def _state(self) -> str:
        """Return what becomes of the site when a build ends early."""
        if self.folder == self.place:
            return f"the site in {self.place} is not whole"
        return f"the site in {self.place} stays as it was"

    def _clear(self) -> None:
        """Remove what is built beside the site."""
        if self.folder != self.place:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._finish()

    def _finish(self) -> None:
        """Finish what `replace` began, or take it back where the new site had not come to its place."""
        if self.old.exists() and not self.place.exists():
            self.old.rename(self.place)
        elif self.old.exists():
            # MkDocs cleans a folder before it builds and leaves what is hidden in it, such as the .git of a checkout.
            for path in self.old.glob(".*"):
                if not (self.place / path.name).exists():
                    path.rename(self.place / path.name)
            shutil.rmtree(self.old)
