#!/usr/bin/env python3
"""Checks that every promise of docs/security.md has a test. The first words of a sentence identify it. The test fails for a sentence that is in neither
list, and for a listed test that does not exist."""

import os
import re
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "docs/security.md"

# First words of a sentence -> FILE:TEST...
PROMISES = {
    # The rows of the table of parts.
    "liblockstep.so": ("recorder/testing/hostile_test.cpp:LimitsOfTheProcessAreHarmless", "recorder/base/config_test.cpp:ConfigTest"),
    "`lockstep run`": ("tests/integration/run_test.py:test_a_group_may_read_the_incident",),
    "agent | root": ("tests/integration/host_test.py:test_an_agent_alone_answers_only_its_own_user_and_says_so",),
    "collector, relay": ("tests/integration/access_test.py:test_a_users_programs_meet_on_a_socket_without_options",),
    "analyze, view, export": ("analyzer/formats/load/load_test.cpp:LinksBelowAPathAreNotFollowed",),
    "serve | the reader": ("analyzer/browser/serve/page_test.py:test_only_the_token_gives_access",),
    "Recording and analysis need no more": ("tests/integration/run_test.py:test_a_healthy_job_gives_a_healthy_verdict",),
    "Agents for other users' jobs": ("tests/integration/refusal_test.py:test_a_job_of_another_user_is_refused_with_advice",),
    "The systemd units": ("tests/integration/units_test.py:test_agent_relay_and_collector_find_a_hang_with_stacks",),
    # "What is recorded".
    "For suspects it also": ("collector/service/core/core_test.cpp:EvidenceIsRequestedForTheCulpritAndFewOthers",),
    "It never records tensor": ("tests/integration/redact_test.py:test_an_incident_of_run_is_redacted",),
    # "Redaction".
    "The agent, `run`, `attach` and `evidence` redact": ("tests/integration/redact_test.py:test_an_incident_of_agent_and_collector_is_redacted",
                                                         "tests/integration/redact_test.py:test_an_incident_of_an_agent_alone_is_redacted"),
    "`analyze`, `export` and `archive` redact": ("analyzer/evidence/redact_test.cpp:BundlesAreRedactedAndTheReportSaysSo",),
    "`no`": ("analyzer/evidence/redact_test.cpp:PublicNamesStay",),
    "`paths`": ("analyzer/evidence/redact_test.cpp:PathsBecomeHashAndLastPart",),
    "`stacks`": ("analyzer/evidence/redact_test.cpp:EveryFieldIsClassified",),
    "The digits are a keyed hash": ("analyzer/evidence/redact_test.cpp:PathsBecomeHashAndLastPart",),
    "Names from which the analyzer": ("analyzer/evidence/redact_test.cpp:TheSameActivityIsFound",),
    "The key is `redact.key`": ("analyzer/evidence/redact_test.cpp:TheSitesKeyIsUsedOrARandomOne",),
    "It is in `$LOCKSTEP_KEYS`": ("analyzer/evidence/redact_test.cpp:TheSitesKeyIsUsedOrARandomOne",),
    "Without it an agent": ("analyzer/evidence/redact_test.cpp:TheSitesKeyIsUsedOrARandomOne",),
    "`manifest.json` and the report": ("analyzer/evidence/redact_test.cpp:BundlesAreRedactedAndTheReportSaysSo",),
    # "On one host".
    "A ring belongs to its user": ("recorder/base/config_test.cpp:TheEnvironmentOverridesTheFile",),
    "An agent treats it as untrusted": ("collector/agent/host_source_test.cpp:ARingThatNamesAnotherProcessIsNotBelieved",),
    "Paths are resolved inside": ("collector/rings/finder_test.cpp:RingsInsideAContainerAreFoundAndSurviveIt",),
    "A file is examined before": ("collector/rings/finder_test.cpp:OnlyPrivateRegularFilesAreAccepted",),
    "It must be a regular file": ("collector/rings/finder_test.cpp:OnlyPrivateRegularFilesAreAccepted",),
    "It is read with `pread`": ("recorder/ring/reader_test.cpp:HugeNumbersInEveryWordAreBounded",),
    "The cost of reading a file": ("recorder/ring/reader_test.cpp:OverlappingTablesOverTheWholeFileAreBounded",
                          "recorder/ring/reader_test.cpp:AFileThatChangesWhileItIsReadIsHarmless"),
    "A user's rings get": ("collector/agent/host_source_test.cpp:ManyLargeRingsOfOneUserDoNotDelayOtherUsersRings",),
    "The user's new rings, exits and requests get at most half": ("collector/agent/host_source_test.cpp:ManyLargeRingsOfOneUserDoNotDelayOtherUsersRings",),
    "At most 128 MiB": ("collector/agent/host_source_test.cpp:ManyLargeRingsOfOneUserDoNotDelayOtherUsersRings",),
    "Saved rings of several users": ("collector/agent/spool_test.cpp:ManyRingsOfOneUserDisplaceNoneOfAnother",),
    "When the spool is full": ("collector/agent/spool_test.cpp:ManyRingsOfOneUserDisplaceNoneOfAnother",),
    "The process that a ring names": ("collector/agent/host_source_test.cpp:ARingThatNamesAnotherProcessIsNotBelieved",),
    "Job, generation, rank and process": ("collector/agent/host_source_test.cpp:ARingThatChangesItsOwnerKeepsTheFirst",),
    "An agent that is not root": ("collector/rings/finder_test.cpp:OnlyPrivateRegularFilesAreAccepted",),
    "An agent holds at most": ("collector/agent/host_source_test.cpp:InvalidAndTooManyRingsAreIgnored",),
    "Refused files are counted": ("collector/agent/host_source_test.cpp:InvalidAndTooManyRingsAreIgnored",),
    "`lockstep attach` opens PyTorch's": ("collector/tools/attach/torch_dumps_test.cpp:OnlyFilesThatTheJobsUserMayUseAreTouched",
                                          "collector/tools/attach/torch_dumps_test.cpp:InvalidPipesAndDumpsAreSkipped"),
    "A user who can write to a ring folder": ("recorder/base/switches_test.cpp:AStopFileThatAppearsStopsARunningProcess",),
    # "Between hosts".
    "Without options a collector": ("tests/integration/access_test.py:test_a_users_programs_meet_on_a_socket_without_options",),
    "An `ipc://` socket": ("collector/wire/transport_test.cpp:ALocalSocketAcceptsOnlyItsUserAndRoot",
                           "tests/integration/access_test.py:test_a_users_programs_meet_on_a_socket_without_options"),
    "An agent without options": ("tests/integration/access_test.py:test_a_users_programs_meet_on_a_socket_without_options",),
    "On TCP, even on loopback, nothing starts": ("tests/integration/access_test.py:test_nothing_listens_on_a_port_without_keys_unless_the_user_asks",),
    "`--insecure` together": ("collector/wire/keys_test.cpp:NothingStartsOnPortsWithoutKeys",),
    "CURVE (Curve25519)": ("collector/wire/security_test.cpp:PeersWithoutKeysAreRefused",),
    "`lockstep keygen --role ROLE": ("collector/wire/keys_test.cpp:NoKeyIsOverwritten", "collector/wire/keys_test.cpp:PairsAreReadBack"),
    "A secret file": ("collector/wire/keys_test.cpp:SecretsThatOthersCanReadAreRefused",
                      "tests/integration/access_test.py:test_a_key_that_others_may_read_is_refused"),
    "The key, not the message, determines the role": ("collector/wire/security_test.cpp:RolesMaySendOnlyTheirOwnMessages",),
    "agent | heartbeats": ("collector/wire/security_test.cpp:RolesMaySendOnlyTheirOwnMessages",),
    "relay": ("collector/wire/security_test.cpp:RolesMaySendOnlyTheirOwnMessages",),
    "operator": ("collector/service/core/core_test.cpp:AManualDumpIsOnlyForOperators",),
    "reader": ("collector/tools/top_test.cpp:AReaderMayViewButNotTakeADump",),
    "collector |": ("collector/wire/security_test.cpp:RolesMaySendOnlyTheirOwnMessages",),
    "Everything else is dropped": ("collector/wire/security_test.cpp:RolesMaySendOnlyTheirOwnMessages",),
    "A tool refuses to start with": ("collector/wire/tool_client_test.cpp:OnPortsKeysAreRequiredAndFound",),
    "Only an operator can have agents": ("tests/integration/examine_test.py:test_agents_examine_a_job_for_an_operator_and_for_nobody_else",
                                    "collector/service/core/core_test.cpp:AnExaminationIsForOneOperatorAtATimeAndLogged"),
    "An agent's key cannot": ("tests/integration/access_test.py:test_every_key_allows_only_what_its_role_permits",),
    "Neither can write outside": ("collector/incident/store_test.cpp:HostileChunksAreRefused",),
    "A connection may send": ("collector/wire/security_test.cpp:FloodsAreCutAndHonestPeersContinue",
                              "collector/wire/security_test.cpp:CompressedMessagesCountWithTheirUnpackedSize"),
    "A replayed connection": ("collector/wire/security_test.cpp:ReplayedBytesAreRefused",),
    "A chunk that arrives twice": ("collector/incident/store_test.cpp:AnyOrderAndAnyRestartGivesTheSameFiles",),
    "Clients pin": ("collector/wire/security_test.cpp:AServerWithAnotherKeyGetsNoMessages",),
    "The collector admits": ("collector/wire/security_test.cpp:UnknownKeysAreRefusedAndCounted",),
    "That takes effect": ("collector/wire/security_test.cpp:KeysCanBeAddedAndRemovedWhileTheServerRuns",),
    "On a host where root runs": ("collector/common/runtime_folder_test.cpp:AllMayReadWhatRootPublishesAndOnlyRootMayPublishThere",),
    "Their own key decides": ("tests/integration/host_test.py:test_a_reader_may_view_and_an_operator_may_take_dumps",),
    # "In a browser".
    "`lockstep serve` answers only requests": ("analyzer/browser/serve/serve_test.cpp:OnlyTheTokenGivesAccess", "analyzer/browser/serve/serve_test.cpp:OtherHostNamesForThisAddressGetNothing"),
    "It answers GET": ("analyzer/browser/serve/serve_test.cpp:RequestsAreParsedStrictly", "analyzer/browser/serve/serve_test.cpp:AnswersWithinItsLimits"),
    "It finds incidents": ("analyzer/browser/serve/serve_test.cpp:OnlyListedIncidentsAndTheirFilesAreRead",),
    "No answer may be stored": ("analyzer/browser/serve/serve_test.cpp:EveryAnswerRestrictsWhatTheBrowserMayDo", "analyzer/browser/serve/page_test.py:test_hostile_names_are_text"),
    "The page of a large job": ("analyzer/browser/serve/serve_test.cpp:ThePageOfALargeJobAsksForItsCalls", "analyzer/browser/serve/page_test.py:test_the_matrix_has_the_states_of_all_and_asks_for_calls"),
    "With `--live` it runs": ("analyzer/browser/serve/page_test.py:test_running_jobs_are_shown_as_text",),
    "On an address that other hosts": ("analyzer/browser/serve/tls_test.py:test_other_hosts_need_tls_and_readers",),
    "The key is the password": ("analyzer/browser/serve/tls_test.py:test_only_a_readers_key_gives_access", "analyzer/browser/serve/tls_test.py:test_a_browser_signs_in_and_follows_links"),
    "Only `--add-reader` prints it": ("analyzer/browser/serve/tls_test.py:test_a_key_is_printed_once_and_stored_nowhere",),
    "`--add-reader` makes": ("analyzer/browser/serve/tls_test.py:test_a_key_is_printed_once_and_stored_nowhere",),
    "Hashes are compared": ("analyzer/browser/serve/tls_test.py:test_only_a_readers_key_gives_access",),
    "A removed key": ("analyzer/browser/serve/tls_test.py:test_readers_come_and_go_while_it_runs",),
    "The TLS key and": ("analyzer/browser/serve/tls_test.py:test_files_that_others_may_read_are_refused",),
    "Wrong keys do not": ("analyzer/browser/serve/tls_test.py:test_wrong_keys_refuse_nobody_else_at_the_same_address",),
    "TLS 1.2 is": ("analyzer/browser/serve/tls_test.py:test_old_versions_are_refused",),
    "A handshake that stops": ("analyzer/browser/serve/tls_test.py:test_handshakes_that_stop_delay_nobody_and_end", "analyzer/browser/serve/serve_test.cpp:EndlessKeyUpdatesDoNotHoldTheThread"),
    "One address holds": ("analyzer/browser/serve/tls_test.py:test_one_peer_holds_a_part_of_the_connections", "analyzer/browser/serve/serve_test.cpp:ConnectionsWithoutAPageMakeRoom"),
    "Pages of other sites": ("analyzer/browser/serve/tls_test.py:test_pages_of_other_sites_get_nothing",),
    "A report or page that someone else": ("analyzer/browser/serve/serve_test.cpp:AFileInTheFolderCannotRunScripts",),
    # "Hostile input".
    "Rings, dumps, pickles": ("tests/fuzz/CMakeLists.txt:set(targets",),
    "The reader of Flight Recorder pickles": ("analyzer/formats/fr/pickle_test.cpp:CodeIsRefusedByNameAndPlace",),
    "Foreign processes are unwound": ("tests/integration/refusal_test.py:test_foreign_files_are_not_read_with_the_rights_of_root",),
    "Names from files cannot": ("analyzer/report/report_test.cpp:NoLineIsWiderThanAHundredColumnsAndNothingControlsTheTerminal",
                                "collector/common/say_test.cpp:PrintedTextCannotControlATerminal",
                                "tests/integration/terminal_test.py:test_names_and_contents_of_files_are_made_printable",
                                "analyzer/report/report_test.cpp:HtmlEscapesEveryNameAndLoadsNothing"),
    "No command follows": ("analyzer/formats/load/load_test.cpp:LinksBelowAPathAreNotFollowed",),
    "Exported CSV files": ("analyzer/export/export_test.cpp:CsvContainsNoFormulas",),
}

