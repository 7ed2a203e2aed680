"""Compares the analyzer's verdict on a case with the truth, which was written before. A truth is the truth.json of `lockstep-corpus generate`. A verdict
is the JSON of `lockstep analyze`. The rules read only these two and know no scenario."""

# First findings with at least this confidence must be right nine times in ten. Later findings with it must not blame a wrong rank.
SURE = 0.9
SMALL_SET = 2  # number of ranks that a good abstention may name if they share no host and no switch


def _truths(truth):
    """Returns the one or two independent faults of a case."""
    second = truth.get("second_fault")
    if not isinstance(second, dict) or not second:
        return [truth]
    return [truth, {**second, "ranks": truth.get("ranks", 0), "unseen_ranks": truth.get("unseen_ranks")}]


def identifiable(truth):
    """Returns whether the recording identifies a culprit; with two faults, at least one of them."""
    return any(each.get("identifiable", True) for each in _truths(truth))


def _hosts(finding):
    return {culprit.get("host", "") for culprit in finding.get("culprits") or []}


def culprit_is_right(finding, truth):
    """Returns whether a finding names exactly the culprits, exactly a set that the truth allows, or exactly the faulty host."""
    named = set(finding.get("culprit_ranks") or [])
    if named == set(truth.get("culprit_ranks") or []) and named:
        return True
    if named and any(named == set(allowed) for allowed in truth.get("set_allowed") or []):
        return True
    # If one rank of a host is the culprit, it is too broad to name the host.
    hosts = set(truth.get("culprit_hosts") or [])
    if not hosts or not named or not truth.get("host_is_culprit", not truth.get("culprit_ranks")):
        return False
    if _hosts(finding) != hosts:
        return False
    factor = finding.get("common_factor") or {}
    if len(hosts) == 1 and factor.get("kind") == "host" and factor.get("name") in hosts:
        return True
    # The ranks must be on the right hosts and include all culprits: a host's slowest rank does not stand for the host.
    return set(truth.get("culprit_ranks") or []) <= named


def abstained_well(finding, truth):
    """Returns whether the named set contains the culprits and is limited to two ranks, one host or one switch."""
    named = set(finding.get("culprit_ranks") or [])
    wanted = set(truth.get("culprit_ranks") or [])
    if not named or not wanted or not wanted <= named:
        return False
    if len(named) <= SMALL_SET:
        return True
    # A host or switch is only informative if it has at most a quarter of the ranks.
    if len(named) * 4 > truth.get("ranks", 0):
        return False
    hosts = _hosts(finding)
    if len(hosts) == 1 and "" not in hosts:
        return True
    factor = finding.get("common_factor") or {}
    return factor.get("kind") in ("host", "switch", "rack", "rail") and factor.get("culprits") == len(named)


def _holds(finding, truth):
    """Returns whether the finding reports only unseen ranks, or has low confidence, the right kind, and a set that contains the culprits."""
    wanted = set(truth.get("culprit_ranks") or [])
    if says_unseen(finding, truth):
        return True
    return bool(wanted) and wanted <= set(finding.get("culprit_ranks") or []) and kind_is_right(finding, truth) and \
        finding.get("confidence", 0) < SURE


def says_unseen(finding, truth):
    """Returns whether the finding only reports ranks without data that other ranks wait for. That is the right answer if the recording does not identify
    the culprit."""
    named = set(finding.get("culprit_ranks") or [])
    return not truth.get("identifiable", True) and finding.get("kind") == "RANK_NO_DATA" and finding.get("confidence", 0) < SURE and \
        bool(named) and named <= set(truth.get("unseen_ranks") or [])


def kind_is_right(finding, truth):
    kinds = truth.get("kinds_allowed") or []
    return not kinds or finding.get("kind") in kinds


def _blames_wrongly(finding, truths):
    """Returns whether the finding names a rank that is no culprit of any fault, and is neither a permitted set nor a good abstention. Members of a
    permitted set count as culprits only together with a true culprit."""
    if any(culprit_is_right(finding, truth) or abstained_well(finding, truth) or says_unseen(finding, truth) for truth in truths):
        return False
    named = set(finding.get("culprit_ranks") or [])
    culprits = set().union(*(set(truth.get("culprit_ranks") or []) for truth in truths))
    if named and culprits and not named & culprits:
        return True
    return bool(named - culprits.union(*(allowed for truth in truths for allowed in truth.get("set_allowed") or [])))


def _names_a_set(finding):
    """Returns whether the finding names several ranks without a common factor."""
    return len(finding.get("culprit_ranks") or []) > 1 and not (finding.get("common_factor") or {}).get("kind")


def activity_is_right(finding, truth):
    """Returns whether the culprit's activity and movement are right; None if the truth states neither."""
    wanted = [(truth.get("activity_allowed"), finding.get("activity")), (truth.get("moving_allowed"), finding.get("moving"))]
    wanted = [(allowed, given) for allowed, given in wanted if allowed]
    return all(given in allowed for allowed, given in wanted) if wanted else None


