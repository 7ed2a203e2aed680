#!/usr/bin/env python3
"""Every promise of docs/security.md has a test that fails where it is not kept. A sentence is named by its beginning; a sentence that is
neither here nor among those that promise nothing fails this test, and so does a test that is not there any more."""

import os
import re
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "docs/security.md"

# Beginning of a sentence -> FILE:TEST...
PROMISES = {
    # The table of parts, a row each.
    "liblockstep.so": ("recorder/testing/hostile_test.cpp:LimitsOfTheProcess", "recorder/base/config_test.cpp:ConfigTest"),
    "`lockstep run`": ("tests/integration/run_test.py:test_a_group_may_read_the_incident",),
    "agent | root": ("tests/integration/host_test.py:test_an_agent_alone_answers_its_own_user_and_says_so",),
    "collector, relay": ("tests/integration/access_test.py:test_without_options_collector_agent_and_tools_of_a_user_meet_on_a_socket",),
    "analyze, view, export": ("analyzer/load/load_test.cpp:LinksBelowAPathAreNotFollowed",),
    "Recording and analysis need no more": ("tests/integration/run_test.py:test_healthy",),
    "Agents for other users' jobs": ("tests/integration/refusal_test.py:test_another_user",),
    "The systemd units": ("tests/integration/units_test.py:test_agent_relay_and_collector_find_a_hang_with_stacks",),
    # What is recorded.
    "Of suspects also stacks": ("collector/service/core_test.cpp:EvidenceIsAskedOfTheCulpritAndFewOthers",),
    "Never tensor contents": ("tests/integration/redact_test.py:test_run",),
    # Redaction.
    "The agent, `run`, `attach` and `evidence` redact": ("tests/integration/redact_test.py:test_agent_and_collector",
                                                         "tests/integration/redact_test.py:test_an_agent_alone"),
    "`analyze`, `export` and `archive` redact": ("analyzer/evidence/redact_test.cpp:BundleAndItsReportLine",),
    "`no`": ("analyzer/evidence/redact_test.cpp:WhatIsPublicStays",),
    "`paths`": ("analyzer/evidence/redact_test.cpp:PathsBecomeHashAndLastPart",),
    "`stacks`": ("analyzer/evidence/redact_test.cpp:EveryFieldIsClassified",),
    "The digits are a keyed hash": ("analyzer/evidence/redact_test.cpp:PathsBecomeHashAndLastPart",),
    "Words that show an activity": ("analyzer/evidence/redact_test.cpp:ActivityIsFoundAsBefore",),
    "The key is `redact.key`": ("analyzer/evidence/redact_test.cpp:TheKeyIsASitesOrMadeUp",),
    "It is in `$LOCKSTEP_KEYS`": ("analyzer/evidence/redact_test.cpp:TheKeyIsASitesOrMadeUp",),
    "Without it an agent": ("analyzer/evidence/redact_test.cpp:TheKeyIsASitesOrMadeUp",),
    "`manifest.json` and the report": ("analyzer/evidence/redact_test.cpp:BundleAndItsReportLine",),
    # On one host.
    "A ring belongs to its user": ("recorder/base/config_test.cpp:TheFileCountsAndTheEnvironmentMore",),
    "An agent reads it as untrusted": ("collector/agent/host_source_test.cpp:ARingThatNamesAnotherProcessIsNotBelieved",),
    "Paths are resolved inside": ("collector/rings/finder_test.cpp:RingsInsideAContainerAreFoundAndOutliveIt",),
    "A file is examined before": ("collector/rings/finder_test.cpp:WhatIsNoFileOfItsOwnerAloneIsRefused",),
    "It must be regular": ("collector/rings/finder_test.cpp:WhatIsNoFileOfItsOwnerAloneIsRefused",),
    "It is read with `pread`": ("recorder/ring/reader_test.cpp:HugeNumbersInEveryWordAreBounded",),
    "What a file costs": ("recorder/ring/reader_test.cpp:TablesThatLieOnEachOtherOverTheWholeFileAreBounded",
                          "recorder/ring/reader_test.cpp:AFileThatChangesWhileItIsReadDoesNoHarm"),
    "A user's rings get": ("collector/agent/host_source_test.cpp:ManyLargeRingsOfOneUserDoNotKeepTheAgentFromOthers",),
    "New rings, ends and requests": ("collector/agent/host_source_test.cpp:ManyLargeRingsOfOneUserDoNotKeepTheAgentFromOthers",),
    "128 MiB of what": ("collector/agent/host_source_test.cpp:ManyLargeRingsOfOneUserDoNotKeepTheAgentFromOthers",),
    "Saved rings of several users": ("collector/agent/spool_test.cpp:ManyRingsOfOneUserDisplaceNoneOfAnother",),
    "When the spool is full": ("collector/agent/spool_test.cpp:ManyRingsOfOneUserDisplaceNoneOfAnother",),
    "The process that a ring names": ("collector/agent/host_source_test.cpp:ARingThatNamesAnotherProcessIsNotBelieved",),
    "Job, generation, rank and process": ("collector/agent/host_source_test.cpp:ARingThatChangesWhoseItIsKeepsWhatItWas",),
    "An agent that is not root": ("collector/rings/finder_test.cpp:WhatIsNoFileOfItsOwnerAloneIsRefused",),
    "An agent holds at most": ("collector/agent/host_source_test.cpp:WhatIsNoRingAndWhatIsTooManyIsLeftAlone",),
    "Refused files are counted": ("collector/agent/host_source_test.cpp:WhatIsNoRingAndWhatIsTooManyIsLeftAlone",),
    "A user who can write a ring folder": ("recorder/base/switches_test.cpp:AFileThatAppearsStopsARunningProcess",),
    # Between hosts.
    "Without options a collector": ("tests/integration/access_test.py:test_without_options_collector_agent_and_tools_of_a_user_meet_on_a_socket",),
    "An `ipc://` socket": ("collector/wire/transport_test.cpp:ALocalSocketIsForItsUserAndRoot",
                           "tests/integration/access_test.py:test_without_options_collector_agent_and_tools_of_a_user_meet_on_a_socket"),
    "An agent without options": ("tests/integration/access_test.py:test_without_options_collector_agent_and_tools_of_a_user_meet_on_a_socket",),
    "On TCP nothing starts": ("tests/integration/access_test.py:test_on_ports_nothing_starts_without_keys_unless_that_is_said",),
    "`--insecure` together": ("collector/wire/keys_test.cpp:OnPortsNothingStartsWithoutKeys",),
    "CURVE (Curve25519)": ("collector/wire/security_test.cpp:PeersWithoutKeysAreRefused",),
    "`lockstep keygen --role ROLE": ("collector/wire/keys_test.cpp:NothingIsOverwritten", "collector/wire/keys_test.cpp:PairsComeBack"),
    "A secret file": ("collector/wire/keys_test.cpp:SecretsThatOthersMayReadAreRefused",
                      "tests/integration/access_test.py:test_a_key_that_others_may_read_is_refused"),
    "Roles belong to keys": ("collector/wire/security_test.cpp:RolesSendWhatIsTheirsAlone",),
    "agent | heartbeats": ("collector/wire/security_test.cpp:RolesSendWhatIsTheirsAlone",),
    "relay": ("collector/wire/security_test.cpp:RolesSendWhatIsTheirsAlone",),
    "operator": ("collector/service/core_test.cpp:DumpByHandIsForOperators",),
    "reader": ("collector/tools/top_test.cpp:AReaderLooksButTakesNoDump",),
    "collector |": ("collector/wire/security_test.cpp:RolesSendWhatIsTheirsAlone",),
    "Everything else is dropped": ("collector/wire/security_test.cpp:RolesSendWhatIsTheirsAlone",),
    "A tool with a key of another role": ("collector/wire/tool_client_test.cpp:OnPortsKeysAreNeededAndFound",),
    "An agent's key cannot": ("tests/integration/access_test.py:test_every_key_may_do_what_is_its_own",),
    "Neither can write outside": ("collector/incident/store_test.cpp:HostileChunksAreRefused",),
    "A connection may send": ("collector/wire/security_test.cpp:FloodsAreCutAndHonestPeersGoOn",
                              "collector/wire/security_test.cpp:BombsAreChargedByWhatTheyUnpackTo"),
    "A replayed connection": ("collector/wire/security_test.cpp:RecordedBytesReplayedAreRefused",),
    "A chunk that arrives twice": ("collector/incident/store_test.cpp:AnyOrderAndAnyRestartGivesTheSameFiles",),
    "Clients pin": ("collector/wire/security_test.cpp:AServerWithAnotherKeyIsNotSpokenTo",),
    "The collector admits": ("collector/wire/security_test.cpp:UnknownKeysAreRefusedAndCounted",),
    "That takes effect": ("collector/wire/security_test.cpp:KeysComeAndGoWhileTheServerRuns",),
    "On a host whose agent is root's": ("collector/common/runtime_folder_test.cpp:RootsWordIsForAllToReadAndNobodyElses",),
    "Their own key decides": ("tests/integration/host_test.py:test_a_reader_looks_and_an_operator_takes_dumps",),
    # Hostile input.
    "Rings, dumps, pickles": ("tests/fuzz/CMakeLists.txt:set(targets",),
    "The reader of Flight Recorder pickles": ("analyzer/formats/fr/pickle_test.cpp:CodeIsRefusedByNameAndPlace",),
    "Foreign processes are unwound": ("tests/integration/refusal_test.py:test_foreign_files_are_not_read_with_the_rights_of_root",),
    "Names from files cannot": ("analyzer/report/report_test.cpp:NoLineIsWiderThanAHundredColumnsAndNothingControlsTheTerminal",
                                "collector/common/say_test.cpp:NothingThatIsSaidControlsATerminal",
                                "analyzer/report/report_test.cpp:HtmlEscapesEveryNameAndLoadsNothing"),
    "No command follows": ("analyzer/load/load_test.cpp:LinksBelowAPathAreNotFollowed",),
    "Exported CSV files": ("analyzer/export/export_test.cpp:CsvHoldsNoFormulas",),
}

