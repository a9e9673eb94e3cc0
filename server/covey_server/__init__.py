"""The Covey server: who asks, and how they hear back; Flight SQL in front, planner, operators and engine behind."""
