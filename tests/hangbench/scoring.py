"""Grades answers by comparing them with truths."""

SET = 4  # maximum number of ranks in an honest set
SURE = 0.9  # a set with this confidence is wrong if it contains innocent ranks
GRADES = ("right", "set", "part", "wide", "open", "silent", "wrong", "false alarm", "no answer")


def grade(truth, answer):
    """Returns the grade of an answer.
    right: exactly the culprits, or nobody if nobody is at fault. set: the culprits among at most four ranks.
    part: only some of the culprits. wide: the culprits among more than four ranks.
    open: the form cannot identify the culprit, and the answer blames nobody with confidence.
    silent: the answer names nobody although the form identifies the culprit.
    wrong: innocent ranks, or a set stated with confidence. false alarm: a rank of a healthy job.
    no answer: the program failed or exceeded the time limit."""
    if answer.error:
        return "no answer"
    named, culprits = set(answer.ranks), set(truth["culprits"])
    if not culprits:
        return "false alarm" if named else "right"
    if named == culprits or sorted(named) in truth["accept"]:
        return "right"
    if not truth["identifiable"] and (not named or len(named) == truth["ranks"] or (answer.sure is not None and answer.sure <= 0.6)):
        return "open"
    if not named:
        return "silent"
    if not culprits <= named:
        return "part" if named < culprits else "wrong"
    if len(named) > SET:
        return "open" if not truth["identifiable"] else "wide"
    return "wrong" if answer.sure is not None and answer.sure >= SURE else "set"


GOOD = ("right", "set", "open")


def share(grades, which):
    return 100.0 * sum(one in which for one in grades) / max(len(grades), 1)


def bands(results):
    """Returns (lowest and highest confidence, findings, share that named the culprits) for each band of stated confidence."""
    rows = []
    for low, high in ((0.0, 0.4), (0.4, 0.6), (0.6, 0.75), (0.75, 0.9), (0.9, 1.01)):
        inside = [one for one, sure in results if sure is not None and low <= sure < high and one in GRADES[:4] + ("wrong", "false alarm")]
        if inside:
            rows.append((low, min(high, 1.0), len(inside), share(inside, GRADES[:4])))
    return rows
