"""Chromium without a window, for tests of pages. Whatever happens to the test, the browser does not outlive it."""

import json
import os
import select
import shutil
import signal
import subprocess
import time


def find_browser():
    """Returns the path of a Chromium, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path:
            return path
    return None


def give_up_after(seconds):
    """Raises TimeoutError in the main thread after that time or on SIGTERM, even if the thread is waiting. The test can then end its children before
    its caller kills it."""
    def late(number, frame):
        raise TimeoutError(f"not done after {seconds} s")
    signal.signal(signal.SIGALRM, late)
    signal.signal(signal.SIGTERM, late)
    signal.alarm(seconds)


class Browser:
    """A browser driven through its debugging pipe: NUL-terminated JSON on
    descriptors 3 (input) and 4 (output). It leads its own process group, and
    close() ends the whole group. If the test is killed first, the end of the
    pipe ends the browser."""

    def __init__(self, path, profile):
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()
        # Duplicates the ends of the pipe first, because one of them may be descriptor 3 or 4.
        high_in, high_out = os.dup(to_read), os.dup(from_write)
        command = (f'exec 3<&{high_in} 4>&{high_out}; exec "$0" --headless=new --no-sandbox --disable-gpu --hide-scrollbars '
                   f'--no-first-run --disable-dev-shm-usage --disable-breakpad --user-data-dir="{profile}" --remote-debugging-pipe about:blank')
        self.process = subprocess.Popen(["bash", "-c", command, path], pass_fds=(high_in, high_out), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for descriptor in (to_read, from_write, high_in, high_out):
            os.close(descriptor)
        self.buffer, self.number, self.events = b"", 0, []

    def receive(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.source], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.source, 1 << 20)
            if not data:
                raise ConnectionError("the browser ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, seconds=60, **params):
        """Returns the result of the answer. Events that happened meanwhile are
        appended to `events`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + seconds
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method, seconds=60):
        """Waits until this event has happened since `events` was cleared."""
        until = time.monotonic() + seconds
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive(until))

    def evaluate(self, session, expression):
        """Returns the value of a script that runs in the page."""
        result = self.call("Runtime.evaluate", session, expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression[:80]}: {result['exceptionDetails']}")
        return result["result"].get("value")  # None for undefined

    def new_page(self, *domains):
        """Returns the session of a new, empty page that reports the events of
        `domains`."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in domains:
            self.call(domain + ".enable", session)
        return session

    def close(self):
        signal.alarm(0)
        try:
            self.call("Browser.close", seconds=10)
        except (RuntimeError, OSError, TimeoutError, ValueError):
            pass
        os.close(self.to)
        os.close(self.source)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        # Ends the helper processes too, and those left by a browser that ended by
        # itself.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