# Advice, explanations, and sentences about what the page does not promise.
REST = ("part |", "level |", "role |", "Lockstep records sizes", "Treat an incident", "Set `redact`", "Create one with", "Anyone with the key", "Redaction never hides",
        "In free text", "It can lie", "A relay's key can lie", "`collector.key` stays", "`agent.key` and", "To rotate", "Control who can read",
        "Limit the memory of", "A new certificate", "The traffic pattern", "Replace keys yourself")


def sentences():
    """Returns the rows of tables without their outer bars, and the sentences of the other text."""
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
    def test_every_sentence_is_tested_or_promises_nothing(self):
        starts = sorted([*PROMISES, *REST], key=len, reverse=True)
        used = set()
        for sentence in sentences():
            start = next((start for start in starts if sentence.startswith(start)), None)
            self.assertIsNotNone(start, f"{PAGE}: no test is named for: {sentence}")
            used.add(start)
        self.assertEqual(sorted(set(starts) - used), [], "sentences that are no longer on the page")

    def test_every_listed_test_exists(self):
        for start, tests in PROMISES.items():
            for test in tests:
                path, name = test.split(":", 1)
                with open(os.path.join(SOURCE, path)) as file:
                    self.assertIn(name, file.read(), f"{start}: {path}")


if __name__ == "__main__":
    unittest.main()
