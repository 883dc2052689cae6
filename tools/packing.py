"""What the makers of packages share: the time of the commit, archives whose bytes depend on nothing else, and the libraries of a program."""
import gzip
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile
import zipfile
from datetime import datetime, timezone

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command, **options) -> str:
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def version() -> str:
    return re.search(r"project\(tutti VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def commit_time() -> int:
    """Seconds since 1970: SOURCE_DATE_EPOCH, else of the commit, else of the newest change, for sources without a repository."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    done = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else int((ROOT / "CHANGELOG.md").stat().st_mtime)


def build_environment() -> dict[str, str]:
    """For commands whose output must not depend on the day, the user or the language."""
    os.umask(0o022)
    return {**os.environ, "SOURCE_DATE_EPOCH": str(commit_time()), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def sorted_files(root: pathlib.Path) -> list[pathlib.Path]:
    """All files, links and folders below `root`, a folder before what it holds, in the order of their names' bytes."""
    return sorted(root.rglob("*"), key=lambda path: str(path.relative_to(root)).encode())


def write_tar(archive, root: pathlib.Path, prefix: str = "", owners: dict[str, int] | None = None, modes: dict[str, int] | None = None):
    """Writes `root` as a tar archive to a file object. Owners are root, but for the folders in `owners`; `modes` are of folders too."""
    time = commit_time()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in ([root] if prefix else []) + sorted_files(root):
            name = str(path.relative_to(root)) if path != root else ""
            entry = tar.gettarinfo(str(path), "/".join(filter(None, (prefix, name))))
            entry.mtime, entry.uname, entry.gname = time, "", ""
            entry.uid = entry.gid = (owners or {}).get(name, 0)
            executable = path.is_dir() or path.stat(follow_symlinks=False).st_mode & stat.S_IXUSR
            entry.mode = (modes or {}).get(name, 0o755 if executable else 0o644)
            if entry.isreg():
                with open(path, "rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)


def write_tar_gz(archive: pathlib.Path, root: pathlib.Path, prefix: str = "", **options) -> None:
    with open(archive, "wb") as file, gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
        write_tar(packed, root, prefix, **options)


def write_zip(archive: pathlib.Path, root: pathlib.Path) -> None:
    """Files alone: tools that unpack make the folders. A zip archive has no times before 1980."""
    time = datetime.fromtimestamp(max(commit_time(), 315532800), timezone.utc).timetuple()[:6]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        for path in sorted_files(root):
            if path.is_dir():
                continue
            entry = zipfile.ZipInfo(str(path.relative_to(root)), time)
            entry.compress_type = zipfile.ZIP_DEFLATED
            executable = path.stat().st_mode & stat.S_IXUSR
            entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            packed.writestr(entry, path.read_bytes())


def debian_packages(paths) -> dict[pathlib.Path, str]:
    """The Debian package that each of some files of this machine is from. Packages list files in /lib or in /usr/lib, whatever the links are."""
    wanted: dict[str, pathlib.Path] = {}
    for path in paths:
        real = str(path.resolve())
        for name in (str(path), real, real.removeprefix("/usr"), "/usr" + real.removeprefix("/usr")):
            wanted[name] = path
    done = subprocess.run(["dpkg-query", "-S", *sorted(wanted)], capture_output=True, text=True, check=False)
    found = {wanted[name]: owner for owner, name in re.findall(r"^(\S+?)(?::\w+)?: (/\S+)$", done.stdout, re.MULTILINE) if name in wanted}
    missing = sorted(str(path) for path in set(paths) - set(found))
    if missing:
        raise SystemExit(f"no Debian package has {' '.join(missing[:3])}")
    return found


def needed(library: pathlib.Path) -> list[str]:
    """The names of the libraries that one asks for itself."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(\S+)\]", run("readelf", "-dW", library))


def libraries(program: pathlib.Path) -> dict[str, pathlib.Path]:
    """All shared libraries that a program or library is loaded with, by name, without those of glibc, which every system has."""
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", program), re.MULTILINE))
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
