"""A PostgreSQL server of our own, from Debian's binaries, as the user ``postgres`` (initdb refuses root)."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if sys.platform != "win32":
    import pwd


def binaries() -> Path | None:
    """The newest version's folder, if there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name))
    return found[-1] if found and (found[-1] / "initdb").exists() else None


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Postgres:
    """A server in a temporary folder, on loopback; it can be killed and started again.

    Without ``fsync`` a commit takes .2 ms rather than 5, and survives whatever is killed, but not a power cut.
    """

    def __init__(self, *, fsync: bool = True) -> None:
        found = binaries()
        assert found is not None
        self.bin = found
        self.folder = Path(tempfile.mkdtemp(prefix="conebandit-pg-"))
        self.data = self.folder / "data"
        self.port = free_port()
        self.fsync = "on" if fsync else "off"
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
        self.start()

    @property
    def address(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c shared_buffers=32MB"
        options += f" -c fsync={self.fsync}"
        self.run("pg_ctl", "-D", self.data, "-o", options, "-l", self.folder / "log", "-w", "-t", "60", "start")

    def kill(self) -> None:
        """SIGKILL to the server's own process and to each of its children, by their ids: nobody can tidy up."""
        server = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        os.kill(server, signal.SIGKILL)
        for child in children:
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended by itself

    def restart(self) -> None:
        for _ in range(100):  # the killed processes may need a moment to let go of their memory
            for attempt in (self.start, self.is_ready):  # a server that took long to start is there all the same
                try:
                    attempt()
                    return
                except subprocess.CalledProcessError:
                    continue
            time.sleep(0.5)
        raise RuntimeError((self.folder / "log").read_text()[-2000:])

    def is_ready(self) -> None:
        """A ``CalledProcessError`` if the server does not take connections."""
        self.run("pg_isready", *self.connection)

    def stop(self) -> None:
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh_database(self, name: str) -> str:
        """A new, empty database; its address."""
        self.run("createdb", *self.connection, name)
        return self.address.removesuffix("postgres") + name

    @property
    def connection(self) -> tuple[str, ...]:
        """Options of PostgreSQL's programs."""
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")

    def run(self, program: str, *args: object) -> None:
        """Run one of PostgreSQL's programs."""
        as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        subprocess.run(
            [*as_postgres, self.bin / program, *map(str, args)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )
