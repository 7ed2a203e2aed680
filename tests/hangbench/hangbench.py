#!/usr/bin/env python3
"""HangBench: which program names the rank that hangs a training job?

    hangbench.py run [--seed N | --secret TEXT] [--count N] [--reports N] [--peers] [--corpus] [--out FOLDER]
    hangbench.py make FOLDER [--seed N] [--count N] [--reports N]     make only the cases, each with its truth.json
    hangbench.py seal TEXT                              print what to publish before a run with that secret

Cases come from a simulator of training jobs (simulate.py, jobs.py, faults.py), in the forms of forms.py. With --corpus, they also come from
lockstep-corpus (rings of Lockstep's own recorder, and dumps), and with --reports from reports.py, which rebuilds public reports. Readers are Lockstep and,
with --peers, torchfrtrace and nvrx from PyPI. `run` writes results.jsonl, index.html and hangbench.md into the folder."""

import argparse
import hashlib
import hmac
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "outside")]
import faults  # noqa: E402
import forms  # noqa: E402
import jobs  # noqa: E402
import page  # noqa: E402
import readers  # noqa: E402
import reports  # noqa: E402
import scoring  # noqa: E402
import simulate  # noqa: E402

LICENCE = "Apache-2.0"
CORPUS_FORMS = {"lsd": "own record", "fr": "pickle"}


def seed_of(options, index):
    """Returns the seed of a case. Nobody knows the cases of a secret before it is published; then everyone can generate them."""
    if options.secret is None:
        return options.seed * 1_000_003 + index
    return int.from_bytes(hmac.new(options.secret.encode(), str(index).encode(), hashlib.sha256).digest()[:6], "big")


def simulated(options):
    """Yields (name, truth, write) of each case; `write` fills a folder."""
    made, index = 0, 0
    while made < options.count:
        seed = seed_of(options, index)
        index += 1
        choose = random.Random(seed)
        family, fault = choose.choice(sorted(jobs.FAMILIES)), choose.choice(faults.FAULTS)
        job = jobs.make(family, seed)
        truth = faults.break_job(job, fault, seed)
        if truth is None:
            continue
        truth["lost"] = None
        if choose.random() < 0.2:  # often the lost file is the culprit's
            truth["lost"] = choose.choice(truth["culprits"] or range(job.ranks)) if choose.random() < 0.5 else choose.randrange(job.ranks)
        simulation = simulate.Simulation(job, seed, truth["lost"])
        if (fault != "none") == all(ended == "done" for ended in simulation.ended):
            continue  # the change causes no hang
        made += 1
        # A healthy job has no watchdog output.
        fitting = [form for form in sorted(forms.WRITERS) if truth["culprits"] or form != "watchdog log"]
        for form in fitting if options.all_forms else [choose.choice(fitting)]:
            about = dict(truth, family=family, form=form, ranks=job.ranks, seed=seed, licence=LICENCE,
                         provenance="simulated by tests/hangbench", tells=sorted(forms.TELLS[form]),
                         identifiable=not truth["culprits"] or forms.identifiable(truth, form, simulation))
            name = "%s-%s-%s-%d" % (family, fault, form, seed)
            yield name.replace(", ", "-").replace(" ", "-"), about, lambda folder, s=simulation, f=form: forms.WRITERS[f](s, folder)


def from_corpus(options):
    """Yields cases of lockstep-corpus, the project's own generator: one for each scenario and form."""
    program = os.path.join(options.build, "bin/lockstep-corpus")
    listed = json.loads(subprocess.run([program, "list", "--json"], capture_output=True, text=True, check=True).stdout)
    for entry in listed["scenarios"] if isinstance(listed, dict) else listed:
        number = int(entry.get("scenario", entry.get("number", 0)))
        for form, called in CORPUS_FORMS.items():
            with tempfile.TemporaryDirectory(prefix="hangbench-") as folder:
                command = [program, "generate", "--scenario", str(number), "--ranks", "8", "--seed", str(seed_of(options, number) % 2**31),
                           "--format", form, "--marks", "done", "--variant", "plain", "--out", folder]
                if subprocess.run(command, capture_output=True).returncode != 0:
                    continue  # the scenario does not exist in this form
                with open(os.path.join(folder, "truth.json")) as file:
                    truth = json.load(file)
                culprits = sorted(truth["culprit_ranks"])
                if culprits and not {"HUNG", "DESYNC", "CRASHED"} & set(truth["verdicts_allowed"]):
                    continue  # slow, not hung
                accept = truth["set_allowed"]
                if "second_fault" in truth:  # either fault, or both, is a right answer
                    other = sorted(truth["second_fault"]["culprit_ranks"])
                    accept = accept + [other, sorted(culprits + other)]
                about = {"fault": entry.get("name", str(number)), "culprits": culprits, "accept": accept, "family": "corpus",
                         "form": called, "ranks": 8, "seed": number, "licence": LICENCE, "provenance": "lockstep-corpus", "lost": None,
                         "identifiable": truth["identifiable"]}
                data = os.path.join(folder, "data")
                yield "corpus-%d-%s" % (number, form), about, lambda into, of=data: shutil.copytree(of, into, dirs_exist_ok=True)


