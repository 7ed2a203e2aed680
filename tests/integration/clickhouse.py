"""A clickhouse-server for one test, on the loopback, in a folder that is removed at the end."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

SERVER = shutil.which("clickhouse-server", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
PASSWORD = "pass word<"  # for the user `writer`

CONFIG = """<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><log>{0}/log</log><errorlog>{0}/errors</errorlog></logger>
  <http_port>{1}</http_port><tcp_port>{2}</tcp_port><interserver_http_port>{3}</interserver_http_port><listen_host>127.0.0.1</listen_host>{4}
  <max_connections>64</max_connections><max_concurrent_queries>32</max_concurrent_queries><keep_alive_timeout>3</keep_alive_timeout>
  <uncompressed_cache_size>0</uncompressed_cache_size><mark_cache_size>67108864</mark_cache_size>
  <path>{0}/data/</path><tmp_path>{0}/tmp/</tmp_path><user_files_path>{0}/files/</user_files_path>
  <users_config>{0}/users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
  <timezone>UTC</timezone>
</yandex>
"""
TLS = """<https_port>{1}</https_port>
  <openSSL><server><certificateFile>{0}/server.pem</certificateFile><privateKeyFile>{0}/server.key</privateKeyFile>
    <verificationMode>none</verificationMode><loadDefaultCAFile>false</loadDefaultCAFile></server></openSSL>"""
USERS = """<?xml version="1.0"?>
<yandex>
  <profiles><default><max_memory_usage>2000000000</max_memory_usage></default></profiles>
  <users>
    <default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
    <writer><password>pass word&lt;</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></writer>
  </users>
  <quotas><default><interval><duration>3600</duration><queries>0</queries><errors>0</errors><result_rows>0</result_rows><read_rows>0</read_rows>
    <execution_time>0</execution_time></interval></default></quotas>
</yandex>
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


def make_certificates(folder):
    """Creates ca.pem, a server.pem and server.key signed by that CA for 127.0.0.1, and other.pem, the CA of another site."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)
    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=archive", "-keyout", "server.key", "-out", "server.csr")
    with open(os.path.join(folder, "names"), "w") as file:
        file.write("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3", "-extfile", "names", "-out", "server.pem")


class ClickHouse:
    """A server for http and, with `tls`, also https, which needs openssl."""

    def __init__(self, tls=False):
        self.folder = tempfile.mkdtemp(prefix="lockstep-archive-server-")
        for name in ("data", "tmp", "files"):
            os.mkdir(os.path.join(self.folder, name))
        ports = free_ports(4)
        self.port, self.tls_port = ports[0], ports[3]
        if tls:
            make_certificates(self.folder)
        with open(os.path.join(self.folder, "config.xml"), "w") as file:
            file.write(CONFIG.format(self.folder, *ports[:3], TLS.format(self.folder, self.tls_port) if tls else ""))
        with open(os.path.join(self.folder, "users.xml"), "w") as file:
            file.write(USERS)
        self.process = None

    def answers(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5).read() == b"Ok.\n"
        except OSError:
            return False

    def start(self):
        self.process = subprocess.Popen([SERVER, f"--config-file={self.folder}/config.xml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        cwd=self.folder, start_new_session=True)
        if not until(self.answers):
            raise RuntimeError("clickhouse-server did not start")

    def stop(self, how=signal.SIGKILL):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, statement, database=""):
        url = f"http://127.0.0.1:{self.port}/?database={urllib.parse.quote(database)}"
        with urllib.request.urlopen(url, data=statement.encode(), timeout=60) as answer:
            return answer.read().decode()


def of_module(archive, tls=False):
    """Call from setUpModule. Returns a running server that stops after the module. `archive` is the path of lockstep-archive. Skips if a program is
    missing."""
    for program, path in (("clickhouse-server", SERVER), ("openssl", shutil.which("openssl") if tls else "not needed")):
        if path is None:
            raise unittest.SkipTest(f"{program} is not installed (Debian: {program})")
    if not os.access(archive, os.X_OK):
        raise unittest.SkipTest("lockstep-archive is not built")
    server = ClickHouse(tls=tls)
    unittest.addModuleCleanup(server.close)
    server.start()
    return server
