#!/usr/bin/env python3
"""Tests `lockstep serve` for other hosts: it starts only with TLS and readers' keys, a key decides who gets an answer,
and clients that send garbage or nothing delay nobody.

Usage: tls_test.py LOCKSTEP_SERVE [UNITTEST ARGUMENTS]"""

import base64
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../testing"), os.path.join(HERE, "../../../tests/integration")]
import no_skip  # noqa: E402
from headless_browser import Browser, find_browser, give_up_after  # noqa: E402

SERVE = sys.argv[1]
FOLDER = tempfile.mkdtemp(prefix="lockstep-tls-test-")
ALL, CERT, KEY, READERS = (os.path.join(FOLDER, name) for name in ("incidents", "cert.pem", "key.pem", "readers"))
HIDDEN = "job-of-a-reader"
HELD = 64  # connections of one peer


def make_pair(cert, key):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=serve",
                    "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    os.chmod(key, 0o600)


def add_reader(name, readers=None):
    """Returns the key, and what was printed."""
    done = subprocess.run([SERVE, "--readers", readers or READERS, "--add-reader", name], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()[0], done.stdout


def setUpModule():
    give_up_after(280)
    incident = os.path.join(ALL, "lockstep-incident-train-20260103-000000")
    os.makedirs(incident)
    for name, content in (("manifest.json", {}), ("verdict.json", {"verdict": "HUNG", "job": HIDDEN, "findings": []})):
        with open(os.path.join(incident, name), "w", encoding="utf-8") as file:
            json.dump(content, file)
    make_pair(CERT, KEY)


def tearDownModule():
    shutil.rmtree(FOLDER, ignore_errors=True)


def secured(**other):
    values = {"listen": "0.0.0.0", "tls-cert": CERT, "tls-key": KEY, "readers": READERS, **other}
    return [word for name, value in values.items() if value for word in ("--" + name, value)] + [ALL]


class StartTest(unittest.TestCase):
    def refused(self, arguments, status, text):
        done = subprocess.run([SERVE, *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        self.assertIn(text, done.stderr)

    def test_other_hosts_need_tls_and_readers(self):
        readers = os.path.join(FOLDER, "some-readers")
        add_reader("alice", readers)
        for address in ("0.0.0.0", "10.9.8.7", "::", "fe80::1"):
            self.refused(["--listen", address, ALL], 2, "needs --tls-cert, --tls-key and --readers")
        for missing in ("tls-cert", "tls-key", "readers"):
            for listen in ("0.0.0.0", "127.0.0.1"):
                self.refused(secured(**{"readers": readers, "listen": listen, missing: None}), 2, "must be used together")
        self.refused(["--listen", "n1", ALL], 2, "not an IP address")

    def test_files_that_others_may_read_are_refused(self):
        readers, key = os.path.join(FOLDER, "open-readers"), os.path.join(FOLDER, "open-key")
        add_reader("alice", readers)
        shutil.copy(KEY, key)
        for mode in (0o640, 0o604, 0o660):
            os.chmod(key, mode)
            self.refused(secured(readers=readers, **{"tls-key": key}), 3, "chmod 600 " + key)
            os.chmod(readers, mode)
            self.refused(secured(readers=readers), 3, "chmod 600 " + readers)
            self.refused(["--readers", readers, "--add-reader", "bob"], 3, "chmod 600 " + readers)
            os.chmod(readers, 0o600)

    def test_files_that_are_wrong_are_named(self):
        readers, other, locked = (os.path.join(FOLDER, name) for name in ("few-readers", "other-key", "locked-key"))
        open(readers, "w", encoding="utf-8").close()
        os.chmod(readers, 0o600)
        self.refused(secured(readers=readers), 3, readers + " has no readers")
        with open(readers, "w", encoding="utf-8") as file:
            file.write("alice secret\n")
        self.refused(secured(readers=readers), 3, readers + ", line 1: expected a name and the hash")
        os.unlink(readers)
        self.refused(secured(readers=readers), 3, readers)
        add_reader("alice", readers)
        make_pair(os.path.join(FOLDER, "other-cert"), other)
        self.refused(secured(readers=readers, **{"tls-key": other}), 3, other + " does not belong to the certificate")
        self.refused(secured(readers=readers, **{"tls-cert": KEY}), 3, KEY + " contains no usable certificate")
        subprocess.run(["openssl", "pkcs8", "-topk8", "-in", KEY, "-out", locked, "-passout", "pass:secret"], check=True)
        os.chmod(locked, 0o600)
        self.refused(secured(readers=readers, **{"tls-key": locked}), 3, locked + " contains no unencrypted private key")

    def test_a_key_is_printed_once_and_stored_nowhere(self):
        readers = os.path.join(FOLDER, "new-readers")
        keys = [add_reader(name, readers)[0] for name in ("alice", "bob")]
        self.assertEqual(os.stat(readers).st_mode & 0o777, 0o600)
        with open(readers, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual([line.split()[0] for line in text.splitlines()], ["alice", "bob"])
        for key in keys:
            self.assertRegex(key, r"^[A-Za-z0-9_-]{32}$")
            self.assertNotIn(key, text)
        self.assertNotEqual(keys[0], keys[1])
        self.refused(["--readers", readers, "--add-reader", "bob"], 3, "already has a reader bob")
        self.refused(["--readers", readers, "--add-reader", "b ob"], 3, "a reader's name")
        self.refused(["--add-reader", "bob"], 2, "--readers")


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.key, _ = add_reader("alice")

    def setUp(self):
        self.server = subprocess.Popen([SERVE, *secured()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end)
        self.address = self.server.stdout.readline().strip()
        self.assertRegex(self.address, rf"^https://{socket.gethostname()}:\d+/$")
        self.assertIn("password", self.server.stdout.readline())
        self.port = int(self.address.split(":")[2].strip("/"))

    def end(self):
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.stdout.read(), "", "nothing more is printed, and no key")
        self.server.stdout.close()
        self.assertEqual(self.server.wait(30), 0)

    def get(self, path="/", authorization=None, **headers):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=ssl.create_default_context(cafile=CERT))
        if authorization:
            headers["Authorization"] = authorization
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer, body

    def basic(self, key, name="anybody"):
        return "Basic " + base64.b64encode(f"{name}:{key}".encode()).decode()

    def open(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def assert_answers(self):
        begin = time.monotonic()
        answer, body = self.get(authorization=self.basic(self.key))
        self.assertEqual((answer.status, HIDDEN in body), (200, True))
        self.assertLess(time.monotonic() - begin, 4, "within the time limit of a request that hangs")

    def test_only_a_readers_key_gives_access(self):
        self.assert_answers()
        self.assertEqual(self.get(authorization="Bearer " + self.key)[0].status, 200)
        self.assertEqual(self.get("/?by=job", self.basic(self.key, ""))[0].status, 200)
        for wrong in (None, self.basic(self.key[:-1]), self.basic(self.key + "a"), self.basic(""), self.basic("", self.key), "Basic " + self.key, "Basic !",
                      "Bearer", "Bearer " + self.key[::-1], self.key, "Digest " + self.key):
            answer, body = self.get(authorization=wrong)
            self.assertEqual((answer.status, HIDDEN in body), (401, False), wrong)
            self.assertRegex(answer.getheader("WWW-Authenticate"), "^Basic realm=")
        for path in (f"/{self.key}/", f"/?key={self.key}", "/live", "/0000000000000000/verdict.json"):
            self.assertEqual(self.get(path)[0].status, 401, path)

    def test_pages_of_other_sites_get_nothing(self):
        for site, to, status in (("same-origin", "empty", 200), ("none", "document", 200), ("cross-site", "document", 200), ("cross-site", "image", 403),
                                 ("same-site", "empty", 403), ("cross-site", "", 403), ("cross-site", "iframe", 403), ("same-site", "object", 403)):
            answer = self.get("/", self.basic(self.key), **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": to})[0]
            self.assertEqual(answer.status, status, (site, to))

    def test_readers_come_and_go_while_it_runs(self):
        bob, _ = add_reader("bob")
        self.assertEqual(self.get(authorization=self.basic(bob))[0].status, 200)
        with open(READERS, encoding="utf-8") as file:
            lines = file.readlines()
        with open(READERS, "w", encoding="utf-8") as file:
            file.writelines(line for line in lines if not line.startswith("bob "))
        self.assertEqual(self.get(authorization=self.basic(bob))[0].status, 401)
        self.assert_answers()
        os.chmod(READERS, 0o644)
        self.addCleanup(os.chmod, READERS, 0o600)
        self.assertEqual(self.get(authorization=self.basic(self.key))[0].status, 401, "others may have read or written it")

    def test_wrong_keys_refuse_nobody_else_at_the_same_address(self):
        statuses = [self.get(authorization=self.basic(f"guess{n}"))[0].status for n in range(100)]
        self.assertEqual(statuses, [401] * 100)
        self.assert_answers()

    def test_addresses_stay_when_it_is_started_again(self):
        def link():
            body = self.get(authorization=self.basic(self.key))[1]
            return body[body.index('href="/', body.index("<tbody>")):][:40]
        before = link()
        self.doCleanups()
        self.setUp()
        self.assertEqual(link(), before)

    def test_garbage_ends_only_its_connection(self):
        hello = self.client_hello()
        for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(1 << 16), b"\x16\x03\x01\xff\xff" + bytes(70000), b"\x16\x03\x01\x00\x00", b"\x80\x2e\x01\x00\x02",
                     hello[:-1], hello[:40] + bytes(200), hello + hello, os.urandom(5000)):
            with self.open() as raw:
                try:
                    raw.sendall(data)
                    raw.shutdown(socket.SHUT_WR)
                    while raw.recv(65536):
                        pass
                except OSError:  # the server closed it
                    pass
        self.assert_answers()

    @staticmethod
    def client_hello():
        to, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context().wrap_bio(to, out, server_hostname="localhost")
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return out.read()

    def test_old_versions_are_refused(self):
        context = ssl.create_default_context(cafile=CERT)
        context.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.set_ciphers("ALL:@SECLEVEL=0")
        with self.open() as raw, self.assertRaises(ssl.SSLError):
            context.wrap_socket(raw, server_hostname="localhost")
        self.assert_answers()

    def test_handshakes_that_stop_delay_nobody_and_end(self):
        hello = self.client_hello()
        held = []
        for number in range(HELD - 4):
            held.append(self.open())
            held[-1].sendall((b"", hello[:1], hello[:-1])[number % 3])
        for _ in range(3):
            self.assert_answers()
        begin = time.monotonic()
        for raw in held:
            self.assertEqual(raw.recv(1), b"", "closed by the server")
            raw.close()
        self.assertLess(time.monotonic() - begin, 30)

    def test_one_peer_holds_a_part_of_the_connections(self):
        held = [self.open() for _ in range(HELD)]
        self.assert_answers()  # in the place of the oldest
        self.assertEqual(held[0].recv(1), b"")
        held[-1].setblocking(False)
        with self.assertRaises(BlockingIOError):
            held[-1].recv(1)
        for raw in held:
            raw.close()

    def test_requests_are_bounded_inside_tls_too(self):
        context = ssl.create_default_context(cafile=CERT)
        for data, answers in ((b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20000, b" 431 "), (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b" 405 "),
                              (b"GET / HTTP/1.1\r\nHo", b" 408 "), (b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n", b" 400 "), (b"", b"")):
            with context.wrap_socket(self.open(), server_hostname="localhost") as client:
                client.sendall(data)
                got = b""
                while piece := client.recv(65536):
                    got += piece
                self.assertIn(answers, got[:40])
        self.assert_answers()

    @unittest.skipIf(find_browser() is None, "no Chromium on this machine")
    def test_a_browser_signs_in_and_follows_links(self):
        browser = Browser(find_browser(), os.path.join(FOLDER, "profile"))
        self.addCleanup(browser.close)
        session = browser.new_page("Page", "Runtime")
        browser.call("Security.setIgnoreCertificateErrors", session, ignore=True)
        browser.call("Page.navigate", session, url=f"https://alice:{self.key}@127.0.0.1:{self.port}/")
        browser.wait_for("Page.loadEventFired")
        self.assertIn(HIDDEN, browser.evaluate(session, "document.body.textContent"))
        browser.events.clear()
        browser.evaluate(session, "document.querySelector(\"a[href$='verdict.json']\").click() || 0")
        browser.wait_for("Page.loadEventFired")
        self.assertIn(HIDDEN, browser.evaluate(session, "document.body.textContent"))
        self.assertNotIn(self.key, browser.evaluate(session, "location.href"))


if __name__ == "__main__":
    del sys.argv[1:2]
    no_skip.main()
