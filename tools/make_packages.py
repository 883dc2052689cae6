#!/usr/bin/env python3
"""Makes the Debian package and the tarball of a build: package/tutti_*.deb and package/tutti-VERSION-linux-*.tar.gz.

    make_packages.py --build build/release [--out build/release/package] [--only deb|tarball]

Two builds of one commit give the same bytes: times are those of the commit, owners are root, names are in order. The Debian package uses the
libraries of the Debian that it was built on. The tarball brings all but those of glibc, and needs one that is as new as this machine's.
"""
import argparse
import functools
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import binaries  # noqa: E402
import make_man  # noqa: E402
import make_sbom  # noqa: E402
import packing  # noqa: E402
import small_icu  # noqa: E402

ROOT = packing.ROOT
PROGRAMS = ["tutti", f"src/library/libtutti.so.{packing.version()}"]  # in the build folder
COMPLETIONS = {"bash": "bash-completion/completions/tutti", "zsh": "zsh/{}/_tutti", "fish": "fish/vendor_completions.d/tutti.fish"}


def tarball_name(build: pathlib.Path) -> str:
    return f"tutti-{packing.version()}-linux-{binaries.machine(build / 'tutti')}"


@functools.cache
def man_pages(program: pathlib.Path) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        make_man.make(program, pathlib.Path(folder))
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


def write_shared_files(build: pathlib.Path, share: pathlib.Path, zsh_folder: str) -> None:
    """What is made from the program's own words: man pages and completions."""
    tutti = binaries.runnable(build / "tutti", build)
    (share / "man" / "man1").mkdir(parents=True)
    for name, page in man_pages(tutti).items():
        (share / "man" / "man1" / name).write_bytes(page)
    for shell, place in COMPLETIONS.items():
        path = share / place.format(zsh_folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(packing.run(tutti, "completion", shell))


def make_deb(build: pathlib.Path, out: pathlib.Path, environment: dict[str, str]) -> pathlib.Path:
    """By CPack, which takes build/package-files as /usr (cmake/Packages.cmake)."""
    files = build / "package-files"
    shutil.rmtree(files, ignore_errors=True)
    write_shared_files(build, files / "share", "vendor-completions")
    doc = files / "share" / "doc" / "tutti"
    doc.mkdir(parents=True)
    shutil.copy(ROOT / "share" / "debian" / "copyright", doc)
    (doc / "changelog.gz").write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
    architecture = binaries.DEBIAN_ARCHITECTURES[binaries.machine(build / "tutti")]
    name = f"tutti_{packing.version()}_{architecture}.deb"
    make_sbom.write(make_sbom.make(build, name, PROGRAMS), doc / "tutti.spdx.json")
    work = out / "cpack"
    # dpkg-shlibdeps, which CPack runs, has the architecture from the environment.
    done = subprocess.run(["cpack", "-G", "DEB", "-B", str(work), "-D", f"CPACK_DEBIAN_PACKAGE_ARCHITECTURE={architecture}"], cwd=build,
                          env={**environment, "DEB_HOST_ARCH": architecture}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}make_packages: cpack failed")
    (made,) = work.glob("*.deb")
    made.replace(out / name)
    shutil.rmtree(work)
    return out / name


def copy_licences(origins: dict[str, pathlib.Path], folder: pathlib.Path) -> None:
    """The copyright files of the Debian packages that libraries are from."""
    folder.mkdir(parents=True)
    for package in sorted(set(binaries.debian_packages(origins.values()).values())):
        text = pathlib.Path("/usr/share/doc", package, "copyright")
        shutil.copyfile(text, folder / f"{package}.txt")


def lay_out_tarball(build: pathlib.Path, root: pathlib.Path, work: pathlib.Path, environment: dict[str, str]) -> None:
    """Installs the program, the library and all that they are loaded with into `root`, which may then be moved anywhere."""
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(root), "--strip"], check=True, stdout=subprocess.DEVNULL, env=environment)
    write_shared_files(build, root / "share", "site-functions")
    icu = small_icu.make(build / "tutti", work)
    origins = binaries.copy_libraries([build / name for name in PROGRAMS], root / "lib" / "tutti", {icu.name: icu})
    # DT_RPATH, which is also searched for what the libraries ask for, and before LD_LIBRARY_PATH.
    for path, to in ((root / "bin" / "tutti", "$ORIGIN/../lib/tutti"), ((root / "lib" / "libtutti.so").resolve(), "$ORIGIN/tutti")):
        packing.run("patchelf", "--force-rpath", "--set-rpath", to, path)
    doc = root / "share" / "doc" / "tutti"
    copy_licences(origins, doc / "licences")
    examples = root / "share" / "tutti"
    shutil.copy(ROOT / "share" / "tutti" / "tutti.toml", examples)
    (examples / "systemd").mkdir()
    shutil.copy(ROOT / "deploy" / "systemd" / "tutti.service", examples / "systemd")
    shutil.copy(ROOT / "share" / "tutti" / "default", examples / "systemd" / "tutti.default")
    glibc = max((tuple(map(int, found.split("."))) for path in [root / "bin" / "tutti", *(root / "lib").rglob("*.so*")]
                 for found in re.findall(r"GLIBC_([\d.]+)", packing.run(binaries.tool("objdump", path), "-T", path))))
    readme = (ROOT / "share" / "tutti" / "README.tarball").read_text()
    (root / "README").write_text(readme.replace("@VERSION@", packing.version()).replace("@MACHINE@", binaries.machine(build / "tutti")).replace("@GLIBC@", ".".join(map(str, glibc))))
    bundle = {f"lib/tutti/{name}": (root / "lib" / "tutti" / name, origin) for name, origin in origins.items()}
    make_sbom.write(make_sbom.make(build, f"{tarball_name(build)}.tar.gz", PROGRAMS, bundle), doc / "tutti.spdx.json")


def make_tarball(build: pathlib.Path, out: pathlib.Path, environment: dict[str, str]) -> pathlib.Path:
    path = out / f"{tarball_name(build)}.tar.gz"
    with tempfile.TemporaryDirectory() as folder:
        root, work = pathlib.Path(folder, "root"), pathlib.Path(folder, "work")
        work.mkdir()
        lay_out_tarball(build, root, work, environment)
        packing.write_tar_gz(path, root, tarball_name(build))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, help="folder for the packages (default: package in the build folder)")
    parser.add_argument("--only", choices=["deb", "tarball"])
    args = parser.parse_args()
    missing = [name for name in PROGRAMS if not (args.build / name).exists()]
    if missing:
        sys.exit(f"make_packages: no {' and no '.join(missing)} in {args.build}: `make build` builds them")
    out = (args.out or args.build / "package").resolve()
    out.mkdir(parents=True, exist_ok=True)
    environment = packing.build_environment()
    os.environ.update(environment)
    for kind, make, names in (("deb", make_deb, "tutti_*.deb"), ("tarball", make_tarball, "tutti-*.tar.gz")):
        if args.only in (None, kind):
            for earlier in out.glob(names):  # of another version
                earlier.unlink()
            path = make(args.build.resolve(), out, environment)
            print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