# Advice, explanations, and what is not promised.
REST = ("part |", "level |", "role |", "Sizes, kinds", "Treat an incident", "Set `redact`", "Make one with", "A holder of the key", "Never hidden",
        "In free text", "It can lie", "A relay's key can lie", "`collector.key` stays", "`agent.key` and", "To rotate", "The right to read the disk",
        "Memory limits of", "The traffic pattern", "The age of keys")


def sentences():
    """Rows of tables without the bars at their ends, and sentences of all else."""
    with open(os.path.join(SOURCE, PAGE)) as file:
        text = re.sub(r"```.*?```", "", file.read(), flags=re.S)
    blocks, found = [], []
    for line in text.splitlines():
        if line.startswith(("#", "| ---")) or not line.strip():
            blocks.append("")
        elif line.startswith("| "):
            found.append(line.strip("| "))
            blocks.append("")
        elif line.startswith("- "):
            blocks += [line[2:].strip()]
        elif blocks and blocks[-1]:
            blocks[-1] += " " + line.strip()
        else:
            blocks.append(line.strip())
    for block in blocks:
        found += [part for part in re.split(r"(?<=[.:]) (?=[A-Z`0-9])", block) if part]
    return found


class SecurityTest(unittest.TestCase):
    def test_every_sentence_promises_what_is_tested_or_nothing(self):
        starts = sorted([*PROMISES, *REST], key=len, reverse=True)
        used = set()
        for sentence in sentences():
            start = next((start for start in starts if sentence.startswith(start)), None)
            self.assertIsNotNone(start, f"{PAGE}: no test is named for: {sentence}")
            used.add(start)
        self.assertEqual(sorted(set(starts) - used), [], "sentences that are not on the page any more")

    def test_every_test_that_is_named_is_there(self):
        for start, tests in PROMISES.items():
            for test in tests:
                path, name = test.split(":", 1)
                with open(os.path.join(SOURCE, path)) as file:
                    self.assertIn(name, file.read(), f"{start}: {path}")


if __name__ == "__main__":
    unittest.main()