def from_reports(options):
    """Yields cases of each rebuilt public report."""
    for number, name in enumerate(sorted(reports.REPORTS)):
        for index in range(options.reports):
            seed = seed_of(options, 1_000 * index + number)
            truth, files = reports.make(name, seed)
            yield "report-%s-%d" % (name, seed), truth, lambda folder, of=files: reports.write(of, folder)


def peers(options):
    """Returns the other readers that can be installed here, and the reasons why others cannot."""
    import support
    import torch_gloo
    outside = support.Outside(options.packages, options.build, False)
    found, missing = [], {}
    try:
        python = outside.install("torch", "numpy", "tabulate", check="import torch.distributed, tabulate")
        found.append(readers.Torch(python))
        folder = outside.wheel("nvidia-resiliency-ext", torch_gloo.NVRX_VERSION, *torch_gloo.NVRX_WHEEL)
        found.append(readers.Nvrx(python, folder, torch_gloo.NVRX_VERSION))
    except support.Skip as skip:
        missing = {name: str(skip) for name in ("torchfrtrace", "nvrx") if name not in {reader.name for reader in found}}
    outside.close()
    return found, missing


def run(options):
    os.makedirs(options.out, exist_ok=True)
    asked, missing = [readers.Lockstep(options.build), readers.RasRule()], {"torchfrtrace": "not run", "nvrx": "not run"}
    if options.peers:
        more, missing = peers(options)
        asked += more
    results, digest = [], hashlib.sha256()
    sources = [simulated(options), from_reports(options)] + ([from_corpus(options)] if options.corpus else [])
    with open(os.path.join(options.out, "results.jsonl"), "w") as log:
        for source in sources:
            for name, truth, write in source:
                with tempfile.TemporaryDirectory(prefix="hangbench-") as folder:
                    write(folder)
                    for file in sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file()):
                        digest.update(str(file.relative_to(folder)).encode() + file.read_bytes())
                    for reader in asked:
                        if reader.forms is not None and truth["form"] not in reader.forms:
                            continue
                        answer = reader.read(folder, truth["form"])
                        results.append(dict(case=name, reader=reader.name, grade=scoring.grade(truth, answer), truth=truth, **answer._asdict()))
                        log.write(json.dumps(results[-1]) + "\n")
                        if options.verbose and results[-1]["grade"] not in scoring.GOOD:
                            print("%-12s %-11s %s: %s, at fault %s, accused %s %s" % (results[-1]["grade"], reader.name, name, answer.kind,
                                  truth["culprits"], list(answer.ranks), answer.error), flush=True)
                progress(options, len({result["case"] for result in results}))
    about = {"seed": options.seed if options.secret is None else "sha256 of the secret: " + seal(options.secret), "count": options.count,
             "digest": digest.hexdigest()[:32], "versions": {reader.name: reader.version for reader in asked}, "missing": missing}
    for name, text in (("index.html", page.html(results, about)), ("hangbench.md", page.markdown(results, about))):
        with open(os.path.join(options.out, name), "w") as file:
            file.write(text)
    print(page.markdown(results, about), end="")
    own = [result["grade"] for result in results if result["reader"] == "Lockstep"]
    return 1 if scoring.share(own, ("wrong", "false alarm", "no answer")) > 1 else 0


def progress(options, done):
    if sys.stderr.isatty():
        print("\r%d cases" % done, end="", file=sys.stderr, flush=True)


def make(options):
    for name, truth, write in itertools.chain(simulated(options), from_reports(options)):
        folder = os.path.join(options.folder, name)
        os.makedirs(os.path.join(folder, "in"))
        write(os.path.join(folder, "in"))
        with open(os.path.join(folder, "truth.json"), "w") as file:
            json.dump(truth, file, indent=1)
    return 0


def seal(secret):
    return hashlib.sha256(secret.encode()).hexdigest()


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--seed", type=int, default=1, help="seed of the first case (1)")
    shared.add_argument("--secret", help="a text to use instead of a seed; its `seal` was published before")
    shared.add_argument("--count", type=int, default=200, help="number of jobs, broken and healthy (200)")
    shared.add_argument("--reports", type=int, default=0, help="number of cases of each rebuilt public report (0)")
    shared.add_argument("--all-forms", action="store_true", help="write each job in every form instead of one")
    one = verbs.add_parser("run", parents=[shared], help="ask each reader and score its answers")
    one.add_argument("--build", default=str(SOURCE / "build"), help="build folder")
    one.add_argument("--out", default="hangbench", help="folder for the results (hangbench)")
    one.add_argument("--peers", action="store_true", help="also ask torchfrtrace and nvrx, from PyPI")
    one.add_argument("--packages", default=os.path.expanduser("~/.cache/lockstep-outside"), help="folder for packages from PyPI")
    one.add_argument("--corpus", action="store_true", help="also use cases of lockstep-corpus")
    one.add_argument("--verbose", action="store_true", help="print a line for each answer that is not good")
    one.set_defaults(do=run)
    two = verbs.add_parser("make", parents=[shared], help="write the cases")
    two.add_argument("folder")
    two.set_defaults(do=make)
    three = verbs.add_parser("seal", help="print what to publish")
    three.add_argument("secret")
    three.set_defaults(do=lambda options: print(seal(options.secret)) or 0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parse(sys.argv[1:])
    sys.exit(chosen.do(chosen))
