#!/usr/bin/env python3
"""Installs and finds the parts that pip does not bring: Spark's jars, an S3 server, Kubernetes, helm.

    python3 toolchain/tools.py install NAME...     # install what is missing; without a name: everything
    python3 toolchain/tools.py path NAME           # print where a part is
    python3 toolchain/tools.py list

It runs before there is a virtual environment, so it needs the standard library alone; tests and the demo
import it (`tools.path("versitygw")`).

Each part is one folder in a cache outside the checkout ($DELTAMIRROR_CACHE, else $XDG_CACHE_HOME/deltamirror,
else ~/.cache/deltamirror), named by version or by the hash of what it is made from: a folder that exists is
complete and is never written again, checkouts share it, and a changed recipe makes a new folder beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parent
KUBERNETES_COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)
LOG_TAIL_LINES = 20


class ToolsError(Exception):
    """A sentence for the person at the terminal: what happened, and what to do."""


def cache_folder() -> Path:
    if folder := os.environ.get("DELTAMIRROR_CACHE"):
        return Path(folder).expanduser().absolute()
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder).absolute() / "deltamirror"
    return Path.home() / ".cache" / "deltamirror"


# ---- what a part needs of the machine ----------------------------------------------------------------------


@dataclass(frozen=True)
class Requirement:
    """A program of the machine, and how to learn its version. `home` is a variable that wins over PATH."""

    program: str
    name: str
    version_command: tuple[str, ...]
    version_pattern: str
    minimum: tuple[int, ...]
    home: str = ""

    @property
    def _wanted(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.minimum))} or newer"

    @property
    def _advice(self) -> str:
        return f"Install {self._wanted}, put `{self.program}` on PATH and repeat the command."

    def find(self, part: str) -> str:
        folder = os.environ.get(self.home) if self.home else None
        if folder:
            if found := shutil.which(os.path.join(folder, "bin", self.program)):
                return found
            raise ToolsError(
                f"{part} needs {self.name}, and {self.home}={folder} has no bin/{self.program}. Correct it."
            )
        if found := shutil.which(self.program):
            return found
        raise ToolsError(f"{part} needs {self.name}, and there is no `{self.program}` on PATH. {self._advice}")

    def check(self, part: str) -> None:
        program = self.find(part)
        answer = subprocess.run(
            [program, *self.version_command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout
        found = re.search(self.version_pattern, answer)
        if found is None:
            raise ToolsError(
                f"{part} needs {self.name}, and `{program} {' '.join(self.version_command)}` gave no "
                f"version but: {answer.strip()[:200] or 'nothing'}. {self._advice}"
            )
        version = tuple(int(number) for number in found.group(1).split("."))
        if version < self.minimum:
            raise ToolsError(f"{part} needs {self._wanted}, and {program} is {found.group(1)}. {self._advice}")


GO = Requirement("go", "Go", ("env", "GOVERSION"), r"go(\d+(?:\.\d+)*)", (1, 25))
JAVA = Requirement("java", "Java", ("-version",), r'version "(\d+(?:\.\d+)*)', (17,), home="JAVA_HOME")
MAVEN = Requirement("mvn", "Maven", ("--version",), r"Apache Maven (\d+(?:\.\d+)*)", (3, 6))


# ---- the parts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One run of a sub-tool; `environment` is added to ours."""

    doing: str
    command: list[str]
    folder: Path = HERE
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One installable thing: `steps` fill an empty folder, `finish` tidies it before it gets its name."""

    name: str
    version: str
    key: str
    needs: tuple[Requirement, ...]
    steps: Callable[[Path], list[Step]]
    finish: Callable[[Path], None] = lambda folder: None
    runs_on: tuple[Requirement, ...] = ()  # needed not only to install it
    result: str = "."  # what path() names, inside the folder

    @property
    def home(self) -> Path:
        return cache_folder() / self.name

    @property
    def folder(self) -> Path:
        return self.home / self.key

    @property
    def path(self) -> Path:
        return self.folder / self.result

    @property
    def installed(self) -> bool:
        return self.folder.is_dir()


def _hash_of(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _version_in(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text(encoding="utf-8"))
    if found is None:
        raise ToolsError(f"{file} has no line that matches {pattern!r}; the checkout is damaged.")
    return found.group(1)


def _go_program(name: str, version: str, package: str, link_flags: str = "") -> Part:
    def steps(folder: Path) -> list[Step]:
        command = [
            "go",
            "install",
            "-trimpath",
            "-ldflags",
            f"-s -w {link_flags}".rstrip(),
            f"{package}@v{version}",
        ]
        # Without cgo no C compiler is asked for, and the binary runs in any image.
        return [Step("building", command, folder, {"GOBIN": str(folder), "CGO_ENABLED": "0"})]

    return Part(name, version, version, (GO,), steps, result=name)


def _spark_jars() -> Part:
    pom = HERE / "spark-jars" / "pom.xml"
    delta = _version_in(pom, r"<delta\.version>(.+?)<")
    iceberg = _version_in(pom, r"<iceberg\.version>(.+?)<")

    def steps(folder: Path) -> list[Step]:
        options = ["--batch-mode", "--no-transfer-progress", f"-DoutputDirectory={folder}"]
        return [Step("downloading", ["mvn", *options, "-f", str(pom), "dependency:copy-dependencies"])]

    version = f"Delta {delta}, Iceberg {iceberg}"
    return Part("spark-jars", version, f"{delta}-{_hash_of(pom)}", (JAVA, MAVEN), steps, runs_on=(JAVA,))


def _kubernetes() -> Part:
    module = HERE / "kubernetes"
    version = _version_in(module / "go.mod", r"\sk8s\.io/kubernetes v(\S+)")

    def steps(folder: Path) -> list[Step]:
        major, minor = version.split(".")[:2]
        values = {
            "gitVersion": f"v{version}",
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
            "gitCommit": "0" * 40,
            "buildDate": "1970-01-01T00:00:00Z",
        }
        # The release build sets these; without them every client would be told v0.0.0.
        packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        stamp = " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())
        flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", f"-s -w {stamp}"]
        command = ["go", "build", *flags, "-o", str(folder / "hyperkube"), "."]
        return [Step("building", command, module, {"CGO_ENABLED": "0", "GOWORK": "off"})]

    def finish(folder: Path) -> None:
        for component in KUBERNETES_COMPONENTS:
            (folder / component).symlink_to("hyperkube")

    sources = _hash_of(module / "go.mod", module / "go.sum", module / "main.go")
    return Part("kubernetes", version, f"{version}-{sources}", (GO,), steps, finish)


def _official_client() -> Part:
    lock = HERE / "official-client.lock"
    version = _version_in(lock, r"(?m)^delta-sharing==(\S+)")

    def steps(folder: Path) -> list[Step]:
        python = str(folder / "bin" / "python")
        install = ["-m", "pip", "install", "--disable-pip-version-check", "--require-hashes", "-r", str(lock)]
        # The base interpreter: a venv made from inside another one would break when that one is removed.
        base = getattr(sys, "_base_executable", sys.executable)
        return [
            Step("making a virtual environment", [base, "-m", "venv", str(folder)]),
            Step("installing", [python, *install]),
        ]

    def finish(folder: Path) -> None:
        # Scripts name the folder they were installed in, which is about to be renamed; python does not.
        for script in (folder / "bin").iterdir():
            if not script.name.startswith("python"):
                script.unlink()

    return Part(
        "official-client",
        version,
        f"{version}-{_hash_of(lock)}",
        (),
        steps,
        finish,
        result="bin/python",
    )


RECIPES: dict[str, Callable[[], Part]] = {
    "spark-jars": _spark_jars,
    "versitygw": lambda: _go_program("versitygw", "1.8.0", "github.com/versity/versitygw/cmd/versitygw"),
    "kubernetes": _kubernetes,
    "helm": lambda: _go_program(
        "helm", "3.22.0", "helm.sh/helm/v3/cmd/helm", "-X helm.sh/helm/v3/internal/version.version=v3.22.0"
    ),
    "official-client": _official_client,
}


def part(name: str) -> Part:
    if name not in RECIPES:
        raise ToolsError(f"There is no part named {name!r}; there are {', '.join(RECIPES)}.")
    return RECIPES[name]()


def path(name: str) -> Path:
    """Where a part is: the binary of versitygw and helm, the python of official-client, else a folder."""
    wanted = part(name)
    if not wanted.installed:
        raise ToolsError(
            f"{wanted.name} {wanted.version} is not installed in {wanted.folder}. "
            f"Run `make tools`, or `python3 toolchain/tools.py install {wanted.name}` for this part alone."
        )
    return wanted.path


# ---- installing --------------------------------------------------------------------------------------------


class Progress:
    """One line per part: rewritten each second on a terminal, else printed at the start and at the end."""

    def __init__(self, wanted: Part) -> None:
        self._title = f"{wanted.name} {wanted.version}"
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._doing = ""

    @property
    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"

    def tick(self, doing: str) -> None:
        if self._terminal:
            columns = shutil.get_terminal_size().columns
            line = f"{self._title}: {doing} ... {self._elapsed}"[: columns - 1]
            sys.stderr.write(f"\r\033[K{line}")
        elif doing != self._doing:
            sys.stderr.write(f"{self._title}: {doing} ...\n")
        self._doing = doing
        sys.stderr.flush()

    def end(self, outcome: str) -> None:
        start = "\r\033[K" if self._terminal else ""
        sys.stderr.write(f"{start}{self._title}: {outcome}, {self._elapsed}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def _only_one_run(wanted: Part, progress: Progress) -> Iterator[int]:
    """Holds the part's lock. The kernel frees it when the last holder dies, so it cannot be left behind."""
    wanted.home.mkdir(parents=True, exist_ok=True)
    lock = os.open(wanted.home / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress.tick("waiting for another run")
                time.sleep(0.2)
        yield lock
    finally:
        os.close(lock)


def _run(step: Step, log: Path, lock: int, progress: Progress, title: str) -> None:
    progress.tick(step.doing)
    with log.open("ab") as output:
        output.write(f"$ {' '.join(step.command)}\n".encode())
        output.flush()
        # The sub-tool inherits the lock: if we are killed while it runs on, the next run waits for it instead
        # of removing the folder under its feet.
        process = subprocess.Popen(
            step.command,
            cwd=step.folder,
            env={**os.environ, **step.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
        )
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
                progress.tick(step.doing)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        quoted = "\n".join(f"    {line}" for line in tail)
        raise ToolsError(
            f"{title}: `{step.command[0]}` failed with exit status {process.returncode}. "
            f"The end of {log}:\n{quoted}\n"
            "What was downloaded is kept: repeat the command when the cause is gone."
        )


def install(name: str) -> Path:
    """Install a part if it is missing. Safe to call at any time, from any number of processes."""
    wanted = part(name)
    for requirement in wanted.runs_on:
        requirement.find(wanted.name)
    if wanted.installed:
        return wanted.path
    for requirement in wanted.needs:
        requirement.check(wanted.name)
    title = f"{wanted.name} {wanted.version}"
    progress = Progress(wanted)
    with _only_one_run(wanted, progress) as lock:
        for left_over in wanted.home.glob("*.partial"):  # of a run that died: nobody else can be here
            shutil.rmtree(left_over)
        if wanted.installed:
            progress.end("installed by the other run")
            return wanted.path
        partial = wanted.home / f"{wanted.key}.partial"
        partial.mkdir()
        log = wanted.home / "install.log"
        log.write_bytes(b"")
        try:
            for step in wanted.steps(partial):
                _run(step, log, lock, progress, title)
            wanted.finish(partial)
            partial.rename(wanted.folder)
        except BaseException as error:
            progress.end("failed" if isinstance(error, ToolsError) else "interrupted")
            shutil.rmtree(partial, ignore_errors=True)
            raise
    progress.end("installed")
    return wanted.path


# ---- the command -------------------------------------------------------------------------------------------


def _install_all(names: list[str]) -> None:
    missing = [name for name in names if not part(name).installed]
    for name in names:
        install(name)
    if not missing:
        print(f"{', '.join(names)}: installed in {cache_folder()}")


def _list() -> None:
    for name in RECIPES:
        known = part(name)
        print(f"{name:16} {known.version:30} {known.path if known.installed else 'not installed'}")


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    usage = "usage: tools.py install [NAME...] | path NAME | list"
    signal.signal(signal.SIGTERM, _terminated)
    try:
        if arguments[:1] == ["install"]:
            _install_all(arguments[1:] or list(RECIPES))
        elif arguments[:1] == ["path"] and len(arguments) == 2:
            print(path(arguments[1]))
        elif arguments == ["list"]:
            _list()
        else:
            print(usage, file=sys.stderr)
            return 2
    except ToolsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was downloaded is kept, repeat the command to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - whatever python3 is may start this file
        sys.exit(f"error: Python 3.11 or newer is needed, and {sys.executable} is {sys.version.split()[0]}.")
    sys.exit(main(sys.argv[1:]))
