#!/usr/bin/env python3
"""Tests the packages that packaging/make.py made: contents, function, and removal without leftovers. (./dev packages --test)

packages_test.py BUILD PACKAGES [unittest's arguments]   BUILD also contains the NCCL stand-in and trainsim, the job under test."""

import base64
import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import urllib.request
import zipfile

import make_wheel
from release import CHANGELOG, SOURCE, VERSION, WHEN

BUILD, PACKAGES = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
FAULT = "rank=5,step=20,kind=stall-host,comm=dp"
JOB = ["--tp", "2", "--pp", "2", "--dp", "2", "--steps", "200", "--fault", FAULT]
PLAIN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}


def run(*command, status=0, **more):
    more.setdefault("timeout", 500)
    more.setdefault("env", PLAIN)
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if status is not None and done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))} gave {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def one(pattern):
    found = sorted(PACKAGES.glob(pattern))
    if len(found) != 1:
        raise AssertionError(f"{pattern}: {[path.name for path in found]}")
    return found[0]


def block(first):
    """Returns the commands of the block in docs/deploying.md that starts like this. The tests run them as they are."""
    found = [text for text in re.findall(r"```sh check\n(.*?)```", (SOURCE / "docs/deploying.md").read_text(), re.S) if text.startswith(first)]
    if len(found) != 1:
        raise AssertionError(f"docs/deploying.md: {len(found)} blocks begin with {first}")
    return found[0]


def unpack(name, folder):
    with tarfile.open(one(name)) as archive:
        archive.extractall(folder)
    return next(pathlib.Path(folder).iterdir())


class Whole(unittest.TestCase):
    def test_checksums(self):
        check, again = block("sha256sum").splitlines()
        run("bash", "-ec", check + " --strict", cwd=PACKAGES)
        self.assertEqual(again, "packaging/reproduce")
        self.assertTrue(os.access(SOURCE / again, os.X_OK))
        listed = {line.split()[1] for line in (PACKAGES / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual(listed, {path.name for path in PACKAGES.iterdir()} - {"SHA256SUMS"})

    def test_one_version(self):
        self.assertIn(f"lockstep ({VERSION})", CHANGELOG)
        self.assertRegex((SOURCE / "CHANGELOG.md").read_text(), rf"(?m)^## {re.escape(VERSION)} - ")
        for package in ("lockstep", "lockstep-recorder", "lockstep-viewer"):
            self.assertEqual(run("dpkg-deb", "-f", one(f"{package}_*.deb"), "Version").strip(), VERSION)
        for package in ("lockstep", "lockstep-recorder", "lockstep-viewer"):
            self.assertEqual(run("rpm", "-qp", "--qf", "%{VERSION}", one(f"{package}-[0-9]*.rpm")), VERSION)
        self.assertEqual(run(BUILD / "static/bin/lockstep", "--version"), f"lockstep {VERSION}\n")

    def test_lintian_finds_no_error(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed")
        said = run("lintian", "--allow-root", *sorted(PACKAGES.glob("*.deb")), status=None)
        self.assertEqual([line for line in said.splitlines() if line.startswith("E:")], [])

    def test_the_dependencies_are_declared(self):
        needs = run("dpkg-deb", "-f", one("lockstep_*.deb"), "Depends")
        for package in (f"lockstep-recorder (= {VERSION})", "libprotobuf", "libzmq5", "libdw1", "libc6"):
            self.assertIn(package, needs)
        self.assertEqual(re.sub(r" \(.*?\)", "", run("dpkg-deb", "-f", one("lockstep-recorder_*.deb"), "Depends")).strip(), "libc6")
        self.assertIn("libqt6widgets6", run("dpkg-deb", "-f", one("lockstep-viewer_*.deb"), "Depends"))

    def test_rpms_need_only_libc_and_qt_and_install_into_a_root(self):
        if not shutil.which("rpm"):
            self.skipTest("rpm is not installed")
        for package in PACKAGES.glob("*.rpm"):
            more = r"|lib(Qt6(Core|Gui|Svg|Widgets)|stdc\+\+|m|gcc_s)\.so\.\d\(" if "viewer" in package.name else r"|lockstep-recorder = |/bin/sh$"
            for need in run("rpm", "-qp", "--requires", package).splitlines():
                self.assertRegex(need, rf"^(rpmlib\(|libc\.so\.6|ld-linux|rtld\({more})")
        viewer = one("lockstep-viewer-[0-9]*.rpm")
        self.assertEqual(run("rpm", "-qp", "--scripts", viewer), "")
        held = run("rpm", "-qpl", viewer).splitlines()
        self.assertFalse([path for path in held if "lockstep" not in path], "folders that every system has")
        with tempfile.TemporaryDirectory() as root:
            run("rpm", "--root", root, "--initdb")
            run("rpm", "--root", root, "--nodeps", "--noscripts", "-i", *sorted(PACKAGES.glob("*.rpm")))
            self.assertEqual(run(f"{root}/usr/bin/lockstep-analyze", "--version"), f"lockstep {VERSION}\n")
            self.assertTrue(pathlib.Path(root, "usr/lib/liblockstep.so").is_file())
            program = pathlib.Path(root, "usr/bin/lockstep-view")
            self.assertLessEqual({"/usr/bin/lockstep-view", "/usr/share/applications/lockstep-view.desktop", "/usr/share/mime/packages/lockstep.xml",
                                  "/usr/share/icons/hicolor/scalable/apps/lockstep-view.svg", "/usr/share/man/man1/lockstep-view.1.gz"}, set(held))
            self.assertNotIn(".debug_info", run("readelf", "-SW", program))
            # The page lists the versions that the viewer needs.
            newest = {name: max(tuple(map(int, found.split("."))) for found in re.findall(rf"\b{name}_(\d+(?:\.\d+)+)", run("readelf", "-VW", program)))
                      for name in ("GLIBC", "GLIBCXX", "Qt")}
            text = ["{} {}".format(name, ".".join(map(str, newest[version])))
                    for name, version in (("glibc", "GLIBC"), ("GLIBCXX", "GLIBCXX"), ("Qt", "Qt"))]
            page = (SOURCE / "docs/deploying.md").read_text()
            self.assertEqual([words for words in text if words not in page], [], "docs/deploying.md, Packages")
            run(BUILD / "bin/lockstep-corpus", "generate", "--scenario", "2", "--ranks", "8", "--out", f"{root}/corpus")
            run(program, "--size", "800x600", "--screenshot", f"{root}/seen.png", f"{root}/corpus/data",
                env={**PLAIN, "QT_QPA_PLATFORM": "offscreen", "HOME": f"{root}/corpus"})
            self.assertEqual(pathlib.Path(root, "seen.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            shutil.rmtree(f"{root}/corpus")
            run("rpm", "--root", root, "--noscripts", "-e", "lockstep", "lockstep-recorder", "lockstep-viewer")
            left = [str(path) for path in pathlib.Path(root).rglob("*lockstep*")]
            self.assertEqual(left, [])

    def test_bill_of_materials(self):
        """Checks the fields that SPDX 2.3 requires, that references resolve, and that the known libraries are listed."""
        bill = json.loads(one("*.spdx.json").read_text())
        self.assertEqual((bill["spdxVersion"], bill["dataLicense"], bill["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(bill["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        for creator in bill["creationInfo"]["creators"]:
            self.assertRegex(creator, r"^(Tool|Person|Organization): \S")
        self.assertRegex(bill["documentNamespace"], r"^[a-z]+:[^#\s]+$")
        self.assertTrue(bill["name"])
        known = {"SPDXRef-DOCUMENT"}
        licences = {each["licenseId"] for each in bill["hasExtractedLicensingInfos"]}
        for each in bill["hasExtractedLicensingInfos"]:
            self.assertRegex(each["licenseId"], r"^LicenseRef-[A-Za-z0-9.-]+$")
            self.assertTrue(each["extractedText"])
        for package in bill["packages"]:
            for field in ("name", "SPDXID", "downloadLocation"):
                self.assertTrue(package[field])
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertNotIn(package["SPDXID"], known)
            self.assertIs(package["filesAnalyzed"], False)
            self.assertTrue(package["versionInfo"])
            for word in package["licenseDeclared"].split():
                self.assertTrue(not word.startswith("LicenseRef-") or word in licences, word)
            known.add(package["SPDXID"])
        for file in bill["files"]:
            path = PACKAGES / file["fileName"]
            sums = {each["algorithm"]: each["checksumValue"] for each in file["checksums"]}
            self.assertEqual(sums["SHA1"], hashlib.sha1(path.read_bytes()).hexdigest())
            self.assertTrue(file["licenseConcluded"] and file["copyrightText"])
            known.add(file["SPDXID"])
        links = collections.defaultdict(set)
        for relation in bill["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)
            links[relation["spdxElementId"], relation["relationshipType"]].add(relation["relatedSpdxElement"].removeprefix("SPDXRef-Package-"))
        self.assertLessEqual({"libprotobuf32", "libzmq5", "libdw1", "libc6"}, links["SPDXRef-Package-lockstep", "DYNAMIC_LINK"])
        self.assertEqual(links["SPDXRef-Package-lockstep-recorder", "DYNAMIC_LINK"], {"libc6"})
        self.assertEqual(links["SPDXRef-Package-lockstep", "STATIC_LINK"], {"nlohmann-json3-dev"})
        self.assertIn("libqt6widgets6", links["SPDXRef-Package-lockstep-viewer-static", "DYNAMIC_LINK"])
        self.assertIn("libprotobuf-dev", links["SPDXRef-Package-lockstep-viewer-static", "STATIC_LINK"])
        self.assertLessEqual({"libprotobuf-dev", "libzmq3-dev", "libdw-dev", "libc6-dev", "nlohmann-json3-dev"}, links["SPDXRef-Package-lockstep-static", "STATIC_LINK"])

    def test_symbols_are_where_debuggers_search(self):
        with tempfile.TemporaryDirectory() as folder:
            top = unpack("lockstep-*-linux.tar.gz", folder)
            with tarfile.open(one("*-linux-debug.tar.gz")) as archive:
                names = {name.split("/", 1)[1] for name in archive.getnames() if name.endswith(".debug")}
            for program in ("bin/lockstep", "lib/x86_64/liblockstep.so", "lib/aarch64/liblockstep.so"):
                number = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-nW", top / program)).group(1)
                self.assertIn(f".build-id/{number[:2]}/{number[2:]}.debug", names)
                self.assertNotIn(".debug_info", run("readelf", "-SW", top / program))


class Wheel(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        run(sys.executable, "-m", "venv", self.scratch / "venv")
        self.python = self.scratch / "venv/bin/python"
        run(self.python, "-m", "pip", "install", "--no-index", "--no-deps", one("lockstep_recorder-*.whl"))

    def test_a_job_is_run_and_its_verdict_is_a_dictionary(self):
        incident = self.scratch / "incident"
        (self.scratch / "rings").mkdir()
        environment = {**PLAIN, "LD_LIBRARY_PATH": str(BUILD / "standin/lib"), "LOCKSTEP_DIR": str(self.scratch / "rings")}
        run(self.python, "-m", "lockstep", "run", "-n", "8", "--out", incident, "--kill-on-hang", "--", BUILD / "bin/trainsim", *JOB,
            status=90, env=environment)
        code = "import json, lockstep, sys; print(json.dumps(lockstep.verdict(sys.argv[1])))"
        found = json.loads(run(self.python, "-c", code, incident))
        self.assertEqual((found["verdict"], found["findings"][0]["culprit_ranks"]), ("HUNG", [5]))
        self.assertEqual(run(self.scratch / "venv/bin/lockstep", "--version"), f"lockstep {VERSION}\n")
        self.assertTrue(os.path.isfile(run(self.python, "-c", "import lockstep; print(lockstep.library())").strip()))
        code = "import lockstep\ntry:\n  lockstep.verdict('/nowhere')\nexcept lockstep.Error as error:\n  print('no verdict:', error)"
        self.assertRegex(run(self.python, "-c", code), r"no verdict: .*/nowhere")

    def test_a_dump_is_read(self):
        run(BUILD / "bin/lockstep-corpus", "generate", "--scenario", "2", "--ranks", "8", "--out", self.scratch / "corpus")
        dumps = self.scratch / "corpus/data"
        said = run(BUILD / "bin/lockstep-analyze", "--format", "json", dumps, status=1)
        code = "import json, lockstep, sys; print(json.dumps(lockstep.verdict(sys.argv[1], timeout=60)))"
        found = json.loads(run(self.python, "-c", code, dumps))
        self.assertEqual(found["findings"], json.loads(said)["findings"])
        self.assertTrue(found["findings"])

    def test_the_file_list_and_the_wheel_tag_are_correct(self):
        path = one("lockstep_recorder-*.whl")
        with zipfile.ZipFile(path) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
            self.assertEqual({entry.date_time for entry in archive.infolist()}, {tuple(map(int, re.findall(r"\d+", WHEN)))[:6]})
        record = content.pop(f"lockstep_recorder-{VERSION}.dist-info/RECORD").decode().splitlines()
        rows = {line.split(",")[0]: line.split(",")[1:] for line in record[:-1]}
        self.assertEqual(set(rows), set(content))
        for name, (digest, size) in rows.items():
            told = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).decode().rstrip("=")
            self.assertEqual((digest, int(size)), ("sha256=" + told, len(content[name])))
        library = self.scratch / "liblockstep.so"
        library.write_bytes(content["lockstep/lib/liblockstep.so"])
        newest = max(tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-VW", library)))
        self.assertIn("-py3-none-manylinux_%d_%d_x86_64.whl" % newest, path.name)
        program = self.scratch / "lockstep"
        program.write_bytes(content["lockstep/bin/lockstep"])
        self.assertNotRegex(run("readelf", "-dlW", program), r"INTERP|NEEDED")
        # A file that needs more than glibc gets no such tag.
        with self.assertRaisesRegex(ValueError, "libstdc"):
            make_wheel.platform_of([BUILD / "bin/lockstep-analyze"])


class Tarball(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.top = unpack("lockstep-*-linux.tar.gz", self.scratch / "first")

    def test_libraries_of_both_architectures(self):
        for name, machine in (("x86_64", "X86-64"), ("aarch64", "AArch64")):
            library = self.top / "lib" / name / "liblockstep.so"
            self.assertRegex(run("readelf", "-hW", library), rf"Machine:.*{machine}")
            run(sys.executable, SOURCE / "recorder/testing/library_test.py", library, SOURCE / "recorder/exports.txt", env=None)

    def test_the_pods_init_container_takes_the_library_of_its_node(self):
        command = re.search(r"command: \[sh, -c, '(cp .*)'\]", (SOURCE / "packaging/kubernetes/training-pod.yaml").read_text()).group(1)
        shared = self.scratch / "shared"
        shared.mkdir()
        tools = self.scratch / "tools"
        tools.mkdir()
        for name, machine in (("x86_64", "X86-64"), ("aarch64", "AArch64")):
            (tools / "uname").write_text(f"#!/bin/sh\necho {name}\n")
            (tools / "uname").chmod(0o755)
            run("sh", "-c", command.replace("/opt/", f"{self.top.parent}/").replace(" /lockstep/", f" {shared}/"),
                env={**PLAIN, "PATH": f"{tools}:{PLAIN['PATH']}"})
            self.assertRegex(run("readelf", "-hW", shared / "liblockstep.so"), rf"Machine:.*{machine}")

    def test_a_job_runs_from_any_folder_and_its_hang_is_named_in_an_empty_root(self):
        place = self.scratch / "some" / "other-place"
        place.parent.mkdir()
        shutil.move(self.top, place)
        self.assertNotRegex(run("readelf", "-lW", place / "bin/lockstep"), r"INTERP|NEEDED")
        incident = self.scratch / "incident"
        (self.scratch / "rings").mkdir()
        environment = {**PLAIN, "LD_LIBRARY_PATH": str(BUILD / "standin/lib"), "LOCKSTEP_DIR": str(self.scratch / "rings")}
        said = run(place / "bin/lockstep", "run", "-n", "8", "--out", incident, "--kill-on-hang", "--", BUILD / "bin/trainsim", *JOB,
                   status=90, env=environment)
        self.assertIn("rank 5", said)
        # Scripts call a verb's program by its own name.
        self.assertIn("rank 5", run(place / "bin/lockstep-analyze", incident, status=1))
        if os.geteuid() != 0:
            self.skipTest("chroot needs root")
        root = self.scratch / "root"
        root.mkdir()
        shutil.copy(place / "bin/lockstep", root)
        shutil.copytree(incident, root / "incident", ignore=shutil.ignore_patterns("*.sock"))
        found = json.loads(subprocess.run(["chroot", root, "/lockstep", "analyze", "--format", "json", "/incident"], capture_output=True, text=True,
                                          timeout=120).stdout)
        self.assertEqual(found["verdict"], "HUNG")
        self.assertEqual(found["findings"][0]["culprit_ranks"], [5])
        self.assertIn("analyze", run("chroot", root, "/lockstep", "--help"))
        for verb in ("agent", "attach", "check", "collector", "dump", "top", "keygen", "doctor", "clean", "export", "evidence", "mcp", "replay", "run", "serve"):
            self.assertIn("lockstep", run("chroot", root, "/lockstep", verb, "--help"))
        run("chroot", root, "/lockstep", "keygen", "--role", "agent", "/keys")
        self.assertTrue((root / "keys/agent.key").exists())
        self.assertFalse([path.name for path in place.rglob("lockstep-archive*")], "missing parts of the static program")
        self.assertNotIn("lockstep-archive", (place / "share/bash-completion/completions/lockstep").read_text())

    def test_the_image_of_the_recipe_watches_a_job(self):
        """Runs the recipe's steps one by one on Debian's busybox, without a registry."""
        busybox = shutil.which("busybox")
        if os.geteuid() != 0 or not busybox:
            self.skipTest("needs root for chroot, and busybox")
        root = self.scratch / "image"
        for name in ("bin", "etc", "proc", "tmp"):
            (root / name).mkdir(parents=True)
        for path in [busybox, *re.findall(r"(/\S+) \(0x", run("ldd", busybox, status=None))]:
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path[1:])
        inside = ["chroot", root]
        run(*inside, busybox, "--install", "-s", "/bin")
        for step, words in re.findall(r"(?m)^(FROM|ADD|RUN) (.*)$", (SOURCE / "packaging/kubernetes/Containerfile").read_text()):
            if step == "FROM":
                self.assertRegex(words, "^(busybox:stable AS recorder|recorder AS lockstep)$")
            elif step == "ADD":
                pattern, place = words.split()
                with tarfile.open(one(pattern)) as archive:
                    archive.extractall(root / place.strip("/"))
            else:
                run(*inside, "sh", "-c", words)
        # What the manifest's pods run.
        for role in ("collector", "agent"):
            run(*inside, "lockstep", "keygen", "--role", role, "/etc/lockstep/keys")
        (root / "run/keys").mkdir()
        run(*inside, "sh", "-c", re.search(r'command: \[sh, -c, "(umask .*)"\]', (SOURCE / "packaging/kubernetes/lockstep.yaml").read_text()).group(1))
        self.assertTrue((root / "run/keys/collector.key").is_file())
        told = {"LOCKSTEP_VERDICT": "HUNG", "LOCKSTEP_VERDICT_ACTION": "exclude", "LOCKSTEP_VERDICT_CONFIDENCE": "0.9700", "LOCKSTEP_VERDICT_HOSTS": "n3",
                "LOCKSTEP_VERDICT_JOB_ID": "17"}
        self.assertIn("would requeue job 17 without n3", run(*inside, "sh", "-c", "/opt/lockstep-*/share/lockstep/notify/slurm", env={**PLAIN, **told}))
        self.watch(root)

    def test_check_uses_the_stand_ins_of_the_package(self):
        program = self.scratch / "elsewhere/bin/trainsim"  # the program finds none of the build's libraries there
        program.parent.mkdir(parents=True)
        shutil.copy(BUILD / "bin/trainsim", program)
        check = [self.top / "bin/lockstep", "check", "-n", "2", "--rounds", "1"]
        job = ["--", program, "--dp", "2", "--steps", "3"]
        found = json.loads(subprocess.run([*check, "--format", "json", *job], env=PLAIN, capture_output=True, text=True, timeout=120).stdout)
        self.assertEqual((found["result"], found["standins"]), ("nothing found", str(self.top / "lib/lockstep/standin")))
        shutil.rmtree(self.top / "lib/lockstep/standin")
        said = run(*check, *job, status=3)
        self.assertIn("could not check: ", said)
        self.assertIn("this installation has no stand-ins (lib/lockstep/standin)", said)

    def test_the_commands_on_the_page_run_a_job_from_the_unpacked_folder(self):
        place = self.scratch / "home"
        place.mkdir()
        (place / one("lockstep-*-linux.tar.gz").name).symlink_to(one("lockstep-*-linux.tar.gz"))
        train = place / "train"
        train.write_text(f"#!/bin/sh\nexec env LD_LIBRARY_PATH={BUILD}/standin/lib {BUILD}/bin/trainsim --tp 2 --pp 2 --dp 2 --steps 20\n")
        train.chmod(0o755)
        run("bash", "-ec", block("tar xzf lockstep-*-linux.tar.gz"), cwd=place)

    def test_a_debugger_finds_the_symbols_as_the_page_says(self):
        if not shutil.which("gdb"):
            self.skipTest("gdb is not installed")
        (self.scratch / one("lockstep-*-linux-debug.tar.gz").name).symlink_to(one("lockstep-*-linux-debug.tar.gz"))
        (self.scratch / "run").mkdir()
        collector = subprocess.Popen([self.top / "bin/lockstep", "collector", "--out", self.scratch / "incidents"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     env={**PLAIN, "LOCKSTEP_RUNTIME_DIR": str(self.scratch / "run")})
        self.addCleanup(collector.stdout.close)
        self.addCleanup(collector.wait)
        self.addCleanup(collector.kill)
        self.assertTrue(collector.stdout.readline())  # it prints where it listens
        said = run("bash", "-ec", block("tar xzf lockstep-*-linux-debug.tar.gz").replace("-p PID", f"-p {collector.pid}"), cwd=self.scratch,
                   input="set pagination off\nthread apply all bt\nquit\n")
        # The development build, from which these packages are made, has no arguments in its symbols.
        self.assertRegex(said, r"in main \(.*\) at \S*main\.cpp:\d+")

    def watch(self, root):
        """Agent and collector in the root watch a job on this machine; top and dump query them."""
        for name in ("spool", "incidents", "rings"):
            (root / name).mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        run("mount", "-t", "proc", "proc", root / "proc")
        self.addCleanup(run, "umount", "-l", root / "proc", status=None)
        started = []

        def start(name, words, **environment):
            with open(self.scratch / f"{name}.log", "wb") as log:
                started.append(subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                env={**PLAIN, **environment}, start_new_session=True))

        def stop():
            for process in started:
                process.kill()
                process.wait()

        self.addCleanup(stop)
        inside = ["chroot", root, "lockstep"]
        start("collector", [*inside, "collector", "--out", "/incidents", "--metrics", port], LOCKSTEP_RUNTIME_DIR="/run/collector")
        start("agent", [*inside, "agent", "--collector", "ipc:///run/collector/collector.sock", "--rings", "/rings", "--spool", "/spool"],
              LOCKSTEP_RUNTIME_DIR="/run/agent")
        for rank in range(2):
            start(f"rank{rank}", [BUILD / "bin/trainsim", "--tp", "1", "--pp", "1", "--dp", "2", "--steps", "1000000", "--pace-ms", "20"],
                  LD_PRELOAD=str(BUILD / "lib/liblockstep.so"), LD_LIBRARY_PATH=str(BUILD / "standin/lib"), LOCKSTEP_DIR=str(root / "rings"),
                  LOCKSTEP_JOB="watched", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                  MASTER_PORT="29542")
        environment = {**PLAIN, "LOCKSTEP_RUNTIME_DIR": "/run/agent"}  # the agent's file contains the collector's address
        until, said = time.monotonic() + 90, ""
        while "watched" not in said and time.monotonic() < until:
            time.sleep(0.2)
            said = run(*inside, "top", "--once", "watched", status=None, env=environment)
        self.assertIn("watched", said)
        verdict = {}
        while verdict.get("ranks_read") != 2 and time.monotonic() < until:
            asked = subprocess.run([str(word) for word in (*inside, "dump", "watched", "--json")], capture_output=True, text=True, timeout=120, env=environment)
            verdict = json.loads(asked.stdout) if asked.returncode in (0, 1) else {}
        self.assertEqual((verdict.get("verdict"), verdict.get("ranks_read")), ("HEALTHY", 2), said)
        self.assertTrue(list((root / "incidents").glob("lockstep-incident-watched-*/verdict.json")))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            self.assertIn("\nlockstep_", page.read().decode())


class Again(unittest.TestCase):
    def test_the_recorder_is_the_same_when_built_in_another_folder(self):
        said = run(SOURCE / "packaging/reproduce", "--recorder", env={**os.environ})
        self.assertEqual(said.count("equal"), 2, said)

    def test_packing_twice_gives_the_same_file(self):
        with tempfile.TemporaryDirectory() as folder:
            run(sys.executable, SOURCE / "packaging/make.py", "--build", BUILD, "--out", f"{folder}/out", "--only", "deb,rpm,tar", env={**os.environ})
            for path in sorted(pathlib.Path(folder, "out").iterdir()):
                if path.name not in ("SHA256SUMS",) and not path.name.endswith("spdx.json"):
                    self.assertEqual(path.read_bytes(), (PACKAGES / path.name).read_bytes(), path.name)


# Files that dpkg, apt, the loader and user management write for themselves.
OWN_BOOKS = re.compile(r"^(proc|sys|dev|tmp|run|trial|var/log|var/cache|var/lib/apt|var/lib/dpkg/(status|available|lock|triggers|info/format|"
                       r"diversions|statoverride|alternatives)|var/lib/dpkg/.*-old$|etc/ld\.so\.cache|etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|root/\.cache)")


def picture(root):
    """Returns every path with its kind, mode and content."""
    found = {}
    for folder, folders, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        folders[:] = sorted(name for name in folders if not OWN_BOOKS.match(os.path.normpath(os.path.join(inside, name))))
        for name in folders + files:
            path = os.path.join(folder, name)
            key = os.path.normpath(os.path.join(inside, name))
            if OWN_BOOKS.match(key):
                continue
            about = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(about.st_mode) else ""
            if stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    what = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()
            found[key] = (oct(about.st_mode), what)
    return found


def mirror():
    """Returns (address, suite) of Debian's packages as this machine gets them, from its own sources."""
    for line in run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(CODENAME) $(COMPONENT) $(ORIGIN)").splitlines():
        address, _, codename, component, *origin = line.split()
        if "Debian" in origin and component == "main" and "-" not in codename:
            return address, codename
    return None, None


class CleanRoot(unittest.TestCase):
    def test_installing_using_and_purging_leaves_no_trace(self):
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            self.skipTest("creating a clean root needs root and debootstrap")
        address, suite = mirror()
        if address is None:
            self.skipTest("apt has no source of Debian packages here")
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-root-"))
        root = scratch / "root"
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        made = subprocess.run(["debootstrap", "--variant=minbase", suite, root, address], env={**os.environ, **PLAIN}, capture_output=True, text=True,
                              timeout=540)
        if made.returncode != 0:
            last = made.stdout.strip().splitlines()[-1:] or ["nothing said"]
            self.skipTest(f"debootstrap cannot create a root: {last[0]}")

        def inside(*command, **more):
            return run("chroot", root, *command, **more)

        # A root that is deleted afterwards does not need to survive a power failure.
        (root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
        for name in ("resolv.conf", "hosts"):
            if os.path.exists(f"/etc/{name}"):
                shutil.copy(f"/etc/{name}", root / "etc" / name)
        mounts = [("proc", "proc"), ("tmpfs", "dev/shm")]
        for kind, place in mounts:
            (root / place).mkdir(exist_ok=True)
            run("mount", "-t", kind, kind, root / place)
            self.addCleanup(run, "umount", "-l", root / place, status=None)
        debs = [one(f"{package}_*.deb") for package in ("lockstep-recorder", "lockstep", "lockstep-viewer")]
        # Installs the packages' dependencies first, so that only the packages themselves are missing in the snapshot.
        needs = {re.split(r"[ (|]", need.strip())[0] for deb in debs for need in run("dpkg-deb", "-f", deb, "Depends").split(",")}
        inside("apt-get", "update", "-q", env={**os.environ, **PLAIN})
        inside("apt-get", "install", "-q", "-y", "--no-install-recommends", *sorted(need for need in needs if not need.startswith("lockstep")),
               env={**os.environ, **PLAIN})
        before = picture(root)

        trial = root / "trial"
        trial.mkdir()
        for deb in debs:
            shutil.copy(deb, trial)
        # The page's command. The root has no sudo, and questions get no answer.
        install = [line for line in block("sudo apt install").splitlines() if line.startswith("sudo apt install ")]
        self.assertEqual(len(install), 1)
        packages = install[0].removeprefix("sudo apt install ")
        inside("sh", "-ec", f"cd /trial; apt-get install -q -y --no-install-recommends {packages}", env={**os.environ, **PLAIN})
        inside("dpkg", "-i", f"/trial/{debs[2].name}")
        self.assertEqual(inside("dpkg", "--audit"), "")
        # The job under test, which is not part of the packages.
        shutil.copytree(BUILD / "standin/lib", trial / "standin", symlinks=True)
        shutil.copy(BUILD / "bin/trainsim", trial)
        said = inside("env", "LD_LIBRARY_PATH=/trial/standin", "lockstep", "run", "-n", "8", "--out", "/trial/incident", "--kill-on-hang", "--",
                      "/trial/trainsim", *JOB, status=90)
        self.assertIn("rank 5", said)
        self.assertIn("rank 5", inside("lockstep", "analyze", "/trial/incident", status=1))
        shutil.rmtree(trial / "standin")
        self.assertIn("nothing found", inside("lockstep", "check", "-n", "2", "--rounds", "1", "--", "/trial/trainsim", "--dp", "2", "--steps", "3"))
        doctor = inside("lockstep", "doctor")
        for check in ("NCCL linked", "NCCL by dlopen"):
            self.assertRegex(doctor, rf"(?m)^ok +{check} +recorded and read back")
        self.assertEqual(inside("env", "QT_QPA_PLATFORM=offscreen", "lockstep", "view", "--version").split()[-1], VERSION)
        # Creates files as root, the services' user and other users leave them.
        inside("lockstep", "keygen", "--role", "agent", "/etc/lockstep/keys")
        inside("chown", "lockstep:", "/etc/lockstep/keys/agent.key")
        (root / "var/lib/lockstep/spool").mkdir(parents=True)
        (root / "etc/lockstep.conf").write_text("late-after = 5\n")
        for place in ("var/lib/lockstep-collector/lockstep-incident-x", "var/lib/lockstep-archive", "run/lockstep", "run/lockstep-collector",
                      "run/lockstep-relay-r7", "run/lockstep-slurm/n1", "dev/shm/lockstep-slurm/n1", "dev/shm/lockstep-0/a", "dev/shm/lockstep-1000/b"):
            (root / place).mkdir(parents=True)
            (root / place / "file").write_text("x")
        wants = root / "etc/systemd/system/multi-user.target.wants"
        for unit in ("lockstep-agent.service", "lockstep-collector.service", "lockstep-archive.service"):
            inside("env", "DPKG_MAINTSCRIPT_PACKAGE=lockstep", "deb-systemd-helper", "enable", unit)
            self.assertTrue((wants / unit).is_symlink())
        (wants / "lockstep-relay@r7.service").symlink_to("/lib/systemd/system/lockstep-relay@.service")

        inside("dpkg", "--purge", "lockstep-viewer", "lockstep", "lockstep-recorder")
        shutil.rmtree(trial)
        after = picture(root)
        self.assertEqual({name: after[name] for name in set(after) - set(before)}, {})
        self.assertEqual({name: before[name] for name in set(before) - set(after)}, {})
        self.assertEqual([name for name in before if before[name] != after[name]], [])
        self.assertEqual(os.listdir(root / "dev/shm"), [])
        self.assertEqual([path.name for path in (root / "run").iterdir() if "lockstep" in path.name], [])
        self.assertNotIn("lockstep", (root / "etc/passwd").read_text() + (root / "etc/group").read_text())
        self.assertNotIn("lockstep", inside("dpkg-query", "-W", "-f", "${Package}\n"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