def score(truth, verdict):
    """The marks of one case, as a dict:

    outcome   right: culprits and kind are right; kind: only the culprits are; set: a good abstention; silent: nobody is named, and
              the record shows nothing; wide: a set too large for an abstention contains the truth; missed: nobody is named;
              partial: only some culprits are named; blame: a healthy rank is named
    right_culprit, right_kind, false_blame, abstained_well: bool
    activity_right  for the finding that names the culprits; None if the truth states no activity or no finding names the culprits
    sets, no_hint  findings under 0.9 that name several ranks; those that do not say what would tell the ranks apart
    blame_behind  whether a later finding is confident and blames a healthy rank
    second_found  None unless the record shows two faults, otherwise whether the findings name both
    verdict_right whether the truth allows the verdict's word
    findings  (confidence, right) for each finding, for the calibration
    """
    findings = verdict.get("findings") or []
    allowed = truth.get("verdicts_allowed") or []
    marks = {"right_culprit": False, "right_kind": False, "false_blame": False, "abstained_well": False, "blame_behind": False,
             "second_found": None, "verdict_right": not allowed or verdict.get("verdict") in allowed, "findings": [],
             "activity_right": None}
    sets = [finding for finding in findings if _names_a_set(finding) and finding.get("confidence", 0) < SURE]
    marks["sets"] = len(sets)
    marks["no_hint"] = sum(not finding.get("tells_apart") for finding in sets)
    if truth.get("healthy"):
        marks["false_blame"] = bool(findings)
        good = not findings
        marks["right_culprit"] = marks["right_kind"] = good and marks["verdict_right"]
        marks["outcome"] = "blame" if findings else ("right" if marks["verdict_right"] else "kind")
        marks["findings"] = [(finding.get("confidence", 0), False) for finding in findings]
        return marks

    truths = _truths(truth)
    both = set().union(*(set(each.get("culprit_ranks") or []) for each in truths))
    for finding in findings:
        # A finding with high confidence is no abstention.
        sure = finding.get("confidence", 0) >= SURE
        good = any((culprit_is_right(finding, each) or (not sure and abstained_well(finding, each))) and kind_is_right(finding, each)
                   for each in truths)
        # Two faults that look the same may be one finding.
        good = good or (len(truths) > 1 and set(finding.get("culprit_ranks") or []) == both and any(kind_is_right(finding, each) for each in truths))
        marks["findings"].append((finding.get("confidence", 0), good))
    # If one fault hides the other in every recording, nothing can find the other.
    if len(truths) > 1 and all(each.get("identifiable", True) for each in truths):
        marks["second_found"] = all(
            any(culprit_is_right(finding, each) or abstained_well(finding, each) for finding in findings) or
            # Two faults of one kind may be one finding that names both ranks and no other rank.
            any(set(finding.get("culprit_ranks") or []) == both for finding in findings)
            for each in truths)
    marks["blame_behind"] = any(finding.get("confidence", 0) >= SURE and _blames_wrongly(finding, truths) for finding in findings[1:])
    if not findings:
        marks["outcome"] = "missed"
        # If the recording shows nothing, no finding is the right answer.
        if not identifiable(truth) and marks["verdict_right"]:
            marks["outcome"] = "silent"
        return marks
    first = findings[0]
    together = {"culprit_ranks": sorted(both)}
    candidates = truths + ([together] if len(truths) > 1 else [])
    right = next((each for each in candidates if culprit_is_right(first, each)), None)
    marks["right_culprit"] = right is not None
    marks["right_kind"] = any(kind_is_right(first, each) for each in ([right] if right not in (None, together) else truths))
    if right is truth:
        marks["activity_right"] = activity_is_right(first, truth)
    wide = False
    if right is None:
        marks["abstained_well"] = any(abstained_well(first, each) for each in truths)
        wide = not marks["abstained_well"] and any(_holds(first, each) for each in truths if not each.get("identifiable", True))
        marks["false_blame"] = not marks["abstained_well"] and not wide and _blames_wrongly(first, truths)
        # If the recording hides one of two faults, the right answer is an uncertain set that contains the hidden culprit, followed by a finding that names
        # the other culprit.
        hidden = [each for each in truths if not each.get("identifiable", True)]
        if len(hidden) == 1 and len(truths) == 2 and len(findings) > 1 and (abstained_well(first, hidden[0]) or _holds(first, hidden[0])):
            other = next(each for each in truths if each is not hidden[0])
            if culprit_is_right(findings[1], other):
                marks["right_culprit"], marks["false_blame"], right = True, False, other
                marks["right_kind"] = kind_is_right(findings[1], other)
    marks["right_kind"] = marks["right_kind"] and (right is not None or marks["abstained_well"])
    if right is not None:
        marks["outcome"] = "right" if marks["right_kind"] else "kind"
    elif marks["abstained_well"]:
        marks["outcome"] = "set"
    elif wide:
        marks["outcome"] = "wide"
    elif marks["false_blame"]:
        marks["outcome"] = "blame"
    else:
        marks["outcome"] = "partial" if first.get("culprit_ranks") else "missed"
    return marks


def graded(truth, verdict, framework):
    """Returns [[grade, reason, several, framework, confidence, right]] for the findings. `right`: the finding names the culprits, or a set that contains
    them."""
    truths = [] if truth.get("healthy") else _truths(truth)
    rows = []
    for finding in verdict.get("findings") or []:
        named = finding.get("culprit_ranks") or []
        right = any(culprit_is_right(finding, each) or bool(each.get("culprit_ranks")) and set(each["culprit_ranks"]) <= set(named)
                    for each in truths)
        rows.append([finding.get("grade", "UNSPECIFIED"), finding.get("reason", "UNSPECIFIED"), len(named) > 1, framework,
                     finding.get("confidence", 0), right])
    return rows


def calibration(scores, edges=(0.0, 0.5, 0.7, 0.8, 0.9, 0.95)):
    """Returns [(low, high, findings, right)] for all findings of all cases."""
    bins = [[low, high, 0, 0] for low, high in zip(edges, edges[1:] + (1.0000001,))]
    for marks in scores:
        for confidence, right in marks["findings"]:
            for each in bins:
                if each[0] <= confidence < each[1]:
                    each[2] += 1
                    each[3] += bool(right)
    return [tuple(each) for each in bins]
