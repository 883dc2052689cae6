#!/usr/bin/env python3
"""Writes the bill of materials of a package as SPDX 2.3 in JSON: what the program was compiled and linked from, with versions and licences.

    make_sbom.py --build build/release --name tutti_0.1.0_amd64.deb --out tutti.spdx.json
    make_sbom.py --build build/release --name tutti-0.1.0-linux-x86_64.tar.gz --bundle FOLDER --out tutti.spdx.json

It lists the Debian packages of each library on the link line and of those that they are loaded with, the packages whose headers were compiled
in (from ninja's record of dependencies), and the files of others in web/vendor (THIRD_PARTY.md). --bundle names a folder of libraries that the
package brings; these are listed with their checksums. A Debian package without a row in LICENCES is an error.
"""
import argparse
import functools
import hashlib
import json
import pathlib
import re
import sys
import uuid
from datetime import datetime, timezone

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import binaries  # noqa: E402
import packing  # noqa: E402

# By Debian source package: what its library or headers are licensed under, read from their copyright files.
LICENCES = {
    "abseil": "Apache-2.0",
    "argon2": "CC0-1.0 OR Apache-2.0",
    "boost1.81": "BSL-1.0",
    "boost1.83": "BSL-1.0",
    "brotli": "MIT",
    "c-ares": "MIT",
    "ca-certificates": "MPL-2.0 AND GPL-2.0-or-later",
    "cli11": "BSD-3-Clause",
    "cross-toolchain-base": "LGPL-2.1-or-later AND GPL-2.0-only WITH Linux-syscall-note",  # glibc and Linux for cross compilers
    "curl": "curl",
    "cyrus-sasl2": "BSD-3-Clause-Attribution",
    "e2fsprogs": "MIT",  # libcom_err
    "fmtlib": "MIT",
    "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "gcc-12-cross": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "gcc-14": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "gcc-14-cross": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "gmp": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "gnutls28": "LGPL-2.1-or-later",
    "grpc": "Apache-2.0 AND BSD-3-Clause",  # with upb
    "hiredis": "BSD-3-Clause",
    "icu": "Unicode-3.0",
    "keyutils": "LGPL-2.0-or-later",
    "krb5": "MIT",
    "libbsd": "BSD-3-Clause AND BSD-2-Clause AND ISC",
    "libedit": "BSD-3-Clause",
    "libffi": "MIT",
    "libgssglue": "BSD-3-Clause",
    "libidn2": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libmd": "BSD-3-Clause AND BSD-2-Clause AND ISC",
    "libpsl": "MIT",
    "librabbitmq": "MIT",
    "libssh2": "BSD-3-Clause",
    "libtasn1-6": "LGPL-2.1-or-later",
    "libunistring": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libxcrypt": "LGPL-2.1-or-later",
    "libzstd": "BSD-3-Clause OR GPL-2.0-only",
    "linux": "GPL-2.0-only WITH Linux-syscall-note",
    "ncurses": "X11-distribute-modifications-variant",
    "nettle": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "nghttp2": "MIT",
    "nghttp3": "MIT",
    "ngtcp2": "MIT",
    "openldap": "OLDAP-2.8",
    "openssl": "Apache-2.0",
    "p11-kit": "BSD-3-Clause",
    "prometheus-cpp": "MIT",
    "protobuf": "BSD-3-Clause",
    "re2": "BSD-3-Clause",
    "rtmpdump": "LGPL-2.1-or-later",
    "spdlog": "MIT",
    "sqlite3": "blessing",
    "tomlplusplus": "MIT",
    "zlib": "Zlib",
}
VENDORED = re.compile(r"^\| `(\S+)` \| (\S+) ([\d.]+)\b([^|]*)\| ([^|]+?) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
FIELDS = ("Package", "Version", "Source", "Architecture", "Maintainer", "Homepage")


@functools.cache
def debian_database(architecture: str = "") -> dict[str, dict[str, str]]:
    """What is installed, by package. One that is there for several architectures is that of the given one."""
    form = "\\n".join("${" + name + "}" for name in FIELDS) + "\x1e"
    entries = [dict(zip(FIELDS, text.split("\n"))) for text in packing.run("dpkg-query", "-W", "-f", form).split("\x1e")[:-1]]
    entries.sort(key=lambda entry: entry["Architecture"] == architecture)
    return {entry["Package"]: entry for entry in entries}


def source_of(package: str) -> str:
    return debian_database()[package]["Source"].split(" ")[0] or package


def identifier(text: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text.replace("+", "p"))


def packages_of(paths) -> dict[str, set[pathlib.Path]]:
    found: dict[str, set[pathlib.Path]] = {}
    for path, owner in binaries.debian_packages(paths).items():
        found.setdefault(owner, set()).add(path)
    return found


def link_line(build: pathlib.Path, program: str) -> list[pathlib.Path]:
    """The libraries of the system that a program of the build is linked with."""
    text = (build / "build.ninja").read_text()
    rule = re.search(rf"^build {re.escape(program)}: .*\n(?:  .*\n)*?  LINK_LIBRARIES = (.*)$", text, re.MULTILINE)
    words = rule.group(1).split()
    paths = [pathlib.Path(word) for word in words if word.startswith("/")]
    for name in (word[2:] for word in words if word.startswith("-l")):
        found = packing.run(binaries.tool("g++", build / program), f"-print-file-name=lib{name}.so").strip()
        paths.append(pathlib.Path(found))
    return [path for path in paths if not path.is_relative_to(build.resolve())]


@functools.cache
def header_packages(build: pathlib.Path, programs: tuple[str, ...]) -> set[str]:
    """Debian packages of the headers in the objects of programs, by ninja's record."""
    inputs = set(packing.run("ninja", "-C", build, "-t", "inputs", *programs).splitlines()[1:])
    headers: set[pathlib.Path] = set()
    current = False
    for line in packing.run("ninja", "-C", build, "-t", "deps").splitlines():
        if not line.startswith(" "):
            current = line.split(":")[0] in inputs
        elif current and line.startswith("    /usr/"):
            headers.add(pathlib.Path(line.strip()))
    return set(binaries.debian_packages(headers).values())


def debian_entry(package: str, architecture: str) -> dict:
    fields = debian_database(architecture)[package]
    source = source_of(package)
    if source not in LICENCES:
        raise SystemExit(f"make_sbom: no licence is known of {package}, of Debian's source package {source}: add a row to LICENCES")
    release = re.search(r'VERSION_ID="?(\d+)', pathlib.Path("/etc/os-release").read_text()).group(1)
    version = fields["Version"].replace("+", "%2B").replace(":", "%3A")
    entry = {
        "SPDXID": identifier(package), "name": package, "versionInfo": fields["Version"],
        "supplier": "Organization: Debian", "originator": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": LICENCES[source], "licenseDeclared": LICENCES[source], "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "LIBRARY", "sourceInfo": f"Debian's source package {source}",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:deb/debian/{package.replace('+', '%2B')}@{version}?arch={fields['Architecture']}"
                                              f"&distro=debian-{release}"}]}
    if fields["Homepage"]:
        entry["homepage"] = fields["Homepage"]
    return entry


