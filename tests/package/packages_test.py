#!/usr/bin/env python3
"""The Debian package, the tarball and the image (R42): made from the build folder, unpacked, and served from; and their bills of materials (N78).

    packages_test.py --build build/release [--packages FOLDER]    --packages: those that are there, instead of new ones
"""
import argparse
import gzip
import http.client
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests" / "e2e"), str(SOURCE / "tests" / "support"), str(SOURCE / "tools")]
import hub_server  # noqa: E402
import binaries  # noqa: E402
import packing  # noqa: E402
from harness import free_port  # noqa: E402
from virtual_environment import make_venv  # noqa: E402
from test_paths import default_model  # noqa: E402

# Where files may lie, and nowhere else.
SHARED = (r"usr/include/tutti/\w+\.h|usr/lib/libtutti\.so[.\d]*|usr/lib/(cmake/tutti|pkgconfig)/[\w.-]+|usr/bin/tutti|"
          r"usr/share/man/man1/tutti(-\w+)?\.1\.gz|usr/share/tutti/mosquitto/tutti\.\w+|usr/share/bash-completion/completions/tutti|"
          r"usr/share/fish/vendor_completions\.d/tutti\.fish|usr/share/doc/tutti/(LICENSE|THIRD_PARTY\.md|tutti\.spdx\.json)")
DEB_PLACES = re.compile(rf"^({SHARED}|etc/default/tutti|etc/tutti/tutti\.toml|usr/lib/systemd/system/tutti\.service|"
                        r"usr/share/zsh/vendor-completions/_tutti|usr/share/doc/tutti/(changelog\.gz|copyright))$")
TAR_PLACES = re.compile(rf"^({SHARED.replace('usr/', '')}|README|lib/tutti/lib[\w+.-]+\.so[.\d]*|share/zsh/site-functions/_tutti|"
                        r"share/tutti/tutti\.toml|share/tutti/systemd/tutti\.(service|default)|share/doc/tutti/licences/[\w+.-]+\.txt)$")
IMAGE_PLACES = re.compile(r"^(usr/bin/tutti|usr/lib/tutti/lib[\w+.-]+\.so[.\d]*|lib/\w+-linux-gnu/lib(c|m|resolv)\.so\.\d|"
                          r"lib(64)?/ld-linux-[\w-]+\.so\.\d|etc/(passwd|group|nsswitch\.conf|ssl/certs/ca-certificates\.crt)|"
                          r"usr/share/doc/tutti/(LICENSE|THIRD_PARTY\.md|tutti\.spdx\.json|licences/[\w+.-]+\.txt))$")
VALIDATE = """
import sys
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
for path in sys.argv[1:]:
    for fault in validate_full_spdx_document(parse_file(path)):
        sys.exit(f"{path}: {fault.validation_message}")
"""


