"""Python environments with what a requirements file names, made once for each content of it and each Python."""
import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys


def make_venv(folder: pathlib.Path, file: pathlib.Path) -> pathlib.Path:
    """The python of an environment that has what `file` names installed."""
    requirements = file.read_text()
    wanted = hashlib.sha256((sys.version + requirements).encode()).hexdigest()
    stamp = folder / "requirements.sha256"
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:  # two build folders may share it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted and python.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {' '.join(requirements.split())} into {folder}", flush=True)
        if subprocess.run([sys.executable, "-m", "venv", str(folder)]).returncode != 0:
            sys.exit("no virtual environment: it needs Debian's python3-venv; `make test-deps` installs it")
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
                   "--retries", "3", "--timeout", "20", "-r", str(file)]
        if subprocess.run(install).returncode != 0:
            sys.exit(f"what {file} names could not be installed (pip's words are above). That needs pip's package index once; "
                     "the next run tries again.")
        stamp.write_text(wanted)
    return python
