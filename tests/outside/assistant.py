"""Queries `lockstep mcp` with the protocol's official client."""

import json
import subprocess

CLIENT = """
import asyncio, json, re, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

def field(thing, name):
    # Spelled in two ways by two generations of the client.
    return getattr(thing, name) if hasattr(thing, name) else getattr(thing, re.sub("[A-Z]", lambda found: "_" + found.group().lower(), name))

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp", sys.argv[2]])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        answer = {"protocol": field(hello, "protocolVersion"), "server": field(hello, "serverInfo").name, "ping": bool(await session.send_ping()),
                "tools": {tool.name: field(tool.annotations, "readOnlyHint") for tool in (await session.list_tools()).tools}}
        for name, arguments in (("incidents", {}), ("verdict", {}), ("why", {"finding": 1}), ("ranks", {"ranks": "0-7"}), ("stacks", {"ranks": "0-7"}),
                                ("query", {"operation": "AllReduce", "limit": 5}), ("compare", {"rank": 0, "other": 1}), ("why", {"finding": 99})):
            result = await session.call_tool(name, arguments)
            answer[name + (str(arguments["finding"]) if arguments.get("finding", 1) > 1 else "")] = [field(result, "isError"), result.content[0].text]
        print(json.dumps(answer))

asyncio.run(main())
"""


def run(outside):
    python = outside.install("mcp", check="import mcp.client.stdio")
    made = outside.temporary / "assistant"
    subprocess.run([str(outside.build / "bin/lockstep-corpus"), "generate", "--scenario", "2", "--ranks", "8", "--out", str(made)], check=True,
                   stdout=subprocess.DEVNULL, timeout=120)
    status, output, errors = outside.run([python, "-c", CLIENT, outside.build / "bin/lockstep", made / "data"], preload=False)
    version = outside.run([python, "-c", "import importlib.metadata; print(importlib.metadata.version('mcp'))"], preload=False)[1].strip()
    if status != 0:
        outside.check("mcp " + version, ["the client ended with %d: %s" % (status, errors[-600:])])
        return
    answer = json.loads(output)
    problems = []
    if (answer["server"], answer["ping"]) != ("lockstep", True):
        problems.append("it is greeted by %s" % answer["server"])
    if list(answer["tools"]) != ["incidents", "verdict", "why", "ranks", "stacks", "query", "compare"] or not all(answer["tools"].values()):
        problems.append("tools: %s" % answer["tools"])
    for name, (failed, text) in ((name, answer[name]) for name in answer["tools"]):
        if failed or "<data " not in text:
            problems.append("%s: %s" % (name, text[:300]))
    if "[f1]" not in answer["verdict"][1] or "[f1.e1]" not in answer["why"][1] or not answer["why99"][0]:
        problems.append("no evidence is cited: %s" % answer["why"][1][:600])
    outside.check("mcp %s, protocol %s" % (version, answer["protocol"]), problems)
