#!/usr/bin/env python3
"""Checks the viewer's desktop file, MIME type, icons and installation, with the desktop's own tools if they are installed."""

import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent


class Desktop(unittest.TestCase):
    def test_desktop_file(self):
        if not shutil.which("desktop-file-validate"):
            self.skipTest("desktop-file-validate (desktop-file-utils) is not installed")
        done = subprocess.run(["desktop-file-validate", HERE / "lockstep-view.desktop"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_mime_type(self):
        if not shutil.which("update-mime-database"):
            self.skipTest("update-mime-database (shared-mime-info) is not installed")
        with tempfile.TemporaryDirectory() as folder:
            packages = pathlib.Path(folder, "packages")
            packages.mkdir()
            shutil.copy(HERE / "lockstep.xml", packages)
            done = subprocess.run(["update-mime-database", folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("application/x-lockstep-dump:*.lsd", pathlib.Path(folder, "globs").read_text())
            self.assertIn(b"LSDUMP1\n", pathlib.Path(folder, "magic").read_bytes())
            self.assertTrue(pathlib.Path(folder, "application", "x-lockstep-dump.xml").exists())

    def test_the_magic_bytes_of_dumps(self):
        format_header = (HERE.parents[2] / "analyzer/formats/lsd/format.h").read_text()
        self.assertIn('kLsdMagic = "LSDUMP1\\n"', format_header)

    def test_icons(self):
        root = ElementTree.parse(HERE / "lockstep-view.svg").getroot()
        self.assertTrue(root.tag.endswith("svg"))
        for size in (48, 128):
            data = (HERE / f"lockstep-view-{size}.png").read_bytes()
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(struct.unpack(">II", data[16:24]), (size, size))

    def test_installed(self):
        build = os.environ.get("LOCKSTEP_BUILD", "")
        if not pathlib.Path(build, "bin", "lockstep-view").exists():
            self.skipTest("lockstep-view is not built")
        with tempfile.TemporaryDirectory() as folder:
            for component in ("viewer", "viewer_common"):
                done = subprocess.run(["cmake", "--install", build, "--component", component, "--prefix", folder], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
            for name in ("bin/lockstep-view", "share/applications/lockstep-view.desktop", "share/mime/packages/lockstep.xml",
                         "share/icons/hicolor/scalable/apps/lockstep-view.svg", "share/icons/hicolor/48x48/apps/lockstep-view.png",
                         "share/icons/hicolor/128x128/apps/lockstep-view.png"):
                self.assertTrue(pathlib.Path(folder, name).exists(), name)
            version = subprocess.run([pathlib.Path(folder, "bin", "lockstep-view"), "--version"], capture_output=True, text=True)
            self.assertTrue(version.stdout.startswith("lockstep "), version)


if __name__ == "__main__":
    unittest.main()
