"""Runs the real NCCL and CUDA runtime under the recorder, as far as this works without a GPU. Every call must return the same as without the recorder.
real_test.py RECORDER STANDIN_FOLDER"""
import argparse
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from machine import HERE, OWN_HEADERS, Setup, run  # noqa: E402
from session import Session  # noqa: E402

RECORDER, STANDIN = sys.argv[1:3] if len(sys.argv) > 2 else (None, None)


class RealLibraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = argparse.Namespace(standin=None, python=None, cuda=None, nccl=None, work=tempfile.mkdtemp(), out=tempfile.mkdtemp(),
                                     budget=550, recorder=RECORDER, analyze=None, quick=True)
        cls.session = Session(options, Setup(options))
        setup = cls.session.setup
        if not setup.nccl or not setup.cudart or not setup.includes or setup.includes == [OWN_HEADERS]:
            raise unittest.SkipTest("no NCCL, CUDA runtime or headers of them here")
        includes = [word for folder in setup.includes for word in ("-isystem", folder)]
        search = [f"-Wl,-rpath-link,{folder}" for folder in setup.library_path().split(":")]
        cls.linked = cls.session.cxx(os.path.join(options.work, "real_calls"), [
            *includes, os.path.join(HERE, "real_calls.cpp"), setup.nccl, setup.cudart, *search, "-ldl", "-pthread"])
        cls.session.built["ring_print"] = cls.session.compile_ring_print()
        if not setup.stub:
            raise unittest.SkipTest("there is a driver: run.py measures here")
        # The real runtime finds this driver, looks up functions in it, and rejects it, because some functions that no CUDA header declares are missing.
        cls.driver = os.path.join(options.work, "driver")
        os.makedirs(cls.driver)
        os.symlink(os.path.join(os.path.realpath(STANDIN), "lib", "libcuda.so.1"), os.path.join(cls.driver, "libcuda.so.1"))

    @classmethod
    def tearDownClass(cls):
        cls.session.close()
        shutil.rmtree(cls.session.options.work, ignore_errors=True)
        shutil.rmtree(cls.session.out, ignore_errors=True)

    def call(self, by_hand, driver, **env):
        setup = self.session.setup
        env = setup.environment(**env)
        if driver:
            env["LD_LIBRARY_PATH"] = self.driver + ":" + env["LD_LIBRARY_PATH"]
        command = [self.linked] + ([setup.nccl, setup.cudart] if by_hand else [])
        done = run(command, env, 200)
        self.assertEqual(done.status, 0, done.why())
        self.assertIn("ncclCommInitRank: 1", done.out)
        return done.out, done.err

    def compare(self, by_hand, driver, **env):
        bare = self.call(by_hand, driver)
        folder = self.session.ring_folder()
        recorded = self.call(by_hand, driver, LD_PRELOAD=RECORDER, LOCKSTEP_DIR=folder, **env)
        self.assertEqual(recorded, bare)
        return self.session.read_rings(folder)

    def check_ring(self, rings):
        self.assertEqual(len(rings), 1)
        ring = rings[0]
        self.assertTrue(ring["clean"])
        self.assertGreater(ring["nccl"], 20000)
        kinds = ring["kinds"]
        # The main thread and a second thread each make these calls, and all fail.
        self.assertEqual((kinds.get("CommInitRank"), kinds.get("CommInitRankConfig"), kinds.get("CommInitAll")), (8, 2, 2))
        self.assertEqual(set(ring["issued"]), {0})

    def test_linked_functions_are_recorded_and_answer_as_before(self):
        for mode in ("off", "done", "full", "events", "profiler", "auto"):
            with self.subTest(mode=mode):
                self.check_ring(self.compare(False, False, LOCKSTEP_GPU=mode))

    def test_functions_looked_up_by_the_program_answer_as_before(self):
        self.check_ring(self.compare(True, False, LOCKSTEP_HOOK="dlsym"))
        self.compare(True, False, LOCKSTEP_HOOK="symbols")
        self.compare(True, False, LOCKSTEP_HOOK="off")

    def test_a_driver_that_the_runtime_searches_answers_as_before(self):
        for hook in ("dlsym", "symbols", "off"):
            with self.subTest(hook=hook):
                self.compare(False, True, LOCKSTEP_HOOK=hook)
                self.compare(True, True, LOCKSTEP_HOOK=hook)

    def test_the_runtime_gets_the_driver_through_cu_get_proc_address(self):
        """Checks an assumption of the recorder's driver hook: every runtime gets cuGetProcAddress from dlsym, and all other driver functions from
        cuGetProcAddress."""
        lookups = self.session.compile_lookups()
        listed = os.path.join(self.session.work, "lookups.txt")
        self.call(False, True, LD_PRELOAD=lookups, LOOKUPS_FILE=listed)
        with open(listed, encoding="utf-8") as file:
            lines = [line.split() for line in file]
        asked = {(words[1], words[2]): set() for words in lines if len(words) == 3}
        for words in lines:
            if len(words) == 3:
                asked[(words[1], words[2])].add(words[0])
        libraries = (os.path.basename(self.session.setup.cudart), "libnccl.so.2")
        for library in libraries:
            self.assertIn("cuGetProcAddress_v2", asked.get(("dlsym", library), ()), asked.keys())
            through = asked.get(("cuGetProcAddress", library), set())
            self.assertTrue({"cuStreamSynchronize", "cuGraphLaunch", "cuStreamWaitEvent", "cuEventRecord"} <= through, sorted(through))

    def test_switched_off_nothing_is_recorded(self):
        self.assertEqual(self.compare(False, False, LOCKSTEP="0"), [])


if __name__ == "__main__":
    if not RECORDER:
        sys.exit(__doc__)
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    sys.exit(77 if result.skipped and not result.testsRun else 0 if result.wasSuccessful() else 1)
