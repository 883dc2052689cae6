"""What the makers of packages share: the time of the commit, and archives whose bytes depend on nothing else."""
import gzip
import os
import pathlib
import re
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
