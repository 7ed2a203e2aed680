#!/usr/bin/env python3
"""Checks that packaging/ matches the programs. Manifests are YAML of the declared kinds, every option is in the verb's --help, every file and volume
exists, and a shell can parse the scripts."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import kubernetes_schema
from support import BUILD, LOCKSTEP, SOURCE, FolderTest, read_json, wait_for

try:
    import yaml
except ImportError:
    yaml = None
try:
    import jsonschema
except ImportError:
    jsonschema = None


def help_of(verb):
    return subprocess.run([LOCKSTEP, verb, "--help"], stdout=subprocess.PIPE, text=True, timeout=30, check=True).stdout


def known_variables(verb):
    """Returns the variables in the program's chapter of docs/options.md, which pages.py generates from the settings table (pages_test)."""
    with open(os.path.join(SOURCE, "docs/options.md")) as file:
        chapter = re.search(rf"(?ms)^## `?lockstep {verb}`?$.*?(?=^## |\Z)", file.read())
    return set(re.findall(r"LOCKSTEP_\w+", chapter.group(0)))


def pods(document):
    """Yields the pod specifications of a manifest."""
    if isinstance(document, dict):
        if "containers" in document:
            yield document
        for value in document.values():
            yield from pods(value)
    elif isinstance(document, list):
        for value in document:
            yield from pods(value)


