"""Programs and libraries that are packed: their processor, the libraries that they are loaded with, and the Debian packages of these.

Those for another processor than this machine's (the preset arm64) are read by the tools of its cross compiler and run by qemu.
"""
import pathlib
import platform
import re
import shutil
import subprocess

from packing import run

# By the number of their processor in ELF.
MACHINES = {62: "x86_64", 183: "aarch64"}
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LOADERS = {"aarch64": "/lib/ld-linux-aarch64.so.1"}


def machine(program: pathlib.Path) -> str:
    """As `uname -m` says it."""
    with open(program, "rb") as file:
        header = file.read(20)
    number = int.from_bytes(header[18:20], "little")
    if header[:4] != b"\x7fELF" or number not in MACHINES:
        raise SystemExit(f"{program} is no program for {' or '.join(MACHINES.values())}")
    return MACHINES[number]


def is_foreign(program: pathlib.Path) -> bool:
    return machine(program) != platform.machine()


def tool(name: str, program: pathlib.Path) -> str:
    """The name of strip, gcc or another tool of binutils and gcc for a program's processor."""
    return f"{machine(program)}-linux-gnu-{name}" if is_foreign(program) else name


def runnable(program: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """What runs a program here: itself, or a script in `folder` that emulates its processor."""
    if not is_foreign(program):
        return program
    script = folder / "emulated" / program.name
    script.parent.mkdir(exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec qemu-{machine(program)} "{program.resolve()}" "$@"\n')
    script.chmod(0o755)
    return script


def ldd(program: pathlib.Path) -> str:
    if is_foreign(program):
        return run(f"qemu-{machine(program)}", LOADERS[machine(program)], "--list", program)
    return run("ldd", program)


def debian_packages(paths) -> dict[pathlib.Path, str]:
    """The Debian package that each of some files of this machine is from. Packages list files in /lib or in /usr/lib, whatever the links are."""
    wanted: dict[str, pathlib.Path] = {}
    for path in paths:
        real = str(path.resolve())
        for name in (str(path), real, real.removeprefix("/usr"), "/usr" + real.removeprefix("/usr")):
            wanted[name] = path
    done = subprocess.run(["dpkg-query", "-S", *sorted(wanted)], capture_output=True, text=True, check=False)
    # "libfoo-dev:amd64, libfoo-dev:arm64: /usr/include/foo.h" where it is there for two architectures.
    found = {wanted[name]: owner for owner, name in re.findall(r"^([^\s:,]+)[^/]*: (/\S+)$", done.stdout, re.MULTILINE) if name in wanted}
    missing = sorted(str(path) for path in set(paths) - set(found))
    if missing:
        raise SystemExit(f"no Debian package has {' '.join(missing[:3])}")
    return found


def needed(library: pathlib.Path) -> list[str]:
    """The names of the libraries that one asks for itself."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(\S+)\]", run("readelf", "-dW", library))


def libraries(program: pathlib.Path) -> dict[str, pathlib.Path]:
    """All shared libraries that a program or library is loaded with, by name, without those of glibc, which every system has."""
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", ldd(program), re.MULTILINE))
    paths = {name: pathlib.Path(path) for name, path in found.items()}
    return {name: path for name, path in sorted(paths.items()) if name not in GLIBC and "/" not in name}


# Its libraries, and the loader.
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2", "libutil.so.1", "libanl.so.1",
         "libmvec.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def copy_libraries(programs: list[pathlib.Path], folder: pathlib.Path, replaced: dict[str, pathlib.Path]) -> dict[str, pathlib.Path]:
    """Copies what programs are loaded with into one folder, under the names that are asked for. Gives where each was from.

    The copies have the bytes of their Debian packages. `replaced` are libraries that are taken instead.
    """
    folder.mkdir(parents=True, exist_ok=True)
    origins = {}
    for program in programs:
        origins.update(libraries(program))
    for name, path in origins.items():
        shutil.copyfile(replaced.get(name, path).resolve(), folder / name)
        (folder / name).chmod(0o644)
    return origins
