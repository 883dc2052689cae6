"""libicudata with the tables that Tutti reads alone: 0.5 MB instead of 31 MB, for packages that bring their libraries.

Tutti normalises texts and asks for properties of characters; it has no use for the words, dates and orders of languages. The tables of
properties and of NFC are in libicuuc itself.
"""
import os
import pathlib
import re
import subprocess

import binaries

KEPT = re.compile(r"\.nrm$|^(cnvalias\.icu|pool\.res|root\.res)$")


def run(*command, cwd=None) -> str:
    path = f"{os.environ['PATH']}:/usr/sbin"  # where Debian has ICU's tools
    return subprocess.run([str(part) for part in command], check=True, cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, "PATH": path}).stdout


def find_icu_data(program: pathlib.Path) -> pathlib.Path:
    """The libicudata that a program or library is loaded with."""
    found = re.search(r"libicudata\.so\.\d+ => (\S+)", binaries.ldd(program))
    if found is None:
        raise SystemExit(f"{program} does not use libicudata")
    return pathlib.Path(found.group(1))


def make(program: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Writes the library to `folder`, by ICU's own tools."""
    whole = find_icu_data(program)
    version = whole.name.rsplit(".", 1)[1]
    data = folder / f"icudt{version}l.dat"  # l: little-endian
    run(binaries.tool("objcopy", program), "-O", "binary", "--only-section=.rodata", whole.resolve(), data)
    (folder / "dropped.txt").write_text("".join(f"{name}\n" for name in run("icupkg", "-l", data).split() if not KEPT.search(name)))
    kept = folder / "kept"
    kept.mkdir()
    run("icupkg", "-r", folder / "dropped.txt", data, kept / data.name)
    run("genccode", "-a", "gcc", "-e", f"icudt{version}", "-d", kept, data.name, cwd=kept)
    library = folder / "lib" / whole.name
    library.parent.mkdir()
    # Without names of folders and of temporary files, so that equal tables give equal bytes.
    run(binaries.tool("gcc", program), "-shared", "-s", "-o", library, f"-Wl,-soname,{whole.name}", "-Wl,-z,noexecstack", "-Wl,--build-id=none",
        f"icudt{version}l_dat.S", cwd=kept)
    return library