@unittest.skipIf(yaml is None, "python3-yaml is not installed")
class KubernetesTest(unittest.TestCase):
    def documents(self):
        for path in sorted(glob.glob(os.path.join(SOURCE, "packaging/kubernetes/*.yaml"))):
            with open(path) as file:
                for document in yaml.safe_load_all(file):
                    yield os.path.basename(path), document

    def test_every_document_declares_its_kind(self):
        found = [document["kind"] for _, document in self.documents()]
        self.assertLessEqual({"DaemonSet", "Deployment", "Service", "Pod"}, set(found))
        for name, document in self.documents():
            self.assertIn("apiVersion", document, name)
            self.assertIn("name", document["metadata"], name)

    @unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
    def test_the_schema_accepts_the_manifests(self):
        for name, document in self.documents():
            self.assertIn(document["kind"], kubernetes_schema.KINDS, name)
            errors = list(jsonschema.Draft7Validator(kubernetes_schema.KINDS[document["kind"]]).iter_errors(document))
            self.assertEqual([f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in errors], [], f"{name}: {document['kind']}")
            spec = document.get("spec", {})
            if "template" in spec:
                labels = spec["template"]["metadata"]["labels"]
                self.assertLessEqual(spec["selector"]["matchLabels"].items(), labels.items(), "a selector that does not select its own pods is refused")

    @unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
    @unittest.skipUnless(os.environ.get("LOCKSTEP_KUBERNETES_OPENAPI"), "LOCKSTEP_KUBERNETES_OPENAPI names no file of `kubectl get --raw /openapi/v2`")
    def test_the_apis_own_definitions_accept_the_manifests(self):
        api = kubernetes_schema.Api(os.environ["LOCKSTEP_KUBERNETES_OPENAPI"])
        for name, document in self.documents():
            validator = jsonschema.Draft7Validator(api.schema(document))
            errors = [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in validator.iter_errors(document)]
            self.assertEqual(errors, [], f"{name}: {document['kind']}")
            self.assertFalse(validator.is_valid({**document, "metadata": {**document["metadata"], "lables": {}}}), "an unknown field is refused")
            ours = kubernetes_schema.KINDS[document["kind"]]
            own = api.definitions[api.kinds[document["apiVersion"], document["kind"]]]
            self.assertEqual(list(api.unknown(ours, own, document["kind"])), [], "our schema has fields that the API does not have")

    @unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
    def test_the_schema_finds_mistakes(self):
        by_kind = {document["kind"]: document for _, document in self.documents()}

        def wrong(kind, change):
            document = json.loads(json.dumps(by_kind[kind]))
            change(document)
            return not jsonschema.Draft7Validator(kubernetes_schema.KINDS[kind]).is_valid(document)

        def pod(document):
            return document["spec"]["template"]["spec"] if "template" in document["spec"] else document["spec"]

        changes = {
            "a name with a capital": lambda d: d["metadata"].update(name="Lockstep"),
            "an unknown field": lambda d: pod(d).update(hostPid=True),
            "no image": lambda d: pod(d)["containers"][0].pop("image"),
            "a quantity of no unit": lambda d: pod(d)["containers"][0].setdefault("resources", {}).update(limits={"memory": "2GB"}),
            "two sources of one volume": lambda d: pod(d)["volumes"][0].update(emptyDir={}, hostPath={"path": "/"}),
            "a variable's value and source": lambda d: pod(d)["containers"][0]["env"][0].update(value="x", valueFrom={"fieldRef": {"fieldPath": "spec.nodeName"}}),
            "a number where a string belongs": lambda d: pod(d)["containers"][0]["env"][0].update(value=1),
            "a relative mount": lambda d: pod(d)["containers"][0]["volumeMounts"][0].update(mountPath="run"),
            "another API": lambda d: d.update(apiVersion="v2")}
        for kind in ("Deployment", "DaemonSet", "Pod"):
            for what, change in changes.items():
                self.assertTrue(wrong(kind, change), f"{kind}: {what}")

    def test_options_exist_in_the_verbs(self):
        verbs = 0
        for name, document in self.documents():
            for pod in pods(document):
                for container in pod["containers"]:
                    command = container.get("command", []) + container.get("args", [])
                    if command[:1] != ["lockstep"]:
                        continue
                    verbs += 1
                    text = help_of(command[1])
                    for word in command[2:]:
                        if word.startswith("--"):
                            self.assertRegex(text, re.escape(word) + r"\b", f"{name}: lockstep {command[1]}")
                    for variable in container.get("env", []):
                        if variable["name"].startswith("LOCKSTEP_") and variable["name"] != "LOCKSTEP_RUNTIME_DIR":
                            self.assertIn(variable["name"], text, name)
        self.assertEqual(verbs, 2)

    def test_images_come_from_the_recipe_and_incidents_fit_the_volume(self):
        with open(os.path.join(SOURCE, "packaging/kubernetes/Containerfile")) as file:
            recipe = file.read()
        made = set(re.findall(r"-t (\S+)", recipe))
        self.assertEqual(set(re.findall(r"^FROM \S+ AS (\S+)$", recipe, re.M)), set(re.findall(r"--target (\S+)", recipe)))
        used = {container["image"] for _, document in self.documents() for pod in pods(document)
                for container in pod["containers"] + pod.get("initContainers", [])}
        self.assertEqual(used - {"training"}, made)
        by_kind = {document["kind"]: document for _, document in self.documents()}
        args = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
        keep, quota = (int(args[args.index(option) + 1].removesuffix("G")) for option in ("--keep-bytes", "--quota"))
        volume = int(by_kind["PersistentVolumeClaim"]["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))
        self.assertLess(keep, quota)
        self.assertLess(quota, volume)

    def test_a_collector_accepts_a_key_and_folder_in_a_volume_of_root(self):
        """An emptyDir belongs to root and is writable for all, but the pods run as a user."""
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root, and setpriv")
        pod = next(document for _, document in self.documents() if document["kind"] == "Deployment")["spec"]["template"]["spec"]
        container = pod["containers"][0]
        with tempfile.TemporaryDirectory(prefix="lockstep-pod-") as folder:
            os.chmod(folder, 0o755)
            for name, mode in (("run/keys", 0o2777), ("etc/lockstep/keys", 0o755), ("incidents", 0o2777)):
                os.makedirs(os.path.join(folder, name))
                os.chmod(os.path.join(folder, name), mode)
            secret = os.path.join(folder, "etc/lockstep/keys")
            for role in ("collector", "agent"):
                subprocess.run([LOCKSTEP, "keygen", "--role", role, secret], check=True, capture_output=True, timeout=60)
            user = pod["securityContext"]["runAsUser"]
            os.chown(os.path.join(secret, "collector.key"), 0, user)
            os.chmod(os.path.join(secret, "collector.key"), 0o440)

            def here(words):
                return [re.sub(r"(/run/keys|/etc/lockstep|/incidents)\b", folder + r"\1", word) for word in words]

            become = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
            subprocess.run(become + here(pod["initContainers"][0]["command"]), check=True, timeout=60)
            variables = {variable["name"]: here([variable["value"]])[0] for variable in container["env"]}
            words = [word.replace("0.0.0.0:9470", "127.0.0.1:0").replace("127.0.0.1:9471", "127.0.0.1:0") for word in here(container["args"])]
            with subprocess.Popen([*become, LOCKSTEP, "collector", *words], env={"PATH": os.environ["PATH"], **variables}, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as collector:
                output = ""
                try:
                    for line in collector.stderr:
                        output += line
                        if "listens on" in line:
                            break
                    self.assertIn("listens on", output)
                    self.assertTrue(wait_for(lambda: os.path.exists(os.path.join(variables["LOCKSTEP_RUNTIME_DIR"], "collector")), 30), output)
                finally:
                    collector.kill()

    def test_mounted_volumes_exist(self):
        for name, document in self.documents():
            for pod in pods(document):
                volumes = {volume["name"] for volume in pod.get("volumes", [])}
                for container in pod["containers"] + pod.get("initContainers", []):
                    for mount in container.get("volumeMounts", []):
                        self.assertIn(mount["name"], volumes, name)

    def test_the_service_reaches_the_collector(self):
        by_kind = {document["kind"]: document for _, document in self.documents()}
        service, server = by_kind["Service"]["spec"], by_kind["Deployment"]["spec"]["template"]
        self.assertEqual(service["selector"], server["metadata"]["labels"])
        port = service["ports"][0]["port"]
        self.assertIn(f"tcp://0.0.0.0:{port}", server["spec"]["containers"][0]["args"])
        agent = by_kind["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["args"]
        name = by_kind["Service"]["metadata"]
        self.assertIn(f"tcp://{name['name']}.{name['namespace']}:{port}", agent)


class ScriptsTest(unittest.TestCase):
    def test_shells_parse_the_scripts(self):
        scripts = glob.glob(os.path.join(SOURCE, "packaging/slurm/*.sh"))
        self.assertEqual(len(scripts), 3)
        for script in scripts:
            subprocess.run(["sh", "-n", script], check=True)
            self.assertTrue(os.access(script, os.X_OK), script)

    def task_prolog(self, **environment):
        clean = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "n1", "LOCKSTEP_LIBRARY": os.path.join(BUILD, "lib/liblockstep.so")}
        return subprocess.run([os.path.join(SOURCE, "packaging/slurm/task-prolog.sh")], env={**clean, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=30, check=True)

    def test_the_task_prolog_extends_ld_preload_once_and_can_be_disabled(self):
        library = os.path.join(BUILD, "lib/liblockstep.so")
        self.assertIn(f"export LD_PRELOAD={library}\n", self.task_prolog().stdout)
        self.assertIn(f"export LD_PRELOAD={library}:/usr/lib/other.so\n", self.task_prolog(LD_PRELOAD="/usr/lib/other.so").stdout)
        self.assertNotIn("LD_PRELOAD", self.task_prolog(LD_PRELOAD=library).stdout)
        self.assertEqual(self.task_prolog(LOCKSTEP="0").stdout, "")
        self.assertEqual(self.task_prolog(LOCKSTEP_LIBRARY="/nowhere/liblockstep.so").stdout, "")


    def test_scripts_always_succeed_quickly(self):
        """A failing prolog or epilog drains the node, and a failing task prolog kills the task."""
        with tempfile.TemporaryDirectory(prefix="lockstep-slurm-scripts-") as folder:
            settings = os.path.join(folder, "environment")
            for script in ("prolog", "task-prolog", "epilog"):
                path = os.path.join(SOURCE, f"packaging/slurm/{script}.sh")
                for text in ("LOCKSTEP_COLLECTOR=(\n", "if\n", "exit 3\n", "\0\1\2", "LOCKSTEP_SLURM_RUN=/proc/none\n", "LOCKSTEP_PROGRAM=/nowhere/lockstep\n",
                             "LOCKSTEP_SLURM_RINGS=/proc/none\nLOCKSTEP_PROGRAM=false\n", "LOCKSTEP_LIBRARY=/nowhere\n"):
                    with open(settings, "w") as file:
                        file.write(text)
                    done = subprocess.run([path], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, env={
                        "PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "LOCKSTEP_SLURM_ENVIRONMENT": settings,
                        "LOCKSTEP_SLURM_RUN": os.path.join(folder, "run"), "LOCKSTEP_SLURM_RINGS": os.path.join(folder, "rings"),
                        "LOCKSTEP_PROGRAM": "true"})
                    self.assertEqual(done.returncode, 0, f"{script}, {text!r}: {done.stderr}")

    def test_the_prolog_leaves_owners_of_foreign_files_in_the_ring_folder_alone(self):
        """Any user can write to /dev/shm, and the prolog runs as root."""
        with tempfile.TemporaryDirectory(prefix="lockstep-slurm-rings-") as folder:
            target = os.path.join(folder, "target")
            os.mkdir(target, 0o755)
            for name, make in (("parent", lambda rings: os.symlink(folder, rings)),
                               ("link", lambda rings: (os.mkdir(rings), os.symlink(target, os.path.join(rings, "n1"))))):
                rings = os.path.join(folder, name)
                make(rings)
                done = subprocess.run([os.path.join(SOURCE, "packaging/slurm/prolog.sh")], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                                      check=False, env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "LOCKSTEP_PROGRAM": "true",
                                                        "LOCKSTEP_SLURM_ENVIRONMENT": "/nowhere", "LOCKSTEP_SLURM_RUN": os.path.join(folder, "run"),
                                                        "LOCKSTEP_SLURM_RINGS": rings})
                self.assertEqual(done.returncode, 0)
                self.assertIn("does not belong to the prolog's user", done.stderr)
                self.assertEqual(os.stat(target).st_mode & 0o7777, 0o755, name)

    @unittest.skipUnless(shutil.which("flock"), "no flock")
    def test_a_job_that_starts_while_another_ends_has_an_agent(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-slurm-race-") as folder:
            program = os.path.join(folder, "lockstep")
            with open(program, "w") as file:
                file.write('#!/bin/sh\n[ "$1" = agent ] && exec sleep 600\n')
            os.chmod(program, 0o755)

            def start(script, job):
                return subprocess.Popen([os.path.join(SOURCE, f"packaging/slurm/{script}.sh")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env={
                                            "PATH": os.environ["PATH"], "SLURM_JOB_ID": str(job), "SLURMD_NODENAME": "n1", "LOCKSTEP_PROGRAM": program,
                                            "LOCKSTEP_SLURM_ENVIRONMENT": "/nowhere", "LOCKSTEP_SLURM_RUN": os.path.join(folder, "run"),
                                            "LOCKSTEP_SLURM_RINGS": os.path.join(folder, "rings")})

            def agent():
                with open(os.path.join(folder, "run/n1/agent.pid")) as file:
                    return int(file.read())

            self.assertEqual(start("prolog", 0).wait(60), 0)
            try:
                for job in range(1, 25):
                    both = [start("epilog", job - 1), start("prolog", job)]
                    self.assertEqual([each.wait(60) for each in both], [0, 0])
                    with open(f"/proc/{agent()}/cmdline") as file:  # this fails if there is no agent
                        self.assertIn("sleep", file.read().replace("agent", "sleep"))
                self.assertEqual(start("epilog", 24).wait(60), 0)
                self.assertEqual(os.listdir(os.path.join(folder, "run/n1")), [name for name in os.listdir(os.path.join(folder, "run/n1"))
                                                                           if not name.startswith(("jobs.", "agent.pid"))])
            finally:
                if os.path.exists(os.path.join(folder, "run/n1/agent.pid")):
                    os.kill(agent(), 9)

    def test_without_settings_the_library_path_is_the_packages(self):
        with open(os.path.join(SOURCE, "cmake/LockstepInstall.cmake")) as file:
            self.assertRegex(file.read(), r"(?m)^set\(LOCKSTEP_INSTALL_LIB lib\)")
        for script in ("slurm/task-prolog.sh", "enroot/95-lockstep.sh"):
            with open(os.path.join(SOURCE, "packaging", script)) as file:
                self.assertRegex(file.read(), r"library=\$\{(LOCKSTEP_LIBRARY|library):-/usr/lib/liblockstep\.so\}", script)


class EnrootTest(FolderTest):
    """Runs the hook with enroot's inputs: ENROOT_ENVIRON and ENROOT_MOUNTS name files to which the hook appends."""

    def setUp(self):
        super().setUp()
        self.path = {name: os.path.join(self.folder, name) for name in ("environ", "mounts", "settings", "rings", "library.so")}
        self.write("library.so", "")
        self.write("mounts", "")
        self.write("environ", "PATH=/bin\nLD_PRELOAD=/opt/libother.so\n")
        self.write("settings", f"LOCKSTEP_LIBRARY={self.path['library.so']}\nLOCKSTEP_DIR={self.path['rings']}\nLOCKSTEP_GPU=done\n")

    def write(self, name, text):
        with open(self.path[name], "w") as file:
            file.write(text)

    def hook(self, **environment):
        subprocess.run([os.path.join(SOURCE, "packaging/enroot/95-lockstep.sh")], check=True, timeout=30,
                       env={"PATH": os.environ["PATH"], "ENROOT_ENVIRON": self.path["environ"], "ENROOT_MOUNTS": self.path["mounts"],
                            "LOCKSTEP_ENROOT_ENVIRONMENT": self.path["settings"], **environment})
        with open(self.path["environ"]) as environ, open(self.path["mounts"]) as mounts:
            return environ.read().splitlines(), mounts.read().splitlines()

    def test_library_and_rings_are_mounted_into_the_container(self):
        environ, mounts = self.hook()
        self.assertIn("LD_PRELOAD=/usr/lib/liblockstep.so:/opt/libother.so", environ)
        self.assertIn("LOCKSTEP_DIR=" + self.path["rings"], environ)
        self.assertIn("LOCKSTEP_GPU=done", environ)
        self.assertEqual([line.split()[:2] for line in mounts],
                         [[self.path["library.so"], "/usr/lib/liblockstep.so"], [self.path["rings"], self.path["rings"]]])
        self.assertEqual(os.stat(self.path["rings"]).st_mode & 0o777, 0o700)
        self.assertEqual(self.hook(), (environ, mounts), "a second run must change nothing")

    def test_libraries_preloaded_on_the_host_are_mounted_at_the_same_path(self):
        """LD_PRELOAD of the host or of Slurm's TaskProlog reaches the container, so the path must exist there."""
        for preload, place in (("/usr/lib/liblockstep.so", "/usr/lib/liblockstep.so"),
                               ("/opt/libother.so:/opt/lockstep/lib/liblockstep.so", "/opt/lockstep/lib/liblockstep.so")):
            self.write("environ", f"LD_PRELOAD={preload}\n")
            self.write("mounts", "")
            environ, mounts = self.hook()
            self.assertEqual([line for line in environ if line.startswith("LD_PRELOAD")], [f"LD_PRELOAD={preload}"])
            self.assertEqual([line.split()[:2] for line in mounts], [[self.path["library.so"], place], [self.path["rings"], self.path["rings"]]])
        rootfs = os.path.join(self.folder, "rootfs")
        os.makedirs(rootfs + "/opt/lockstep/lib")
        with open(rootfs + "/opt/lockstep/lib/liblockstep.so", "w"):
            pass
        self.write("mounts", "")
        self.assertEqual([line.split()[1] for line in self.hook(ENROOT_ROOTFS=rootfs)[1]], [self.path["rings"]], "only the rings are mounted; the image has the library")

    def test_the_hook_uses_a_ring_folder_that_the_job_names(self):
        given = os.path.join(self.folder, "of-slurm")
        os.mkdir(given)
        self.write("environ", f"LOCKSTEP_DIR={given}\n")
        environ, mounts = self.hook()
        self.assertEqual([line for line in environ if line.startswith("LOCKSTEP_DIR")], [f"LOCKSTEP_DIR={given}"])
        self.assertIn(f"{given} {given}", mounts[1])
        self.write("environ", "LOCKSTEP_DIR=/nowhere/rings\n")
        self.assertEqual(self.hook()[0][-2], "LOCKSTEP_DIR=" + self.path["rings"])

    @unittest.skipUnless(shutil.which("musl-gcc"), "musl-tools is not installed")
    def test_a_program_of_a_musl_image_starts(self):
        """Runs a program in a root like Alpine's, with the hook's result. musl's loader ends a program if it cannot load a preloaded library."""
        rootfs = os.path.join(self.folder, "rootfs")
        os.makedirs(rootfs + "/lib")
        os.makedirs(rootfs + "/usr/lib")
        shutil.copy(os.path.realpath("/lib/ld-musl-x86_64.so.1"), rootfs + "/lib/ld-musl-x86_64.so.1")
        # The program restarts itself with the environment of its arguments, because unshare is a program of the host.
        subprocess.run(["musl-gcc", "-x", "c", "-o", rootfs + "/program", "-"], check=True, timeout=60, text=True, input="""
            #include <stdio.h>
            #include <stdlib.h>
            #include <unistd.h>
            int main(int argc, char** argv) {
              if (argc == 1) return puts(getenv("LD_PRELOAD")) < 0;
              return execve(argv[0], (char*[]){argv[0], 0}, argv + 1);
            }""")
        self.write("settings", f"LOCKSTEP_LIBRARY={os.path.join(BUILD, 'lib/liblockstep.so')}\nLOCKSTEP_DIR={self.path['rings']}\n")
        self.write("environ", "")
        environ, mounts = self.hook(ENROOT_ROOTFS=rootfs)
        source, target = mounts[0].split()[:2]
        shutil.copy(source, rootfs + target)
        started = subprocess.run(["unshare", "--map-root-user", "--root", rootfs, "/program", *environ], capture_output=True, text=True, timeout=60, check=False)
        if "unshare:" in started.stderr:
            self.skipTest(started.stderr.strip())
        self.assertEqual((started.returncode, started.stdout, started.stderr), (0, "/usr/lib/liblockstep.so\n", ""))

    def test_a_job_that_refuses_recording_starts_without_it(self):
        before = (["PATH=/bin", "LD_PRELOAD=/opt/libother.so"], [])
        self.assertEqual(self.hook(LOCKSTEP="0"), before)
        self.write("environ", "PATH=/bin\nLD_PRELOAD=/opt/libother.so\nLOCKSTEP=off\n")
        self.assertEqual(self.hook()[1], [])
        os.remove(self.path["library.so"])
        self.write("environ", "PATH=/bin\n")
        self.assertEqual(self.hook(), (["PATH=/bin"], []))
        self.assertEqual(self.hook(ENROOT_ENVIRON="")[1], [])


class SystemdTest(unittest.TestCase):
    def units(self):
        return sorted(glob.glob(os.path.join(SOURCE, "packaging/systemd/*.service")))

    def test_systemd_accepts_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        with tempfile.TemporaryDirectory(prefix="lockstep-units-") as folder:
            for unit in self.units():
                # systemd-analyze rejects units of programs that do not exist, and Lockstep is not installed here.
                with open(unit) as file:
                    text = file.read().replace("/usr/bin/", os.path.join(BUILD, "bin/"))
                path = os.path.join(folder, os.path.basename(unit))
                with open(path, "w") as file:
                    file.write(text)
                done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
                ours = [line for line in done.stdout.splitlines() if os.path.basename(unit) in line]
                self.assertEqual((done.returncode, ours), (0, []), done.stdout)

    def test_variables_exist_in_the_programs(self):
        self.assertEqual([os.path.basename(unit) for unit in self.units()], ["lockstep-agent.service", "lockstep-archive.service", "lockstep-collector.service", "lockstep-relay@.service"])
        for unit in self.units():
            with open(unit) as file:
                text = file.read()
            verb = re.search(r"ExecStart=/usr/bin/lockstep-(\w+)", text, re.M).group(1)
            output = known_variables(verb)
            for name in set(re.findall(r"LOCKSTEP_\w+", text)) - {"LOCKSTEP_RUNTIME_DIR"}:
                self.assertIn(name, output, unit)


class NoSkipTest(unittest.TestCase):
    def test_a_forbidden_skip_fails(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-no-skip-") as folder:
            script = os.path.join(folder, "some_test.py")
            with open(script, "w") as file:
                file.write('import sys\nsys.path.insert(0, sys.argv.pop())\nimport unittest\nimport no_skip\n'
                           '@unittest.skip("no tool")\nclass ATest(unittest.TestCase):\n    def test_it(self):\n        pass\n'
                           'class BTest(unittest.TestCase):\n    def test_it(self):\n        pass\n'
                           'no_skip.main()\n')
            for names, status in (("", 0), ("other_test,some_test.BTest,some_test.A", 0), ("some_test.ATest", 1), ("other_test,some_test", 1)):
                done = subprocess.run([sys.executable, script, os.path.dirname(os.path.abspath(__file__))], capture_output=True, text=True, timeout=60,
                                      env={**os.environ, "LOCKSTEP_NO_SKIP": names}, check=False)
                self.assertEqual(done.returncode, status, f"{names}: {done.stderr}")
                self.assertEqual("some_test.ATest.test_it was skipped (no tool)" in done.stderr, status == 1)


class GrafanaTest(unittest.TestCase):
    def test_every_metric_is_published_by_a_program(self):
        dashboard = read_json(SOURCE, "packaging/grafana/lockstep.json")
        published = set()
        for path in glob.glob(os.path.join(SOURCE, "collector/**/*.cpp"), recursive=True):
            with open(path) as file:
                text = file.read()
            for call, name in re.findall(r"\b(Gauge|GaugeOf|Counter|CounterOf|gauge|count)\(\s*\"([a-z_]+)\"", text):
                published.add("lockstep_" + name + ("_total" if call[0] in "Cc" else ""))
        used = {name for panel in dashboard["panels"] for target in panel["targets"] for name in re.findall(r"lockstep_\w+", target["expr"])}
        with open(os.path.join(SOURCE, "packaging/prometheus/lockstep.rules.yml")) as file:
            used |= set(re.findall(r"lockstep_\w+", file.read()))
        self.assertGreater(len(used), 20)
        self.assertLessEqual(used, published)
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
        places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]]
        self.assertEqual(len(set(places)), len(places))


if __name__ == "__main__":
    unittest.main()
