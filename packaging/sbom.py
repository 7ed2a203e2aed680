#!/usr/bin/env python3
"""Makes the bill of materials of the build, SPDX 2.3 as JSON: which of the distribution's packages each program needs at run time (from its dynamic
section) or contains (from the archives that the linker used), with versions and licenses from dpkg and the packages' copyright files.

sbom.py BUILD FILE [PACKAGES]   PACKAGES: the folder of the packages, whose files are listed with their checksums"""

import functools
import hashlib
import json
import pathlib
import re
import subprocess
import sys

from release import VERSION, WHEN

# Debian's short names that SPDX spells differently. Other licenses become references with the text of the copyright file.
SPDX = {"Apache-2": "Apache-2.0", "Apache-2.0": "Apache-2.0", "Expat": "MIT", "MIT": "MIT", "BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause",
        "ISC": "ISC", "Zlib": "Zlib", "zlib/libpng": "Zlib", "LGPL-2.1": "LGPL-2.1-only", "LGPL-2.1+": "LGPL-2.1-or-later", "LGPL-2+": "LGPL-2.0-or-later",
        "LGPL-3": "LGPL-3.0-only", "LGPL-3+": "LGPL-3.0-or-later", "GPL-2": "GPL-2.0-only", "GPL-2+": "GPL-2.0-or-later", "GPL-3": "GPL-3.0-only",
        "GPL-3+": "GPL-3.0-or-later", "X11": "X11", "MIT/X11": "X11"}
SYSTEM = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64")


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


@functools.lru_cache(None)
def owner(path):
    """Returns the distribution's package that installed the file, or None. With a merged /usr, dpkg knows only one of its two paths."""
    for name in (path, path.removeprefix("/usr"), "/usr" + path):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    return None


def needed(program):
    """Returns the packages of the shared libraries that the program itself needs."""
    packages = set()
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", program)):
        for folder in SYSTEM:
            path = pathlib.Path(folder, name)
            if path.exists():
                packages.add(owner(str(path)) or owner(str(path.resolve())))
                break
    return packages - {None}


def held(linked):
    """Returns the packages of the archives that a static program contains."""
    packages = set()
    for line in linked.read_text().splitlines():
        package = owner(line)
        if package is not None:
            packages.add(package)
    return packages


def licence(package):
    """Returns (SPDX expression, reference or None) of the stanza for all files, or NOASSERTION if the copyright file has an unknown format."""
    path = pathlib.Path("/usr/share/doc", package, "copyright")
    text = path.read_text(errors="replace") if path.exists() else ""
    for stanza in re.split(r"\n\s*\n", text):
        if re.search(r"^Files:\s*\*\s*$", stanza, re.M):
            found = re.search(r"^License:\s*(\S.*)$", stanza, re.M)
            if found:
                return expression(found.group(1).strip(), package)
    return "NOASSERTION", None


def expression(words, package):
    simple = [part.strip(" ,()") for part in re.split(r"\s+(?:and|or|and/or)\s+", words)]
    if all(part in SPDX for part in simple):
        joint = " OR " if re.search(r"\bor\b", words) and not re.search(r"\band\b", words) else " AND "
        return joint.join(SPDX[part] for part in simple), None
    name = "LicenseRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{package}-{words}").strip("-")
    return name, {"licenseId": name, "name": words, "extractedText": f"As /usr/share/doc/{package}/copyright says: {words}"}


def ident(name):
    return "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.]+", "-", name)


def document(build, made):
    parts = {"recorder": "lockstep-recorder", "tools": "lockstep", "viewer": "lockstep-viewer", "static": "lockstep-static",
             "viewer-static": "lockstep-viewer-static"}
    bill = {part: (set(), set()) for part in parts}
    programs = {"recorder": [build / "lib/liblockstep.so"], "viewer": [build / "bin/lockstep-view"], "viewer-static": [build / "static/bin/lockstep-view"],
                "tools": sorted(path for path in (build / "bin").glob("lockstep*") if path.name not in ("lockstep-view", "lockstep-corpus") and path.is_file())}
    for part, paths in programs.items():
        for path in paths:
            if path.exists():
                bill[part][0].update(needed(path))
    # The recorder contains the compiler's runtime and needs only libc. A linker cannot report a header-only library, so it is added here.
    for part in parts:
        if part != "recorder":
            bill[part][1].add("nlohmann-json3-dev")
    for part, linked in (("static", build / "static/linked.txt"), ("viewer-static", build / "static/view-linked.txt")):
        if linked.exists():
            bill[part][1].update(held(linked))
    packages, relations, references = [], [], {}
    for part, name in parts.items():
        packages.append({"SPDXID": ident(name), "name": name, "versionInfo": VERSION, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                         "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
                         "supplier": "Organization: Lockstep"})
        relations.append({"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": ident(name)})
        for kind, found in zip(("DYNAMIC_LINK", "STATIC_LINK"), bill[part]):
            relations += [{"spdxElementId": ident(name), "relationshipType": kind, "relatedSpdxElement": ident(each)} for each in sorted(found)]
    for package in sorted(set().union(*(dynamic | static for dynamic, static in bill.values()))):
        version, source, architecture = output("dpkg-query", "-W", "-f", "${Version}\t${source:Package}\t${Architecture}\n", package).splitlines()[0].split("\t")
        declared, reference = licence(package)
        if reference:
            references[reference["licenseId"]] = reference
        packages.append({"SPDXID": ident(package), "name": package, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                         "licenseConcluded": "NOASSERTION", "licenseDeclared": declared, "copyrightText": "NOASSERTION", "sourceInfo": f"built from {source}",
                         "supplier": "Organization: Debian",
                         "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                           "referenceLocator": f"pkg:deb/debian/{package}@{version.replace('+', '%2B')}?arch={architecture}"}]})
    files = []
    for path in made:
        name = path.name
        files.append({"SPDXID": "SPDXRef-File-" + re.sub(r"[^A-Za-z0-9.]+", "-", name), "fileName": "./" + name, "fileTypes": ["ARCHIVE"],
                      "checksums": [{"algorithm": kind, "checksumValue": hashlib.new(kind.lower(), path.read_bytes()).hexdigest()} for kind in ("SHA1", "SHA256")],
                      "licenseConcluded": "Apache-2.0", "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"})
        part = "recorder" if "lockstep-recorder" in name else "viewer" if "viewer" in name else "tools"
        if part != "recorder" and not name.endswith(".deb"):
            part = {"viewer": "viewer-static", "tools": "static"}[part]
        relations.append({"spdxElementId": files[-1]["SPDXID"], "relationshipType": "GENERATED_FROM", "relatedSpdxElement": ident(parts[part])})
    whole = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"lockstep-{VERSION}",
             "creationInfo": {"created": WHEN, "creators": ["Tool: lockstep-packaging"]}, "packages": packages, "files": files, "relationships": relations,
             "hasExtractedLicensingInfos": [references[name] for name in sorted(references)]}
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    whole["documentNamespace"] = f"urn:lockstep:sbom:{VERSION}:{digest[:32]}"
    return whole


def write(build, path, folder=None):
    made = sorted(each for each in folder.iterdir() if each.suffix in (".deb", ".rpm", ".gz", ".whl")) if folder else []
    path.write_text(json.dumps(document(pathlib.Path(build), made), indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None)
