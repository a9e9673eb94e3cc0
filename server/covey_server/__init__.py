"""The Covey server: who asks, and how they hear back; planner, operators and engine stand behind it."""
