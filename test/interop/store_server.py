"""Agent-lightning's own in-memory store server: `store_server.py PORT`."""

import sys

from agentlightning.cli.store import main

sys.exit(main(["--host", "127.0.0.1", "--port", sys.argv[1], "--log-level", "WARNING"]))
