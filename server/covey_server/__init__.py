"""The Covey server: who asks, and how they hear back; planner, operators and engine stand behind it."""

import os

# gRPC's core reads it when it is first imported. What it has to say of a busy port the server says itself.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
