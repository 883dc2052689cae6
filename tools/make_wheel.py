#!/usr/bin/env python3
"""Builds the Python wheel (R40) from what the release preset compiled: build/wheel/tutti-*.whl.

    make_wheel.py [--build build/release] [--out build/wheel]

The build's own tools come from PyPI into build/wheel-venv. auditwheel puts the libraries that a Linux system need not have into the wheel
and names the oldest glibc it runs on. Their licences and the bill of materials are added, and the archive is written anew, so that two builds of
one commit have the same bytes.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
from virtual_environment import make_venv  # noqa: E402
import binaries  # noqa: E402
import make_packages  # noqa: E402
import make_sbom  # noqa: E402
import packing  # noqa: E402
import small_icu  # noqa: E402

MAX_BYTES = 30_000_000
LIBRARY = "python/libtutti.so"  # in the build folder


def call(*command, **environment: str) -> None:
    """Runs a command with more variables. Prints what it said if it fails, and ends this program."""
    done = subprocess.run([str(part) for part in command], check=False, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}make_wheel: {' '.join(map(str, command[:4]))} ... failed")


def origins_of(libraries: pathlib.Path, loaded: dict[str, pathlib.Path]) -> dict[str, pathlib.Path]:
    """Where auditwheel's copies are from: it puts a hash before the first period of a name."""
    by_name = {path.resolve().name: path for path in loaded.values()} | loaded
    return {path.name: by_name[re.sub(r"-[0-9a-f]{8}(?=\.)", "", path.name, count=1)] for path in sorted(libraries.iterdir())}


def record_line(root: pathlib.Path, path: pathlib.Path) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    return f"{path.relative_to(root)},sha256={digest},{path.stat().st_size}\n"


def complete(wheel: pathlib.Path, build: pathlib.Path) -> None:
    """Adds licences and the bill of materials, and writes the wheel again in one order and with one time."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root)
            for entry in archive.infolist():
                if not entry.is_dir() and entry.external_attr >> 16 & 0o100:
                    (root / entry.filename).chmod(0o755)
        (info,) = root.glob("*.dist-info")
        origins = origins_of(root / "tutti.libs", binaries.libraries(build / LIBRARY))
        make_packages.copy_licences(origins, info / "licenses" / "libraries")
        bundle = {f"tutti.libs/{name}": (root / "tutti.libs" / name, origin) for name, origin in origins.items()}
        make_sbom.write(make_sbom.make(build, wheel.name, [LIBRARY], bundle), info / "sboms" / "tutti.spdx.json")
        record = info / "RECORD"
        record.unlink()
        lines = [record_line(root, path) for path in packing.sorted_files(root) if path.is_file()]
        record.write_text("".join(lines) + f"{record.relative_to(root)},,\n")
        wheel.unlink()
        packing.write_zip(wheel, root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="where tutti_wheel_program is built")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "wheel")
    args = parser.parse_args()
    out, build = args.out.resolve(), args.build.resolve()
    os.environ.update(packing.build_environment())
    python = make_venv(ROOT / "build" / "wheel-venv", ROOT / "python" / "build-requirements.txt")
    for earlier in out.glob("tutti-*.whl"):
        earlier.unlink()
    with tempfile.TemporaryDirectory() as work:
        package, raw = pathlib.Path(work, "python"), pathlib.Path(work, "raw")
        shutil.copytree(ROOT / "python", package, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("LICENSE", "THIRD_PARTY.md"):
            shutil.copy(ROOT / name, package)
        call("cmake", "--install", build, "--component", "python", "--prefix", package / "tutti")
        call(python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--wheel-dir", raw,
             package)
        (wheel,) = raw.glob("*.whl")
        icu = pathlib.Path(work, "icu")
        icu.mkdir()
        library = small_icu.make(package / "tutti" / "libtutti.so", icu)
        call(python, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", out, wheel,
             PATH=f"{python.parent}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(library.parent))
    (wheel,) = out.glob("tutti-*.whl")
    complete(wheel, build)
    size = wheel.stat().st_size
    print(f"{wheel} ({size / 1e6:.1f} MB)")
    if size >= MAX_BYTES:
        sys.exit(f"the wheel must have less than {MAX_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
