"""An API server for the real kubectl. It lists pods and runs commands in them over WebSockets, as Kubernetes does since 1.30. A pod is a function that
converts a command to the one that runs on this machine, or to None if the image lacks the program."""

import base64
import hashlib
import http.server
import json
import struct
import subprocess
import threading
import urllib.parse

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
STDOUT, STDERR, STATUS = 1, 2, 3
PROTOCOL = "v5.channel.k8s.io"
KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{0}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
RESOURCES = {"/api": {"kind": "APIVersions", "versions": ["v1"]}, "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
             "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
             "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                 {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"], "shortNames": ["po"]},
                 {"name": "pods/exec", "singularName": "", "namespaced": True, "kind": "PodExecOptions", "verbs": ["create", "get"]}]}}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, namespace, labels, pods):
        """`pods` maps a name to the pod's phase and function."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.namespace, self.labels, self.pods, self.asked = namespace, labels, pods, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def kubeconfig(self):
        return KUBECONFIG.format(self.server_address[1])

    def pod(self, name):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.namespace, "labels": self.labels},
                "spec": {"nodeName": "gpu-" + name, "containers": [{"name": "main", "image": "registry/torch:2.9"}]},
                "status": {"phase": self.pods[name][0]}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, content, status=200):
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        words = url.path.strip("/").split("/")
        self.server.asked.append((url.path, query))
        if url.path in RESOURCES:
            self.answer(RESOURCES[url.path])
        elif words[:3] == ["api", "v1", "namespaces"] and words[3:5] == [self.server.namespace, "pods"]:
            if len(words) == 5:
                wanted = query.get("labelSelector", [""])[0] in [f"{key}={value}" for key, value in self.server.labels.items()]
                names = self.server.pods if wanted else ()
                self.answer({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [self.server.pod(name) for name in names]})
            elif len(words) == 7 and words[6] == "exec":
                self.execute(self.server.pods[words[5]][1], query["command"])
            else:
                self.answer(self.server.pod(words[5]))
        else:
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}, 404)

    def execute(self, pod, command):
        key = self.headers["Sec-WebSocket-Key"]
        if PROTOCOL not in self.headers.get("Sec-WebSocket-Protocol", ""):
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 400}, 400)
            return
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode())
        self.send_header("Sec-WebSocket-Protocol", PROTOCOL)
        self.end_headers()
        status = {"metadata": {}, "status": "Success"}
        here = pod(command)
        if here is None:
            text = f'OCI runtime exec failed: exec failed: unable to start container process: exec: "{command[0]}": executable file not found in $PATH'
            self.send(STDERR, text.encode())
            code = 127
        else:
            with subprocess.Popen(here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
                errors = threading.Thread(target=lambda: [self.send(STDERR, line) for line in run.stderr])
                errors.start()
                while data := run.stdout.read1(16384):
                    self.send(STDOUT, data)
                errors.join()
                code = run.wait()
        if code:
            status = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": f"command terminated with exit code {code}",
                      "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
        self.send(STATUS, json.dumps(status).encode())
        self.frame(8, struct.pack(">H", 1000))
        self.close_connection = True

    def send(self, channel, data):
        self.frame(2, bytes([channel]) + data)

    def frame(self, kind, data):
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
        self.wfile.write(bytes([0x80 | kind]) + size + data)
        self.wfile.flush()