def call(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def files_of(root):
    return [str(path.relative_to(root)) for path in sorted(root.rglob("*")) if not path.is_dir()]


def unit_settings(root):
    """The lines of the unit's [Service] by their keys."""
    text = (root / "usr/lib/systemd/system/tutti.service").read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def check_deb_files(package, root):
    files = files_of(root)
    assert [name for name in files if not DEB_PLACES.match(name)] == [], files
    control = package.parent / "control"
    call("dpkg-deb", "-e", package, control)
    conffiles = (control / "conffiles").read_text().split()
    assert conffiles == [f"/{name}" for name in files if name.startswith("etc/")], conffiles
    for script in ("postinst", "prerm", "postrm"):
        call("sh", "-n", control / script)
    depends = re.search(r"^Depends: (.*)$", (control / "control").read_text(), re.MULTILINE).group(1)
    for needed in ("libc6", "libgrpc", "libssl", "ca-certificates"):
        assert needed in depends, depends
    listed = call("dpkg-deb", "-c", package)
    days = set(re.findall(r" (\d{4}-\d\d-\d\d \d\d:\d\d) ", listed))
    assert len(days) == 1 and not re.search(r"^\S+ (?!root/root)", listed, re.MULTILINE), listed


def check_pages(root):
    program = root / "usr/bin/tutti"
    listed = call(program, "--help").split("Subcommands:\n", 1)[1].split("\n\n", 1)[0]
    for command in re.findall(r"^  (\S+)  ", listed, re.MULTILINE):
        page = gzip.decompress((root / f"usr/share/man/man1/tutti-{command}.1.gz").read_bytes()).decode()
        assert f"tutti-{command} \\-" in page and ".SH SYNOPSIS" in page, command
    serve = gzip.decompress((root / "usr/share/man/man1/tutti-serve.1.gz").read_bytes()).decode()
    assert "max\\-num\\-seqs" in serve, "all options"


def ask_until_answered(server, port, model):
    """What is 2 + 2?, until the model is loaded."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "What is 2 + 2?"}], "max_tokens": 20, "temperature": 0})
    answer = None
    for _ in range(600):
        time.sleep(0.1)
        assert server.poll() is None, server.stderr.read()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
        except OSError:
            continue
        answer = json.loads(response.read())
        if response.status != 503:  # the model is loading
            assert response.status == 200, answer
            return answer["choices"][0]["message"]["content"]
    raise AssertionError(f"no answer: {answer}")


def check_service(root, folder):
    """The command of the unit, with its variables, on other folders and a free port: the model of a fresh installation is fetched."""
    settings, port = unit_settings(root), free_port()
    environment = {"PATH": os.environ["PATH"], "HOME": "/"}
    environment.update(re.findall(r'^(\w+)="(.*)"$', (root / "etc/default/tutti").read_text(), re.MULTILINE))
    for name, value in (item.split("=", 1) for item in settings["Environment"].split()):
        environment[name] = str(folder / value.lstrip("/"))
    model = environment.pop("MODELS")
    hub = hub_server.HubServer({model: hub_server.Repository({"model.gguf": default_model().read_bytes()})})
    environment["HF_ENDPOINT"] = hub.url
    config = (root / "etc/tutti/tutti.toml").read_text().replace("port = 8080", f"port = {port}\ngrpc-port = 0")
    (folder / "tutti.toml").write_text(config)
    moved = {"/usr/bin/tutti": root / "usr/bin/tutti", "/etc/tutti/tutti.toml": folder / "tutti.toml"}
    words = [str(moved.get(word, word)) for word in shlex.split(settings["ExecStart"].replace("$MODELS", model))]
    server = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert "4" in ask_until_answered(server, port, model)
        assert (folder / "var/lib/tutti").is_dir(), "the store"
        call(root / "usr/bin/tutti", "doctor", "--live", f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        assert server.wait(60) == 0
        hub.stop()
    for url, why in ((f"http://127.0.0.1:{port}", "unreachable"), ("https://x", "--live: https")):
        dead = subprocess.run([root / "usr/bin/tutti", "doctor", "--live", url], capture_output=True, text=True, check=False, timeout=60)
        assert dead.returncode != 0 and why in dead.stderr, dead


def check_deb(package, folder):
    root = folder / "root"
    call("dpkg-deb", "-x", package, root)
    check_deb_files(package, root)
    check_pages(root)
    for folder_of_service in ("var/lib", "var/cache/tutti"):
        (folder / folder_of_service).mkdir(parents=True)
    check_service(root, folder)
    return root / "usr/share/doc/tutti/tutti.spdx.json"


def check_entries(archive):
    """Nothing of who built it and when: owners are root, the time is one."""
    with tarfile.open(archive) as tar:
        entries = tar.getmembers()
    assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {(0, 0, "", "")}
    assert len({entry.mtime for entry in entries}) == 1
    names = [entry.name for entry in entries]
    assert {name.split("/")[0] for name in names} == {archive.name.removesuffix(".tar.gz")}, names
    assert not [entry.name for entry in entries if entry.mode & 0o022 and not entry.issym()], "writable for others"


def check_needs(root):
    """Every library that a file asks for is in lib/tutti or is glibc's, and of glibc nothing newer than README says; on Debian 12 that is 2.36."""
    stated = tuple(map(int, re.search(r"glibc (\d+)\.(\d+) or later", (root / "README").read_text()).groups()))
    if 'VERSION_ID="12"' in pathlib.Path("/etc/os-release").read_text():
        assert stated <= (2, 36), stated
    bundled = {path.name for path in (root / "lib/tutti").iterdir()}
    for path in [root / "bin/tutti", *(path for path in (root / "lib").rglob("*.so*") if not path.is_symlink())]:
        for name in binaries.needed(path):
            assert name in bundled or name in binaries.GLIBC, f"{path.name} needs {name}"
        for found in re.findall(r"\bGLIBC_(\d+)\.(\d+)", call("objdump", "-T", path)):
            assert tuple(map(int, found)) <= stated, f"{path.name} needs glibc {'.'.join(found)}"
    for program in (root / "bin/tutti", root / "lib/libtutti.so"):
        for name, path in re.findall(r"^\s*(\S+) => (.*) \(0x", call("ldd", program), re.MULTILINE):
            assert name in binaries.GLIBC or pathlib.Path(path).resolve().parent == (root / "lib/tutti").resolve(), f"{name} is from {path}"


def check_tarball(archive, folder):
    check_entries(archive)
    unpacked = folder / "any folder"  # with a space in its name
    unpacked.mkdir()
    call("tar", "xzf", archive, "-C", unpacked)
    (root,) = unpacked.iterdir()
    files = files_of(root)
    assert [name for name in files if not TAR_PLACES.match(name)] == [], files
    check_needs(root)
    moved = root.rename(folder / "moved")
    link = folder / "tutti"
    link.symlink_to(moved / "bin/tutti")
    said = call(link, "run", default_model(), "-p", "What is 2 + 2?", "--max-tokens", "20", "--temperature", "0",
                env={"PATH": "/usr/bin:/bin", "HOME": str(folder)})
    assert "4" in said, said
    # A program that links the library needs nothing of this system.
    environment = dict(os.environ, PKG_CONFIG_PATH=str(moved / "lib/pkgconfig"))
    flags = shlex.split(call("pkg-config", "--cflags", "--libs", "tutti", env=environment))
    program = folder / "generate"
    call("gcc", "-std=c11", SOURCE / "examples/generate.c", "-o", program, *flags, f"-Wl,-rpath,{moved / 'lib'}")
    loaded = call("ldd", program)
    assert not [name for name, path in re.findall(r"^\s*(\S+) => (/\S+)", loaded, re.MULTILINE)
                if name not in binaries.GLIBC and not path.startswith(str(moved))], loaded
    assert "4" in call(program, default_model())
    return moved


def blob(layout, descriptor):
    return json.loads((layout / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")).read_text())


def check_image(build, folder):
    """Two images of one build are equal; the root file system is the listed files, and a chat is answered in it by the image's own user."""
    made = []
    for name in ("one", "two"):
        call(sys.executable, SOURCE / "tools/make_image.py", "--build", build, "--out", folder / name)
        (path,) = (folder / name).iterdir()
        made.append(path.read_bytes())
    assert made[0] == made[1], "two images of one build differ"
    assert len(made[0]) < 100e6, len(made[0])
    layout, root = folder / "layout", folder / "image"
    layout.mkdir()
    call("tar", "xf", path, "-C", layout)
    (manifest,) = json.loads((layout / "index.json").read_text())["manifests"]
    name = f"tutti:{packing.version()}"
    assert manifest["annotations"]["org.opencontainers.image.ref.name"] == name, manifest
    (listed,) = json.loads((layout / "manifest.json").read_text())  # as `docker save` writes it
    assert listed["RepoTags"] == [name] and all((layout / path).exists() for path in [listed["Config"], *listed["Layers"]]), listed
    config = blob(layout, blob(layout, manifest)["config"])["config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", ["/usr/bin/tutti"], ["serve"]), config
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    call(*sudo, "umoci", "raw", "unpack", "--image", f"{layout}:{name}", root)
    files = files_of(root)
    assert [name for name in files if not IMAGE_PLACES.match(name)] == [], files
    own = sorted(str(each.relative_to(root)) for each in root.rglob("*") if each.stat().st_uid != 0)
    assert own == ["var/cache/tutti", "var/lib/tutti"], own
    assert not [each for each in root.rglob("*") if not each.is_symlink() and each.stat().st_mode & 0o6000], "setuid"
    model = root / "model.gguf"
    call(*sudo, "cp", default_model(), model)
    inside = [*sudo, "env", "-i", *config["Env"], "/usr/sbin/chroot", f"--userspec={config['User']}", root, *config["Entrypoint"]]
    port = free_port()
    server = subprocess.Popen([*map(str, inside), *config["Cmd"], "tutti=/model.gguf", "--port", str(port), "--store", "/var/lib/tutti/store"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert "4" in ask_until_answered(server, port, "tutti")
        call(*inside, "doctor", "--live", f"http://127.0.0.1:{port}")
        assert (root / "var/lib/tutti/store").stat().st_uid == 65532
    finally:
        if server.poll() is None:
            call(*sudo, "kill", server.pid)
        assert server.wait(60) == 0
    return root / "usr/share/doc/tutti/tutti.spdx.json"


def bill(path):
    """Names and versions of the packages, files, and how they belong together."""
    document = json.loads(path.read_text())
    names = {entry["SPDXID"]: entry for entry in document["packages"] + document["files"]}
    assert len(names) == len(document["packages"]) + len(document["files"]), "an id stands twice"
    for entry in document["packages"]:
        assert entry["versionInfo"] and entry["licenseConcluded"] not in ("", "NOASSERTION", "NONE") and entry["supplier"], entry
    return document, names


def linked_packages(build, program):
    """Debian packages of what a program of the build was linked with and is loaded with, found without the maker of the bills."""
    link = re.search(rf"^build {re.escape(program)}: (?:.*\n)+?  LINK_LIBRARIES = (.*)$", (build / "build.ninja").read_text(), re.MULTILINE)
    words = [word for word in link.group(1).split() if re.match(r"/.*\.(a|so[.\d]*)$", word)]
    loaded = re.findall(r" => (/\S+)", call("ldd", build / program))
    archives = [word for word in words if word.endswith(".a")]
    direct = {pathlib.Path(word).resolve() for word in words if not word.endswith(".a")} & {pathlib.Path(path).resolve() for path in loaded}
    assert len(direct) > 20, direct
    paths = [pathlib.Path(path) for path in archives + loaded if pathlib.Path(path).name not in binaries.GLIBC]
    return set(binaries.debian_packages(paths).values())


def check_bills(build, deb, tarball_root, image):
    document, names = bill(deb)
    packages = {entry["name"]: entry["versionInfo"] for entry in document["packages"]}
    expected = linked_packages(build, "tutti")
    assert expected <= set(packages), expected - set(packages)
    for package in sorted(expected)[::5]:
        assert call("dpkg-query", "-W", "-f", "${Version}", package) == packages[package], package
    # What is compiled in from headers or vendored stands on no link line.
    assert any(re.fullmatch(r"libboost[\d.]*-dev", name) for name in packages), sorted(packages)
    for name in ("libcli11-dev", "preact-htm.js", "marked.js", "dompurify.js", "tutti"):
        assert name in packages or any(entry.get("packageFileName", "").endswith(name) for entry in document["packages"]), name
    assert document["files"] == [], "the Debian package brings no library of others"
    related = {relation["relatedSpdxElement"] for relation in document["relationships"]}
    assert related == set(names), set(names) ^ related

    document, _ = bill(tarball_root / "share/doc/tutti/tutti.spdx.json")
    files = {entry["fileName"]: {one["algorithm"]: one["checksumValue"] for one in entry["checksums"]} for entry in document["files"]}
    assert set(files) == {f"./lib/tutti/{path.name}" for path in (tarball_root / "lib/tutti").iterdir()}
    for name in sorted(files)[::10]:
        assert call("sha256sum", tarball_root / name).split()[0] == files[name]["SHA256"], name
    python = make_venv(build / "package-venv", SOURCE / "tests/package/requirements.txt")
    call(python, "-c", VALIDATE, deb, tarball_root / "share/doc/tutti/tutti.spdx.json", image)
    broken = tarball_root.parent / "broken.spdx.json"
    document["packages"][1]["licenseConcluded"] = "No such licence"
    broken.write_text(json.dumps(document))
    assert subprocess.run([python, "-c", VALIDATE, broken], capture_output=True, check=False).returncode != 0, "the validator sees faults"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--packages", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        if args.packages is None:
            args.packages = folder / "package"
            call(sys.executable, SOURCE / "tools/make_packages.py", "--build", args.build, "--out", args.packages)
        (deb,) = args.packages.glob("tutti_*.deb")
        (tarball,) = args.packages.glob("tutti-*-linux-*.tar.gz")
        steps = [time.monotonic()]
        bill_of_deb = check_deb(deb, folder)
        steps.append(time.monotonic())
        root = check_tarball(tarball, folder)
        steps.append(time.monotonic())
        image = check_image(args.build.resolve(), folder)
        steps.append(time.monotonic())
        check_bills(args.build.resolve(), bill_of_deb, root, image)
        steps.append(time.monotonic())
    print("packages_test: deb, tarball, image and bills passed in", *(f"{end - begin:.1f} s" for begin, end in zip(steps, steps[1:])))


if __name__ == "__main__":
    main()
