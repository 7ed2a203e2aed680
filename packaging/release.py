"""The version and date of the release, from CMake's project() and the top of packaging/changelog."""

import datetime
import email.utils
import pathlib
import re

SOURCE = pathlib.Path(__file__).resolve().parent.parent
VERSION = re.search(r"^project\(lockstep VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text(), re.M).group(1)
CHANGELOG = (SOURCE / "packaging/changelog").read_text()
EPOCH = int(email.utils.parsedate_to_datetime(re.search(r"^ -- .*>  (.*)$", CHANGELOG, re.M).group(1)).timestamp())
WHEN = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
