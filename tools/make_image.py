#!/usr/bin/env python3
"""Makes an OCI image of a build, without a daemon: package/tutti-VERSION-linux-*.oci.tar, for podman load, docker load or skopeo.

    make_image.py --build build/release [--out build/release/package]

The image has the program, the libraries that it is loaded with, glibc, and the certificates of authorities; no shell and no package manager.
It runs as user 65532. Models and the store are in /var/cache/tutti and /var/lib/tutti. Two builds of one commit give the same bytes.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import binaries  # noqa: E402
import make_packages  # noqa: E402
import make_sbom  # noqa: E402
import packing  # noqa: E402
import small_icu  # noqa: E402

ROOT = packing.ROOT
USER = 65532
NAME = f"tutti:{packing.version()}"  # for podman and docker
CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
OWN_FOLDERS = ["var/lib/tutti", "var/cache/tutti"]  # of the user
CONFIGURATION = [
    "--config.user", f"{USER}:{USER}", "--config.entrypoint", "/usr/bin/tutti", "--config.cmd", "serve",
    "--config.exposedports", "8080/tcp", "--config.workingdir", "/var/lib/tutti", "--config.stopsignal", "SIGTERM",
    "--config.env", "PATH=/usr/bin", "--config.env", "HOME=/var/lib/tutti", "--config.env", "TUTTI_CACHE=/var/cache/tutti",
    "--config.env", "HF_HOME=/var/cache/tutti/huggingface", "--config.volume", "/var/lib/tutti", "--config.volume", "/var/cache/tutti"]


def glibc_files(programs: list[pathlib.Path]) -> dict[str, pathlib.Path]:
    """The loader and glibc's libraries that programs ask for, by their places."""
    found: dict[str, pathlib.Path] = {}
    for program in programs:
        for name, path in re.findall(r"^\s*(?:(\S+) => )?(/\S+) \(0x", binaries.ldd(program), re.MULTILINE):
            base = pathlib.Path(path).name
            if base in binaries.GLIBC:
                found[path.removeprefix("/usr") if path.startswith("/usr/") else path] = pathlib.Path(path)
    return found


def lay_out(build: pathlib.Path, root: pathlib.Path, work: pathlib.Path, environment: dict[str, str]) -> None:
    usr = root / "usr"
    (usr / "bin").mkdir(parents=True)
    shutil.copy(build / "tutti", usr / "bin" / "tutti")
    packing.run(binaries.tool("strip", build / "tutti"), usr / "bin" / "tutti", env=environment)
    packing.run("patchelf", "--force-rpath", "--set-rpath", "/usr/lib/tutti", usr / "bin" / "tutti")
    icu = small_icu.make(build / "tutti", work)
    origins = binaries.copy_libraries([build / "tutti"], usr / "lib" / "tutti", {icu.name: icu})
    bundle = {f"usr/lib/tutti/{name}": (usr / "lib" / "tutti" / name, origin) for name, origin in origins.items()}
    glibc = glibc_files([build / "tutti", *origins.values()])
    for place, path in glibc.items():
        target = root / place.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path.resolve(), target)
        target.chmod(0o755 if target.name.startswith("ld-") else 0o644)
        bundle[str(target.relative_to(root))] = (target, path)
    certificates = root / str(CERTIFICATES).lstrip("/")
    certificates.parent.mkdir(parents=True)
    shutil.copyfile(CERTIFICATES, certificates)
    (root / "etc" / "passwd").write_text(f"root:x:0:0:root:/:/nologin\ntutti:x:{USER}:{USER}:Tutti:/var/lib/tutti:/nologin\n")
    (root / "etc" / "group").write_text(f"root:x:0:\ntutti:x:{USER}:\n")
    (root / "etc" / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    for folder in [*OWN_FOLDERS, "tmp", "proc", "sys", "dev"]:
        (root / folder).mkdir(parents=True)
    doc = usr / "share" / "doc" / "tutti"
    doc.mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", doc)
    shutil.copy(ROOT / "THIRD_PARTY.md", doc)
    make_packages.copy_licences({**origins, **{path.name: path for path in glibc.values()}}, doc / "licences")
    make_sbom.write(make_sbom.make(build, f"tutti-{packing.version()}.oci", ["tutti"], bundle, extra=["ca-certificates", "libc6"]),
                    doc / "tutti.spdx.json")


def labels() -> dict[str, str]:
    revision = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    found = {"title": "Tutti", "description": "Serves language and embedding models to many clients at once", "version": packing.version(),
             "licenses": "Apache-2.0"}
    return {f"org.opencontainers.image.{name}": value for name, value in {**found, "revision": revision}.items() if value}


def name_image(layout: pathlib.Path) -> None:
    """Adds the names that engines take from an archive: containerd's annotation, and the list that `docker save` writes, for older Dockers."""
    index = json.loads((layout / "index.json").read_text())
    (entry,) = index["manifests"]
    entry["annotations"]["io.containerd.image.name"] = f"docker.io/library/{NAME}"
    (layout / "index.json").write_text(json.dumps(index, separators=(",", ":")))

    def blob(descriptor: dict) -> str:
        return "blobs/" + descriptor["digest"].replace(":", "/")

    manifest = json.loads((layout / blob(entry)).read_text())
    listed = [{"Config": blob(manifest["config"]), "RepoTags": [NAME], "Layers": [blob(layer) for layer in manifest["layers"]]}]
    (layout / "manifest.json").write_text(json.dumps(listed, separators=(",", ":")))


def make(build: pathlib.Path, out: pathlib.Path, environment: dict[str, str]) -> pathlib.Path:
    machine = binaries.machine(build / "tutti")
    created = datetime.datetime.fromtimestamp(packing.commit_time(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = out / f"tutti-{packing.version()}-linux-{machine}.oci.tar"
    with tempfile.TemporaryDirectory() as folder:
        work, root, layout = (pathlib.Path(folder, name) for name in ("work", "root", "layout"))
        work.mkdir()
        root.mkdir()
        lay_out(build, root, work, environment)
        layer = pathlib.Path(folder, "layer.tar")
        with open(layer, "wb") as file:
            packing.write_tar(file, root, owners={name: USER for name in OWN_FOLDERS}, modes={"tmp": 0o1777})
        image = f"{layout}:{NAME}"
        packing.run("umoci", "init", "--layout", layout)
        packing.run("umoci", "new", "--image", image)
        packing.run("umoci", "raw", "add-layer", "--image", image, "--history.created", created, "--history.created_by", "make image", layer)
        words = [word for name, value in labels().items() for word in ("--config.label", f"{name}={value}")]
        packing.run("umoci", "config", "--image", image, "--created", created, "--architecture", binaries.DEBIAN_ARCHITECTURES[machine], "--os", "linux",
                    "--no-history", *CONFIGURATION, *words)
        packing.run("umoci", "gc", "--layout", layout)
        name_image(layout)
        with open(path, "wb") as file:
            packing.write_tar(file, layout)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, help="folder for the image (default: package in the build folder)")
    args = parser.parse_args()
    if not (args.build / "tutti").exists():
        sys.exit(f"make_image: no tutti in {args.build}: `make build` builds it")
    if not CERTIFICATES.exists():
        sys.exit(f"make_image: no {CERTIFICATES}; install ca-certificates")
    out = (args.out or args.build / "package").resolve()
    out.mkdir(parents=True, exist_ok=True)
    environment = packing.build_environment()
    os.environ.update(environment)
    path = make(args.build.resolve(), out, environment)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