def vendored_entries() -> list[dict]:
    rows = VENDORED.findall((packing.ROOT / "THIRD_PARTY.md").read_text())
    files = {path.name: path for path in (packing.ROOT / "web" / "vendor").glob("*.js")}
    if {row[0] for row in rows} != set(files):
        raise SystemExit("make_sbom: web/vendor and the table of THIRD_PARTY.md name different files")
    entries = []
    for file, library, version, more, licence, digest in rows:
        if hashlib.sha256(files[file].read_bytes()).hexdigest() != digest:
            raise SystemExit(f"make_sbom: {file} differs from its SHA-256 in THIRD_PARTY.md")
        expression = licence.replace(", ", " AND ").replace(" or ", " OR ")
        entries.append({
            "SPDXID": identifier(f"web-vendor-{file}"), "name": library, "versionInfo": version, "packageFileName": f"web/vendor/{file}",
            "supplier": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": expression,
            "licenseDeclared": expression, "copyrightText": "NOASSERTION", "primaryPackagePurpose": "LIBRARY",
            "comment": (library + more).strip(" ,"), "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]})
    return entries


def file_entry(path: pathlib.Path, name: str, licence: str) -> dict:
    data = path.read_bytes()
    sums = [{"algorithm": kind.upper(), "checksumValue": hashlib.new(kind, data).hexdigest()} for kind in ("sha1", "sha256")]
    return {"SPDXID": identifier(f"File-{name}"), "fileName": f"./{name}", "checksums": sums, "fileTypes": ["BINARY"],
            "licenseConcluded": licence, "copyrightText": "NOASSERTION"}


def make(build: pathlib.Path, name: str, programs: list[str], bundle: dict[str, tuple[pathlib.Path, pathlib.Path]] | None = None,
         extra: list[str] | None = None) -> dict:
    """The document.

    `programs` are targets of the build. `bundle` has the libraries that the package brings: by their path in it, the file and the file of
    this machine that it was made from. `extra` are further Debian packages that it brings.
    """
    me = identifier("tutti")
    linked: dict[str, set[pathlib.Path]] = {}
    edges = set()
    for program in programs:
        direct = {path for path in link_line(build, program)}
        archives = {path for path in direct if path.suffix == ".a"}
        loaded = binaries.libraries(build / program)
        own = set(binaries.needed(build / program))
        owners = packages_of(set(loaded.values()))
        for owner, paths in owners.items():
            linked.setdefault(owner, set()).update(paths)
        package_of = {path: owner for owner, paths in owners.items() for path in paths}
        for library, path in loaded.items():
            if library in own:
                edges.add((me, "DYNAMIC_LINK", identifier(package_of[path])))
            for other in binaries.needed(path):
                if other in loaded and package_of[loaded[other]] != package_of[path]:
                    edges.add((identifier(package_of[path]), "DYNAMIC_LINK", identifier(package_of[loaded[other]])))
        for owner, paths in (packages_of(archives) if archives else {}).items():
            linked.setdefault(owner, set()).update(paths)
            edges.add((me, "STATIC_LINK", identifier(owner)))
    headers = header_packages(build, tuple(programs))
    for owner in headers:
        edges.add((me, "CONTAINS", identifier(owner)))  # templates and inline functions of its headers
    architecture = binaries.DEBIAN_ARCHITECTURES[binaries.machine(build / programs[0])]
    names = sorted(set(linked) | set(headers) | set(extra or []))
    vendored = vendored_entries()
    edges.update((me, "CONTAINS", entry["SPDXID"]) for entry in vendored)
    edges.update((me, "CONTAINS", identifier(package)) for package in extra or [])
    files = []
    owners = binaries.debian_packages([origin for _, origin in (bundle or {}).values()]) if bundle else {}
    for inside, (path, origin) in sorted((bundle or {}).items()):
        owner = owners[origin]
        files.append(file_entry(path, inside, LICENCES[source_of(owner)]))
        edges.add((files[-1]["SPDXID"], "GENERATED_FROM", identifier(owner)))
    created = datetime.fromtimestamp(packing.commit_time(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = {"SPDXID": me, "name": "tutti", "versionInfo": packing.version(), "packageFileName": name,
           "supplier": "Organization: Tutti maintainers", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
           "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
           "primaryPackagePurpose": "APPLICATION"}
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "creationInfo": {"created": created, "creators": ["Organization: Tutti maintainers", "Tool: tutti-make_sbom"]},
        "packages": [own, *(debian_entry(package, architecture) for package in names), *vendored], "files": files,
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": me}]
        + [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in sorted(edges)]}
    document["documentNamespace"] = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True)).urn
    return document


def write(document: dict, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--name", required=True, help="file name of the package")
    parser.add_argument("--program", action="append", default=[], help="target of the build that the package holds (default: tutti)")
    parser.add_argument("--bundle", type=pathlib.Path, help="folder of libraries that the package brings, under their own names")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    programs = args.program or ["tutti"]
    bundle = None
    if args.bundle is not None:
        origins: dict[str, pathlib.Path] = {}
        for program in programs:
            origins.update(binaries.libraries(args.build / program))
        bundle = {path.name: (path, origins[path.name]) for path in args.bundle.iterdir()}
    write(make(args.build, args.name, programs, bundle), args.out)


if __name__ == "__main__":
    main()
